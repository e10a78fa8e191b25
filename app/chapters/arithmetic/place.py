"""What the explanations share: where a number stands, and the pieces that formulas are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from app.chapters import addresses, mathml, numbers
from app.chapters.addresses import Address
from app.chapters.calculation import Calculation
from app.chapters.mathml import Relation, Role
from app.paper.attention import AttentionSteps

Line = tuple[Relation, Markup]
"""A relation and what stands to its right."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """What one kind of number contributes to its explanation."""

    title: str
    left: Markup
    lines: Sequence[Line]
    operands: Sequence[Address]
    notes: Sequence[str] = ()
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """An address with what is needed to speak of it."""

    calculation: Calculation
    address: Address

    @property
    def i(self) -> int:
        """The row, from 1."""
        return self.address.indices[0]

    @property
    def j(self) -> int:
        """The column, from 1."""
        return self.address.indices[1]

    @property
    def head(self) -> AttentionSteps:
        """The head's steps."""
        return self.calculation.heads[(self.address.head or 1) - 1]

    @property
    def of_head(self) -> str:
        """The end of a title."""
        return f", head {self.address.head}"

    def here(self, name: str, *indices: int) -> Address:
        """Another number of the same head."""
        return Address(self.address.head, name, indices)

    def there(self, name: str, *indices: int) -> Address:
        """A number of the sublayer."""
        return Address(None, name, indices)

    def value(self, address: Address) -> float:
        """The number at an address."""
        return float(addresses.numbers(self.calculation, address))

    def allowed(self, i: int, j: int) -> bool:
        """Whether position i may attend to key j."""
        return bool(self.calculation.allowed[i - 1, j - 1])

    def allowed_keys(self, i: int) -> list[int]:
        """The keys that position i may attend to, from 1."""
        return [int(j) + 1 for j in np.flatnonzero(self.calculation.allowed[i - 1])]

    def why_blocked(self, i: int, j: int) -> str:
        """The reason for which key j is forbidden to position i."""
        if self.calculation.mask == "causal":
            return f"key {j} lies in position {i}'s future"
        return f"the mask forbids key {j} to position {i}"


Kind = Callable[[Place], Arithmetic]
"""How the arithmetic of one kind of number is told."""


def relation(values: Iterable[float]) -> Relation:
    """An equals sign where a formula shows all of each number, else the sign for about equal."""
    return "=" if all(map(numbers.is_exact, values)) else "≈"


def products(
    place: Place,
    pairs: Sequence[tuple[Address, Address]],
    roles: tuple[Role | None, Role | None] = (None, None),
) -> Line:
    """The line a × b + a × b + … with the numbers at the addresses."""
    values = [(place.value(a), place.value(b)) for a, b in pairs]
    terms = [
        mathml.row(
            mathml.number(a, roles[0], bracketed=k > 0),
            mathml.operator("×"),
            mathml.number(b, roles[1], bracketed=True),
        )
        for k, (a, b) in enumerate(values)
    ]
    return relation(value for pair in values for value in pair), mathml.total(terms)


def blocked(place: Place, title: str, left: Markup, right: Markup, *notes: str) -> Arithmetic:
    """A place that the mask forbids."""
    reason = f"Blocked: {place.why_blocked(place.i, place.j)}."
    return Arithmetic(title, left, [("=", right)], (), (reason, *notes), blocked=True)


def nothing(place: Place, title: str, left: Markup, *notes: str) -> Arithmetic:
    """A number of a row in which every key is forbidden."""
    note = f"Position {place.i} may attend to no key at all, so there is nothing to share out."
    line: Line = ("=", mathml.words("nothing allowed"))
    return Arithmetic(title, left, [line], (), (note, *notes), blocked=True)


def blocked_terms(place: Place, one: str, more: str) -> list[str]:
    """A note on the keys that are left out of a row's sum; none where no key is blocked."""
    n = place.calculation.example.n
    keys = [j for j in range(1, n + 1) if not place.allowed(place.i, j)]
    if not keys:
        return []
    which = listed([str(key) for key in keys])
    return [
        f"Key {which} is blocked and {one}."
        if len(keys) == 1
        else f"Keys {which} are blocked and {more}."
    ]


def picked(column: Sequence[float]) -> list[int]:
    """The rows, from 1, that a column of a matrix passes on or averages; none where it does
    neither.
    """
    rows = [k for k, entry in enumerate(column, start=1) if entry != 0]
    alike = bool(rows) and all(column[k - 1] * len(rows) == 1 for k in rows)
    return rows if alike else []


def picks(rows: Sequence[int], source: str) -> str:
    """What such a column does, in words."""
    if len(rows) == 1:
        return f"picks coordinate {rows[0]} of {source}"
    return f"averages coordinates {listed([str(row) for row in rows])} of {source}"


def listed(items: Sequence[str]) -> str:
    """The items with commas and a final "and".

    >>> listed(["1", "2", "4"])
    '1, 2 and 4'
    """
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def count(number: int, word: str) -> str:
    """A number with its noun.

    >>> count(1, "coordinate"), count(2, "coordinate")
    ('1 coordinate', '2 coordinates')
    """
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
