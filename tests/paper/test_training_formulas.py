"""The learning rate (section 5.3) and label smoothing (section 5.4)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from app.paper import schedule, smoothing
from app.paper.errors import RangeError, ShapeError

torch.set_num_threads(1)


def test_the_base_models_peak() -> None:
    """512^−½ · 4000^−½ = 1 / √2048000 = 6.9877 · 10⁻⁴."""
    assert schedule.peak(512) == pytest.approx(1 / math.sqrt(2_048_000), rel=1e-15)
    assert schedule.learning_rate(4000, 512) == pytest.approx(schedule.peak(512), rel=1e-12)


def test_the_rate_rises_in_a_line_and_falls_with_the_root() -> None:
    rate = schedule.learning_rate([1, 2, 2000, 16_000], 512)
    assert rate[1] == pytest.approx(2 * rate[0])
    assert rate[2] == pytest.approx(schedule.peak(512) / 2)
    assert rate[3] == pytest.approx(schedule.peak(512) / 2)


@given(st.integers(1, 10**6), st.integers(1, 4096), st.integers(1, 10**5))
def test_no_rate_is_above_the_peak(step: int, d_model: int, warmup: int) -> None:
    rate = schedule.learning_rate(step, d_model, warmup)
    assert 0 < rate <= schedule.peak(d_model, warmup) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("step", "d_model", "warmup", "name"),
    [(0, 512, 4000, "step"), (1, 0, 4000, "d_model"), (1, 512, 0, "warmup_steps")],
)
def test_counting_starts_at_one(step: int, d_model: int, warmup: int, name: str) -> None:
    with pytest.raises(RangeError, match=f"{name}: expected"):
        schedule.learning_rate(step, d_model, warmup)


def test_smoothed_targets_by_hand() -> None:
    """ε = 0.1 over 4 tokens: 0.025 each, and 0.9 more for the right one."""
    np.testing.assert_allclose(smoothing.smoothed([2], 4), [[0.025, 0.025, 0.925, 0.025]])


def test_torchs_label_smoothing_agrees() -> None:
    rng = np.random.default_rng(9)
    logits, targets = rng.normal(size=(6, 11)), rng.integers(0, 11, 6)
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        theirs = torch.nn.functional.cross_entropy(
            torch.from_numpy(logits),
            torch.from_numpy(targets),
            reduction="none",
            label_smoothing=epsilon,
        )
        ours = smoothing.cross_entropy(logits, targets, epsilon)
        np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-12)


def test_the_floor_is_reached_by_the_smoothed_target_itself() -> None:
    target = smoothing.smoothed([1], 5)
    loss = smoothing.cross_entropy(np.log(target), [1])
    assert loss == pytest.approx(smoothing.floor(5), abs=1e-12)
    assert smoothing.floor(5, epsilon=0.0) == 0


def test_what_is_refused_is_named() -> None:
    with pytest.raises(RangeError, match="targets: expected whole numbers from 0 to 3"):
        smoothing.smoothed([4], 4)
    with pytest.raises(RangeError, match="targets"):
        smoothing.smoothed([0.5], 4)
    with pytest.raises(RangeError, match="epsilon"):
        smoothing.smoothed([0], 4, epsilon=1.5)
    with pytest.raises(RangeError, match="K: expected at least 1"):
        smoothing.smoothed([], 0)
    with pytest.raises(ShapeError, match="one id for each row"):
        smoothing.cross_entropy(np.zeros((2, 3)), [0])
