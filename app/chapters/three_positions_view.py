"""Matrices as the bench shows them: every cell's text, address and classes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Final, NamedTuple

import numpy as np
from markupsafe import Markup, escape

from app.chapters.calculation import Calculation, WorkedExample
from app.chapters.numbers import short as write_short
from app.paper.arrays import Booleans, Floats

HEAT_STEPS: Final = 20

short = lru_cache(maxsize=4096)(write_short)
"""The same few numbers stand in many places."""

BLOCKED: Final = "<span>blocked</span>"


Cell = tuple[str, str, str]
"""One number: its address, the class attribute of its table cell, its text; all safe to write."""


class Line(NamedTuple):
    """One row of a matrix."""

    attributes: str
    """Marks the selected position's row."""
    label: Markup
    cells: list[Cell]


class Matrix(NamedTuple):
    """One table."""

    id: str
    role: str
    """Its colour: query, key, value, weight, or empty."""
    symbol: Markup
    caption: Markup
    columns: tuple[Markup, ...]
    lines: list[Line]

    def table(self, open_: str, prefix: str = "") -> Markup:
        """As HTML; `open_` is the address of this state up to a number's own address.

        `prefix` goes before each id. Written here and not in a template: this runs for every number
        of the bench at every keystroke.
        """
        link, name = str(escape(open_)), self.id
        columns = "".join([f'<th scope="col">{column}</th>' for column in self.columns])
        rows = [
            f'<tr data-part id="{prefix}row-{name}-{at}"{attributes}><th scope="row">{label}</th>'
            + "".join(
                [
                    f'<td{marks}><a id="{prefix}{address}" href="{link}{address}">{text}</a></td>'
                    for address, marks, text in cells
                ]
            )
            + "</tr>\n"
            for at, (attributes, label, cells) in enumerate(self.lines, start=1)
        ]
        return Markup(
            f'<table class="matrix {self.role}" id="{prefix}m-{name}">\n'
            f'<caption data-part id="{prefix}caption-{name}">{self.caption}</caption>\n'
            f"<thead><tr><td>{self.symbol}</td>{columns}</tr></thead>\n"
            f"<tbody>\n{''.join(rows)}</tbody>\n</table>\n"
        )


class Head(NamedTuple):
    """One head's matrices, in the order of the calculation."""

    number: int
    Q: Matrix
    K: Matrix
    V: Matrix
    scores: Matrix
    scaled_scores: Matrix
    masked_scores: Matrix
    shifted: Matrix
    exponentials: Matrix
    weights: Matrix
    mixed: Matrix
    output: Matrix


class Sublayer(NamedTuple):
    """What follows the heads."""

    concat: Matrix
    W_O: Matrix
    output: Matrix
    residual_sum: Matrix
    statistics: Matrix
    layer_norm: Matrix


class Marks(NamedTuple):
    """What is emphasised: the selected position, the open number and what it was made of."""

    selected: int
    shown: str
    operands: Mapping[str, str]
    """Address → role (query, key, value, or empty)."""


_SELECTED: Final = ' class="selected"'


