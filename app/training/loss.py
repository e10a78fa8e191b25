"""Label-smoothed cross-entropy over a large vocabulary (§5.4), a slice of positions at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

# positions whose logits are held at once: 512 x 8,000 in bfloat16 stay in a core's cache
SLICE = {"cpu": 512, "cuda": 8192}


def loss_and_gradient(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """The smoothed cross-entropy, summed over positions, and its gradient for the logits.

    `logits` (positions, vocab), `targets` (positions); a target of -1 does not count. The wanted
    distribution holds 1 - smoothing on the target and spreads `smoothing` evenly over the whole
    vocabulary. The gradient lacks the -(1 - smoothing) at each target, which one scattered
    addition brings in far faster than a comparison in every column.
    """
    vocab = logits.shape[1]
    counts = (targets >= 0).float()
    index = targets.clamp_min(0)[:, None]
    z = logits.float()
    log_sum = z.logsumexp(dim=1)
    at_target = z.gather(1, index)[:, 0]
    losses = log_sum - (1 - smoothing) * at_target - smoothing * z.mean(dim=1)
    gradient = ((z - log_sum[:, None]).exp() - smoothing / vocab) * counts[:, None]
    return (losses * counts).sum(), gradient.to(logits.dtype)


@cache
def _compiled() -> Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor]]:
    """Made when first needed: the compiler alone takes seconds to import."""
    return torch.compile(loss_and_gradient, dynamic=False)


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Logits, loss and gradients of one slice after another; the logits are never all in memory."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, fast: bool
    ) -> Tensor:
        rows = SLICE[hidden.device.type]
        compute = _compiled() if fast else loss_and_gradient
        low = weight.to(hidden.dtype)
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        # slices of one size, so that one compiled kernel serves all
        spare = -len(targets) % rows
        padded = F.pad(hidden, (0, 0, 0, spare))
        wanted = F.pad(targets, (0, spare), value=-1)
        d_hidden = torch.empty_like(padded)
        d_weight = torch.zeros_like(weight)
        for first in range(0, len(wanted), rows):
            part, target = padded[first : first + rows], wanted[first : first + rows]
            loss, d_logits = compute(part @ low.T, target, smoothing)
            at_target = (target >= 0).to(d_logits.dtype)[:, None] * (smoothing - 1)
            d_logits.scatter_add_(1, target.clamp_min(0)[:, None], at_target)
            total += loss
            torch.mm(d_logits, low, out=d_hidden[first : first + rows])
            d_weight += d_logits.T @ part
        ctx.save_for_backward(d_hidden[: len(targets)], d_weight)
        return total

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        d_hidden, d_weight = ctx.saved_tensors
        return d_hidden * outer[0], d_weight * outer[0], None, None, None


def smoothed_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, *, fast: bool = True
) -> Tensor:
    """Sum of the label-smoothed cross-entropy (§5.4), for logits = hidden · weightᵀ.

    `hidden` (positions, d_model), `weight` (vocab, d_model), `targets` (positions), -1 where
    nothing is to be predicted. `fast` compiles the part that is not a matrix product.
    """
    total: Tensor = _SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, weight, targets, smoothing, fast
    )
    return total
