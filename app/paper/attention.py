"""Scaled dot-product attention, section 3.2.1, equation 1, with every intermediate named.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V

The mask is exact, not a large negative number: a forbidden key has no term in any sum. Whatever
stands in a forbidden position (a different number, an infinity, NaN) therefore cannot change a row,
not even in its last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from app.paper.arrays import Booleans, Floats, booleans, floats
from app.paper.errors import ShapeError


@dataclass(frozen=True, slots=True)
class AttentionSteps:
    """One attention calculation from its projections to its output; n queries, m keys.

    Leading dimensions (batch, heads) are the same in all fields and left out in the shapes below.
    """

    Q: Floats
    """Queries, (n, d_k)."""
    K: Floats
    """Keys, (m, d_k)."""
    V: Floats
    """Values, (m, d_v)."""
    mask: Booleans
    """(n, m), True where the query may attend to the key."""
    scaled: bool
    """Whether the scores were divided by √d_k."""
    scores: Floats
    """Q Kᵀ, (n, m): computed for every pair, the forbidden ones too."""
    scaled_scores: Floats
    """scores / √d_k, (n, m); equal to scores where `scaled` is false."""
    masked_scores: Floats
    """scaled_scores with −∞ in forbidden places, (n, m)."""
    row_max: Floats
    """The largest masked score of each row, (n,); −∞ where nothing is allowed."""
    shifted: Floats
    """masked_scores − row_max, (n, m): at most 0, so that the exponential cannot overflow."""
    exponentials: Floats
    """e to the shifted scores, (n, m); exactly 0 in forbidden places."""
    denominator: Floats
    """The sum of a row's exponentials, (n,); 0 where nothing is allowed."""
    weights: Floats
    """exponentials / denominator, (n, m): rows sum to 1, forbidden places are exactly 0."""
    output: Floats
    """weights · V over the allowed keys, (n, d_v)."""
    nothing_allowed: Booleans
    """(n,), True for a row with every key forbidden: softmax is undefined there, and its weights
    and output are zeros that stand for "no answer", not for an average."""

    def head(self, index: int) -> AttentionSteps:
        """The steps of one entry of the leading dimension, head `index` counted from 0."""
        return AttentionSteps(
            self.Q[index],
            self.K[index],
            self.V[index],
            self.mask[index],
            self.scaled,
            self.scores[index],
            self.scaled_scores[index],
            self.masked_scores[index],
            self.row_max[index],
            self.shifted[index],
            self.exponentials[index],
            self.denominator[index],
            self.weights[index],
            self.output[index],
            self.nothing_allowed[index],
        )


