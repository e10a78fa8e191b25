"""The Translator that the app runs, with a tiny model: requests, limits, streams, leaving."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.translation.local import LocalModel
from app.translation.protocol import (
    BadRequest,
    Busy,
    Interventions,
    Limits,
    NothingToTranslate,
    NotReady,
    Options,
    Progress,
    TooLong,
    Translation,
    Translator,
    TranslatorError,
)
from app.translation.service import TranslationService


def serving(
    folder: Path, use: Callable[[TranslationService], Awaitable[Any]], **limits: Any
) -> Any:
    """Start a service, use it, stop it."""

    async def run() -> Any:
        service = TranslationService(folder, Limits(**limits), device="cpu", threads=1)
        await service.start()
        try:
            return await asyncio.wait_for(use(service), 60)
        finally:
            await service.stop()

    return asyncio.run(run())


def refusal(folder: Path, text: str, options: Options | None = None, **limits: Any) -> Any:
    async def use(service: TranslationService) -> TranslatorError:
        with pytest.raises(TranslatorError) as caught:
            await service.translate(text, options or Options())
        return caught.value

    return serving(folder, use, **limits)


def test_it_is_a_translator(models_folder: Path) -> None:
    translator: Translator = TranslationService(models_folder)
    assert translator.limits.characters == 500


def test_loading_and_a_damaged_model(models_folder: Path) -> None:
    async def run() -> None:
        service = TranslationService(models_folder, device="cpu", threads=1)
        assert service.state == "loading"
        assert [info.name for info in service.models()] == ["en-de", "en-fr"]
        with pytest.raises(NotReady):
            await service.translate("Hello.", Options())
        with pytest.raises(NotReady):
            service.tokenize("en-de", "Hello.")
        await service.start()
        assert service.state == "ready"
        german, french = service.models()
        assert (german.state, german.source, german.target) == ("ready", "English", "German")
        assert german.parameters > 10_000
        assert (french.state, french.target) == ("failed", "French")
        assert "card.md" in french.problem
        with pytest.raises(NotReady, match="could not be loaded"):
            await service.translate("Hello.", Options(model="en-fr"))
        await service.translate("Hello.", Options())  # the other one serves
        await service.stop()
        with pytest.raises(NotReady):
            await service.translate("Hello.", Options())

    asyncio.run(run())


def test_a_model_is_warm_before_it_is_ready(
    models_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[tuple[str, str]] = []

    async def run() -> None:
        service = TranslationService(models_folder, device="cpu", threads=1)
        warm_up = LocalModel.warm_up

        def watched(self: LocalModel) -> None:
            warm_up(self)
            warmed.append((threading.current_thread().name, service.models()[0].state))

        monkeypatch.setattr(LocalModel, "warm_up", watched)
        await service.start()
        assert service.models()[0].state == "ready"
        await service.stop()

    asyncio.run(run())
    assert warmed == [("model", "loading")]  # en-fr is damaged


def test_a_model_that_fails_as_nobody_foresaw_stops_no_other(
    models_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("en-de", "en-fr"):
        shutil.copytree(models_folder / "en-de", tmp_path / name)
    load = TranslationService._load

    def fails_first(self: TranslationService, name: str) -> None:
        if name == "en-de":
            raise MemoryError
        load(self, name)

    monkeypatch.setattr(TranslationService, "_load", fails_first)

    async def run() -> None:
        service = TranslationService(tmp_path, device="cpu", threads=1)
        try:
            with pytest.raises(MemoryError):
                await service.start()
            states = {info.name: (info.state, info.problem) for info in service.models()}
            assert states["en-de"] == ("failed", "It could not be loaded.")
            assert states["en-fr"] == ("ready", "")
            assert service.state == "ready"
        finally:
            await service.stop()

    asyncio.run(run())


def test_no_models_at_all(tmp_path: Path) -> None:
    async def use(service: TranslationService) -> None:
        assert service.state == "failed"
        assert service.models() == ()
        with pytest.raises(BadRequest, match="no model"):
            await service.translate("Hello.", Options())

    serving(tmp_path / "nowhere", use)


def test_a_text_of_several_sentences_is_translated_in_order(models_folder: Path) -> None:
    async def use(service: TranslationService) -> None:
        text = "Where is the cat? The children   saw it.\nIn the garden!"
        whole = await service.translate(text, Options(beam_size=2))
        assert [s.text for s in whole.sentences] == [
            "Where is the cat?",
            "The children saw it.",
            "In the garden!",
        ]
        assert whole.translation == " ".join(s.hypotheses[0].text for s in whole.sentences)
        for sentence in whole.sentences:
            alone = await service.translate(sentence.text, Options(beam_size=2))
            assert [h.tokens for h in alone.sentences[0].hypotheses] == [
                h.tokens for h in sentence.hypotheses
            ]
        assert whole.digest == service.models()[0].digest

    serving(models_folder, use)


@pytest.mark.parametrize("text", ["", "   ", "\n\t\u3000"])
def test_a_blank_text_is_no_mistake(models_folder: Path, text: str) -> None:
    error = refusal(models_folder, text)
    assert isinstance(error, NothingToTranslate)
    assert "Type an English sentence" in error.message


def test_limits_are_checked_before_tokenising(
    models_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(service: TranslationService) -> None:
        def never(*args: object) -> None:
            raise AssertionError("tokenised")

        monkeypatch.setattr("app.translation.local.LocalModel.work", never)
        started = time.perf_counter()
        for text in ("^" * 10_000, "a" * 501, "x " * 2_500_000):
            with pytest.raises(TooLong, match="at most 500") as caught:
                await service.translate(text, Options())
            assert caught.value.unit == "characters"
        assert time.perf_counter() - started < 1

    serving(models_folder, use)


def test_too_many_tokens_in_a_sentence(models_folder: Path) -> None:
    error = refusal(models_folder, "^" * 500)
    assert isinstance(error, TooLong)
    assert (error.limit, error.unit) == (128, "tokens in one sentence")


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 0},
        {"beam_size": 9},
        {"alpha": -1.0},
        {"alpha": float("nan")},
        {"alpha": float("inf")},
        {"model": "../etc"},
    ],
)
def test_impossible_options(models_folder: Path, options: dict[str, Any]) -> None:
    error = refusal(models_folder, "Hello.", Options(**options))
    assert isinstance(error, BadRequest)
    assert error.field == next(iter(options))


def test_a_head_that_does_not_exist(models_folder: Path) -> None:
    silenced = frozenset({("cross", 0, 99)})
    error = refusal(
        models_folder,
        "Hello.",
        Options(interventions=Interventions(silenced=silenced)),  # type: ignore[arg-type]
    )
    assert error.field == "silenced"


@pytest.mark.parametrize("text", ["\ud800", "a\x00b", "bell \x07"])
def test_what_is_no_text_is_refused_with_a_sentence(models_folder: Path, text: str) -> None:
    error = refusal(models_folder, text)
    assert isinstance(error, BadRequest)
    assert error.field == "text"
    error.message.encode()  # a sentence that can be shown


@pytest.mark.parametrize(
    "text",
    [
        "שלום עולם",
        "e" + "\u0301" * 50,
        "👩‍👩‍👧‍👦",
        'a<b </s> 😀 ä & # "q" {{7*7}} <img src=x onerror=alert(1)>',
        "\u202eright to left",
        "Antidisestablishmentarianism",
    ],
)
def test_strange_texts_are_translated(models_folder: Path, text: str) -> None:
    async def use(service: TranslationService) -> None:
        translation = await service.translate(text, Options(beam_size=1))
        tokens = translation.sentences[0].source_tokens
        assert tokens[-1].kind == "end"
        assert all(token.text for token in tokens)
        assert all("\ufffd" not in token.text + token.character for token in tokens)

    serving(models_folder, use)


def test_a_decode_that_never_ends_is_bounded(models_folder: Path) -> None:
    async def use(service: TranslationService) -> None:
        started = time.perf_counter()
        translation = await service.translate("^" * 100, Options(beam_size=8))
        for hypothesis in translation.sentences[0].hypotheses:
            assert len(hypothesis.tokens) <= len(translation.sentences[0].source_tokens) + 50
        assert time.perf_counter() - started < 15

    serving(models_folder, use)


def test_streaming(models_folder: Path) -> None:
    async def use(service: TranslationService) -> None:
        options = Options(beam_size=2)
        updates = [update async for update in service.stream("Where is it? Here.", options)]
        *progress, last = updates
        assert isinstance(last, Translation)
        assert (
            last.translation == (await service.translate("Where is it? Here.", options)).translation
        )
        assert {p.sentence for p in progress if isinstance(p, Progress)} == {0, 1}
        for index in (0, 1):
            lengths = [
                len(p.tokens)
                for p in progress
                if isinstance(p, Progress) and p.sentence == index and p.tokens
            ]
            assert lengths == list(range(1, len(lengths) + 1))

    serving(models_folder, use)


def test_a_stream_that_is_left_frees_the_model(models_folder: Path) -> None:
    async def use(service: TranslationService) -> None:
        started = time.monotonic()
        for _ in range(20):
            stream = service.stream("^" * 100, Options(beam_size=8))
            await anext(stream)
            await stream.aclose()  # type: ignore[attr-defined]
        await service.translate("Here.", Options(beam_size=1))
        assert time.monotonic() - started < 20

    serving(models_folder, use, waiting=2)


def test_two_hundred_clients_that_connect_and_leave(models_folder: Path) -> None:
    async def use(service: TranslationService) -> None:
        tasks = [
            asyncio.create_task(service.translate(f"Number {n}.", Options())) for n in range(200)
        ]
        await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(r) for r in results} <= {asyncio.CancelledError, Busy, Translation}
        started = time.monotonic()
        await service.translate("Here.", Options(beam_size=1))
        assert time.monotonic() - started < 2

    serving(models_folder, use, waiting=4)


def test_too_many_at_once_are_busy_and_the_rest_is_answered(models_folder: Path) -> None:
    async def use(service: TranslationService) -> None:
        results = await asyncio.gather(
            *(service.translate(f"Number {n}.", Options(beam_size=1)) for n in range(40)),
            return_exceptions=True,
        )
        answered = [r for r in results if isinstance(r, Translation)]
        assert len(answered) >= 8
        for n, result in enumerate(results):
            if isinstance(result, Translation):
                assert result.text == f"Number {n}."
            else:
                assert isinstance(result, Busy)
                assert result.retry_after > 0

    serving(models_folder, use, waiting=8)


def test_the_event_loop_goes_on_while_a_long_text_is_translated(models_folder: Path) -> None:
    async def use(service: TranslationService) -> None:
        text = ("The children saw the cat in the garden. " * 13)[:500]
        task = asyncio.create_task(service.translate(text, Options(beam_size=8, history=True)))
        waits = []
        while not task.done():
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            waits.append(time.perf_counter() - before)
        await task
        # the median: on a machine with other work a single wake-up may come late
        assert statistics.median(waits) < 0.2

    serving(models_folder, use)


def test_questions_about_the_inside(models_folder: Path) -> None:
    async def use(service: TranslationService) -> None:
        tokens = service.tokenize("en-de", "the cat")
        source = [token.id for token in tokens]
        trace = await service.trace("en-de", source, [5, 3])
        assert [t.id for t in trace.source_tokens] == [*source, 3]
        assert trace.model == "en-de"
        assert (await service.head_importance("en-de", source, [5, 3]))[0].change <= 0.5
        assert len(await service.cache_steps("en-de", source, [5, 3])) == 2
        written = await service.continued("en-de", source, [5], 4)
        assert written[0].id == 5
        assert 1 < len(written) <= 4
        for ids in ([5] * 200, [10**6]):
            with pytest.raises(BadRequest):
                await service.trace("en-de", source, ids)
        with pytest.raises(BadRequest):
            await service.trace("xx-yy", source, [5])

    serving(models_folder, use)


def test_pages_come_up_without_torch() -> None:
    code = "import sys; import app.translation.service; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
