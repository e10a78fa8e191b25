"""One thread that owns the models, and a bounded queue before it.

Requests are taken in order. Sentences of waiting requests that want the same (model, beam size, α)
are translated together, up to a limit: a micro-batch costs little more than one sentence. Whoever
gives up, or waits beyond the deadline, frees the place at once; a running sentence is given up
within one decoding step.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from app.translation.protocol import Busy, Limits, NotReady

# far longer than torch takes to be imported from a slow disk; then the process may as well abort
ENDING_SECONDS = 60.0

R = TypeVar("R")
W = TypeVar("W")


@dataclass(eq=False, slots=True)
class Request(Generic[W, R]):
    """Pieces of work that are answered together, by one result each.

    `run` gets pieces of work, of this and of other requests with the same `key`, in the model's
    thread. It hands each result to its piece, and may say how far it is.
    """

    key: Hashable
    work: Sequence[W]
    run: Callable[[Sequence[Piece[W, R]]], None]
    on_position: Callable[[int], None] | None = None  # requests ahead; 0: it runs
    on_progress: Callable[[int, tuple[int, ...]], None] | None = None  # a piece's tokens so far
    deadline: float = float("inf")
    future: Future[list[R]] = field(default_factory=Future)
    results: dict[int, R] = field(default_factory=dict)
    started: int = 0  # pieces handed to `run` so far

    @property
    def wanted(self) -> bool:
        """Whether somebody still waits for the answer, and still may."""
        return not self.future.done() and time.monotonic() < self.deadline


@dataclass(frozen=True, slots=True)
class Piece(Generic[W, R]):
    """One piece of a request's work, as `run` sees it."""

    request: Request[W, R]
    index: int

    @property
    def work(self) -> W:
        """What to do."""
        return self.request.work[self.index]

    @property
    def wanted(self) -> bool:
        """Whether to go on."""
        return self.request.wanted

    def progress(self, tokens: tuple[int, ...]) -> bool:
        """Say how far it is; whether to go on."""
        if self.request.on_progress is not None:
            self.request.on_progress(self.index, tokens)
        return self.wanted

    def done(self, result: R) -> None:
        """Hand in the result."""
        request = self.request
        request.results[self.index] = result
        if len(request.results) == len(request.work):
            _settle(request.future, [request.results[i] for i in range(len(request.work))])


class ModelThread:
    """Runs requests one batch at a time; every method may be called from any thread."""

    def __init__(self, limits: Limits, name: str = "model") -> None:
        self.limits = limits
        self._changed = threading.Condition()
        self._waiting: deque[Request[object, object]] = deque()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        """Begin to work; requests may wait already."""
        self._thread.start()

    def stop(self, timeout: float = 1.0) -> None:
        """Give every request up; waits `timeout` seconds for the thread to end.

        What runs may be beyond giving up: the import of torch. The process then waits for it when
        it ends, since Python would cut the thread off inside C++ code, which aborts the process.
        """
        with self._changed:
            self._stopping = True
            waiting = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for request in waiting:
            _settle(request.future, NotReady("The server is stopping."))
        if self._thread.is_alive():
            self._thread.join(timeout)
        if self._thread.is_alive():
            atexit.register(self._thread.join, ENDING_SECONDS)

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping

    def __len__(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    def submit(self, request: Request[W, R]) -> None:
        """Queue a request; Busy when the queue is full. Its future has the results, in order."""
        with self._changed:
            if self._stopping:
                raise NotReady("The server is stopping.")
            self._forget_unwanted()
            if len(self._waiting) >= self.limits.waiting:
                raise Busy
            self._waiting.append(request)  # type: ignore[arg-type]
            ahead = len(self._waiting) - 1
            self._changed.notify()
        if request.on_position is not None and ahead:
            request.on_position(ahead)

    def cancel(self, request: Request[W, R]) -> None:
        """Give a request up; its place is free at once."""
        request.future.cancel()
        with self._changed:
            self._forget_unwanted()

    def _forget_unwanted(self) -> None:
        for request in [request for request in self._waiting if not request.wanted]:
            self._waiting.remove(request)
            _settle(request.future, Busy("This waited too long: too much is asked at once."))

    def _work(self) -> None:
        while True:
            with self._changed:
                self._forget_unwanted()
                while not self._waiting and not self._stopping:
                    self._changed.wait()
                if self._stopping:
                    return
                pieces = self._next_batch()
                left = list(self._waiting)
            for ahead, request in enumerate(left, 1):
                if request.on_position is not None:
                    request.on_position(ahead)
            self._run(pieces)

    def _next_batch(self) -> list[Piece[object, object]]:
        """Pieces of the first request and of those that go with it."""
        pieces: list[Piece[object, object]] = []
        key = self._waiting[0].key
        for request in list(self._waiting):
            if request.key != key or not request.wanted:
                continue
            room = self.limits.batch - len(pieces)
            first, last = request.started, min(request.started + room, len(request.work))
            pieces += [Piece(request, index) for index in range(first, last)]
            request.started = last
            if last == len(request.work):
                self._waiting.remove(request)
            if len(pieces) == self.limits.batch:
                break
        return pieces

    def _run(self, pieces: list[Piece[object, object]]) -> None:
        if not pieces:
            return
        requests = list(dict.fromkeys(piece.request for piece in pieces))
        for request in requests:
            if request.on_position is not None:
                request.on_position(0)
        try:
            pieces[0].request.run(pieces)
        except Exception as error:
            for request in requests:
                _settle(request.future, error)
            return
        for request in requests:
            if not request.wanted or self._stopping:
                _settle(request.future, Busy("This took too long: too much is asked at once."))


def _settle(future: Future[R], outcome: R | Exception) -> None:
    """Give the future its outcome, unless it has one or was cancelled."""
    try:
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
    except InvalidStateError:
        pass
