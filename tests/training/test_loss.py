"""Loss, learning rate and Adam against torch, the paper's arithmetic, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from app.paper import schedule, smoothing
from app.training.config import OptimiserTable
from app.training.loss import SLICE, smoothed_cross_entropy
from app.training.optimiser import MasterAdam, rate
from app.transformer.layers import dropout_mask


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_loss_and_gradients_equal_torchs(epsilon: float) -> None:
    """Independent implementation; more positions than a slice, some without a target."""
    torch.manual_seed(0)
    count = SLICE["cpu"] + 37
    hidden = torch.randn(count, 8, requires_grad=True)
    weight = torch.randn(30, 8, requires_grad=True)
    targets = torch.randint(0, 30, (count,))
    targets[::5] = -1
    ours = smoothed_cross_entropy(hidden, weight, targets, epsilon, fast=False)
    (3 * ours).backward()
    found = hidden.grad, weight.grad
    hidden.grad = weight.grad = None
    theirs = torch.nn.functional.cross_entropy(
        hidden @ weight.T, targets, label_smoothing=epsilon, reduction="sum", ignore_index=-1
    )
    (3 * theirs).backward()
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    assert torch.allclose(found[0], hidden.grad, atol=1e-4)
    assert torch.allclose(found[1], weight.grad, atol=1e-3)


def test_loss_equals_the_papers_arithmetic() -> None:
    """Independent implementation, NumPy."""
    torch.manual_seed(1)
    hidden, weight = torch.randn(6, 4), torch.randn(9, 4)
    targets = torch.randint(0, 9, (6,))
    ours = smoothed_cross_entropy(hidden, weight, targets, 0.1, fast=False)
    theirs = smoothing.cross_entropy((hidden @ weight.T).numpy(), targets.numpy(), 0.1)
    assert float(ours) == pytest.approx(float(np.sum(theirs)), rel=1e-5)


def test_the_papers_rate_is_equation_3() -> None:
    """Eq. 3 with d_model 512 and 4,000 steps peaks at 512^-0.5 · 4000^-0.5."""
    table = OptimiserTable(peak_rate=(512 * 4000) ** -0.5, warmup_steps=4000)
    for step in (1, 100, 4000, 4001, 100_000):
        expected = float(schedule.learning_rate(step, 512, 4000))
        assert rate(step, table, 100_000) == pytest.approx(expected, rel=1e-12)


def test_the_linear_rate_ends_at_zero() -> None:
    """By hand: peak 1 at step 10 of 110; half-way down, at step 60, 0.5."""
    table = OptimiserTable(peak_rate=1.0, warmup_steps=10, schedule="linear")
    assert [rate(step, table, 110) for step in (5, 10, 60, 110)] == [0.5, 1.0, 0.5, 0.0]


def test_masters_take_steps_too_small_for_bfloat16() -> None:
    """1 + 2^-10 is not a bfloat16: four such steps are lost without a float32 master."""
    weight = torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    table = OptimiserTable(beta1=0.0, beta2=0.0, epsilon=1e-12)
    adam = MasterAdam([("w", weight)], {"w": torch.ones(1)}, table)
    for _ in range(4):
        weight.grad = -torch.ones(1, dtype=torch.bfloat16)
        adam.step(2**-10, 1.0)
    assert float(adam.masters[0]) == pytest.approx(1 + 4 * 2**-10, rel=1e-6)
    assert weight.item() == 1 + 2**-7 * round(4 * 2**-10 / 2**-7)  # the nearest bfloat16


def test_clipping_by_hand() -> None:
    """(3, 4) has norm 5; clipped to 1 it is (0.6, 0.8), which Adam's first moment holds."""
    weight = torch.nn.Parameter(torch.zeros(2))
    adam = MasterAdam([("w", weight)], {"w": weight.detach()}, OptimiserTable(clip_norm=1.0))
    weight.grad = torch.tensor([6.0, 8.0])
    assert adam.step(1e-3, 0.5) == pytest.approx(5.0)
    moment = adam.adam.state[adam.masters[0]]["exp_avg"]
    assert moment.tolist() == pytest.approx([0.06, 0.08], rel=1e-5)  # (1 - beta1) times


def test_a_gradient_that_is_no_number_changes_nothing() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    adam = MasterAdam([("w", weight)], {"w": weight.detach()}, OptimiserTable())
    weight.grad = torch.tensor([1.0, math.nan])
    assert math.isnan(adam.step(1e-3, 1.0))
    assert weight.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_masks(dtype: torch.dtype, p: float) -> None:
    """Share dropped within five standard deviations of p; the rest scaled so that the mean is 1."""
    torch.manual_seed(0)
    like = torch.zeros(1000, 401, dtype=dtype)
    mask = dropout_mask(like, p).double()
    n = mask.numel()
    assert abs(float((mask == 0).double().mean()) - p) < 5 * math.sqrt(p * (1 - p) / n)
    assert len(mask.unique()) == 2
    assert float(mask.max()) == pytest.approx(
        1 / (1 - p), rel=2**-8 if dtype == torch.bfloat16 else 1e-4
    )
    neighbours = (mask[:, :-1] == 0) & (mask[:, 1:] == 0)
    assert float(neighbours.double().mean()) == pytest.approx(p * p, rel=0.05)
