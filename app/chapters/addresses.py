"""The address of every number of a calculation: `head1.weights.3.2`, `mean.3`, `epsilon`.

A matrix's name, then row and column, counted from 1; before it the head, where each head has its
own. The name is the name of the field in `AttentionSteps`, `Calculation` or `WorkedExample`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from app.chapters.calculation import Calculation
from app.paper.arrays import Floats

HEAD_MATRICES: Final = (
    *("W_Q", "W_K", "W_V", "Q", "K", "V", "scores", "scaled_scores", "masked_scores", "row_max"),
    *("shifted", "exponentials", "denominator", "weights", "output"),
)
"""What each head has, in the order of the calculation."""

MATRICES: Final = (
    *("X", "W_O", "gamma", "beta", "epsilon"),
    *("concat", "output", "residual_sum", "mean", "variance", "layer_norm"),
)
"""What the sublayer has once."""

_PATTERN: Final = re.compile(
    r"(?:head([1-9][0-9]{0,2})\.)?([A-Za-z_]{1,20})((?:\.[1-9][0-9]{0,3}){0,2})"
)


class UnknownAddress(ValueError):
    """An address that names no number of this calculation; the message says what it would take."""


@dataclass(frozen=True, slots=True)
class Address:
    """A number's place; `head` and `indices` count from 1."""

    head: int | None
    name: str
    indices: tuple[int, ...]

    def __str__(self) -> str:
        start = f"head{self.head}." if self.head else ""
        return start + ".".join((self.name, *map(str, self.indices)))


def parse(text: str, calculation: Calculation) -> Address:
    """The address in `text`, which may also name a whole row or matrix of the calculation.

    Raises UnknownAddress where the calculation has no such number.
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise UnknownAddress(
            "expected an address such as head1.weights.3.2, mean.3 or X.1.4: "
            "a matrix, then row and column counted from 1"
        )
    head = int(match[1]) if match[1] else None
    address = Address(head, match[2], tuple(map(int, match[3].split(".")[1:])))
    shape = array(calculation, address).shape
    if len(address.indices) > len(shape) or any(
        index > size for index, size in zip(address.indices, shape, strict=False)
    ):
        size = " by ".join(map(str, shape)) if shape else "a single number"
        raise UnknownAddress(f"expected a place within {address.name}, which is {size}")
    return address


def array(calculation: Calculation, address: Address) -> Floats:
    """The whole matrix that the address lies in; raises UnknownAddress where there is none."""
    name = address.name
    if address.head is None:
        if name not in MATRICES:
            known = ", ".join(MATRICES)
            raise UnknownAddress(f"expected one of {known}, or head1. and so on before it")
        if name == "W_O":
            return calculation.W_O.W_O
        return np.asarray(getattr(calculation, name))
    if address.head > len(calculation.heads):
        raise UnknownAddress(f"expected a head from 1 to {len(calculation.heads)}")
    if name not in HEAD_MATRICES:
        raise UnknownAddress(f"expected one of {', '.join(HEAD_MATRICES)} in a head")
    if name.startswith("W_"):
        weights: Floats = getattr(calculation.example, name)[address.head - 1]
        return weights
    return np.asarray(getattr(calculation.heads[address.head - 1], name))


def numbers(calculation: Calculation, address: Address) -> Floats:
    """The number, row or matrix at the address."""
    found: Floats = array(calculation, address)[tuple(index - 1 for index in address.indices)]
    return found


def everything(calculation: Calculation) -> Iterator[Address]:
    """Every number's address, in the order of the calculation."""
    matrices: list[tuple[int | None, str]] = [(None, "X")]
    for head in range(1, len(calculation.heads) + 1):
        matrices += [(head, name) for name in HEAD_MATRICES]
    matrices += [(None, name) for name in MATRICES if name != "X"]
    for head_or_none, name in matrices:
        shape = array(calculation, Address(head_or_none, name, ())).shape
        for indices in product(*(range(1, size + 1) for size in shape)):
            yield Address(head_or_none, name, indices)


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
    name = parts[0] if parts[0].startswith("W_") else parts[0].replace("_", " ")
    return f"{head}{name} {', '.join(parts[1:])}".strip()
