"""A translation while it is being made: what is on the page between asking and the answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.chapters.contract import Event
from app.chapters.translate import Translate
from app.chapters.translate_answers import Desk, in_lines
from app.chapters.translate_state import DEFAULT_TEXT
from app.main import create_app
from app.settings import Settings
from app.translation.protocol import Limits, Options, Translation
from app.translation.service import TranslationService
from app.web.site import Site
from tests import tiny

LIMITS = Limits(seconds=300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make(tmp_path_factory.mktemp("models"))


def test_who_asks_while_the_model_loads_is_told_so_and_then_gets_the_translation(
    folder: Path,
) -> None:
    async def run() -> list[Event]:
        service = TranslationService(folder, LIMITS)
        chapter = Translate(service)
        events = chapter.stream(chapter.parse([("text", "Close the window.")]))
        found = [await anext(events)]
        await service.start()
        try:
            return [*found, *[event async for event in events]]
        finally:
            await service.stop()

    first, *rest = asyncio.run(run())
    assert first.context["loading"]
    assert rest
    assert not any(event.context["loading"] for event in rest)
    assert rest[-1].context["language"] == "de"


def test_the_sentence_made_in_advance_needs_no_model(folder: Path) -> None:
    async def run() -> list[Event]:
        chapter = Translate(TranslationService(folder, LIMITS))  # never started: it stays loading
        return [event async for event in chapter.stream(chapter.parse([]))]

    (event,) = asyncio.run(run())
    assert event.context["so_far"] == "Die Kinder spielen im Garten."


def test_what_was_made_in_advance_waits_for_no_model_that_cannot_come() -> None:
    settings = Settings()
    app = create_app(settings, site=Site(settings, (Translate(),)))
    with TestClient(app, base_url="http://a") as client:
        page = client.get("/chapters/translate").text
    assert "Translated in advance" in page
    assert "still being loaded" not in page
    assert "data-waiting" not in page


def test_a_stream_without_a_model_ends_and_leaves_the_word_to_the_panel() -> None:
    settings = Settings()
    app = create_app(settings, site=Site(settings, (Translate(),)))
    with TestClient(app, base_url="http://a") as client:
        answer = client.get("/chapters/translate/stream", params={"text": "Good morning."})
    assert answer.status_code == 200
    assert answer.text.rstrip().endswith("event: end\ndata:")


def test_sentences_that_are_written_together_are_shown_together(folder: Path) -> None:
    text = f"{DEFAULT_TEXT}\n\n{DEFAULT_TEXT} {DEFAULT_TEXT}"

    async def run() -> list[dict[str, Any]]:
        service = TranslationService(folder, LIMITS)
        await service.start()
        try:
            chapter = Translate(service)
            events = chapter.stream(chapter.parse([("text", text)]))
            return [dict(event.context) async for event in events]
        finally:
            await service.stop()

    events = asyncio.run(run())
    longest = [event["so_far"] for event in events[:-1]]
    assert any("\n\n" in so_far for so_far in longest)
    assert "\n\n" in events[-1]["so_far"]


def test_a_translation_keeps_the_lines_of_its_text(folder: Path) -> None:
    async def run() -> tuple[Translation, list[Any]]:
        service = TranslationService(folder, LIMITS)
        await service.start()
        try:
            desk = Desk(service, None)
            text = f"{DEFAULT_TEXT} {DEFAULT_TEXT}\r\n\r\n{DEFAULT_TEXT}"
            whole, _ = await desk.translate(text, Options())
            other = Options(beam_size=2)
            return whole, [item async for item in desk.stream(text, other)]
        finally:
            await service.stop()

    whole, streamed = asyncio.run(run())
    for translation in (whole, streamed[-1]):
        one, two, three = (sentence.hypotheses[0].text for sentence in translation.sentences)
        assert translation.translation == f"{one} {two}\n\n{three}"


@pytest.mark.parametrize(
    ("text", "translated", "joined"),
    [
        ("One. Two.", ["Eins.", "Zwei."], "Eins. Zwei."),
        ("One.\nTwo.", ["Eins.", "Zwei."], "Eins.\nZwei."),
        ("\n\nOne.\n\n\nTwo.\n", ["Eins.", "Zwei."], "Eins.\n\n\nZwei."),
        ("One. Two.\nThree.", ["Eins.", "", ""], "Eins."),
        ("One. Two.\nThree.", ["", "Zwei.", "Drei."], "Zwei.\nDrei."),
        ("", [], ""),
    ],
)
def test_lines(text: str, translated: list[str], joined: str) -> None:
    assert in_lines(text, translated) == joined
