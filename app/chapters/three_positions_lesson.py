"""The three-position chapter as its templates see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from markupsafe import Markup

from app.chapters.addresses import matrix_of, name_of
from app.chapters.arithmetic import Explanation, explain
from app.chapters.calculation import Calculation
from app.chapters.contract import Parsed, Problem
from app.chapters.numbers import short
from app.chapters.three_positions_figure import head_rows
from app.chapters.three_positions_prose import Said
from app.chapters.three_positions_quiz import Question, questions
from app.chapters.three_positions_state import NO_GUESSES, Languages, Parameters
from app.chapters.three_positions_steps import TITLES, Step, step
from app.chapters.three_positions_sweep import Sweep, drawing, sweep
from app.chapters.three_positions_view import (
    Head,
    Marks,
    Matrix,
    Sublayer,
    draw_head,
    draw_inputs,
    draw_sublayer,
    reads,
)
from app.chapters.what_changed import WhatChanged, what_changed

TABLES: Final = {
    "W_Q": "Q",
    "W_K": "K",
    "W_V": "V",
    "row_max": "masked_scores",
    "denominator": "exponentials",
    "mean": "statistics",
    "variance": "statistics",
    **dict.fromkeys(("gamma", "beta", "epsilon"), "layer_norm"),
}
"""The table in or beside which a number stands, where it is not the one of its own name."""

ROLES: Final = {"Q": "query", "K": "key", "V": "value", "weights": "weight"}
"""The colour of what a number was made of."""


OF_THE_CHAPTERS_OWN: Final = frozenset({"calculate.py", "states.json", "states.csv"})
"""Files that only the chapter's own worked example has."""


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
    """What the templates need for one state; a part is made when a template first asks for it."""

    def __init__(
        self,
        languages: Languages,
        parsed: Parsed[Parameters],
        said: Mapping[str, Said],
        files: Sequence[tuple[str, str]],
    ) -> None:
        """`languages` hold the worked examples, `parsed` the state and what was refused, `said` the
        states of the prose, and `files` the names and titles of what can be downloaded.
        """
        self._languages = languages
        self._files = files
        self.said = said
        self.parsed = parsed
        self.state = parsed.parameters
        self.language = languages.of(self.state)
        self.example = self.language.example

    @cached_property
    def now(self) -> Calculation:
        """The state's numbers."""
        return self.language.calculate(self.state)

    @cached_property
    def then(self) -> Calculation:
        """The reference: the worked example as published."""
        return self.language.original

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
        for edit in self.example.edits:
            choices.append((edit.title, edit.note, tuple(map(tuple, edit.X.tolist()))))
        return [
            Preset(title, note, self._query(x=x, show="", guesses=NO_GUESSES), x == self.state.x)
            for title, note, x in choices
        ]

    @cached_property
    def examples(self) -> list[tuple[str, str, bool]]:
        """Every worked example's title, its query, and whether it is the one that is shown."""
        return [
            (
                language.example.title,
                self._languages.write(language.default),
                language is self.language,
            )
            for language in self._languages.by_slug.values()
        ]

    @cached_property
    def small(self) -> InputCell:
        """ε, editable."""
        invalid = any(problem.field == "epsilon" for problem in self.parsed.problems)
        changed = self.state.epsilon != self.language.default.epsilon
        operand = "epsilon" in self.marks.operands
        typed = self.typed("epsilon")
        return InputCell("epsilon", "epsilon", "ε", typed, changed, invalid, operand)

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
        return self._query(show="")

    @cached_property
    def step(self) -> Step:
        """The step that is shown."""
        return step(self.now, self.state.position, self.state.step)

    @cached_property
    def trail(self) -> list[tuple[str, str]]:
        """Every step's title and query."""
        return [(title, self._query(step=place)) for place, title in enumerate(TITLES, start=1)]

    @cached_property
    def previous_step(self) -> str | None:
        """The query of the step before, None at the first."""
        return self.trail[self.state.step - 2][1] if self.state.step > 1 else None

    @cached_property
    def next_step(self) -> str | None:
        """The query of the step after, None at the last."""
        return self.trail[self.state.step][1] if self.state.step < len(TITLES) else None

    @cached_property
    def sweep(self) -> Sweep:
        """The first coordinate of the last position, moved."""
        return sweep(self.state, self.now, self.language.calculate)

    @cached_property
    def drawings(self) -> list[Markup]:
        """Its charts as SVG."""
        return [drawing(self.sweep, chart) for chart in self.sweep.charts]

    @cached_property
    def sweep_words(self) -> str:
        """What the first chart says."""
        lines = self.sweep.charts[0].lines
        still = [line.name.removeprefix("position ") for line in lines if line.kind == "same"]
        if not still:
            return "Every position notices, because every position may attend to the last one."
        which = (
            f"Position {still[0]} does"
            if len(still) == 1
            else f"Positions {' and '.join(still)} do"
        )
        return f"{which} not change at any of the {len(self.sweep.x)} places, not in the last bit."

    @cached_property
    def questions(self) -> list[Question]:
        """Check yourself."""
        return questions(self.state, self.now, self.language.calculate)

    @cached_property
    def fixed_pairs(self) -> tuple[tuple[str, str], ...]:
        """The state without predictions, as a form's hidden fields."""
        query = self._query(guesses=NO_GUESSES, reveal=0)
        return tuple(parse_qsl(query, keep_blank_values=True))

    @cached_property
    def share_query(self) -> str:
        """The state for other people's pages: no open number, no predictions."""
        return self._query(show="", guesses=NO_GUESSES, reveal=0)

    @cached_property
    def kept_pairs(self) -> tuple[tuple[str, str], ...]:
        """The calculation's own fields, hidden where there are no controls for them."""
        others = ("example", "step", "show")
        return tuple(pair for pair in self.fixed_pairs if pair[0] not in others)

    @cached_property
    def input_matrix(self) -> Matrix:
        """X as a table of numbers, for those who may only look."""
        return draw_inputs(self.now, self.then, self.marks)

    @cached_property
    def both_scalings(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The selected position's weights in head 1, divided and not: name, and each weight's
        query, open, with its text.
        """
        rows = []
        row = f"head1.weights.{self.state.position}"
        for name, scaled in (("divided", True), ("not divided", False)):
            state = replace(self.state, scaled=scaled)
            weights = self.language.calculate(state).heads[0].weights[state.position - 1].tolist()
            cells = [
                (self._languages.write(replace(state, show=f"{row}.{place}")), short(weight))
                for place, weight in enumerate(weights, start=1)
            ]
            rows.append((name, cells))
        return rows

    def opened(self, address: str) -> str:
        """The query of this state with that number open."""
        return self._query(show=address)

    @cached_property
    def files(self) -> list[tuple[str, str]]:
        """Address and title of every download that is about this state and its worked example."""
        own = self.state.example == self._languages.first
        return [
            (self._download(name), title)
            for name, title in self._files
            if own or name.rpartition("/")[2] not in OF_THE_CHAPTERS_OWN
        ]

    @cached_property
    def plot(self) -> str:
        """Where Plotly's description of the moved input is."""
        return self._download("three-positions/sweep.json")

    def _download(self, name: str) -> str:
        return f"/download/{name}?{self._file_query}" if self._file_query else f"/download/{name}"

    @cached_property
    def _file_query(self) -> str:
        """The state that files are about: the calculation's."""
        return self._query(show="", step=1, guesses=NO_GUESSES, reveal=0)

    short = staticmethod(short)

    def _query(self, **changes: Any) -> str:
        """The canonical query of this state with some changes."""
        return self._languages.write(replace(self.state, **changes))

    @cached_property
    def bench_problems(self) -> list[Problem]:
        """What was refused and concerns the calculation."""
        return [p for p in self.parsed.problems if not p.field.startswith("guess")]

    def problems(self, *fields: str) -> list[Problem]:
        """What was refused of some fields."""
        return [problem for problem in self.parsed.problems if problem.field in fields]

    @cached_property
    def other_problems(self) -> list[Problem]:
        """What was refused of fields that have no cell of their own."""
        placed = {*self.language.rows, "gamma", "beta", "epsilon", "w_o"}
        return [
            problem
            for problem in self.parsed.problems
            if problem.field not in placed and not problem.field.startswith("guess")
        ]

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
