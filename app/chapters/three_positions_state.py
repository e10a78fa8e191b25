"""The state of the three-position chapter: what its URL may say, and how that is understood.

A row of cells is one field. A form sends it cell by cell (`x1=1&x1=0&x1=1&x1=0`), a link writes it
in one (`x1=1,0,1,0`); both mean the same. Whatever is refused becomes a `Problem` with a sentence,
and what was typed is kept so that the page can show it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from app.chapters import addresses
from app.chapters.calculation import Calculation, WorkedExample, calculate
from app.chapters.contract import Parsed, Problem
from app.chapters.worked_example import LARGEST, SMALLEST_EPSILON

Row = tuple[float, ...]

MASKS: Final = ("causal", "all")
GUESSES: Final = 5
NO_GUESSES: Final = ("",) * GUESSES
STEPS: Final = 10
_LONGEST: Final = 60  # characters of a typed value that are shown again

_NUMBER: Final = re.compile(
    r"[+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE
)
_ONE_NUMBER: Final = (
    "a number between −1,000,000 and 1,000,000, with a point for decimals, such as 0.5"
)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Everything that the chapter's URL holds."""

    example: str
    """The worked example's folder: whose weights, and whose inputs are the original ones."""
    x: tuple[Row, ...]
    """(n, d_model); `x1`, `x2` and so on in the URL."""
    w_o: str
    gamma: Row
    beta: Row
    epsilon: float
    position: int
    """The selected position, from 1."""
    mask: str = "causal"
    scaled: bool = True
    step: int = 1
    show: str = ""
    """The address of the number whose arithmetic is open, for example `head1.weights.3.2`."""
    guesses: tuple[str, ...] = NO_GUESSES
    """What the reader predicted, as typed; empty where nothing was."""
    reveal: int = 0
    """The question whose answer was asked for without a guess, from 1; 0 for none."""


class Language:
    """What a URL may say about one worked example."""

    def __init__(self, example: WorkedExample) -> None:
        """The example's own numbers are the defaults."""
        self.example = example
        self.default = Parameters(
            example=example.slug,
            x=tuple(map(_row, example.X.tolist())),
            w_o=example.output_projections[0].name,
            gamma=_row(example.gamma.tolist()),
            beta=_row(example.beta.tolist()),
            epsilon=example.epsilon,
            position=example.n,
        )
        self.rows = tuple(f"x{position}" for position in range(1, example.n + 1))
        self.projections = tuple(choice.name for choice in example.output_projections)
        self.texts: Mapping[str, str] = _as_text(self.default)
        """Every field in the canonical order, with its default as a query would write it."""
        self.sizes = (
            f"{_counted(example.n, 'position')}, {_counted(example.d_model, 'coordinate')}, "
            f"{_counted(example.h, 'head')}"
        ).capitalize()
        """In words, to begin a sentence."""
        self.original = self.calculate(self.default)
        self.addresses = frozenset(map(str, addresses.everything(self.original)))

    def calculate(self, parameters: Parameters) -> Calculation:
        """Every number, from the inputs to LayerNorm."""
        return calculate(
            self.example,
            parameters.x,
            "all" if parameters.mask == "all" else "causal",
            parameters.scaled,
            parameters.w_o,
            parameters.gamma,
            parameters.beta,
            parameters.epsilon,
        )


_COUNTS: Final = (
    *("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve"),
)


def _counted(count: int, thing: str) -> str:
    """So many, in words where that is usual.

    >>> _counted(3, "position"), _counted(1, "head"), _counted(16, "head")
    ('three positions', 'one head', '16 heads')
    """
    number = _COUNTS[count] if count < len(_COUNTS) else str(count)
    return f"{number} {thing}" if count == 1 else f"{number} {thing}s"


