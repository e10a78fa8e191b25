"""Sinusoidal positions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.paper import positions
from app.paper.errors import RangeError


def test_the_second_token_by_hand() -> None:
    """Case 7: sin 1, cos 1, sin 0.01, cos 0.01."""
    expected = [0.841471, 0.540302, 0.010000, 0.999950]
    np.testing.assert_allclose(positions.encoding(1, 4), expected, atol=5e-7)
    np.testing.assert_allclose(
        positions.encoding(1, 4), [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]
    )


def test_the_first_token_is_zeros_and_ones() -> None:
    np.testing.assert_array_equal(positions.encoding(0, 6), [0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize("d_model", [1, 2, 3, 5, 512])
def test_any_width_is_finite(d_model: int) -> None:
    table = positions.table(50, d_model)
    assert table.shape == (50, d_model)
    assert np.isfinite(table).all()


def test_an_odd_width_is_the_even_one_without_its_last_cosine() -> None:
    """With its own exponents: 2i / 5, not 2i / 6."""
    angles = 7 * np.array([1, 10_000 ** (-2 / 5), 10_000 ** (-4 / 5)])
    expected = [f(a) for a in angles for f in (math.sin, math.cos)][:5]
    np.testing.assert_allclose(positions.encoding(7, 5), expected, atol=1e-12)


@given(st.integers(0, 2000), st.integers(-500, 500), st.sampled_from([2, 4, 8, 64]))
def test_an_offset_is_a_rotation(pos: int, offset: int, d_model: int) -> None:
    R = positions.rotation(offset, d_model)
    np.testing.assert_allclose(
        R @ positions.encoding(pos, d_model), positions.encoding(pos + offset, d_model), atol=1e-10
    )
    np.testing.assert_allclose(R @ R.T, np.eye(d_model), atol=1e-12)


def test_wavelengths_run_from_two_pi_towards_ten_thousand_times_that() -> None:
    """The last exponent is (d_model − 2) / d_model, so the longest wave stays below 10000 · 2π."""
    waves = positions.wavelengths(512)
    assert waves[0] == pytest.approx(2 * math.pi)
    assert waves[-1] == pytest.approx(2 * math.pi * 10_000 ** (510 / 512))


def test_what_is_refused_is_named() -> None:
    with pytest.raises(RangeError, match="even number"):
        positions.rotation(1, 3)
    with pytest.raises(RangeError, match="d_model: expected at least 1"):
        positions.encoding(1, 0)
    with pytest.raises(RangeError, match="0 or more positions"):
        positions.table(-1, 4)
