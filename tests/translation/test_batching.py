"""The model's thread and its queue, with work made of events instead of a model."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

import pytest

from app.translation.batching import ModelThread, Piece, Request
from app.translation.protocol import Busy, Limits, NotReady


@pytest.fixture
def thread() -> Iterator[ModelThread]:
    thread = ModelThread(Limits(waiting=3, batch=4))
    thread.start()
    yield thread
    thread.stop()


class Gate:
    """Work that waits until it is let through, and notes which pieces came together."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()
        self.batches: list[list[Any]] = []

    def run(self, pieces: Sequence[Piece[Any, Any]]) -> None:
        self.batches.append([piece.work for piece in pieces])
        self.entered.set()
        while not self.open.wait(0.005):
            if not any(piece.progress((1,)) for piece in pieces):
                return
        for piece in pieces:
            if piece.wanted:
                piece.done(piece.work * 2)

    def request(self, *work: Any, key: object = "same", **options: Any) -> Request[Any, Any]:
        return Request(key=key, work=list(work), run=self.run, **options)

    def occupy(self, thread: ModelThread) -> Request[Any, Any]:
        """A request that runs until the gate opens."""
        request = self.request(0, key="first")
        thread.submit(request)
        assert self.entered.wait(5)
        return request


def test_results_come_in_order(thread: ModelThread) -> None:
    gate = Gate()
    gate.open.set()
    request = gate.request(1, 2, 3)
    thread.submit(request)
    assert request.future.result(5) == [2, 4, 6]


def test_waiting_requests_of_a_kind_run_together_others_in_turn(thread: ModelThread) -> None:
    gate = Gate()
    gate.occupy(thread)
    requests = [gate.request(1, 2), gate.request(5, key="other"), gate.request(3, 4, 6)]
    for request in requests:
        thread.submit(request)
    gate.open.set()
    assert [request.future.result(5) for request in requests] == [[2, 4], [10], [6, 8, 12]]
    # four pieces at a time: the third request's last piece waits for its turn
    assert gate.batches == [[0], [1, 2, 3, 4], [5], [6]]


def test_a_full_queue_is_busy_until_there_is_room(thread: ModelThread) -> None:
    gate = Gate()
    gate.occupy(thread)
    waiting = [gate.request(n) for n in range(3)]
    for request in waiting:
        thread.submit(request)
    with pytest.raises(Busy) as caught:
        thread.submit(gate.request(9))
    assert caught.value.retry_after > 0
    thread.cancel(waiting[1])  # frees its place at once, though the thread is busy
    late = gate.request(9)
    thread.submit(late)
    gate.open.set()
    assert late.future.result(5) == [18]
    with pytest.raises(CancelledError):
        waiting[1].future.result(0)


def test_two_hundred_who_leave_do_not_keep_the_next_one_out(thread: ModelThread) -> None:
    gate = Gate()
    running = gate.occupy(thread)
    for n in range(200):
        request = gate.request(n)
        thread.submit(request)
        thread.cancel(request)
    assert len(thread) == 0
    thread.cancel(running)
    gate.open.set()
    last = gate.request(21)
    thread.submit(last)
    assert last.future.result(5) == [42]


def test_a_running_request_is_given_up_within_a_step(thread: ModelThread) -> None:
    gate = Gate()
    running = gate.occupy(thread)
    started = time.monotonic()
    thread.cancel(running)
    gate.entered.clear()
    following = gate.request(1)
    thread.submit(following)
    assert gate.entered.wait(2)
    assert time.monotonic() - started < 2
    gate.open.set()
    assert following.future.result(5) == [2]


def test_a_deadline_ends_waiting_and_running(thread: ModelThread) -> None:
    gate = Gate()
    soon = time.monotonic() + 0.2
    running = gate.request(1, key="first", deadline=soon)
    waiting = gate.request(2, deadline=soon)
    thread.submit(running)
    assert gate.entered.wait(5)
    thread.submit(waiting)
    for request in (running, waiting):
        with pytest.raises(Busy):
            request.future.result(5)


def test_positions_in_the_queue_are_told(thread: ModelThread) -> None:
    gate = Gate()
    gate.occupy(thread)
    positions: list[int] = []
    ahead = gate.request(1)
    told = gate.request(2, key="other", on_position=positions.append)
    thread.submit(ahead)
    thread.submit(told)
    gate.open.set()
    told.future.result(5)
    assert positions == [1, 1, 0]  # behind `ahead`; still, while it runs; now its turn


def test_an_error_is_the_request_s_and_the_thread_goes_on(thread: ModelThread) -> None:
    def fail(pieces: Sequence[Piece[Any, Any]]) -> None:
        raise ZeroDivisionError

    broken: Request[Any, Any] = Request(key="broken", work=[1], run=fail)
    thread.submit(broken)
    with pytest.raises(ZeroDivisionError):
        broken.future.result(5)
    gate = Gate()
    gate.open.set()
    fine = gate.request(4)
    thread.submit(fine)
    assert fine.future.result(5) == [8]


def test_stopping_gives_everything_up_quickly() -> None:
    thread = ModelThread(Limits())
    thread.start()
    gate = Gate()
    running = gate.occupy(thread)
    waiting = gate.request(1)
    thread.submit(waiting)
    threading.Timer(0.05, thread.cancel, (running,)).start()
    started = time.monotonic()
    thread.stop()
    assert time.monotonic() - started < 2
    with pytest.raises(NotReady):
        waiting.future.result(0)
    with pytest.raises(NotReady):
        thread.submit(gate.request(2))


LEAVE_AT_ONCE = """
import threading, time
from app.translation.batching import ModelThread, Request
from app.translation.protocol import Limits

entered = threading.Event()

def load(pieces):
    entered.set()
    time.sleep(0.5)
    print("loaded", flush=True)

thread = ModelThread(Limits())
thread.start()
thread.submit(Request(key="load", work=[0], run=load))
entered.wait()
thread.stop(timeout=0.01)
"""


def test_the_process_ends_only_once_the_thread_is_out_of_its_work() -> None:
    """Importing torch cannot be given up, and a thread cut off inside it aborts the process."""
    ended = subprocess.run(
        [sys.executable, "-c", LEAVE_AT_ONCE], capture_output=True, text=True, timeout=30
    )
    assert (ended.returncode, ended.stdout) == (0, "loaded\n"), ended.stderr