class Languages:
    """The worked examples that the chapter can show; the first is the one it is about."""

    def __init__(self, examples: Sequence[WorkedExample]) -> None:
        """At least one example."""
        self.by_slug = {example.slug: Language(example) for example in examples}
        self.first = examples[0].slug

    def of(self, parameters: Parameters) -> Language:
        """The language in which these parameters are written."""
        return self.by_slug[parameters.example]

    def default(self) -> Parameters:
        """The state of the empty query."""
        return self.by_slug[self.first].default

    def write(self, parameters: Parameters) -> str:
        """The canonical query: declared order, defaults left out; "" for the default state."""
        language = self.of(parameters)
        found = _as_text(parameters)
        if parameters.example == self.first:
            found.pop("example")
        return "&".join(
            f"{name}={quote(text, safe=',.-')}"
            for name, text in found.items()
            if name == "example" or text != language.texts[name]
        )

    def parse(self, query: Sequence[tuple[str, str]]) -> Parsed[Parameters]:
        """Understand decoded pairs; never raises.

        Of several values for a field that takes one, the last counts. If anything is refused, the
        numbers are those of the hidden field `valid` (the last accepted query), looked at as this
        query says: which position, which step, which number is open, what was predicted. Without
        that field, whatever is refused keeps its default.
        """
        reader = _Reader(query, self)
        parameters, typed = reader.parameters, reader.default_texts | reader.typed
        if reader.problems and (last := reader.last("valid")) is not None:
            try:
                pairs = parse_qsl(last[:4000], keep_blank_values=True, max_num_fields=100)
            except ValueError:
                pairs = []
            before = _Reader([pair for pair in pairs if pair[0] != "valid"], self)
            parameters = before.parameters
            typed = before.default_texts | before.typed
            if parameters.example == reader.parameters.example:
                parameters = replace(parameters, **reader.look())
                typed |= reader.typed
        return Parsed(parameters, tuple(reader.problems), typed)


@lru_cache(maxsize=4096)
def write_number(value: float) -> str:
    """The shortest text that reads back as the same number.

    >>> write_number(2.0), write_number(-0.5), write_number(1e-6)
    ('2', '-0.5', '0.000001')
    """
    text = repr(value)
    if text.endswith(".0"):
        return text[:-2]
    plain = f"{value:.7f}".rstrip("0")
    return plain if "e-" in text and float(plain) == value else text


def read_number(typed: str) -> float | None:
    """The number that was typed, or None if it is none or outside the accepted range.

    A plain decimal with a point: no thousands marks, no hexadecimal, no words such as `nan`, no
    digits from other scripts. The typographic minus that the page itself shows is accepted.

    >>> read_number(" −0.5 "), read_number("1e3"), read_number("1,5"), read_number("nan")
    (-0.5, 1000.0, None, None)
    """
    text = typed.strip().replace("\u2212", "-")
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text) + 0.0  # −0 becomes 0
    return value if -LARGEST <= value <= LARGEST else None


