"""The answer to "what changed": the parts of a position against a reference, put into words."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from app.chapters import numbers
from app.paper.arrays import Floats

IDENTICAL = "identical to the last bit"
UNTOUCHED = "Nothing that it is calculated from was changed."
STILL = "What it reads changed, yet the numbers came out the same to the last bit."


@dataclass(frozen=True, slots=True)
class PartChange:
    """One row of numbers of one position: a head's output, or LayerNorm."""

    name: str
    """`Head 1`, `LayerNorm`."""
    identical: bool
    """Bit by bit."""
    largest: float
    """The largest difference of a coordinate; 0 where identical, infinite where one is
    undefined."""
    address: str
    """Where the largest difference is; empty where identical."""
    words: str
    """`identical to the last bit`, or `changed by up to 0.123`."""
    reason: str
    """Sentences."""


@dataclass(frozen=True, slots=True)
class PositionChange:
    """One position's head outputs and LayerNorm row against the reference."""

    position: int
    """From 1."""
    identical: bool
    """All head outputs and the LayerNorm row, bit by bit."""
    largest: float
    """The largest difference of the LayerNorm row, or of the head outputs where that row is the
    same."""
    headline: str
    """`Position 2: identical to the last bit`."""
    reason: str
    heads: tuple[PartChange, ...]
    layer_norm: PartChange


@dataclass(frozen=True, slots=True)
class WhatChanged:
    """The comparison as a whole."""

    differences: tuple[str, ...]
    """What differs between the two states, a sentence each; empty for the same state."""
    positions: tuple[PositionChange, ...]


@dataclass(frozen=True, slots=True)
class Effect:
    """One difference between the states as one part of one position meets it."""

    reaches: bool
    """Whether it is among what the part is calculated from."""
    sentence: str


def identical(name: str, effects: list[Effect], still: str) -> PartChange:
    """A row of numbers that is the same bit by bit; `still` where something that it reads is
    not.
    """
    if any(effect.reaches for effect in effects):
        reason = still
    else:
        reason = " ".join(effect.sentence for effect in effects) or UNTOUCHED
    return PartChange(name, True, 0.0, "", IDENTICAL, reason)


def changed(
    name: str, before: Floats, after: Floats, address: str, effects: list[Effect]
) -> PartChange:
    """A row of numbers that is not the same, with the differences that reach it."""
    pairs = zip(before.tolist(), after.tolist(), strict=True)
    sizes = [abs(new - old) for old, new in pairs]
    sizes = [math.inf if math.isnan(size) else size for size in sizes]
    largest = max(sizes)
    place = sizes.index(largest)
    reason = " ".join(effect.sentence for effect in effects if effect.reaches)
    return PartChange(name, False, largest, f"{address}.{place + 1}", _size(largest), reason)


def position(
    position: int, heads: tuple[PartChange, ...], layer_norm: PartChange
) -> PositionChange:
    """The parts of one position, summed up."""
    same_heads = all(head.identical for head in heads)
    largest = max(part.largest for part in (*heads, layer_norm))
    reason = layer_norm.reason
    words = _size(largest)
    if same_heads:
        words = IDENTICAL if layer_norm.identical else f"heads identical, LayerNorm {words}"
    elif layer_norm.identical:
        words = f"heads {words}, LayerNorm {IDENTICAL}"
        reason = "What the heads give is different, but comes to the same after them."
    return PositionChange(
        position=position,
        identical=same_heads and layer_norm.identical,
        largest=largest,
        headline=f"Position {position}: {words}",
        reason=reason,
        heads=heads,
        layer_norm=layer_norm,
    )


def same(a: Floats, b: Floats) -> bool:
    """Whether two arrays of the same shape are the same bit by bit."""
    return a.tobytes() == b.tobytes()


def same_rows(a: Floats, b: Floats) -> list[bool]:
    """Whether each row is the same bit by bit; NaN equals itself here, and 0 differs from −0."""
    bits = np.ascontiguousarray(a).view(np.uint64) == np.ascontiguousarray(b).view(np.uint64)
    rows: list[bool] = np.logical_and.reduce(bits, axis=-1).tolist()
    return rows


def _size(largest: float) -> str:
    if largest == 0:
        return "changed in the sign of a zero"
    if math.isinf(largest):
        return "changed to or from something that is no number"
    return f"changed by up to {numbers.short(largest)}"
