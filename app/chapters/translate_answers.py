"""What the translator says to a state, asked once and remembered.

A page and its panels show one translation and one pass through the model from several sides. The
`Desk` asks for each once, even when panels ask at the same time, and keeps the latest.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, Literal, TypeVar, cast
from weakref import WeakValueDictionary

from app.chapters.translate_state import MODELS, Parameters
from app.chapters.translate_tokens import joined
from app.translation.protocol import (
    CacheStep,
    HeadImportance,
    Interventions,
    Limits,
    ModelInfo,
    NotReady,
    Options,
    Progress,
    Sentence,
    Token,
    Trace,
    Translation,
    Translator,
)
from app.translation.sentences import split_sentences

T = TypeVar("T")

_KEPT: Final = {"translation": 128, "trace": 24, "continued": 32, "heads": 32, "cache": 32}
"""Answers that are kept, by kind: a trace of a long sentence has several megabytes."""


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The model as it is, and with the reader's changes."""

    before: Trace
    after: Trace
    edit_only: bool
    """Both with the same interventions: only the edited token differs."""
    translation: str
    """The new translation; after an edit, what follows the edited token greedily."""
    prefix: int
    """How many tokens of the new translation were given, not chosen."""
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything that a state's page shows; None where it was not asked for or is not there yet."""

    state: Parameters
    """Within what the translation has: a sentence or position beyond it was brought back."""
    models: tuple[ModelInfo, ...]
    translation: Translation | None = None
    precomputed: bool = False
    trace: Trace | None = None
    comparison: Comparison | None = None
    heads: tuple[HeadImportance, ...] = ()
    cache: tuple[CacheStep, ...] = ()
    notices: tuple[str, ...] = ()
    """What was brought back into range, in sentences."""
    limits: Limits = DEFAULT_LIMITS
    """What may be asked."""

    @property
    def info(self) -> ModelInfo | None:
        """The chosen model."""
        return next((info for info in self.models if info.name == self.state.model), None)

    @property
    def sentence(self) -> Sentence:
        """The sentence that is looked into."""
        return cast(Translation, self.translation).sentences[self.state.sentence - 1]


