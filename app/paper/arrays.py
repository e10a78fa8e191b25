"""The two ways arrays enter this package: as numbers in float64, and as boolean masks."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.paper.errors import PaperError, ShapeError

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


def floats(value: ArrayLike, name: str, *, dimensions: int = 0) -> Floats:
    """`value` as a float64 array of at least `dimensions` dimensions; `name` is for the error.

    Raises PaperError where it holds something else than numbers, ShapeError where it is too flat.

    >>> floats([[1, 2]], "X", dimensions=2)
    array([[1., 2.]])
    """
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise PaperError(f"{name}: expected numbers in rows of equal length ({error})") from error
    if array.ndim < dimensions:
        raise ShapeError(
            f"{name}: expected at least {dimensions} dimensions, got the shape {array.shape}"
        )
    return array


def booleans(value: ArrayLike, name: str) -> Booleans:
    """`value` as a boolean array; numbers are refused, because additive masks mean the opposite.

    >>> booleans([[True, False]], "mask")
    array([[ True, False]])
    """
    array = np.asarray(value)
    if array.dtype != np.bool_:
        raise PaperError(
            f"{name}: expected booleans, True where a query may attend, got {array.dtype}"
        )
    return array
