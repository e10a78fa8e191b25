"""Who may attend to whom, section 3.2.3. Every mask is boolean, True = may attend.

Three uses, three masks: the encoder's self-attention hides padding, the decoder's self-attention
hides the future as well, and cross-attention hides the source's padding from every target position.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from app.paper.arrays import Booleans
from app.paper.errors import RangeError, ShapeError


def everything(n: int, m: int | None = None) -> Booleans:
    """(n, m), all True: each query may attend to each key. m is n where it is not given."""
    return np.ones(_size(n, n if m is None else m), dtype=np.bool_)


def causal(n: int) -> Booleans:
    """(n, n), True on and below the diagonal: position i may attend to 1 … i.

    Raises RangeError for a negative n.

    >>> causal(3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    return np.tri(*_size(n, n), dtype=np.bool_)


def padding(src: ArrayLike, pad_id: int) -> Booleans:
    """(…, 1, m) from source token ids (…, m): no query may attend to a padding key.

    The axis of length 1 broadcasts over any number of queries, so that the same mask serves the
    encoder's self-attention (m × m) and cross-attention (n × m). Raises ShapeError for a single
    number.

    >>> padding([[7, 8, 9, 0]], pad_id=0)
    array([[[ True,  True,  True, False]]])
    """
    ids = np.asarray(src)
    if ids.ndim < 1:
        raise ShapeError("src: expected a row of token ids, got a single number")
    allowed: Booleans = ids[..., None, :] != pad_id
    return allowed


def target(tgt: ArrayLike, pad_id: int) -> Booleans:
    """(…, n, n) from target token ids (…, n): neither the future nor padding.

    >>> target([5, 6, 0], pad_id=0).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 0]])
    """
    not_padding = padding(tgt, pad_id)
    allowed: Booleans = not_padding & causal(not_padding.shape[-1])
    return allowed


def cross(n: int, src: ArrayLike, pad_id: int) -> Booleans:
    """(…, n, m) for n target positions and source token ids (…, m): no triangle, padding hidden.

    >>> cross(2, [7, 8, 9, 0], pad_id=0).astype(int)
    array([[1, 1, 1, 0],
           [1, 1, 1, 0]])
    """
    allowed = padding(src, pad_id)
    return allowed & everything(n, allowed.shape[-1])


def _size(n: int, m: int) -> tuple[int, int]:
    if n < 0 or m < 0:
        raise RangeError(f"n: expected 0 or more positions, got {min(n, m)}")
    return n, m
