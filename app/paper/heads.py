"""Multi-head attention, section 3.2.2.

head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i);  MultiHead(Q, K, V) = Concat(head_1, …, head_h)
W_O
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from app.paper.arrays import Floats, booleans, floats
from app.paper.attention import AttentionSteps, attention
from app.paper.errors import ShapeError


@dataclass(frozen=True, slots=True)
class MultiHeadSteps:
    """Multi-head attention from its projections to its output; leading dimensions are left out."""

    stacked: AttentionSteps
    """The heads' steps together, with a dimension h before each shape, e.g. weights (h, n, m)."""
    heads: tuple[AttentionSteps, ...]
    """The same, head by head; empty where there are leading batch dimensions."""
    concat: Floats
    """The heads' outputs side by side, (n, h·d_v), head 1 first."""
    output: Floats
    """concat · W_O, (n, d_model)."""


def multi_head(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    W_V: ArrayLike,
    W_O: ArrayLike,
    mask: ArrayLike | None = None,
    scaled: bool = True,
) -> MultiHeadSteps:
    """Multi-head attention, section 3.2.2; self-attention where q, k and v are the same X.

    q (…, n, d_model), k and v (…, m, d_model), W_Q and W_K (h, d_model, d_k), W_V (h, d_model,
    d_v), W_O (h·d_v, d_model), mask (…, n, m) with True = may attend, the same for every head.
    Raises ShapeError where these do not fit each other.

    >>> eye = [[[1.0, 0.0], [0.0, 1.0]]]
    >>> multi_head([[1, 2]], [[1, 2]], [[1, 2]], eye, eye, eye, eye[0]).output
    array([[1., 2.]])
    """
    Q, K, V = (
        _project(floats(x, name, dimensions=2), floats(W, f"W_{name.upper()}", dimensions=3), name)
        for x, W, name in ((q, W_Q, "q"), (k, W_K, "k"), (v, W_V, "v"))
    )
    if not Q.shape[-3] == K.shape[-3] == V.shape[-3]:
        counts = Q.shape[-3], K.shape[-3], V.shape[-3]
        raise ShapeError(f"W_Q, W_K, W_V: expected as many heads in each, got {counts}")
    if mask is not None:
        mask = booleans(mask, "mask")
        mask = mask[..., None, :, :] if mask.ndim >= 2 else mask
    steps = attention(Q, K, V, mask, scaled)
    concat = join(steps.output)
    projection = floats(W_O, "W_O", dimensions=2)
    if projection.shape[0] != concat.shape[-1]:
        raise ShapeError(
            f"W_O: expected h·d_v = {concat.shape[-1]} rows, got the shape {projection.shape}"
        )
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        output: Floats = concat @ projection
    heads = tuple(map(steps.head, range(Q.shape[0]))) if Q.ndim == 3 else ()
    return MultiHeadSteps(steps, heads, concat, output)


def join(outputs: ArrayLike) -> Floats:
    """Concat: the heads' outputs (…, h, n, d_v) side by side, (…, n, h·d_v).

    >>> join([[[1.0], [2.0]], [[3.0], [4.0]]])
    array([[1., 3.],
           [2., 4.]])
    """
    array = floats(outputs, "outputs", dimensions=3)
    *leading, h, n, d_v = array.shape
    return array.swapaxes(-3, -2).reshape(*leading, n, h * d_v)


def _project(x: Floats, W: Floats, name: str) -> Floats:
    """Projections x · W for every head: (…, n, d_model) and (h, d_model, d) to (…, h, n, d)."""
    if x.shape[-1] != W.shape[-2]:
        raise ShapeError(
            f"W_{name.upper()}: expected d_model = {x.shape[-1]} rows, got the shape {W.shape}"
        )
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        projected: Floats = x[..., None, :, :] @ W
    return projected