def draw_head(now: Calculation, then: Calculation, marks: Marks, index: int) -> Head:
    """Head `index` (from 0) of `now`; cells that differ from `then` are marked as changed."""
    steps, before = now.heads[index], then.heads[index]
    n, d_k = steps.Q.shape
    start = f"head{index + 1}."
    keys = tuple(Markup(f"key {place}") for place in range(1, n + 1))

    def projected(name: str, caption: str, role: str) -> Matrix:
        values: Floats = getattr(steps, name)
        columns = _columns(name.lower(), values.shape[1])
        lines = _lines(start + name, values, getattr(before, name), marks)
        return Matrix(start + name, role, Markup(f"<i>{name}</i>"), Markup(caption), columns, lines)

    def square(
        name: str, symbol: str, caption: str, *, ghosts: bool = False, heat: bool = False
    ) -> Matrix:
        lines = _lines(
            start + name,
            getattr(steps, name),
            getattr(before, name),
            marks,
            allowed=steps.mask,
            ghosts=ghosts,
            heat=heat,
        )
        role = "weight" if heat else ""
        return Matrix(start + name, role, Markup(symbol), Markup(caption), keys, lines)

    def with_column(matrix: Matrix, name: str, title: str) -> Matrix:
        _append(matrix.lines, start + name, getattr(steps, name), getattr(before, name), marks)
        return matrix._replace(columns=(*matrix.columns, Markup(title)))

    root = f"√{d_k}"
    return Head(
        number=index + 1,
        Q=projected("Q", "Queries", "query"),
        K=projected("K", "Keys", "key"),
        V=projected("V", "Values", "value"),
        scores=square("scores", "", "Scores <i>QK</i>ᵀ", ghosts=True),
        scaled_scores=square(
            "scaled_scores",
            "",
            f"Scaled scores <i>QK</i>ᵀ/{root}" if now.scaled else "Scores, not divided",
            ghosts=True,
        ),
        masked_scores=with_column(
            square("masked_scores", "", "Masked scores"), "row_max", "largest"
        ),
        shifted=square("shifted", "", "Minus the row’s largest"),
        exponentials=with_column(square("exponentials", "", "Exponentials"), "denominator", "sum"),
        weights=square("weights", "<i>A</i>", "Weights: each row sums to 1", heat=True),
        mixed=_mixed(now, marks, index),
        output=Matrix(
            start + "output",
            "",
            Markup("<i>AV</i>"),
            Markup(f"Output of head {index + 1}"),
            _columns("o", steps.V.shape[1]),
            _lines(start + "output", steps.output, before.output, marks),
        ),
    )


def draw_inputs(now: Calculation, then: Calculation, marks: Marks) -> Matrix:
    """The inputs, to be looked at."""
    columns = _columns("x", now.X.shape[1])
    lines = _lines("X", now.X, then.X, marks)
    return Matrix("X", "", Markup("<i>X</i>"), Markup("Inputs"), columns, lines)


def draw_sublayer(now: Calculation, then: Calculation, marks: Marks) -> Sublayer:
    """Everything after the heads."""
    numbers = tuple(Markup(str(place)) for place in range(1, now.X.shape[1] + 1))
    joined = tuple(
        Markup(f"h{head}<sub>{place}</sub>")
        for head, steps in enumerate(now.heads, start=1)
        for place in range(1, steps.V.shape[1] + 1)
    )

    def plain(name: str, symbol: str, caption: str, columns: tuple[Markup, ...]) -> Matrix:
        lines = _lines(name, getattr(now, name), getattr(then, name), marks)
        return Matrix(name, "", Markup(symbol), Markup(caption), columns, lines)

    residual = plain("residual_sum", "", "Residual sum <i>X</i> + <i>Y</i>", numbers)
    statistics = [_line(i, [], marks) for i in range(len(now.X))]
    for name in ("mean", "variance"):
        _append(statistics, name, getattr(now, name), getattr(then, name), marks)
    rows = _lines("W_O", now.W_O.W_O, then.W_O.W_O, marks._replace(selected=0))
    return Sublayer(
        concat=plain("concat", "<i>O</i>", "Concatenation of the heads", joined),
        W_O=Matrix(
            "W_O",
            "",
            Markup("<i>W</i><sup>O</sup>"),
            Markup("Output projection"),
            numbers,
            [line._replace(label=label) for line, label in zip(rows, joined, strict=True)],
        ),
        output=plain("output", "<i>Y</i>", "After the output projection", numbers),
        residual_sum=residual,
        statistics=Matrix(
            "statistics",
            "",
            Markup(""),
            Markup("Over the coordinates"),
            (Markup("mean"), Markup("variance")),
            statistics,
        ),
        layer_norm=plain("layer_norm", "", "LayerNorm", numbers),
    )


def _mixed(now: Calculation, marks: Marks, index: int) -> Matrix:
    """What the selected position mixes: each allowed key's weight beside its value."""
    steps, start = now.heads[index], f"head{index + 1}."
    i = marks.selected
    lines = []
    for j, (weight, value) in enumerate(
        zip(steps.weights[i - 1].tolist(), steps.V.tolist(), strict=True), start=1
    ):
        address = f"{start}weights.{i}.{j}"
        if steps.mask[i - 1, j - 1]:
            heat = f"heat-{round(weight * HEAT_STEPS)}"
            cells = [_cell(address, [heat], short(weight), marks)]
            cells += [
                _cell(f"{start}V.{j}.{place}", [], short(number), marks)
                for place, number in enumerate(value, start=1)
            ]
        else:
            cells = [_cell(address, ["blocked"], BLOCKED, marks)]
            cells += [
                _cell(f"{start}V.{j}.{place}", ["ghost"], short(number), marks)
                for place, number in enumerate(value, start=1)
            ]
        lines.append(Line("", Markup(f"key {j}"), cells))
    return Matrix(
        f"{start}mixed",
        "value",
        Markup(""),
        Markup(f"Position {i} mixes these values"),
        (Markup("weight"), *_columns("v", steps.V.shape[1])),
        lines,
    )


