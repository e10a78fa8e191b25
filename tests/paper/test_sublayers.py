"""Residual connection, LayerNorm and the feed-forward network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from app.paper.errors import RangeError, ShapeError
from app.paper.sublayers import feed_forward, layer_norm, residual

from . import strategies

torch.set_num_threads(1)


def test_layer_norm_divides_by_the_population_deviation() -> None:
    """Case 1. Mean ¼, variance 3/16; (1 − ¼) / √(3/16 + 10⁻⁶) = 1.732046, others −0.577349."""
    steps = layer_norm([1.0, 0.0, 0.0, 0.0], 1.0, 0.0, 1e-6)
    assert steps.mean == 0.25
    assert steps.variance == 0.1875
    np.testing.assert_allclose(steps.output, [1.732046, -0.577349, -0.577349, -0.577349], atol=5e-7)


def test_a_constant_vector_becomes_beta() -> None:
    steps = layer_norm([[7.0] * 4], [1.0, 2.0, 3.0, 4.0], [0.5, 0.0, -0.5, 1.0])
    np.testing.assert_array_equal(steps.output, [[0.5, 0.0, -0.5, 1.0]])


def test_the_third_position_by_hand() -> None:
    """Two coordinates on each side of the mean by the same distance d: ±d / √(d² + ε)."""
    steps = residual([[1.0, 1.0, 0.0, 0.0]], [[0.25, 0.25, 0.65, 0.65]])
    np.testing.assert_allclose(steps.residual_sum, [[1.25, 1.25, 0.65, 0.65]])
    assert steps.mean[0] == pytest.approx(0.95)
    assert steps.variance[0] == pytest.approx(0.09)
    expected = 0.3 / np.sqrt(0.09 + 1e-6)
    np.testing.assert_allclose(steps.layer_norm, [[expected] * 2 + [-expected] * 2], atol=1e-12)
    np.testing.assert_array_equal(steps.normalized, steps.layer_norm)


@given(strategies.matrices(3, 5), strategies.matrices(2, 5), st.floats(1e-8, 1))
def test_torchs_layer_norm_agrees(x: np.ndarray, affine: np.ndarray, epsilon: float) -> None:
    theirs = torch.nn.functional.layer_norm(
        torch.from_numpy(x),
        (5,),
        torch.from_numpy(affine[0].copy()),
        torch.from_numpy(affine[1].copy()),
        epsilon,
    )
    ours = layer_norm(x, affine[0], affine[1], epsilon)
    np.testing.assert_allclose(ours.output, theirs.numpy(), rtol=1e-12, atol=1e-12 / epsilon**0.5)


def test_torchs_layer_norm_agrees_on_ordinary_rows() -> None:
    x = np.random.default_rng(3).normal(size=(2, 7, 16))
    theirs = torch.nn.LayerNorm(16, eps=1e-6, dtype=torch.float64)(torch.from_numpy(x))
    np.testing.assert_allclose(layer_norm(x).output, theirs.detach().numpy(), atol=1e-12)


@given(strategies.matrices(2, 4, strategies.wide))
def test_positions_are_normalised_each_alone(x: np.ndarray) -> None:
    together = layer_norm(x)
    for row in range(2):
        assert layer_norm(x[row : row + 1]).output.tobytes() == together.output[row].tobytes()


def test_the_feed_forward_network_by_hand() -> None:
    """x W_1 + b_1 = (2 − 3, 4 + 1) = (−1, 5); ReLU (0, 5); times (1, 2) plus ½ = 10.5."""
    steps = feed_forward([[2.0, 4.0]], np.eye(2), [-3.0, 1.0], [[1.0], [2.0]], [0.5])
    np.testing.assert_array_equal(steps.hidden, [[-1.0, 5.0]])
    np.testing.assert_array_equal(steps.activated, [[0.0, 5.0]])
    np.testing.assert_array_equal(steps.output, [[10.5]])


def test_the_feed_forward_network_is_the_same_at_every_position() -> None:
    rng = np.random.default_rng(5)
    W_1, b_1, W_2, b_2 = (rng.normal(size=s) for s in ((4, 8), 8, (8, 4), 4))
    x = rng.normal(size=(3, 4))
    x[2] = x[0]
    output = feed_forward(x, W_1, b_1, W_2, b_2).output
    np.testing.assert_allclose(output[2], output[0], atol=1e-14)


@pytest.mark.parametrize("epsilon", [0.0, -1e-6, float("nan"), float("inf")])
def test_epsilon_is_above_zero(epsilon: float) -> None:
    with pytest.raises(RangeError, match="epsilon: expected a positive number"):
        layer_norm([1.0, 2.0], epsilon=epsilon)


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(ShapeError, match="gamma: expected 2 numbers or one"):
        layer_norm([1.0, 2.0], gamma=[1.0, 1.0, 1.0])
    with pytest.raises(ShapeError, match="sublayer_output: expected the shape of x"):
        residual([[1.0, 2.0]], [[1.0]])
    with pytest.raises(ShapeError, match="W_1 and W_2"):
        feed_forward([[1.0]], [[1.0]], [0.0], [[1.0], [1.0]], [0.0])
    with pytest.raises(ShapeError, match="at least one coordinate"):
        layer_norm(np.zeros((2, 0)))