class Desk:
    """Asks a Translator. Without one it knows the precomputed translation alone."""

    def __init__(self, translator: Translator | None, precomputed: Translation | None) -> None:
        self._translator = translator
        self.precomputed = precomputed
        self._kept: dict[str, OrderedDict[Hashable, Any]] = {kind: OrderedDict() for kind in _KEPT}
        self._asking: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    @property
    def limits(self) -> Limits:
        """What may be asked."""
        return self._translator.limits if self._translator else DEFAULT_LIMITS

    @property
    def models(self) -> tuple[ModelInfo, ...]:
        """The models that can be chosen."""
        found = self._translator.models() if self._translator else ()
        known = {info.name for info in found}
        absent = tuple(
            ModelInfo(name, source, target, "failed", "It is not installed here.")
            for name, (source, target) in MODELS.items()
            if name not in known
        )
        return (*found, *absent)

    def state(self, model: str) -> Literal["loading", "ready", "failed"]:
        """Whether `model` can answer now, later or never."""
        return next((info.state for info in self.models if info.name == model), "failed")

    def tokenize(self, model: str, text: str) -> tuple[Token, ...]:
        """See `Translator.tokenize`."""
        return self._ask.tokenize(model, text)

    @property
    def _ask(self) -> Translator:
        if self._translator is None:
            raise NotReady("No model is installed here.", retry_after=60)
        return self._translator

    async def translate(self, text: str, options: Options) -> tuple[Translation, bool]:
        """The translation, and whether it is the precomputed one because the model is not there."""
        if (done := self.in_advance(text, options)) is not None:
            return done, True

        async def ask() -> Translation:
            return with_lines(await self._ask.translate(text, options))

        return await self._once("translation", (text, options), ask), False

    def in_advance(self, text: str, options: Options) -> Translation | None:
        """The precomputed translation, where it is asked for and no model is there to make it."""
        done = self.precomputed
        if done is None or (text, options) != (done.text, PRECOMPUTED):
            return None
        return done if self.state(options.model) != "ready" else None

    async def stream(
        self, text: str, options: Options
    ) -> AsyncGenerator[Progress | Translation, None]:
        """The same with progress; what it ends with is kept."""
        done = self.in_advance(text, options) or self._kept["translation"].get((text, options))
        if done is not None:
            yield done
            return
        async with aclosing(self._ask.stream(text, options)) as items:
            async for item in items:
                if isinstance(item, Translation):
                    done = with_lines(item)
                    self._keep("translation", (text, options), done)
                    yield done
                else:
                    yield item

    async def trace(
        self, model: str, source: tuple[int, ...], target: tuple[int, ...], how: Interventions
    ) -> Trace:
        """One pass through the model."""
        key = (model, source, target, how)
        return await self._once("trace", key, lambda: self._ask.trace(model, source, target, how))

    async def heads(
        self, model: str, source: tuple[int, ...], target: tuple[int, ...]
    ) -> tuple[HeadImportance, ...]:
        """Each head silenced once."""
        key = (model, source, target)
        return await self._once(
            "heads", key, lambda: self._ask.head_importance(model, source, target)
        )

    async def cache(
        self, model: str, source: tuple[int, ...], target: tuple[int, ...]
    ) -> tuple[CacheStep, ...]:
        """The target written with and without the cache."""
        key = (model, source, target)
        return await self._once("cache", key, lambda: self._ask.cache_steps(model, source, target))

    async def continued(
        self, model: str, source: tuple[int, ...], given: tuple[int, ...], how: Interventions
    ) -> tuple[Token, ...]:
        """`given` and what the model writes after it, always taking the likeliest token."""
        key = (model, source, given, how)
        most = len(source) + MOST_EXTRA
        return await self._once(
            "continued", key, lambda: self._ask.continued(model, source, given, most, how)
        )

    async def _once(self, kind: str, key: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        lock = self._asking.setdefault((kind, key), asyncio.Lock())
        async with lock:
            kept = self._kept[kind]
            if key in kept:
                kept.move_to_end(key)
                return cast(T, kept[key])
            found = await ask()
            self._keep(kind, key, found)
            return found

    def _keep(self, kind: str, key: Hashable, found: Any) -> None:
        kept = self._kept[kind]
        kept[key] = found
        if len(kept) > _KEPT[kind]:
            kept.popitem(last=False)


def with_lines(translation: Translation) -> Translation:
    """The translation with the line breaks of its text."""
    best = (sentence.hypotheses[0].text for sentence in translation.sentences)
    return replace(translation, translation=in_lines(translation.text, best))


def in_lines(text: str, sentences: Iterable[str]) -> str:
    r"""Translations of a text's sentences, in the lines of the text.

    >>> in_lines("One. Two.\n\nThree.", ["Eins.", "Zwei.", "Drei."])
    'Eins. Zwei.\n\nDrei.'
    """
    rest = iter(sentences)
    lines = (islice(rest, len(split_sentences(line))) for line in text.splitlines())
    return "\n".join(" ".join(filter(None, line)) for line in lines).strip("\n")


PRECOMPUTED: Final = Options(history=True)
"""How the sentence was translated that is on the page before a model is ready."""

MOST_EXTRA: Final = 50
"""A translation is at most so many tokens longer than its source (§6.1)."""


async def answer(desk: Desk, state: Parameters) -> Answer:
    """Ask everything that a state needs.

    Raises Busy when the translator cannot take it now. A model that is not ready is no error: the
    answer then says so.
    """
    empty = Answer(state, desk.models, limits=desk.limits)
    if not state.text:
        return empty
    try:
        translation, precomputed = await desk.translate(state.text, state.options)
    except NotReady:
        return empty
    if not translation.sentences:
        return replace(empty, state=replace(state, text=""))
    state, notices = _within(state, translation)
    found = replace(
        empty, state=state, translation=translation, precomputed=precomputed, notices=notices
    )
    if precomputed:
        return found
    source = _ids(found.sentence.source_tokens)
    target = _ids(found.sentence.hypotheses[state.hypothesis - 1].tokens)
    plain = await desk.trace(state.model, source, target, Interventions())
    comparison = await _compare(desk, state, found.sentence, plain) if state.asks else None
    return replace(
        found,
        trace=plain,
        comparison=comparison,
        heads=await desk.heads(state.model, source, target) if state.rank else (),
        cache=await desk.cache(state.model, source, target) if state.cache else (),
    )


async def _compare(desk: Desk, state: Parameters, sentence: Sentence, plain: Trace) -> Comparison:
    how = state.interventions
    source, target = _ids(plain.source_tokens), _ids(plain.predicted)
    if not state.edited:
        after = await desk.trace(state.model, source, target, how)
        options = replace(state.options, history=False, interventions=how)
        translation, _ = await desk.translate(sentence.text, options)
        best = translation.sentences[0].hypotheses[0]
        return Comparison(plain, after, False, best.text, 0, best.tokens)
    written = (state.to_id,) if state.to_id else _ids(desk.tokenize(state.model, state.to))
    start = state.edit - 1
    end = start + len(written)
    edited = (*target[:start], *written, *target[end:])[: len(target)]
    before = await desk.trace(state.model, source, target, how)
    after = await desk.trace(state.model, source, edited, how)
    tokens = await desk.continued(state.model, source, edited[:end], how)
    return Comparison(before, after, True, joined(tokens), min(end, len(target)), tokens)


def _within(state: Parameters, translation: Translation) -> tuple[Parameters, tuple[str, ...]]:
    """The state with its numbers inside what there is, and a sentence for each that was not."""
    notices = []

    def fit(name: str, most: int, what: str) -> None:
        nonlocal state
        wanted = getattr(state, name)
        if wanted > most:
            notices.append(f"There {what}: number {wanted} became {most}.")
            changes: dict[str, Any] = {name: most}
            state = replace(state, **changes)

    def count(number: int, thing: str) -> str:
        return f"is one {thing}" if number == 1 else f"are {number} {thing}s"

    sentences = len(translation.sentences)
    fit("sentence", sentences, count(sentences, "sentence"))
    hypotheses = translation.sentences[state.sentence - 1].hypotheses
    fit("hypothesis", len(hypotheses), count(len(hypotheses), "translation") + " in the list")
    tokens = len(hypotheses[state.hypothesis - 1].tokens)
    fit("position", tokens, count(tokens, "position") + " in the translation")
    fit("edit", tokens, count(tokens, "token") + " in the translation")
    if state.sublayer.startswith("encoder"):
        source = len(translation.sentences[state.sentence - 1].source_tokens)
        fit("at", source, count(source, "position") + " in the source")
    else:
        fit("at", tokens, count(tokens, "position") + " in the translation")
    return state, tuple(notices)


def _ids(tokens: tuple[Token, ...]) -> tuple[int, ...]:
    return tuple(token.id for token in tokens)