@cache
def _columns(letter: str, count: int) -> tuple[Markup, ...]:
    return tuple(Markup(f"{letter}<sub>{place}</sub>") for place in range(1, count + 1))


def _lines(
    name: str,
    now: Floats,
    then: Floats,
    marks: Marks,
    *,
    allowed: Booleans | None = None,
    ghosts: bool = False,
    heat: bool = False,
) -> list[Line]:
    """The rows of a matrix. Where `allowed` is False a cell says "blocked", or with `ghosts` shows
    its number faintly, because it is calculated and then thrown away.
    """
    lines = []
    values, before = now.tolist(), then.tolist()
    open_ = allowed.tolist() if allowed is not None else None
    for i, row in enumerate(values):
        cells = []
        for j, value in enumerate(row):
            address = f"{name}.{i + 1}.{j + 1}"
            classes = []
            text = ""
            if open_ is not None and not open_[i][j]:
                classes.append("ghost" if ghosts else "blocked")
                text = short(value) if ghosts else BLOCKED
            else:
                text = short(value)
                if heat:
                    classes.append(f"heat-{round(value * HEAT_STEPS)}")
            if value != before[i][j]:
                classes.append("changed")
            cells.append(_cell(address, classes, text, marks))
        lines.append(_line(i, cells, marks))
    return lines


def _append(lines: list[Line], name: str, now: Floats, then: Floats, marks: Marks) -> None:
    """Adds a column of one number a row."""
    for i, (value, before) in enumerate(zip(now.tolist(), then.tolist(), strict=True)):
        classes = ["apart", "changed"] if value != before else ["apart"]
        lines[i].cells.append(_cell(f"{name}.{i + 1}", classes, short(value), marks))


def _cell(address: str, classes: list[str], text: str, marks: Marks) -> Cell:
    if marks.shown:
        if address == marks.shown:
            classes.append("shown")
        role = marks.operands.get(address)
        if role is not None:
            classes.append(f"operand of-{role}" if role else "operand")
    return address, f' class="{" ".join(classes)}"' if classes else "", text


def _line(i: int, cells: list[Cell], marks: Marks) -> Line:
    attributes = _SELECTED if i + 1 == marks.selected else ""
    return Line(attributes, _POSITION[i] if i < len(_POSITION) else _position(i), cells)


def _position(i: int) -> Markup:
    return Markup(f'<span class="visually-hidden">position </span>{i + 1}')


_POSITION: Final = tuple(map(_position, range(12)))


def reads(example: WorkedExample, index: int) -> str:
    """What head `index` (from 0) takes as queries, keys and values, in words."""
    picked = [selects(W[index]) for W in (example.W_Q, example.W_K, example.W_V)]
    if None in picked:
        return f"Head {index + 1} multiplies the inputs by its own three matrices."
    queries, keys, values = (_span(places) for places in picked if places is not None)
    first = (
        f"{queries} as queries and keys"
        if queries == keys
        else f"{queries} as queries, {keys} as keys"
    )
    return f"Head {index + 1} reads coordinates {first}, {values} as values."


def _span(places: tuple[int, ...]) -> str:
    run = len(places) > 1 and places == tuple(range(places[0], places[-1] + 1))
    return f"{places[0]}–{places[-1]}" if run else ", ".join(map(str, places))


def selects(W: Floats) -> tuple[int, ...] | None:
    """Which coordinates (from 1) a projection picks, or None where it does more than picking.

    >>> selects(np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    (3, 4)
    """
    if not bool(np.isin(W, (0.0, 1.0)).all() and (W.sum(axis=0) == 1).all()):
        return None
    return tuple(int(place) + 1 for place in W.argmax(axis=0))
