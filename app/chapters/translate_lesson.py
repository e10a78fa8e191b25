"""What the chapter's templates need for one state; each part is made when a template first asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from app.chapters import translate_attention as attention
from app.chapters import translate_beam as beam
from app.chapters import translate_compare as compare
from app.chapters import translate_inside as inside
from app.chapters import translate_state as state
from app.chapters import translate_tables as tables
from app.chapters.contract import Download, Parsed, Problem
from app.chapters.numbers import MINUS, short
from app.chapters.translate_answers import Answer
from app.chapters.translate_state import Head, Parameters
from app.chapters.translate_tokens import Label, joined, label
from app.chapters.translate_words import EXAMPLES, Difference, differences, read_recipe
from app.translation.protocol import AttentionKind, Hypothesis, ModelInfo, Trace

_RESET: Final = {
    "sentence": 1,
    "hypothesis": 1,
    "position": 1,
    "at": 0,
    "edit": 0,
    "to": "",
    "to_id": 0,
    "rank": False,
    "cache": False,
}
"""Fields that mean nothing for another text."""

_UNASKED: Final = {
    "mask": "causal",
    "scaled": True,
    "positions": True,
    "silence": (),
    "edit": 0,
    "to": "",
    "to_id": 0,
    "of": "before",
}


class Example(NamedTuple):
    """A sentence to try."""

    text: str
    note: str
    query: str
    current: bool


class Lesson:
    """One state, ready to be shown."""

    def __init__(self, parsed: Parsed[Parameters], answer: Answer, recipes: Path) -> None:
        """`recipes`: the folder whose subfolders say how each model was trained."""
        self.parsed = parsed
        self.answer = answer
        self._recipes = recipes
        self.state = answer.state

    # Links and fields

    def to(self, **changes: Any) -> str:
        """The canonical query of another state."""
        return state.write(replace(self.state, **changes))

    def fields(self, *own: str, fresh: bool = False) -> list[tuple[str, str]]:
        """Hidden fields of a form: the state's, but for its `own`; `fresh`: for another text."""
        texts = state.as_text(self.state)
        usual = state.as_text(state.DEFAULT)
        left = _RESET if fresh else ()
        found = [
            (name, text)
            for name, text in texts.items()
            if text != usual[name] and name not in own and name not in left
        ]
        valid = state.valid_field(self.state)
        return found if valid is None else [*found, ("valid", valid)]

    def problems(self, *names: str) -> list[Problem]:
        """What was refused of some fields."""
        return [problem for problem in self.parsed.problems if problem.field in names]

    def other_problems(self, *names: str) -> list[Problem]:
        """What was refused of all other fields."""
        return [problem for problem in self.parsed.problems if problem.field not in names]

    def typed(self, field: str) -> str:
        """What stands in a field of one value."""
        return self.parsed.typed[field][-1]

    # The translation

    @property
    def limits_characters(self) -> int:
        """The longest text."""
        return self.answer.limits.characters

    @property
    def most_beams(self) -> int:
        """The widest beam."""
        return self.answer.limits.beam_size

    @property
    def language(self) -> str:
        """The target language's code."""
        return self.state.model.rpartition("-")[2]

    def files(self, downloads: Sequence[Download[Parameters]], query: str) -> list[tuple[str, str]]:
        """Address and title of every download, for this state."""
        end = f"?{query}" if query else ""
        return [(f"/download/translate/{made.name}{end}", made.title) for made in downloads]

    @cached_property
    def models(self) -> list[tuple[str, str]]:
        """Choices of the model."""
        return [(info.name, f"{info.source} → {info.target}") for info in self.answer.models]

    @cached_property
    def absent(self) -> list[ModelInfo]:
        """Models that cannot be used, with the reason."""
        return [info for info in self.answer.models if info.state == "failed"]

    @property
    def info(self) -> ModelInfo | None:
        """The chosen model."""
        return self.answer.info

    @property
    def waiting(self) -> bool:
        """Whether the chosen model is still being loaded."""
        return self.info is not None and self.info.state == "loading"

    @property
    def done(self) -> bool:
        """Whether there is a translation to show."""
        return self.answer.translation is not None

    @cached_property
    def examples(self) -> list[Example]:
        """Sentences to try."""
        return [
            Example(text, note, self.to(text=text, **_RESET), text == self.state.text)
            for text, note in EXAMPLES
        ]

    @cached_property
    def hypothesis(self) -> Hypothesis:
        """The entry of the n-best list that is looked into."""
        return self.answer.sentence.hypotheses[self.state.hypothesis - 1]

    @cached_property
    def entries(self) -> list[tables.Entry]:
        """The n-best list."""
        return [
            tables.Entry(
                number,
                h,
                [label(token) for token in h.tokens],
                short(h.log_prob),
                len(h.tokens),
                short(h.length_penalty),
                short(h.score),
                self.to(**_RESET | {"sentence": self.state.sentence, "hypothesis": number}),
                number == self.state.hypothesis,
            )
            for number, h in enumerate(self.answer.sentence.hypotheses, start=1)
        ]

    @cached_property
    def sentences(self) -> list[tuple[int, str, str, str]]:
        """Number, source, best translation and query of every sentence."""
        assert self.answer.translation is not None
        return [
            (
                number,
                sentence.text,
                sentence.hypotheses[0].text,
                self.to(**_RESET | {"sentence": number}),
            )
            for number, sentence in enumerate(self.answer.translation.sentences, start=1)
        ]

    @cached_property
    def source(self) -> list[Label]:
        """The source tokens."""
        return [label(token) for token in self.answer.sentence.source_tokens]

    @cached_property
    def target(self) -> list[Label]:
        """The tokens of the hypothesis that is looked into."""
        return [label(token) for token in self.hypothesis.tokens]

    @cached_property
    def arithmetic(self) -> Mapping[str, str]:
        """The length penalty's operands and results, of the hypothesis that is looked into."""
        h = self.hypothesis
        return {
            "alpha": f"{self.state.alpha:g}",
            "length": str(len(h.tokens)),
            "numerator": str(5 + len(h.tokens)),
            "penalty": f"{h.length_penalty:.6f}",
            "log_prob": f"{h.log_prob:.6f}".replace("-", MINUS),
            "score": f"{h.score:.6f}".replace("-", MINUS),
        }

    # Inside the model

    @property
    def trace(self) -> Trace | None:
        """The pass that the pictures show."""
        return self.answer.trace

    @property
    def looks(self) -> bool:
        """Whether there is anything to look into."""
        return self.answer.trace is not None

    @cached_property
    def _trace(self) -> Trace:
        assert self.answer.trace is not None
        if self.state.of == "after" and self.answer.comparison is not None:
            return self.answer.comparison.after
        return self.answer.trace

    @cached_property
    def groups(self) -> list[attention.Group]:
        """Every head as a small picture."""
        return attention.groups(self._trace, self.opened)

    @cached_property
    def opened(self) -> Head:
        """The head whose table is shown."""
        if self.state.head is not None:
            return self.state.head
        return Head("cross", self._trace.cross.shape[0], 1)

    @cached_property
    def table(self) -> attention.Table:
        """The open head as a table."""
        return attention.table(self._trace, self.opened, self.state.position)

    @cached_property
    def positions(self) -> list[inside.Position]:
        """What each position reads and predicts."""
        return inside.positions(self._trace)

    @cached_property
    def position(self) -> inside.Position:
        """The selected position."""
        return self.positions[self.state.position - 1]

    @property
    def now_there(self) -> int:
        """The token that the translation has at the selected position."""
        return self._trace.predicted[self.state.position - 1].id

    short = staticmethod(short)

    @cached_property
    def tree(self) -> beam.Tree:
        """The beam search."""
        return beam.tree(self.answer.sentence, self.hypothesis)

    @cached_property
    def sublayers(self) -> list[tuple[str, str]]:
        """Every sub-layer that can be looked into."""
        return inside.names(self._trace)

    @cached_property
    def vector(self) -> inside.Vector:
        """One position in one sub-layer."""
        name = self.state.sublayer or self.sublayers[-1][0]
        length = len(
            self._trace.source_tokens if name.startswith("encoder") else self._trace.target_tokens
        )
        at = min(self.state.at or self.state.position, length)
        return inside.vector(self._trace, name, at, numbers=self.state.numbers)

    @cached_property
    def vector_tokens(self) -> list[Label]:
        """The positions of the stack that is looked into."""
        encoder = self.vector.sublayer.startswith("encoder")
        tokens = self._trace.source_tokens if encoder else self._trace.target_tokens
        return [label(token) for token in tokens]

    # Questions

    @cached_property
    def changed(self) -> compare.WhatChanged | None:
        """The comparison, when something is done differently."""
        if self.answer.comparison is None:
            return None
        return compare.what_changed(
            self.answer.comparison, self.state.edit if self.state.edited else 0
        )

    @cached_property
    def grid(self) -> list[tuple[AttentionKind, str, list[list[tuple[str, bool]]]]]:
        """The heads that can be silenced, by kind and layer, and whether each is."""
        trace = self.answer.trace
        return [] if trace is None else tables.grid(trace, self.state.silence)

    percent = staticmethod(inside.percent)
    divide = Markup("Divide by √<i>d</i><sub>k</sub>")

    @property
    def replacement(self) -> str:
        """The token that was chosen by its number, where one was."""
        if not self.state.to_id or self.answer.comparison is None:
            return ""
        return label(self.answer.comparison.after.predicted[self.state.edit - 1]).text

    @property
    def unasked(self) -> str:
        """The state without any change of the reader's."""
        return self.to(**_UNASKED)

    @cached_property
    def questions(self) -> list[tuple[str, str]]:
        """Changes to try, each alone."""
        last = self.answer.trace.cross.shape[0] if self.answer.trace else 1
        heads = self.answer.trace.cross.shape[1] if self.answer.trace else 0
        middle = max(1, len(self.target) // 2)
        other = self._other(middle)
        tries: list[tuple[str, dict[str, Any]]] = [
            (f"Another word at {middle}", {"edit": middle, "to_id": other}),
            ("The same, all positions", {"edit": middle, "to_id": other, "mask": "all"}),
            ("No scaling", {"scaled": False}),
            ("No positions", {"positions": False}),
            (
                f"Silence cross-attention, layer {last}",
                {"silence": tuple(Head("cross", last, n) for n in range(1, heads + 1))},
            ),
        ]
        return [(title, self.to(**_UNASKED | changes)) for title, changes in tries]

    def _other(self, position: int) -> int:
        """The likeliest token at a position that is not the translation's own."""
        assert self.answer.trace is not None
        own = self.answer.trace.predicted[position - 1].id
        return next(
            entry.token.id
            for entry in self.answer.trace.next_tokens[position - 1]
            if entry.token.id != own
        )

    @cached_property
    def free(self) -> str:
        """The part of the new translation that the model chose."""
        comparison = self.answer.comparison
        assert comparison is not None
        if not comparison.prefix:
            return comparison.translation
        return comparison.translation.removeprefix(self.given)

    @property
    def cut(self) -> bool:
        """Whether the model had more to write than is shown."""
        comparison = self.answer.comparison
        return bool(comparison and comparison.prefix and comparison.tokens[-1].kind != "end")

    @cached_property
    def given(self) -> str:
        """The part of the new translation that the reader's edit fixed."""
        comparison = self.answer.comparison
        assert comparison is not None
        return joined(comparison.tokens[: comparison.prefix])

    @cached_property
    def ranking(self) -> list[tables.Ranked]:
        """Every head, the one that is missed most first."""
        return tables.ranking(self.answer.heads, self.to)

    @cached_property
    def cache(self) -> tables.Cache:
        """With and without the key/value cache."""
        return tables.cache(self.answer.cache)

    @cached_property
    def differences(self) -> list[Difference]:
        """How this model differs from the paper's."""
        return differences(self.info, read_recipe(self._recipes / self.state.model))
