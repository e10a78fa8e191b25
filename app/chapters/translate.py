"""Chapter 5: an encoder–decoder Transformer at work, open to questions. Sections 3, 6.1.

The numbers come from a Translator, which `create_app()` hands in; without one the chapter shows the
sentence that was translated in advance. Nothing is remembered of a reader but the latest answers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Final

from app.chapters import translate_files as files
from app.chapters import translate_state as state
from app.chapters.contract import Download, Event, Panel, Parsed, Problem
from app.chapters.translate_answers import Answer, Desk, answer, in_lines
from app.chapters.translate_attention import figure
from app.chapters.translate_default import load_default
from app.chapters.translate_lesson import Lesson
from app.chapters.translate_state import Parameters
from app.chapters.translate_tokens import joined
from app.paths import MODEL_WEIGHTS
from app.translation.protocol import (
    BadRequest,
    NotReady,
    TooLong,
    Trace,
    Translation,
    Translator,
)
from app.translation.sentences import split_sentences

SLUG: Final = "translate"

_LOOK_AGAIN: Final = 0.2
"""Seconds between two looks at whether a model is loaded."""


class Translate:
    """The chapter, as `app.chapters.contract.Chapter` describes it."""

    slug = SLUG
    number = 5
    title = "A Transformer at work"
    section = "§3, §6.1"
    minutes = 20
    summary = (
        "Type an English sentence, get German or French from a Transformer trained for this site, "
        "look at every head of it, and take things away to see what depends on them."
    )
    template = "chapters/translate.html"
    uses_plotly = False
    panels = (
        Panel("translation", "Translate: the n-best list and its scores", 1000),
        Panel("attention", "Attention: every layer, every head", 1100),
        Panel("next-tokens", "The next token, position by position", 760),
        Panel("beam", "The beam search as a tree", 520),
        Panel("layer-norm", "Residual sum and LayerNorm of one position", 520),
        Panel("ask", "Change the model and compare", 1100),
        Panel("heads", "Which heads matter for this sentence", 320),
        Panel("cache", "With and without the key/value cache", 320),
        Panel("model", "This model and the paper’s", 620),
    )

    def __init__(self, translator: Translator | None = None, models: Path = MODEL_WEIGHTS) -> None:
        """`translator`: who is asked; None where no model is at hand. `models`: the models' folder,
        which says how each was trained.
        """
        self._models = models
        self.desk = Desk(translator, load_default())
        self.downloads: tuple[Download[Parameters], ...] = (
            _download("translation.json", "application/json", "The translation", self._json),
            _download("n-best.csv", "text/csv", "The n-best list, as a table", self._csv),
            _download("trace.json", "application/json", "Every array of one pass", self._trace),
            _download("attention.svg", "image/svg+xml", "Every head, as a picture", self._figure),
        )
        self.parts: Mapping[str, Callable[[Parameters], Coroutine[Any, Any, bytes]]] = {
            "trace": self._trace
        }

    def parse(self, query: Sequence[tuple[str, str]]) -> Parsed[Parameters]:
        """Understand a query: first by itself, then by what the chosen model can take."""
        names = [info.name for info in self.desk.models]
        return state.parse(query, self.desk.limits, names, check=self._check)

    def query(self, parameters: Parameters) -> str:
        """The canonical query."""
        return state.write(parameters)

    def calculate(self, parameters: Parameters) -> Coroutine[Any, Any, Answer]:
        """Everything that the state shows."""
        return answer(self.desk, parameters)

    async def context(self, parsed: Parsed[Parameters]) -> dict[str, Any]:
        """One object, whose parts are made on demand: a fragment pays for its own panel alone."""
        return {"lesson": Lesson(parsed, await self.calculate(parsed.parameters), self._models)}

    async def api(self, parameters: Parameters) -> dict[str, Any]:
        """The JSON contract. Raises NotReady while the model is not there."""
        return files.translation_json(await self._answered(parameters))

    async def stream(self, parsed: Parsed[Parameters]) -> AsyncGenerator[Event, None]:
        """The translation while it is being made; `done` says that its panel can be fetched."""
        text, options = parsed.parameters.text, parsed.parameters.options
        usual = {
            "loading": False,
            "ahead": 0,
            "so_far": "",
            "language": options.model.rpartition("-")[2],
        }
        if not text or self.desk.state(options.model) == "failed":
            yield Event("live", usual)  # the panel says why there is nothing
            return
        if self.desk.state(options.model) == "loading" and not self.desk.in_advance(text, options):
            yield Event("live", usual | {"loading": True})
            while self.desk.state(options.model) == "loading":
                await asyncio.sleep(_LOOK_AGAIN)
        so_far = dict.fromkeys(range(len(split_sentences(text))), "")
        async with aclosing(self.desk.stream(text, options)) as items:
            async for item in items:
                if isinstance(item, Translation):
                    yield Event("live", usual | {"so_far": item.translation})
                    continue
                so_far[item.sentence] = joined(item.tokens)
                written = in_lines(text, so_far.values())
                yield Event("live", usual | {"ahead": item.waiting, "so_far": written})

    async def _answered(self, parameters: Parameters) -> Answer:
        found = await self.calculate(parameters)
        if found.translation is None and parameters.text:
            info = found.info
            if info is not None and info.state == "failed":
                raise NotReady(f"The model {info.name} cannot be used.", retry_after=60)
            raise NotReady
        return found

    async def _looked_into(self, parameters: Parameters) -> Trace | None:
        """The pass that the state looks at; None for a blank text."""
        found = await self._answered(parameters)
        if found.trace is None and found.state.text:
            raise NotReady
        return found.comparison.after if found.comparison else found.trace

    async def _json(self, parameters: Parameters) -> bytes:
        return json.dumps(await self.api(parameters), indent=1).encode("ascii") + b"\n"

    async def _csv(self, parameters: Parameters) -> bytes:
        return files.nbest_csv((await self._answered(parameters)).translation)

    async def _trace(self, parameters: Parameters) -> bytes:
        trace = await self._looked_into(parameters)
        if trace is None:
            return files.blank_trace_json(parameters.model, parameters.interventions)
        sublayer = parameters.sublayer or last_sublayer(trace)
        return await asyncio.to_thread(files.trace_json, trace, sublayer)

    async def _figure(self, parameters: Parameters) -> bytes:
        trace = await self._looked_into(parameters)
        if trace is None:
            raise BadRequest("text", "There is nothing to draw without a text.")
        return figure(trace).encode("utf-8", "replace")

    def _check(self, parameters: Parameters) -> tuple[Problem, ...]:
        """What the chosen model cannot do, as far as it is there to be asked."""
        desk = self.desk
        info = next((info for info in desk.models if info.name == parameters.model), None)
        if info is None or info.state != "ready":
            return ()
        problems = []
        layers = {"encoder": info.N_encoder, "decoder": info.N_decoder, "cross": info.N_decoder}
        wanted = [("silence", head) for head in parameters.silence]
        wanted += [("head", parameters.head)] if parameters.head else []
        for field in dict.fromkeys(field for field, _ in wanted):
            missing = [
                head
                for name, head in wanted
                if name == field and (head.layer > layers[head.kind] or head.number > info.h)
            ]
            if missing:
                problems.append(
                    Problem(
                        field,
                        None,
                        str(missing[0]),
                        f"This model has {info.N_encoder} encoder and {info.N_decoder} decoder "
                        f"layers with {info.h} heads each; there is no {missing[0]}.",
                    )
                )
        if parameters.sublayer:
            stack, layer, _ = parameters.sublayer.split(".")
            if int(layer) > layers[stack]:
                message = f"This model’s {stack} has {layers[stack]} layers."
                problems.append(Problem("sublayer", None, parameters.sublayer, message))
        if parameters.to_id and not 3 <= parameters.to_id < info.vocab_size:
            message = f"Tokens that can stand in a text are numbered 3 to {info.vocab_size - 1}."
            problems.append(Problem("to_id", None, str(parameters.to_id), message))
        problems += self._check_tokens(parameters)
        problems += self._check_replacement(parameters)
        return tuple(problems)

    def _check_replacement(self, parameters: Parameters) -> list[Problem]:
        if not parameters.edited or parameters.to_id:
            return []
        try:
            if self.desk.tokenize(parameters.model, parameters.to):
                return []
        except BadRequest as error:
            return [Problem("to", None, parameters.to, error.message)]
        message = "This makes no token. Type a word, a part of one, or a sign."
        return [Problem("to", None, parameters.to, message)]

    def _check_tokens(self, parameters: Parameters) -> list[Problem]:
        for sentence in split_sentences(parameters.text):
            try:
                found = len(self.desk.tokenize(parameters.model, sentence)) + 1
            except TooLong as error:
                found = error.found + 1
            except BadRequest as error:
                return [Problem("text", None, sentence[:60], error.message)]
            if found > self.desk.limits.tokens:
                message = (
                    f"One sentence makes {found} tokens; at most {self.desk.limits.tokens} are "
                    "translated at once. Shorten it, or split it with full stops."
                )
                return [Problem("text", None, sentence[:60], message)]
        return []


def last_sublayer(trace: Trace) -> str:
    """The decoder's last sub-layer, as the URL writes it."""
    stack, layer, kind = list(trace.sublayers)[-1].split(".")
    return f"{stack}.{int(layer) + 1}.{kind}"


def _download(
    name: str,
    media_type: str,
    title: str,
    make: Callable[[Parameters], Coroutine[Any, Any, bytes]],
) -> Download[Parameters]:
    return Download(name, media_type, title, partial(make))
