"""Files made from a state: its numbers, and its attention rows as a picture."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import resvg_py

from app.chapters import addresses
from app.chapters.calculation import Calculation
from app.chapters.three_positions_figure import whole
from app.paths import VENDOR

FONT = VENDOR / "dejavu-fonts-ttf" / "ttf" / "DejaVuSans.ttf"
PNG_ZOOM = 2


def as_json(numbers: dict[str, Any]) -> bytes:
    """The JSON contract, indented for reading."""
    return json.dumps(numbers, ensure_ascii=False, indent=2, allow_nan=False).encode() + b"\n"


def as_csv(now: Calculation) -> bytes:
    """Every number with its address, one a line, in full; `blocked` for a forbidden place."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(("address", "head", "matrix", "row", "column", "value"))
    for address in addresses.everything(now):
        value = float(addresses.numbers(now, address))
        row, column = (*address.indices, "", "")[:2]
        blocked = address.name in ("masked_scores", "shifted") and value == float("-inf")
        shown = "blocked" if blocked else repr(value)
        writer.writerow((address, address.head or "", address.name, row, column, shown))
    return text.getvalue().encode()


def states_as_csv(document: dict[str, Any]) -> bytes:
    """The 24 states of `states.json`, one number a line; rows and columns count from 1."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    keys = ("final_row", "mask", "scaled", "position")
    writer.writerow((*keys, "head", "matrix", "row", "column", "value"))
    for state in document["states"]:
        start = [str(state[key]).lower() for key in keys]
        groups: list[tuple[int | str, dict[str, Any]]] = [
            *enumerate(state["heads"], start=1),
            ("", {name: value for name, value in state.items() if name not in (*keys, "heads")}),
        ]
        for head, group in groups:
            for name, value in group.items():
                for row, column, number in _flat(value, state["position"]):
                    shown = "blocked" if number is None else repr(float(number))
                    writer.writerow((*start, head, name, row, column, shown))
    return text.getvalue().encode()


def _flat(value: Any, position: int) -> Iterator[tuple[int, int | str, float | None]]:
    """The numbers of a matrix, or of the row of a position, with their places."""
    if not isinstance(value, list):
        yield position, "", value
        return
    rows = value if isinstance(value[0], list) else [value]
    for row, numbers in enumerate(rows, start=1):
        for column, number in enumerate(numbers, start=1):
            yield row if rows is value else position, column, number


def as_svg(now: Calculation) -> bytes:
    """The attention rows, a picture that stands alone."""
    return whole(now).encode()


def as_png(now: Calculation) -> bytes:
    """The same, in pixels: twice the size in CSS pixels, with a font that travels with the app."""
    return resvg_py.svg_to_bytes(
        svg_string=whole(now),
        zoom=PNG_ZOOM,
        skip_system_fonts=True,
        font_files=[str(FONT)],
        font_family="DejaVu Sans",
        sans_serif_family="DejaVu Sans",
    )
