"""Streamed answers: pieces as they come, errors in words, and nothing kept for who left."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.chapters import three_positions
from app.main import create_app
from app.settings import Settings
from app.web import streams
from app.web.streams import encode_event
from tests.web.probe import probe_site


def pieces(text: str) -> list[tuple[str, str]]:
    """Name and data of every event, read as a browser does."""
    found = []
    for event in text.split("\n\n")[:-1]:
        fields = [line.split(": ", 1) for line in event.split("\n")]
        data = "\n".join(value for name, value in fields if name == "data")
        found.append((next((value for name, value in fields if name == "event"), ""), data))
    return found


def test_pieces_are_blocks_of_the_template_in_order(probe: TestClient) -> None:
    answer = probe.get("/chapters/probe/stream?text=%3Cb%3E")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["Cache-Control"] == "no-store"
    assert pieces(answer.text) == [
        ("", '<p id="piece">\n&lt;b&gt; 0</p>'),
        ("", '<p id="piece">\n&lt;b&gt; 1</p>'),
        ("", '<p id="piece">\n&lt;b&gt; 2</p>'),
        ("finished", '<p id="piece">\ndone</p>'),
        ("end", ""),
    ]


def test_a_full_queue_is_a_503_before_the_first_piece(probe: TestClient) -> None:
    answer = probe.get("/chapters/probe/stream?text=busy")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "7"
    assert "Please try again" in answer.text


def test_a_refused_value_is_the_panel_with_its_problem(probe: TestClient) -> None:
    answer = probe.get("/chapters/probe/stream?number=one")
    assert answer.status_code == 422
    assert "A number is accepted." in answer.text


@pytest.mark.parametrize(
    ("text", "sentence"), [("crash", "our fault"), ("full+on+the+way", "Please try again")]
)
def test_an_error_on_the_way_is_told_in_words(probe: TestClient, text: str, sentence: str) -> None:
    found = pieces(probe.get(f"/chapters/probe/stream?text={text}").text)
    assert len(found) == 3
    assert sentence in found[1][1]
    assert "secret" not in found[1][1]
    assert found[2] == ("end", "")


def test_a_chapter_without_streams_says_so() -> None:
    client = TestClient(create_app(Settings(), chapters=[three_positions.load()]))
    assert client.get("/chapters/three-positions/stream").status_code == 404


def test_silence_is_broken_by_comments(probe: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PING_SECONDS", 0.0001)
    answer = probe.get("/chapters/probe/stream?text=slow")
    assert ": still here\n\n" in answer.text
    assert [data for _, data in pieces(answer.text) if "slow 2" in data]


def test_text_cannot_end_an_event_or_name_one() -> None:
    assert encode_event("a\r\nevent: x\n\ndata: y\rz") == (
        b"data: a\ndata: event: x\ndata: \ndata: data: y\ndata: z\n\n"
    )
    assert encode_event("a\u2028b\x85c").count(b"data:") == 1


def ask(app: Any, query: str, stay: float) -> tuple[list[dict[str, Any]], float]:
    """Ask for a stream, leave after `stay` seconds; what came, and how long until all was over."""

    async def run() -> tuple[list[dict[str, Any]], float]:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if not sent:
                await asyncio.sleep(stay)
            else:
                await asyncio.sleep(0.05)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/chapters/probe/stream",
            "raw_path": b"/chapters/probe/stream",
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(b"host", b"a")],
        }
        started = time.perf_counter()
        await asyncio.wait_for(app(scope, receive, send), 5)
        await asyncio.sleep(0.01)
        return sent, time.perf_counter() - started

    return asyncio.run(run())


def test_case_19_who_leaves_mid_stream_frees_the_place_within_two_seconds() -> None:
    site = probe_site()
    app = create_app(Settings(), site=site)
    chapter = site.by_slug["probe"]
    sent, seconds = ask(app, "text=wait+long", stay=0.01)
    assert b"wait long 0" in b"".join(message.get("body", b"") for message in sent)
    assert chapter.cancelled.is_set()
    assert seconds < 2
    after = json.dumps([m.get("body", b"").decode() for m in ask(app, "text=next", stay=2)[0]])
    assert "next 2" in after
