"""Reading `worked_examples/<slug>/example.toml`, whose format `worked_examples/README.md`
describes.

A file with a fault is refused whole, with the file, the key and the reason; the others are not
affected. Numbers that a file says must come out are recalculated when it is read, so that a slip of
the pen in a matrix is found before a reader finds it.
"""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from app.chapters import addresses
from app.chapters.calculation import (
    Calculation,
    Edit,
    OutputProjection,
    WorkedExample,
    calculate,
)
from app.paper.arrays import Floats
from app.paths import WORKED_EXAMPLES

__all__ = [
    "Calculation",
    "Library",
    "WorkedExample",
    "WorkedExampleError",
    "available",
    "calculate",
    "load",
]

LARGEST: Final = 1_000_000.0
"""Numbers lie between −1,000,000 and 1,000,000, in example files and in forms."""
SMALLEST_EPSILON: Final = 1e-12
"""ε lies between this and 1: it keeps the root above zero and is no part of the variance."""
MOST: Final = {"n": 12, "d_model": 16, "h": 8}
"""The largest sizes, so that every matrix still fits on a page."""
_log: Final = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")


class WorkedExampleError(ValueError):
    """A worked example that is refused."""

    def __init__(self, file: str, key: str, reason: str) -> None:
        super().__init__(f"{file}: {key}: {reason}" if key else f"{file}: {reason}")
        self.file = file
        """Folder and file name: `three_positions/example.toml`."""
        self.key = key
        """The key with its place, counted from 1: `heads.2.W_Q.1.3`; empty for the file as a
        whole."""
        self.reason = reason
        """What was expected and what was found."""


@dataclass(frozen=True, slots=True)
class Library:
    """What start-up found in a folder of worked examples."""

    examples: Mapping[str, WorkedExample]
    """By slug, in alphabetical order."""
    refused: tuple[WorkedExampleError, ...]
    """One error a refused folder; the log has them too."""


def available(folder: Path = WORKED_EXAMPLES) -> Library:
    """Every worked example in `folder`, each in a folder of its own.

    Never raises for a faulty one: its error is logged and in `refused`, and the others are there.
    """
    examples: dict[str, WorkedExample] = {}
    refused: list[WorkedExampleError] = []
    if not folder.is_dir():
        refused.append(WorkedExampleError(folder.name, "", "expected a folder of worked examples"))
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not path.is_dir() or path.name.startswith((".", "_")):
            continue
        try:
            examples[path.name] = load(path)
        except WorkedExampleError as error:
            refused.append(error)
    for refusal in refused:
        _log.error("worked example refused: %s", refusal)
    return Library(MappingProxyType(examples), tuple(refused))


def load(path: Path) -> WorkedExample:
    """The worked example in the folder `path`, or in the file itself; its slug is the folder's
    name.

    Raises WorkedExampleError with file, key and reason where anything in it is not as described.
    """
    file = path if path.suffix == ".toml" else path / "example.toml"
    shown = f"{file.parent.name}/{file.name}"
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise WorkedExampleError(shown, "", f"cannot be read ({reason})") from error
    except (ValueError, RecursionError) as error:  # bad syntax, bad UTF-8, a number of 5,000 digits
        raise WorkedExampleError(shown, "", f"is not valid TOML ({error})") from error
    return _Reader(shown).example(file.parent.name, content)