class _Reader:
    """One pass over a query; what is refused is in `problems` and keeps its default."""

    def __init__(self, query: Iterable[tuple[str, str]], languages: Languages) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in query:
            self._values.setdefault(name, []).append(value)
        self.problems: list[Problem] = []
        slug = self._values.get("example", [languages.first])[-1]
        if slug not in languages.by_slug:
            known = " or ".join(languages.by_slug)
            self._refuse("example", None, slug, f"The worked example can be {known}.")
            slug = languages.first
        self._language = languages.by_slug[slug]
        self._default = self._language.default
        self.typed: dict[str, tuple[str, ...]] = {}
        self.parameters = self._read()

    @property
    def default_texts(self) -> dict[str, tuple[str, ...]]:
        """Every field of the example with what stands in it when nothing was typed."""
        return {name: tuple(text.split(",")) for name, text in self._language.texts.items()}

    def look(self) -> dict[str, Any]:
        """How the query looks at the numbers: its accepted fields that change none of them."""
        found: dict[str, Any] = {}
        refused = {problem.field for problem in self.problems}
        for name in ("position", "step", "show", "reveal"):
            if name in self._values and name not in refused:
                found[name] = getattr(self.parameters, name)
        if any(name.startswith("guess") for name in self._values):
            found["guesses"] = self.parameters.guesses
        return found

    def last(self, name: str) -> str | None:
        """The last value of a field, or None."""
        return self._values[name][-1] if name in self._values else None

    def _read(self) -> Parameters:
        default = self._default
        return Parameters(
            example=default.example,
            x=tuple(
                self._row(name, f"Position {position}", default.x[position - 1])
                for position, name in enumerate(self._language.rows, start=1)
            ),
            mask=self._choice("mask", MASKS),
            scaled=self._choice("scaled", ("true", "false")) == "true",
            position=int(self._choice("position", _numbers(1, len(default.x)))),
            w_o=self._choice("w_o", self._language.projections),
            gamma=self._row("gamma", "γ", default.gamma),
            beta=self._row("beta", "β", default.beta),
            epsilon=self._epsilon(),
            step=int(self._choice("step", _numbers(1, STEPS))),
            show=self._show(),
            guesses=tuple(self._guess(f"guess{number}") for number in range(1, GUESSES + 1)),
            reveal=int(self._choice("reveal", _numbers(0, GUESSES))),
        )

    def _refuse(self, field: str, index: int | None, typed: str, message: str) -> None:
        self.problems.append(Problem(field, index, typed[:_LONGEST], message))

    def _row(self, field: str, name: str, default: Row) -> Row:
        values = self._values.get(field)
        if values is None:
            return default
        width = len(default)
        cells = values if len(values) > 1 or width == 1 else values[0].split(",")
        if len(cells) != width:
            given = f"{len(cells)} {'was' if len(cells) == 1 else 'were'} given"
            message = f"{name} takes {width} numbers, in a link with commas between them; {given}."
            self._refuse(field, None, ",".join(cells), message)
            return default
        self.typed[field] = tuple(cell.strip()[:_LONGEST] for cell in cells)
        numbers = tuple(map(read_number, cells))
        for index, (cell, number) in enumerate(zip(cells, numbers, strict=True)):
            if number is None:
                takes = "takes" if cell.strip() else "is empty; it takes"
                message = f"{name}, coordinate {index + 1} {takes} {_ONE_NUMBER}."
                self._refuse(field, index, cell, message)
        good = tuple(number for number in numbers if number is not None)
        return good if len(good) == width else default

    def _choice(self, field: str, choices: tuple[str, ...]) -> str:
        default = self._language.texts[field]
        value = self.last(field)
        if value is None:
            return default
        if value not in choices:
            few = len(choices) < 4
            names = " or ".join(choices) if few else f"{choices[0]} to {choices[-1]}"
            self._refuse(field, None, value, f"“{field}” can be {names}.")
            return default
        self.typed[field] = (value,)
        return value

    def _epsilon(self) -> float:
        value = self.last("epsilon")
        if value is None:
            return self._default.epsilon
        self.typed["epsilon"] = (value.strip()[:_LONGEST],)
        number = read_number(value)
        if number is None or not SMALLEST_EPSILON <= number <= 1:
            message = "ε takes a number from 1e-12 to 1: it keeps the root above zero."
            self._refuse("epsilon", None, value, message)
            return self._default.epsilon
        return number

    def _show(self) -> str:
        value = self.last("show") or ""
        if value and value not in self._language.addresses:
            message = "No number of this calculation has that address."
            self._refuse("show", None, value, message)
            return ""
        return value

    def _guess(self, field: str) -> str:
        value = (self.last(field) or "").strip()
        self.typed[field] = (value[:_LONGEST],)
        if value and read_number(value) is None:
            self._refuse(field, None, value, f"A prediction is {_ONE_NUMBER}.")
            return ""
        return value[:_LONGEST]


def _row(values: Iterable[float]) -> Row:
    return tuple(values)


def _numbers(first: int, last: int) -> tuple[str, ...]:
    return tuple(map(str, range(first, last + 1)))


def _as_text(parameters: Parameters) -> dict[str, str]:
    """Every field in the canonical order, as a query writes it."""
    texts = {"example": parameters.example}
    texts |= {f"x{place}": _joined(row) for place, row in enumerate(parameters.x, start=1)}
    texts |= {
        "mask": parameters.mask,
        "scaled": "true" if parameters.scaled else "false",
        "position": str(parameters.position),
        "w_o": parameters.w_o,
        "gamma": _joined(parameters.gamma),
        "beta": _joined(parameters.beta),
        "epsilon": write_number(parameters.epsilon),
        "step": str(parameters.step),
        "show": parameters.show,
    }
    texts |= {f"guess{number}": guess for number, guess in enumerate(parameters.guesses, start=1)}
    texts["reveal"] = str(parameters.reveal)
    return texts


def _joined(row: Row) -> str:
    return ",".join(map(write_number, row))
