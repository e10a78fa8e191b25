"""Label smoothing, section 5.4 (after Szegedy et al. 2015): the target is not quite certain.

Of the probability 1 that a one-hot target gives to the right token, ε is spread evenly over the
whole vocabulary of K tokens, the right one included: it keeps 1 − ε + ε / K.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.paper.arrays import Floats, floats
from app.paper.errors import RangeError, ShapeError

EPSILON = 0.1
"""The paper's ε_ls."""


def smoothed(targets: ArrayLike, K: int, epsilon: float = EPSILON) -> Floats:
    """The target distributions of token ids (…,) over K tokens, (…, K). Section 5.4.

    Raises RangeError unless 0 ≤ ε ≤ 1 and every id is a whole number from 0 to K − 1.

    >>> smoothed([2], K=4, epsilon=0.1)
    array([[0.025, 0.025, 0.925, 0.025]])
    """
    ids = _ids(targets, K)
    if not 0 <= epsilon <= 1:
        raise RangeError(f"epsilon: expected a number from 0 to 1, got {epsilon!r}")
    distributions: Floats = np.full((*ids.shape, K), epsilon / K)
    np.put_along_axis(distributions, ids[..., None], 1.0 - epsilon + epsilon / K, axis=-1)
    return distributions


def cross_entropy(logits: ArrayLike, targets: ArrayLike, epsilon: float = EPSILON) -> Floats:
    """The loss of each position in nats, (…,), from logits (…, K) and token ids (…,).

    With ε = 0 it is the plain negative log-probability, whose exponential is the perplexity. Raises
    ShapeError where targets do not fit logits, RangeError as in `smoothed`.

    >>> cross_entropy([[0.0, 0.0]], [1], epsilon=0.1).round(6)
    array([0.693147])
    """
    scores = floats(logits, "logits", dimensions=1)
    distributions = smoothed(targets, scores.shape[-1], epsilon)
    if distributions.shape != scores.shape:
        raise ShapeError(
            f"targets: expected one id for each row of logits {scores.shape}, "
            f"got the shape {distributions.shape[:-1]}"
        )
    shifted = scores - scores.max(axis=-1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    loss: Floats = -(distributions * log_probabilities).sum(axis=-1)
    return loss


def floor(K: int, epsilon: float = EPSILON) -> float:
    """The smallest loss that smoothing allows, in nats: the entropy of the smoothed target itself.

    >>> round(floor(37_000), 3)
    1.377
    """
    target = smoothed(0, K, epsilon)
    some = target[target > 0]
    return float(-(some * np.log(some)).sum())


def _ids(targets: ArrayLike, K: int) -> NDArray[np.intp]:
    ids = np.asarray(targets)
    if K < 1:
        raise RangeError(f"K: expected at least 1 token, got {K}")
    if ids.dtype.kind not in "iu" or bool(((ids < 0) | (ids >= K)).any()):
        raise RangeError(f"targets: expected whole numbers from 0 to {K - 1}, got {targets!r}")
    return ids.astype(np.intp)