def attention(
    q: ArrayLike, k: ArrayLike, v: ArrayLike, mask: ArrayLike | None = None, scaled: bool = True
) -> AttentionSteps:
    """Attention of the queries q (…, n, d_k) to keys k (…, m, d_k) and values v (…, m, d_v).

    `mask` is boolean, broadcastable to (…, n, m), True = may attend; None allows everything. With
    `scaled` the scores are divided by √d_k. Section 3.2.1, equation 1. NaN or infinity in an
    allowed place makes its own row NaN and no other. Raises ShapeError where the shapes do not fit
    and PaperError for a mask that is not boolean.

    >>> steps = attention([[0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [3.0]], scaled=False)
    >>> steps.weights.round(6), steps.output.round(6)
    (array([[0.268941, 0.731059]]), array([[2.462117]]))
    """
    Q, K, V = (
        floats(q, "q", dimensions=2),
        floats(k, "k", dimensions=2),
        floats(v, "v", dimensions=2),
    )
    d_k = Q.shape[-1]
    if d_k == 0 or K.shape[-1] != d_k:
        raise ShapeError(
            f"q and k: expected the same d_k of at least 1, got {Q.shape} and {K.shape}"
        )
    if K.shape[-2] == 0 or V.shape[-2] != K.shape[-2]:
        raise ShapeError(
            f"k and v: expected as many values as keys, at least 1, got {K.shape} and {V.shape}"
        )
    # Overflow and undefined operations stay in their own row as ∞ or NaN, where a caller can see
    # them.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        try:
            scores: Floats = Q @ K.swapaxes(-1, -2)
        except ValueError as error:
            raise ShapeError(f"q and k: leading dimensions differ: {Q.shape}, {K.shape}") from error
        allowed = _allowed(mask, scores.shape)
        scaled_scores = scores / math.sqrt(d_k) if scaled else scores
        masked_scores = np.where(allowed, scaled_scores, -np.inf)
        row_max: Floats = np.maximum.reduce(masked_scores, axis=-1)
        nothing_allowed = ~np.logical_or.reduce(allowed, axis=-1)
        # Without an allowed key the maximum is −∞, and −∞ − (−∞) would be NaN: subtract nothing.
        shifted = masked_scores - np.where(nothing_allowed, 0.0, row_max)[..., None]
        exponentials = np.where(allowed, np.exp(shifted), 0.0)
        denominator: Floats = np.add.reduce(exponentials, axis=-1)
        weights = np.where(allowed, exponentials / denominator[..., None], 0.0)
        try:
            output = _mix(weights, V, allowed)
        except ValueError as error:
            raise ShapeError(f"k and v: leading dimensions differ: {K.shape}, {V.shape}") from error
    return AttentionSteps(
        Q,
        K,
        V,
        allowed,
        scaled,
        scores,
        scaled_scores,
        masked_scores,
        row_max,
        shifted,
        exponentials,
        denominator,
        weights,
        output,
        nothing_allowed,
    )


def softmax(scores: ArrayLike, mask: ArrayLike | None = None) -> Floats:
    """Softmax over the last axis of scores (…, m), over the allowed places alone.

    Raises PaperError for a mask that is not boolean. A row with nothing allowed is all zeros.

    >>> softmax([1000.0, 999.0]).round(6)
    array([0.731059, 0.268941])
    """
    array = floats(scores, "scores", dimensions=1)
    allowed = _allowed(mask, array.shape)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        row_max = np.maximum.reduce(np.where(allowed, array, -np.inf), axis=-1, keepdims=True)
        exponentials = np.where(allowed, np.exp(array - row_max), 0.0)
        denominator = np.add.reduce(exponentials, axis=-1, keepdims=True)
        return np.where(allowed, exponentials / denominator, 0.0)


def _allowed(mask: ArrayLike | None, shape: tuple[int, ...]) -> Booleans:
    """The mask in the shape of the scores."""
    everything: Booleans = np.ones(shape, dtype=np.bool_)
    if mask is None:
        return everything
    array = booleans(mask, "mask")
    try:
        allowed: Booleans = array & everything
    except ValueError:
        allowed = array
    if allowed.shape != shape:
        raise ShapeError(f"mask: expected a shape that broadcasts to {shape}, got {array.shape}")
    return allowed


def _mix(weights: Floats, V: Floats, allowed: Booleans) -> Floats:
    """The product weights · V, (…, n, d_v), in which a forbidden value has no part.

    A forbidden weight is exactly 0, and 0 times a finite value adds nothing to a sum, so that the
    plain product serves for finite values. 0 · ∞ and 0 · NaN are NaN: those values enter only the
    rows that allow them. Finite values take the same path either way, because two paths might round
    differently.
    """
    finite = np.isfinite(V)
    special = not finite.all()
    output = weights @ (np.where(finite, V, 0.0) if special else V)
    if special:
        rest = np.where(finite, 0.0, V)
        for j in range(V.shape[-2]):
            if not finite[..., j, :].all():
                term = weights[..., :, j, None] * rest[..., j, None, :]
                output = output + np.where(allowed[..., :, j, None], term, 0.0)
    # −0 + 0 is 0: the sign of a zero could otherwise tell of a forbidden value's sign.
    mixed: Floats = output + 0.0
    return mixed
