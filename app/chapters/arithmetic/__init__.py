"""Where a number comes from: for every address, its formula with the operands that it had.

`explain` takes a calculation that has been made and reads it; nothing is calculated a second time.
An operand's address is where the reader finds the operand on the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from app.chapters import addresses, mathml, numbers
from app.chapters.addresses import UnknownAddress
from app.chapters.arithmetic import head, sublayer
from app.chapters.arithmetic.place import Kind, Place
from app.chapters.calculation import Calculation

_HEAD: Final[dict[str, Kind]] = {**sublayer.HEAD_WEIGHTS, **head.KINDS}

__all__ = ["Explanation", "UnknownAddress", "explain"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A number's arithmetic."""

    address: str
    title: str
    """What it is, in words."""
    mathml: Markup
    """A `math` element: formula, operands, result; the number alone for an input."""
    operands: tuple[str, ...]
    """The addresses of what went into it, each once, in the order of the formula."""
    value: float | None
    """None where there is no number: the place is blocked."""
    full: str
    """The value with every digit, to copy; empty where there is none."""
    notes: tuple[str, ...]
    """Sentences: what was done for numerical reasons, what is blocked and why."""


def explain(calculation: Calculation, address: str) -> Explanation:
    """The arithmetic of the number at `address`.

    Raises UnknownAddress, whose message says what an address looks like, where there is no such
    number.
    """
    parsed = addresses.parse(address, calculation)
    if len(parsed.indices) != addresses.array(calculation, parsed).ndim:
        raise UnknownAddress(
            "expected the address of one number, such as head1.weights.3.2 or mean.3"
        )
    place = Place(calculation, parsed)
    table = sublayer.KINDS if parsed.head is None else _HEAD
    arithmetic = table[parsed.name](place)
    value = None if arithmetic.blocked else place.value(parsed)
    lines = list(arithmetic.lines)
    if value is not None:
        exact = numbers.is_exact(value) and all(
            numbers.is_exact(place.value(operand)) for operand in arithmetic.operands
        )
        lines.append(("=" if exact else "≈", mathml.number(value)))
    return Explanation(
        address=str(parsed),
        title=arithmetic.title,
        mathml=mathml.steps(arithmetic.left, lines),
        operands=tuple(dict.fromkeys(map(str, arithmetic.operands))),
        value=value,
        full="" if value is None else numbers.full(value),
        notes=tuple(arithmetic.notes),
    )