class _Reader:
    """Takes a parsed file apart; every method raises WorkedExampleError for its own key."""

    def __init__(self, file: str) -> None:
        self.file = file

    def refuse(self, key: str, reason: str) -> WorkedExampleError:
        return WorkedExampleError(self.file, key, reason)

    def example(self, slug: str, content: dict[str, Any]) -> WorkedExample:
        if not _NAME.fullmatch(slug):
            raise self.refuse(
                "", "expected a folder name of lower-case letters, digits, - and _, letter first"
            )
        self.keys(
            content,
            "",
            required=("format", "title", "X", "heads", "output_projections"),
            optional=("summary", "section", "gamma", "beta", "epsilon", "edits", "expected"),
        )
        if content["format"] != 1 or isinstance(content["format"], bool):
            raise self.refuse("format", f"expected 1, found {content['format']!r}")
        X = self.matrix(content["X"], "X")
        n, d_model = X.shape
        heads = self.tables(content, "heads", ("W_Q", "W_K", "W_V"))
        for name, size in (("n", n), ("d_model", d_model), ("h", len(heads))):
            if size > MOST[name]:
                key = "heads" if name == "h" else "X"
                raise self.refuse(key, f"expected {name} of at most {MOST[name]}, found {size}")
        W_Q, W_K, W_V = self.projections(heads, d_model)
        example = WorkedExample(
            slug=slug,
            title=self.text(content, "title"),
            summary=self.text(content, "summary"),
            section=self.text(content, "section"),
            X=X,
            W_Q=W_Q,
            W_K=W_K,
            W_V=W_V,
            output_projections=self.output_projections(content, len(heads) * W_V.shape[2], d_model),
            edits=self.edits(content, X),
            gamma=self.row(content.get("gamma", [1] * d_model), "gamma", d_model),
            beta=self.row(content.get("beta", [0] * d_model), "beta", d_model),
            epsilon=self.epsilon(content.get("epsilon", 1e-6)),
        )
        self.check(example, content)
        return example

    def projections(self, heads: list[dict[str, Any]], d_model: int) -> list[Floats]:
        """W_Q, W_K and W_V of all heads, each (h, d_model, d_k or d_v)."""
        stacks = []
        widths: dict[str, int] = {}
        for name, width in (("W_Q", "d_k"), ("W_K", "d_k"), ("W_V", "d_v")):
            matrices = []
            for place, head in enumerate(heads, start=1):
                key = f"heads.{place}.{name}"
                W = self.matrix(head[name], key, rows=d_model, columns=widths.get(width))
                widths.setdefault(width, W.shape[1])
                matrices.append(W)
            stacks.append(_locked(np.stack(matrices)))
        return stacks

    def output_projections(
        self, content: dict[str, Any], rows: int, d_model: int
    ) -> tuple[OutputProjection, ...]:
        choices: list[OutputProjection] = []
        keys = ("name", "title", "W_O")
        for place, table in enumerate(
            self.tables(content, "output_projections", keys, ("note",)), 1
        ):
            where = f"output_projections.{place}"
            W_O = self.matrix(table["W_O"], f"{where}.W_O", rows=rows, columns=d_model)
            choices.append(OutputProjection(*self.label(table, where, choices), W_O))
        return tuple(choices)

    def edits(self, content: dict[str, Any], X: Floats) -> tuple[Edit, ...]:
        edits: list[Edit] = []
        keys = ("name", "title", "rows")
        for place, table in enumerate(self.tables(content, "edits", keys, ("note",)), 1):
            where = f"edits.{place}"
            rows = table["rows"]
            if not isinstance(rows, dict) or not rows:
                raise self.refuse(f"{where}.rows", "expected a table such as { 3 = [2, -1, 1, 0] }")
            edited = X.copy()
            positions = []
            for position, numbers in rows.items():
                key = f"{where}.rows.{position}"
                if position not in map(str, range(1, len(X) + 1)):
                    raise self.refuse(key, f"expected a position from 1 to {len(X)}")
                edited[int(position) - 1] = self.row(numbers, key, X.shape[1])
                positions.append(int(position))
            label = self.label(table, where, edits)
            edits.append(Edit(*label, _locked(edited), tuple(sorted(positions))))
        return tuple(edits)

    def check(self, example: WorkedExample, content: dict[str, Any]) -> None:
        """Recalculates what the file says must come out."""
        optional = ("edit", "mask", "scaled", "W_O", "tolerance")
        for place, table in enumerate(self.tables(content, "expected", ("values",), optional), 1):
            where = f"expected.{place}"
            names = {"edit": [edit.name for edit in example.edits], "mask": ["causal", "all"]}
            names["W_O"] = [choice.name for choice in example.output_projections]
            for key, accepted in names.items():
                if key in table and table[key] not in accepted:
                    some = ", ".join(accepted) or "no name, as there are none"
                    raise self.refuse(f"{where}.{key}", f"expected {some}; found {table[key]!r}")
            scaled = table.get("scaled", True)
            if not isinstance(scaled, bool):
                raise self.refuse(f"{where}.scaled", f"expected true or false, found {scaled!r}")
            tolerance = self.number(table.get("tolerance", 1e-6), f"{where}.tolerance")
            values = table["values"]
            if not isinstance(values, dict):
                raise self.refuse(f"{where}.values", "expected a table of addresses and numbers")
            X = example.edit(table["edit"]).X if "edit" in table else example.X
            calculation = calculate(
                example, X, table.get("mask", "causal"), scaled, table.get("W_O")
            )
            for address, expected in values.items():
                self.compare(calculation, address, expected, tolerance, f"{where}.values.{address}")

    def compare(
        self, calculation: Calculation, text: str, expected: object, tolerance: float, key: str
    ) -> None:
        try:
            found = addresses.numbers(calculation, addresses.parse(text, calculation))
        except addresses.UnknownAddress as error:
            raise self.refuse(key, str(error)) from error
        if found.ndim == 2:
            wanted = self.matrix(expected, key)
        elif found.ndim == 1:
            wanted = self.row(expected, key, len(found))
        else:
            wanted = np.asarray(self.number(expected, key))
        if wanted.shape != found.shape:
            raise self.refuse(key, f"expected {found.shape[0]} rows of {found.shape[1]} numbers")
        if not bool((np.abs(found - wanted) <= tolerance).all()):
            raise self.refuse(
                key, f"the calculation gives {found.tolist()}, the file says {wanted.tolist()}"
            )

    def keys(
        self,
        table: dict[str, Any],
        where: str,
        required: tuple[str, ...],
        optional: tuple[str, ...],
    ) -> None:
        start = f"{where}." if where else ""
        for name in required:
            if name not in table:
                raise self.refuse(start + name, "is missing")
        for name in table:
            if name not in required + optional:
                known = ", ".join(required + optional)
                raise self.refuse(start + name, f"is not known here; expected {known}")

    def tables(
        self,
        content: dict[str, Any],
        name: str,
        required: tuple[str, ...],
        optional: tuple[str, ...] = (),
    ) -> list[dict[str, Any]]:
        """The tables under [[name]], at least one where the key is there at all."""
        tables = content.get(name, [])
        if not isinstance(tables, list) or (name in content and not tables):
            raise self.refuse(name, f"expected one or more tables that start with [[{name}]]")
        for place, table in enumerate(tables, start=1):
            if not isinstance(table, dict):
                raise self.refuse(f"{name}.{place}", f"expected a table, found {table!r}")
            self.keys(table, f"{name}.{place}", required, optional)
        return tables

    def label(self, table: dict[str, Any], where: str, others: list[Any]) -> tuple[str, str, str]:
        """Name, title and note of a choice; the name is new among the `others`."""
        name = self.text(table, "name", where)
        if not _NAME.fullmatch(name):
            raise self.refuse(
                f"{where}.name", f"expected lower-case letters, digits, - and _, found {name!r}"
            )
        if any(name == other.name for other in others):
            raise self.refuse(f"{where}.name", f"{name!r} is used twice")
        return name, self.text(table, "title", where), self.text(table, "note", where)

    def text(self, table: dict[str, Any], name: str, where: str = "") -> str:
        value = table.get(name, "")
        if not isinstance(value, str) or (name in table and not value.strip()):
            key = f"{where}.{name}" if where else name
            raise self.refuse(key, f"expected some text, found {value!r}")
        return value.strip()

    def number(self, value: object, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(key, f"expected a number, found {value!r}")
        if not abs(value) <= LARGEST:  # also catches NaN
            raise self.refuse(key, f"expected a number from −1,000,000 to 1,000,000, found {value}")
        return float(value) + 0.0

    def epsilon(self, value: object) -> float:
        epsilon = self.number(value, "epsilon")
        if not SMALLEST_EPSILON <= epsilon <= 1:
            raise self.refuse("epsilon", f"expected a number from 1e-12 to 1, found {value}")
        return epsilon

    def row(self, value: object, key: str, length: int | None = None) -> Floats:
        if not isinstance(value, list) or not value:
            raise self.refuse(key, f"expected a row of numbers, found {value!r}")
        if length is not None and len(value) != length:
            raise self.refuse(key, f"expected {length} numbers, found {len(value)}")
        return _locked(
            np.array([self.number(cell, f"{key}.{place}") for place, cell in enumerate(value, 1)])
        )

    def matrix(
        self, value: object, key: str, rows: int | None = None, columns: int | None = None
    ) -> Floats:
        if not isinstance(value, list) or not value or not isinstance(value[0], list):
            raise self.refuse(key, f"expected rows of numbers, found {value!r}")
        if rows is not None and len(value) != rows:
            raise self.refuse(key, f"expected {rows} rows, found {len(value)}")
        width = len(value[0]) if columns is None else columns
        return _locked(
            np.stack([self.row(row, f"{key}.{place}", width) for place, row in enumerate(value, 1)])
        )


def _locked(array: Floats) -> Floats:
    array.setflags(write=False)
    return array
