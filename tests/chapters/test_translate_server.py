"""Cases 18 and 19 on a running server, with the checkpoint that is shipped: others are served
while a long translation runs, and whoever leaves frees the place. And what is said when no place is
free.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.translation.batching import ModelThread
from app.translation.local import LocalModel
from tests import tiny

HOST = b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
LONG = ("The old man who lives next door told us that he had never seen the sea before. " * 7)[:490]
ONE_SENTENCE = (
    "The old man who lives next door told us that he had never seen the sea before, and that his "
    "wife, who had been born in a small village at the coast, would show it to us when the summer "
    "came and the children were back from school, as she had always promised"
)


def plus(text: str) -> bytes:
    """A text as it stands in an address."""
    return text.replace(" ", "+").encode()


SLOW = b"/chapters/translate/stream?beam_size=8&text=" + plus(LONG)
SHORT = b"/api/v1/translate?text=It+rains."


class Server:
    """The app as it is shipped, in a process, with a short queue."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = folder / "server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app.cli", "serve", "--port", str(self.port)],
                stdout=log,
                stderr=log,
                cwd=Path(__file__).parents[2],
                env=os.environ
                | {
                    "EXPLORABLE_ATTENTION_TRANSLATE_WAITING": "4",
                    "EXPLORABLE_ATTENTION_TRANSLATE_SECONDS": "300",
                },
            )
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if b'"status":"ready"' in self.get(b"/readyz"):
                    return
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.2)
        raise AssertionError(self.log.read_text()[-3000:])

    def open(self, target: bytes) -> socket.socket:
        """A connection that has asked and not read."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        connection.sendall(b"GET " + target + HOST)
        return connection

    def get(self, target: bytes) -> bytes:
        with self.open(target) as connection:
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := connection.recv(65536):
                    answer += piece
            return answer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server"))
    try:
        yield running
    finally:
        running.process.terminate()
        running.process.wait(15)


def body(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def slowest_while(server: Server, target: bytes) -> float:
    """The longest that /healthz took while the server answered `target`, in seconds."""
    answers: list[bytes] = []
    asking = threading.Thread(target=lambda: answers.append(server.get(target)))
    asking.start()
    times = []
    while asking.is_alive():
        started = time.perf_counter()
        assert b"alive" in server.get(b"/healthz")
        times.append(time.perf_counter() - started)
        time.sleep(0.005)
    assert answers[0].startswith(b"HTTP/1.1 200"), answers[0][:300]
    assert len(times) > 3, "too quick to have been in the way"
    return max(times)


@pytest.mark.parametrize(
    "target",
    [
        b"/chapters/translate/stream?beam_size=8&text=" + plus(LONG),
        b"/chapters/translate?beam_size=8&text=" + plus(LONG),
        b"/chapters/translate?beam_size=8&text=" + plus(ONE_SENTENCE),
        b"/chapters/translate/panels/beam?beam_size=8&text=" + plus(ONE_SENTENCE),
        b"/embed/translate/beam?beam_size=8&text=" + plus(ONE_SENTENCE),
        b"/api/v1/translate/trace?beam_size=8&text=" + plus(ONE_SENTENCE),
    ],
    ids=["stream", "page", "page of one sentence", "panel", "embed", "trace"],
)
def test_case_18_the_server_answers_while_a_long_translation_runs(
    server: Server, target: bytes
) -> None:
    """No answer to /healthz takes 200 ms, from the first token to the last table.

    A machine that is busy with other things may hold one of them up: the best of three tries, each
    with a text of its own.
    """
    for attempt in range(3):
        slowest = slowest_while(server, target + b"+%d" % attempt)
        if slowest < 0.2:
            break
    assert slowest < 0.2


def test_case_19_who_leaves_frees_the_place_within_two_seconds(server: Server) -> None:
    """Five texts that cannot be translated together fill the places; then all five leave."""
    leaving = [server.open(SLOW + b"&alpha=0.%d" % number) for number in range(1, 6)]
    assert leaving[0].recv(100).startswith(b"HTTP/1.1 200")  # it is being translated
    for connection in leaving:
        connection.close()
    started = time.monotonic()
    while not (answer := server.get(SHORT + b"&alpha=0.61")).startswith(b"HTTP/1.1 200"):
        assert answer.startswith(b"HTTP/1.1 503"), answer[:300]
        assert time.monotonic() - started < 2
    assert time.monotonic() - started < 2
    assert json.loads(body(answer))["translation"]


def test_case_19_two_hundred_that_connect_and_drop_leave_the_next_one_working(
    server: Server,
) -> None:
    def drop(number: int) -> None:
        with contextlib.suppress(OSError):
            server.open(SLOW + b"+%d" % number).close()

    threads = [threading.Thread(target=drop, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    deadline = time.monotonic() + 20
    while True:
        answer = server.get(SHORT + b"&alpha=0.62")
        if answer.startswith(b"HTTP/1.1 200"):
            break
        assert answer.startswith(b"HTTP/1.1 503"), answer[:200]
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert json.loads(body(answer))["translation"]
    assert b"alive" in server.get(b"/healthz")


def test_a_full_queue_is_a_readable_503(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's thread is held, so that the queue stays full for as long as it is looked at."""
    begun, go_on = threading.Event(), threading.Event()
    translate = LocalModel.translate

    def held(*args: Any, **more: Any) -> None:
        begun.set()
        go_on.wait(60)
        translate(*args, **more)

    app = create_app(Settings(models=str(tiny.make(tmp_path)), translate_waiting=1))
    thread: ModelThread = app.state.services["translator"]._thread
    with TestClient(app, base_url="http://a") as client, ThreadPoolExecutor(2) as others:
        try:
            while client.get("/readyz").status_code == 503:
                time.sleep(0.02)
            monkeypatch.setattr(LocalModel, "translate", held)
            asked = [others.submit(client.get, "/api/v1/translate?text=One.")]
            assert begun.wait(60)
            asked.append(others.submit(client.get, "/api/v1/translate?text=Two.&alpha=0.5"))
            while not len(thread):
                time.sleep(0.02)
            answer = client.get("/chapters/translate/panels/translation?text=Three.")
        finally:
            go_on.set()
        for other in asked:  # whoever was let in is answered
            assert other.result(60).status_code in (200, 503)  # 503: no room for the look inside
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert "Please try again in a few seconds." in answer.text
    assert "<html" not in answer.text


def test_nothing_went_wrong_unseen(server: Server) -> None:
    assert "Traceback" not in server.log.read_text()
