"""Chapter 2: three positions, four coordinates, two heads, every weight set by hand. Sections 3.2, 3.1.

The chapter's numbers are those of a worked example (`worked_examples/three_positions`, or any other
folder there), with the reader's edits. Nothing is remembered between requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from app.chapters.arithmetic import Explanation, explain
from app.chapters.calculation import Calculation, WorkedExample, calculate
from app.chapters.contract import Download, Panel, Parsed, Problem
from app.chapters.three_positions_figure import head_rows
from app.chapters.three_positions_state import GUESSES, Languages, Parameters
from app.chapters.three_positions_view import (
    Head,
    Marks,
    Sublayer,
    draw_head,
    draw_sublayer,
    reads,
)
from app.chapters.what_changed import WhatChanged, what_changed
from app.chapters.worked_example import available

SLUG: Final = "three-positions"
EXAMPLE: Final = "three_positions"


TABLES: Final = {
    **{"W_Q": "Q", "W_K": "K", "W_V": "V", "row_max": "masked_scores"},
    **{"denominator": "exponentials", "mean": "statistics", "variance": "statistics"},
    **dict.fromkeys(("gamma", "beta", "epsilon"), "layer_norm"),
}
"""The table in or beside which a number stands, where it is not the one of its own name."""

ROLES: Final = {"Q": "query", "K": "key", "V": "value", "weights": "weight"}
"""The colour of what a number was made of."""


def matrix_of(address: str) -> str:
    """The name of the matrix in an address.

    >>> matrix_of("head1.weights.3.2"), matrix_of("mean.3")
    ('weights', 'mean')
    """
    parts = address.split(".")
    return parts[1] if parts[0].startswith("head") else parts[0]


def name_of(address: str) -> str:
    """An address as a person would say it.

    >>> name_of("head1.scaled_scores.3.2"), name_of("mean.3")
    ('head 1 scaled scores 3, 2', 'mean 3')
    """
    parts = address.split(".")
    head = f"head {parts.pop(0)[4:]} " if parts[0].startswith("head") else ""
    return f"{head}{parts[0].replace('_', ' ')} {', '.join(parts[1:])}".strip()


class Preset(NamedTuple):
    """Inputs behind a button."""

    title: str
    note: str
    query: str
    current: bool


class InputCell(NamedTuple):
    """One editable number, as typed."""

    name: str
    id: str
    label: str
    typed: str
    changed: bool
    invalid: bool
    operand: bool = False


class Lesson:
    """What the templates need for one state; each part is made when a template first asks for it."""

    def __init__(self, chapter: ThreePositions, parsed: Parsed[Parameters]) -> None:
        self._chapter = chapter
        self.parsed = parsed
        self.state = parsed.parameters
        self.language = chapter.languages.of(self.state)
        self.example = self.language.example

    @cached_property
    def now(self) -> Calculation:
        """The state's numbers."""
        return self._chapter.calculate(self.state)

    @cached_property
    def then(self) -> Calculation:
        """The reference: the worked example as published."""
        return self._chapter.original(self.state.example)

    reference_name = "the original state"

    @cached_property
    def changes(self) -> WhatChanged:
        """What became of each position."""
        return what_changed(self.then, self.now)

    @cached_property
    def shown(self) -> Explanation | None:
        """The open number's arithmetic."""
        return explain(self.now, self.state.show) if self.state.show else None

    @cached_property
    def operands(self) -> list[tuple[str, str]]:
        """Address and short name of what the open number was made of."""
        return [
            (address, name_of(address)) for address in (self.shown.operands if self.shown else ())
        ]

    @cached_property
    def marks(self) -> Marks:
        """What is emphasised in the tables."""
        operands = {address: ROLES.get(matrix_of(address), "") for address, _ in self.operands}
        return Marks(self.state.position, self.state.show, operands)

    @cached_property
    def heads(self) -> list[Head]:
        """The heads' tables."""
        return [
            draw_head(self.now, self.then, self.marks, index) for index in range(self.example.h)
        ]

    @cached_property
    def sublayer(self) -> Sublayer:
        """The tables after the heads."""
        return draw_sublayer(self.now, self.then, self.marks)

    @cached_property
    def inputs(self) -> list[list[InputCell]]:
        """X, editable, a row a position."""
        return [
            self._editable(name, f"position {place}", original)
            for place, (name, original) in enumerate(
                zip(self.language.rows, self.language.default.x, strict=True), start=1
            )
        ]

    @cached_property
    def scale(self) -> list[InputCell]:
        """γ, editable."""
        return self._editable("gamma", "γ", self.language.default.gamma)

    @cached_property
    def offset(self) -> list[InputCell]:
        """β, editable."""
        return self._editable("beta", "β", self.language.default.beta)

    @cached_property
    def presets(self) -> list[Preset]:
        """The original inputs and the example's edits, each under the present rules."""
        choices = [("Original", "The worked example as published.", self.language.default.x)]
        choices += [
            (edit.title, edit.note, tuple(map(tuple, edit.X.tolist())))
            for edit in self.example.edits
        ]
        return [
            Preset(
                title,
                note,
                self._chapter.query(replace(self.state, x=x, show="")),
                x == self.state.x,
            )
            for title, note, x in choices
        ]

    @cached_property
    def small(self) -> InputCell:
        """ε, editable."""
        invalid = any(problem.field == "epsilon" for problem in self.parsed.problems)
        changed = self.state.epsilon != self.language.default.epsilon
        return InputCell("epsilon", "epsilon", "ε", self.typed("epsilon"), changed, invalid)

    @cached_property
    def positions(self) -> list[tuple[str, str]]:
        """Choices of the selected position."""
        return [(str(place), str(place)) for place in range(1, self.example.n + 1)]

    @cached_property
    def projections(self) -> list[tuple[str, str]]:
        """Choices of W^O."""
        return [(choice.name, choice.title) for choice in self.example.output_projections]

    divide = Markup("Divide by √<i>d</i><sub>k</sub>")
    projection_legend = Markup("<i>W</i><sup>O</sup>")

    @cached_property
    def reading(self) -> list[str]:
        """What each head takes as queries, keys and values, in words."""
        return [reads(self.example, index) for index in range(self.example.h)]

    @cached_property
    def shown_table(self) -> str:
        """The id of the table after which the open number's arithmetic stands; empty for none."""
        if not self.state.show:
            return ""
        matrix = matrix_of(self.state.show)
        head = self.state.show.split(".")[0] + "." if self.state.show.startswith("head") else ""
        return head + TABLES.get(matrix, matrix)

    @cached_property
    def rows(self) -> list[Markup]:
        """A picture of each head's attention rows."""
        return [
            head_rows(steps, number, self.state.position)
            for number, steps in enumerate(self.now.heads, start=1)
        ]

    @cached_property
    def closed_query(self) -> str:
        """The state without an open number: what a link appends `show=` to."""
        return self._chapter.query(replace(self.state, show=""))

    @cached_property
    def bench_problems(self) -> list[Problem]:
        """What was refused and concerns the calculation."""
        return [p for p in self.parsed.problems if not p.field.startswith("guess")]

    def problems(self, *fields: str) -> list[Problem]:
        """What was refused of some fields."""
        return [problem for problem in self.parsed.problems if problem.field in fields]

    def typed(self, field: str) -> str:
        """What stands in a field of one value."""
        return self.parsed.typed[field][-1]

    def _editable(self, field: str, name: str, original: Sequence[float]) -> list[InputCell]:
        refused = {p.index for p in self.parsed.problems if p.field == field}
        address = f"X.{field[1:]}" if field[0] == "x" else field
        value: Sequence[float] = (
            self.state.x[int(field[1:]) - 1] if field[0] == "x" else getattr(self.state, field)
        )
        return [
            InputCell(
                name=field,
                id=f"{field}-{place}",
                label=f"{name}, coordinate {place}",
                typed=typed,
                changed=value[place - 1] != original[place - 1],
                invalid=place - 1 in refused or None in refused,
                operand=f"{address}.{place}" in self.marks.operands,
            )
            for place, typed in enumerate(self.parsed.typed[field], start=1)
        ]


