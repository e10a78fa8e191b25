"""The Translator that the app runs: the models of a folder, in one thread, behind a bounded queue.

torch is imported when the models are loaded, in the background: the pages are up before it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import unicodedata
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from app.translation.batching import ModelThread, Piece, Request
from app.translation.protocol import (
    BadRequest,
    CacheStep,
    HeadImportance,
    Interventions,
    Limits,
    ModelInfo,
    NothingToTranslate,
    NotReady,
    Options,
    Progress,
    Sentence,
    Token,
    TooLong,
    Trace,
    Translation,
)
from app.translation.sentences import split_sentences

if TYPE_CHECKING:
    from app.transformer.decoding import Found
    from app.translation.local import LocalModel, Work

T = TypeVar("T")

LANGUAGES = {"de": "German", "en": "English", "fr": "French"}
_MODEL_NAME = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")


class TranslationService:
    """Answers the Translator protocol; a Service of the web app (`name`, `state`, start, stop)."""

    name = "translator"

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        *,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        """Serve every model in `folder`, named by its languages: `en-de`.

        `threads`: torch's threads on a CPU; None takes one, or two where there are at least four
        cores (a sentence's matrices are too small for more, and the pages need a core as well).
        """
        self._limits = limits or Limits()
        self._device, self._threads = device, threads
        self._folders = {
            path.name: path
            for path in (sorted(folder.iterdir()) if folder.is_dir() else ())
            if _MODEL_NAME.fullmatch(path.name) and path.is_dir()
        }
        self._infos = {name: _info(name) for name in self._folders}
        self._models: dict[str, LocalModel] = {}
        self._thread = ModelThread(self._limits)

    # A service of the app

    @property
    def state(self) -> Literal["loading", "ready", "failed"]:
        """`failed` when no model could be loaded."""
        states = [info.state for info in self._infos.values()]
        if "loading" in states:
            return "loading"
        return "ready" if "ready" in states else "failed"

    async def start(self) -> None:
        """Load the models in the model's thread; a model that fails says so in `models()`.

        What nobody foresaw (memory that runs out) is raised once the other models are loaded.
        """
        self._thread.start()
        unforeseen: list[Exception] = []
        for name in self._folders:
            try:
                await self._call(partial(self._load, name), seconds=600)
            except Exception as error:
                self._infos[name] = _info(name, state="failed", problem="It could not be loaded.")
                unforeseen.append(error)
        if unforeseen:
            raise unforeseen[0]

    async def stop(self) -> None:
        """Give every request up."""
        await asyncio.to_thread(self._thread.stop, 0.9)

    def _load(self, name: str) -> None:
        import torch

        from app.transformer import checkpoint
        from app.translation.local import LocalModel, choose_device

        torch.set_num_threads(self._threads or (2 if (torch.get_num_threads() >= 4) else 1))
        try:
            loaded = checkpoint.load(self._folders[name], device=choose_device(self._device))
            model = LocalModel(name, loaded)
            model.warm_up()
        except checkpoint.CheckpointError as error:  # without the path: a reader sees this
            problem = f"{error.path.name}: {error.problem}."
            self._infos[name] = _info(name, state="failed", problem=problem)
            return
        except ValueError as error:
            self._infos[name] = _info(name, state="failed", problem=str(error))
            return
        self._models[name] = model
        config = model.config
        self._infos[name] = _info(
            name,
            state="ready",
            digest=model.digest,
            N_encoder=config.N_encoder,
            N_decoder=config.N_decoder,
            h=config.h,
            d_model=config.d_model,
            d_ff=config.d_ff,
            vocab_size=config.vocab_size,
            parameters=model.parameters,
        )

    # The protocol

    @property
    def limits(self) -> Limits:
        """What may be asked."""
        return self._limits

    def models(self) -> tuple[ModelInfo, ...]:
        """All models, whatever their state."""
        return tuple(self._infos.values())

    def tokenize(self, model: str, text: str) -> tuple[Token, ...]:
        """The tokens of a text, without START and END."""
        self._check_text(text)
        ready = self._model(model)
        ids = ready.work(text).ids[:-1]
        if len(ids) > self._limits.tokens:
            raise TooLong(len(ids), self._limits.tokens, "tokens")
        return ready.tokens(ids)

    async def translate(self, text: str, options: Options) -> Translation:
        """Translate a text of one or more sentences."""
        started = time.monotonic()
        model, work = self._work(text, options)
        return self._translation(
            model, text, await self._submit(self._request(model, work, options)), started
        )

    async def stream(
        self, text: str, options: Options
    ) -> AsyncGenerator[Progress | Translation, None]:
        """First what is known so far, again and again, and last the Translation."""
        started = time.monotonic()
        model, work = self._work(text, options)
        loop = asyncio.get_running_loop()
        updates: asyncio.Queue[tuple[int, int, tuple[int, ...]] | None] = asyncio.Queue()

        def put(update: tuple[int, int, tuple[int, ...]] | None) -> None:
            with contextlib.suppress(RuntimeError):  # a closed loop: nobody listens any more
                loop.call_soon_threadsafe(updates.put_nowait, update)

        request = self._request(model, work, options)
        request.on_position = lambda ahead: put((0, ahead, ()))
        request.on_progress = lambda index, tokens: put((index, 0, tokens))
        request.future.add_done_callback(lambda _: put(None))
        answer = asyncio.ensure_future(self._submit(request))
        try:
            while (update := await updates.get()) is not None:
                index, waiting, ids = update
                yield Progress(
                    sentence=index,
                    sentences=len(work),
                    waiting=waiting,
                    tokens=model.tokens(ids),
                    text=model.text(ids),
                )
            yield self._translation(model, text, await answer, started)
        finally:
            answer.cancel()
            self._thread.cancel(request)
            await asyncio.gather(answer, return_exceptions=True)

    async def trace(
        self,
        model: str,
        source: Sequence[int],
        target: Sequence[int],
        interventions: Interventions = Interventions(),  # noqa: B008 (frozen)
    ) -> Trace:
        """Look inside, for the ids of one source sentence and of any target."""
        ready = self._inside(model, source, target, interventions)
        return await self._call(lambda: ready.trace(source, target, interventions))

    async def continued(
        self,
        model: str,
        source: Sequence[int],
        given: Sequence[int],
        most: int,
        interventions: Interventions = Interventions(),  # noqa: B008 (frozen)
    ) -> tuple[Token, ...]:
        """`given` and what the model writes after it, always taking the likeliest token."""
        ready = self._inside(model, source, given, interventions)
        return await self._call(lambda: ready.continued(source, given, most, interventions))

    async def head_importance(
        self, model: str, source: Sequence[int], target: Sequence[int]
    ) -> tuple[HeadImportance, ...]:
        """Silence each head once; the most important first."""
        ready = self._inside(model, source, target)
        return await self._call(lambda: ready.head_importance(source, target))

    async def cache_steps(
        self, model: str, source: Sequence[int], target: Sequence[int]
    ) -> tuple[CacheStep, ...]:
        """Write `target` token by token, with and without the key/value cache."""
        ready = self._inside(model, source, target)
        return await self._call(lambda: ready.cache_steps(source, target))

    # Checks, in the caller's thread and before anything costs time

    def _check_text(self, text: str) -> None:
        if not text.strip():
            raise NothingToTranslate
        if len(text) > self._limits.characters:
            raise TooLong(len(text), self._limits.characters, "characters")
        for character in text:
            category = unicodedata.category(character)
            if category == "Cs":
                raise BadRequest("text", "The text holds half of a character; type it again.")
            if category == "Cc" and character not in "\t\n\r":
                raise BadRequest(
                    "text",
                    f"The text holds the control character U+{ord(character):04X}; "
                    "type it again without it.",
                )

    def _model(self, name: str) -> LocalModel:
        info = self._infos.get(name)
        if info is None:
            known = ", ".join(self._infos) or "none is installed"
            raise BadRequest("model", f"There is no model of this name. Models: {known}.")
        if info.state == "failed":
            raise NotReady(f"The model {name} could not be loaded.", retry_after=60)
        model = self._models.get(name)
        if model is None:
            raise NotReady
        return model

    def _work(self, text: str, options: Options) -> tuple[LocalModel, list[Work]]:
        self._check_text(text)
        limits = self._limits
        if not 1 <= options.beam_size <= limits.beam_size:
            raise BadRequest(
                "beam_size", f"A whole number from 1 to {limits.beam_size} is accepted here."
            )
        if not 0 <= options.alpha <= limits.alpha:  # false for NaN as well
            raise BadRequest("alpha", f"A number from 0 to {limits.alpha:g} is accepted here.")
        model = self._model(options.model)
        _check_heads(model, options.interventions)
        work = [model.work(sentence) for sentence in split_sentences(text)]
        for sentence in work:
            most = min(limits.tokens, model.config.max_len)
            if len(sentence.ids) > most:
                raise TooLong(len(sentence.ids), most, "tokens in one sentence")
        return model, work

    def _inside(
        self,
        name: str,
        source: Sequence[int],
        target: Sequence[int],
        interventions: Interventions | None = None,
    ) -> LocalModel:
        model = self._model(name)
        # a translation may be 50 tokens longer than its source
        for field, ids, most in (
            ("text", source, self._limits.tokens),
            ("target", target, self._limits.tokens + 50),
        ):
            if len(ids) > most:
                raise BadRequest(field, f"{len(ids)} tokens; at most {most} are looked into.")
        if interventions is not None:
            _check_heads(model, interventions)
        return model

    # Work, in the model's thread

    def _request(
        self, model: LocalModel, work: list[Work], options: Options
    ) -> Request[Work, Sentence]:
        def run(pieces: Sequence[Piece[Work, Sentence]]) -> None:
            def found(index: int, result: Found) -> None:
                if not result.cancelled:
                    piece = pieces[index]
                    piece.done(model.sentence(piece.work, result, options))

            model.translate(
                [piece.work for piece in pieces],
                options,
                on_step=lambda index, tokens: (
                    not self._thread.stopping and pieces[index].progress(tokens)
                ),
                on_found=found,
            )

        return Request(
            key=(model.name, options),
            work=work,
            run=run,
            deadline=time.monotonic() + self._limits.seconds,
        )

    def _translation(
        self, model: LocalModel, text: str, sentences: Sequence[Sentence], started: float
    ) -> Translation:
        return Translation(
            model=model.name,
            digest=model.digest,
            text=text,
            translation=" ".join(sentence.hypotheses[0].text for sentence in sentences),
            sentences=tuple(sentences),
            seconds=time.monotonic() - started,
        )

    async def _submit(self, request: Request[Any, T]) -> list[T]:
        self._thread.submit(request)
        try:
            return await asyncio.wrap_future(request.future)
        except asyncio.CancelledError:
            self._thread.cancel(request)
            raise

    async def _call(self, function: Callable[[], T], seconds: float | None = None) -> T:
        """Run one function in the model's thread; `seconds` instead of the usual deadline."""

        def run(pieces: Sequence[Piece[Callable[[], T], T]]) -> None:
            for piece in pieces:
                piece.done(piece.work())

        request = Request(key=object(), work=[function], run=run)
        request.deadline = time.monotonic() + (seconds or self._limits.seconds)
        (result,) = await self._submit(request)
        return result


def _info(name: str, **values: Any) -> ModelInfo:
    match = _MODEL_NAME.fullmatch(name)
    source, target = match.groups() if match else (name, name)
    values = {"state": "loading"} | values
    return ModelInfo(name, LANGUAGES.get(source, source), LANGUAGES.get(target, target), **values)


def _check_heads(model: LocalModel, interventions: Interventions) -> None:
    config = model.config
    layers = {"encoder": config.N_encoder, "decoder": config.N_decoder, "cross": config.N_decoder}
    for kind, layer, head in interventions.silenced:
        if not (0 <= layer < layers.get(kind, 0) and 0 <= head < config.h):
            raise BadRequest(
                "silenced",
                f"This model has {config.h} heads in each of {config.N_encoder} encoder and "
                f"{config.N_decoder} decoder layers.",
            )
