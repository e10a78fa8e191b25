"""Sinusoidal positions, section 3.5.

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model));  PE(pos, 2i + 1) = cos(pos / 10000^(2i /
    d_model))

pos and i count from 0 here, as in the paper; a page's position 1 is pos = 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from app.paper.arrays import Floats, floats
from app.paper.errors import RangeError

BASE = 10_000.0
"""The paper's constant: wavelengths run from 2π to 10000 · 2π."""


def frequencies(d_model: int) -> Floats:
    """The angle that one position adds to each sine/cosine pair, in radians, (⌈d_model / 2⌉,).

    Raises RangeError for d_model below 1.

    >>> frequencies(4)
    array([1.  , 0.01])
    """
    if d_model < 1:
        raise RangeError(f"d_model: expected at least 1, got {d_model}")
    return np.power(BASE, -np.arange(0, d_model, 2, dtype=np.float64) / d_model)


def wavelengths(d_model: int) -> Floats:
    """After how many positions each pair has turned once, 2π / frequency, (⌈d_model / 2⌉,).

    >>> wavelengths(4).round(3)
    array([  6.283, 628.319])
    """
    return 2.0 * math.pi / frequencies(d_model)


def encoding(pos: ArrayLike, d_model: int) -> Floats:
    """The position vectors of `pos` (…,) counted from 0, interleaved sine, cosine, (…, d_model).

    An odd d_model ends with a sine that has no cosine. Raises RangeError for d_model below 1.

    >>> encoding(1, 4).round(6)
    array([0.841471, 0.540302, 0.01    , 0.99995 ])
    """
    angles = floats(pos, "pos")[..., None] * frequencies(d_model)
    vectors: Floats = np.empty((*angles.shape[:-1], d_model), dtype=np.float64)
    vectors[..., 0::2] = np.sin(angles)
    vectors[..., 1::2] = np.cos(angles)[..., : d_model // 2]
    return vectors


def table(n: int, d_model: int) -> Floats:
    """The first n position vectors, (n, d_model), for pos = 0 … n − 1.

    Raises RangeError for a negative n.
    """
    if n < 0:
        raise RangeError(f"n: expected 0 or more positions, got {n}")
    return encoding(np.arange(n), d_model)


def rotation(offset: float, d_model: int) -> Floats:
    """The matrix R, (d_model, d_model), with R · PE(pos) = PE(pos + offset) for every pos.

    It turns each pair by offset times its frequency, which is why the paper hopes that relative
    positions are easy to learn. Raises RangeError for an odd d_model: its last sine has no cosine
    to turn with.

    >>> bool(np.allclose(rotation(3, 6) @ encoding(4, 6), encoding(7, 6)))
    True
    """
    if d_model % 2:
        raise RangeError(
            f"d_model: expected an even number, since a rotation turns pairs, got {d_model}"
        )
    angles = offset * frequencies(d_model)
    matrix: Floats = np.zeros((d_model, d_model), dtype=np.float64)
    even = np.arange(0, d_model, 2)
    matrix[even, even] = matrix[even + 1, even + 1] = np.cos(angles)
    matrix[even, even + 1] = np.sin(angles)
    matrix[even + 1, even] = -np.sin(angles)
    return matrix