class ThreePositions:
    """The chapter, as `app.chapters.contract.Chapter` describes it."""

    slug = SLUG
    number = 2
    title = "Three positions, two heads"
    section = "§3.2"
    minutes = 15
    summary = (
        "Change a future input and see exactly which numbers follow and which stay the same to the "
        "last bit. Two heads, every weight set by hand, every number open to inspection."
    )
    template = "chapters/three-positions.html"
    uses_plotly = False  # loaded by the one figure that draws with it, once somebody opens it
    panels = (Panel("bench", "The bench: edit, and see every number follow", 2300),)

    def __init__(self, examples: Mapping[str, WorkedExample]) -> None:
        """`examples` by folder name; `EXAMPLE` is the one that the prose is about."""
        others = [example for slug, example in examples.items() if slug != EXAMPLE]
        self.languages = Languages([examples[EXAMPLE], *others])
        self._originals = {
            slug: self.calculate(language.default)
            for slug, language in self.languages.by_slug.items()
        }
        self.downloads: tuple[Download[Parameters], ...] = ()

    def parse(self, query: Sequence[tuple[str, str]]) -> Parsed[Parameters]:
        """See `Languages.parse`."""
        return self.languages.parse(query)

    def query(self, parameters: Parameters) -> str:
        """See `Languages.write`."""
        return self.languages.write(parameters)

    def calculate(self, parameters: Parameters) -> Calculation:
        """Every number, from the inputs to LayerNorm."""
        return calculate(
            self.languages.of(parameters).example,
            parameters.x,
            "all" if parameters.mask == "all" else "causal",
            parameters.scaled,
            parameters.w_o,
            parameters.gamma,
            parameters.beta,
            parameters.epsilon,
        )

    def original(self, example: str) -> Calculation:
        """The numbers of a worked example as published."""
        return self._originals[example]

    def context(self, parsed: Parsed[Parameters]) -> dict[str, Any]:
        """One object, whose parts are made on demand: a fragment pays for its own panel alone."""
        return {"lesson": Lesson(self, parsed), "guesses": GUESSES}

    def api(self, parameters: Parameters) -> dict[str, Any]:
        """The JSON contract: arrays of rows, full precision, blocked scores null."""
        now = self.calculate(parameters)
        return {
            "inputs": {
                "example": parameters.example,
                "X": now.X.tolist(),
                "mask": now.mask,
                "scaled": now.scaled,
                "W_O": now.W_O.W_O.tolist(),
                "gamma": now.gamma.tolist(),
                "beta": now.beta.tolist(),
                "epsilon": now.epsilon,
            },
            "heads": [
                {
                    "Q": head.Q.tolist(),
                    "K": head.K.tolist(),
                    "V": head.V.tolist(),
                    "scores": head.scores.tolist(),
                    "scaled_scores": head.scaled_scores.tolist(),
                    "masked_scores": [
                        [score if allowed else None for score, allowed in zip(*row, strict=True)]
                        for row in zip(head.masked_scores.tolist(), head.mask.tolist(), strict=True)
                    ],
                    "weights": head.weights.tolist(),
                    "output": head.output.tolist(),
                }
                for head in now.heads
            ],
            "concat": now.concat.tolist(),
            "output": now.output.tolist(),
            "residual_sum": now.residual_sum.tolist(),
            "mean": now.mean.tolist(),
            "variance": now.variance.tolist(),
            "layer_norm": now.layer_norm.tolist(),
        }


def load() -> ThreePositions:
    """The chapter with every sound worked example. Raises `KeyError` if its own is missing or refused."""
    return ThreePositions(available().examples)
