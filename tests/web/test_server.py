"""The server as a process: cases 15 and 17 on the wire, logs, a quick stop."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVER = """
import sys, asyncio
from starlette.responses import StreamingResponse
from starlette.routing import Route
import app.main, app.web.server
from app.settings import Settings
from app.web.logs import configure_logs
from tests.web.probe import probe_site


async def endless(request):
    async def drops():
        while True:
            yield b"data: drop\\n\\n"
            await asyncio.sleep(0.05)
    return StreamingResponse(drops(), media_type="text/event-stream")

def application():
    configure_logs()
    made = app.main.create_app(Settings(), site=probe_site())
    made.router.routes.insert(0, Route("/endless", endless))
    return made

app.main.application = application
app.web.server.run(Settings(port=int(sys.argv[1]), head_seconds=1))
"""


class Server:
    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log_path = folder / "server.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVER, str(self.port)],
                stderr=log,
                stdout=log,
                cwd=Path(__file__).parents[2],
            )
        for _ in range(900):
            with contextlib.suppress(OSError), self.connect():
                return
            assert self.process.poll() is None, self.log_path.read_text()
            time.sleep(0.1)
        raise AssertionError("the server did not start")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def send(self, request: bytes) -> bytes:
        """Send raw bytes, and read until the server has answered and closed."""
        with self.connect() as connection:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(request)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := connection.recv(65536):
                    answer += piece
            return answer

    def get(self, target: bytes, headers: bytes = b"") -> bytes:
        return self.send(
            b"GET "
            + target
            + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            + headers
            + b"Connection: close\r\n\r\n"
        )

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def log(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]

    def stop(self, how: signal.Signals = signal.SIGTERM) -> float:
        """Seconds from the signal to the end of the process."""
        started = time.perf_counter()
        self.process.send_signal(how)
        self.process.wait(15)
        return time.perf_counter() - started

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


def wait_for(connection: socket.socket, text: bytes) -> None:
    """Read until `text` has come."""
    seen = b""
    while text not in seen:
        piece = connection.recv(65536)
        assert piece, seen
        seen += piece


def status(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer[:80]
    return int(answer.split(b" ", 2)[1])


def test_it_answers(server: Server) -> None:
    answer = server.get(b"/chapters/probe?number=3")
    assert status(answer) == 200
    assert b"<output>6.0</output>" in answer
    assert b"\r\nserver:" not in answer.split(b"\r\n\r\n")[0]


@pytest.mark.parametrize(
    ("request_bytes", "accepted"),
    [
        (
            b"GET /?" + b"&".join(b"x=1" for _ in range(2000)) + b" HTTP/1.1\r\nHost: a\r\n\r\n",
            {200},
        ),
        (b"GET /api/v1/probe?" + b"x=1&" * 2000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"GET /chapters/probe?x=" + b"1" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", {414}),
        (b"GET /chapters/probe?x=" + b"1" * 5_000_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"1" * 5_000_000 + b"\r\n\r\n", {400}),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: 1\r\n" * 500_000 + b"\r\n", {400}),
        (
            b"POST /api/v1/probe HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n{"
            + b" " * 999_999,
            {413},
        ),
        (
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            + (b"10000\r\n" + b"x" * 65_536 + b"\r\n") * 16
            + b"0\r\n\r\n",
            {413},
        ),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", {400, 413}),
        (b"GET /chapters/probe?x=\xff\x00 HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
        (b"GET /chapters/probe?x=%00 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", {400}),
        (b"GET /%ff%fe HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", {404}),
        (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", {400}),
        (b"GET / HTTP/1.1\r\nHost: x/embed?\r\nConnection: close\r\n\r\n", {400}),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n", {400}),
        (b"\x16\x03\x01\x02\x00nonsense\r\n\r\n", {400}),
    ],
    ids=range(16),
)
def test_case_15_and_17_hostile_requests_are_refused_quickly_in_steady_memory(
    server: Server, request_bytes: bytes, accepted: set[int]
) -> None:
    request_bytes = request_bytes.replace(b"Host: a\r\n", b"Host: a\r\nConnection: close\r\n", 1)
    server.get(b"/")
    before = server.memory_mb()
    started = time.perf_counter()
    for _ in range(5):
        answer = server.send(request_bytes)
        # A client that goes on sending after the refusal may see the connection reset instead.
        assert not answer or status(answer) in accepted
    assert time.perf_counter() - started < 5
    assert server.memory_mb() - before < 20
    assert status(server.get(b"/healthz")) == 200


def test_a_head_that_does_not_come_ends_the_connection(server: Server) -> None:
    for sent in (b"", b"GET / HTTP/1.1\r\nHos"):
        with server.connect() as connection:
            connection.sendall(sent)
            started = time.perf_counter()
            assert connection.recv(100) == b""
            assert time.perf_counter() - started < 4
    with server.connect() as kept:
        for _ in range(2):
            kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            wait_for(kept, b"alive")
            time.sleep(1.3)  # longer than a head may take: between requests the limit is another


def test_case_19_two_hundred_clients_that_leave_leave_the_next_one_served(server: Server) -> None:
    for _ in range(200):
        with server.connect() as connection:
            connection.sendall(
                b"GET /chapters/probe/stream?text=wait+long HTTP/1.1\r\nHost: a\r\n\r\n"
            )
    assert b"next 2" in server.get(b"/chapters/probe/stream?text=next")


def test_logs_say_which_route_answered_and_nothing_that_was_typed(server: Server) -> None:
    server.get(b"/chapters/probe?text=my+secret+sentence&number=secret")
    server.get(b"/chapters/probe/panels/bench?text=crash&secret=1")
    server.get(b"/secret/path", b"User-Agent: secret\r\nReferer: http://secret/\r\n")
    server.get(b"/oembed?url=http://secret/")
    server.send(b"secret nonsense\r\n\r\n")
    time.sleep(0.1)
    assert "secret" not in server.log_path.read_text()
    lines = server.log()
    assert {line["event"] for line in lines} >= {"request", "crash"}
    requests = [line for line in lines if line["event"] == "request"]
    assert {"/chapters/{slug}", "/chapters/{slug}/panels/{panel}", None} <= {
        line["route"] for line in requests
    }
    for line in requests:
        assert {"method", "route", "status", "ms", "bytes", "level", "timestamp"} == line.keys() - {
            "event"
        }
    (crash,) = (line for line in lines if line["event"] == "crash")
    assert crash["exception"] == "ValueError"
    assert any("probe.py" in place for place in crash["passed"])


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_within_five_seconds_with_open_connections(
    tmp_path: Path, how: signal.Signals
) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server(tmp_path))
        idle = stack.enter_context(server.connect())
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(idle, b"alive")
        half = stack.enter_context(server.connect())
        half.sendall(b"GET /healthz HTTP/1.1\r\nHos")
        streaming = stack.enter_context(server.connect())
        streaming.sendall(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(streaming, b"drop")
        working = stack.enter_context(server.connect())
        working.sendall(b"GET /chapters/probe?text=wait+long HTTP/1.1\r\nHost: a\r\n\r\n")
        time.sleep(0.3)
        assert server.stop(how) < 5
    assert server.process.returncode in (0, -how)
