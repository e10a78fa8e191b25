"""What surrounds attention: the residual connection and LayerNorm (section 3.1), the feed-forward
network (section 3.3).

As in the paper the normalisation comes after the addition: LayerNorm(x + Sublayer(x)). The variance
is the population's (divided by d_model, not d_model − 1), and ε stands inside the root.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from app.paper.arrays import Floats, floats
from app.paper.errors import RangeError, ShapeError

EPSILON = 1e-6
"""The ε of LayerNorm here; the paper does not give one."""


@dataclass(frozen=True, slots=True)
class LayerNormSteps:
    """LayerNorm over the last axis, (n, d_model) with any leading dimensions."""

    mean: Floats
    """(n,)."""
    variance: Floats
    """(n,), the mean of the squared deviations."""
    normalized: Floats
    """(x − mean) / √(variance + ε), (n, d_model)."""
    output: Floats
    """γ · normalized + β, (n, d_model)."""


@dataclass(frozen=True, slots=True)
class SublayerSteps:
    """LayerNorm(x + Sublayer(x)), section 3.1; fields as in LayerNormSteps."""

    residual_sum: Floats
    """x + the sublayer's output, (n, d_model)."""
    mean: Floats
    variance: Floats
    normalized: Floats
    layer_norm: Floats


@dataclass(frozen=True, slots=True)
class FeedForwardSteps:
    """The position-wise feed-forward network, equation 2."""

    hidden: Floats
    """x W_1 + b_1, (n, d_ff)."""
    activated: Floats
    """max(0, hidden), (n, d_ff)."""
    output: Floats
    """activated W_2 + b_2, (n, d_model)."""


def layer_norm(
    x: ArrayLike, gamma: ArrayLike = 1.0, beta: ArrayLike = 0.0, epsilon: float = EPSILON
) -> LayerNormSteps:
    """LayerNorm of x (…, d_model) over its last axis; gamma and beta (d_model,) or one number.

    A constant row becomes β: its deviations are zero, and ε keeps the root from being so. Raises
    RangeError unless ε is a positive number, ShapeError where γ or β do not fit x.

    >>> layer_norm([1.0, 0.0, 0.0, 0.0]).output.round(6)
    array([ 1.732046, -0.577349, -0.577349, -0.577349])
    """
    array = floats(x, "x", dimensions=1)
    d_model = array.shape[-1]
    if d_model == 0:
        raise ShapeError("x: expected at least one coordinate to normalise")
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise RangeError(f"epsilon: expected a positive number, got {epsilon!r}")
    scale, offset = _row(gamma, "gamma", d_model), _row(beta, "beta", d_model)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        mean = np.add.reduce(array, axis=-1, keepdims=True) / d_model
        deviations = array - mean
        variance = np.add.reduce(deviations * deviations, axis=-1, keepdims=True) / d_model
        normalized = deviations / np.sqrt(variance + epsilon)
        output: Floats = scale * normalized + offset
    return LayerNormSteps(mean[..., 0], variance[..., 0], normalized, output)


def residual(
    x: ArrayLike,
    sublayer_output: ArrayLike,
    gamma: ArrayLike = 1.0,
    beta: ArrayLike = 0.0,
    epsilon: float = EPSILON,
) -> SublayerSteps:
    """LayerNorm(x + Sublayer(x)) for x and the sublayer's output, both (…, n, d_model). Section
    3.1.

    Raises ShapeError where the two differ in shape: the residual connection is why every sublayer
    of the model has d_model outputs.

    >>> residual([[1.0, 0.0]], [[1.0, 0.0]]).residual_sum
    array([[2., 0.]])
    """
    incoming, added = floats(x, "x"), floats(sublayer_output, "sublayer_output")
    if incoming.shape != added.shape:
        raise ShapeError(
            f"sublayer_output: expected the shape of x, {incoming.shape}, got {added.shape}"
        )
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        residual_sum = incoming + added
    steps = layer_norm(residual_sum, gamma, beta, epsilon)
    return SublayerSteps(residual_sum, steps.mean, steps.variance, steps.normalized, steps.output)


def feed_forward(
    x: ArrayLike, W_1: ArrayLike, b_1: ArrayLike, W_2: ArrayLike, b_2: ArrayLike
) -> FeedForwardSteps:
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 for every row of x (…, n, d_model). Section 3.3,
    equation 2.

    W_1 (d_model, d_ff), b_1 (d_ff,), W_2 (d_ff, d_model), b_2 (d_model,). Raises ShapeError where
    they do not fit each other.

    >>> feed_forward([[1.0, -1.0]], [[2.0], [0.0]], [0.0], [[1.0, 3.0]], [0.5, 0.5]).output
    array([[2.5, 6.5]])
    """
    array = floats(x, "x", dimensions=1)
    first, second = floats(W_1, "W_1", dimensions=2), floats(W_2, "W_2", dimensions=2)
    d_model, d_ff = array.shape[-1], first.shape[-1]
    if first.shape != (d_model, d_ff) or second.shape[0] != d_ff:
        raise ShapeError(
            f"W_1 and W_2: expected ({d_model}, d_ff) and (d_ff, {d_model}), "
            f"got {first.shape} and {second.shape}"
        )
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        hidden = array @ first + _row(b_1, "b_1", d_ff)
        activated = np.maximum(hidden, 0.0)
        output = activated @ second + _row(b_2, "b_2", second.shape[1])
    return FeedForwardSteps(hidden, activated, output)


def _row(value: ArrayLike, name: str, length: int) -> Floats:
    """A row of `length` numbers, or the one number that stands for all of them."""
    array = floats(value, name)
    if array.shape not in ((), (length,)):
        raise ShapeError(f"{name}: expected {length} numbers or one, got the shape {array.shape}")
    return array
