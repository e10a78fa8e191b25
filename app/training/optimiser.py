"""Adam with the paper's constants and rate (§5.3), and float32 masters of bfloat16 weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from app.training.config import OptimiserTable


def rate(step: int, table: OptimiserTable, steps: int) -> float:
    """The learning rate of a step, counted from 1.

    A line up to `peak_rate` during the warm-up. Then, as eq. 3 has it, falling with 1/√step (eq. 3
    itself is peak_rate = d_model^-0.5 · warmup_steps^-0.5); or, with schedule = "linear", a line
    to 0 at the last step, which the paper does not use and short runs gain from.
    """
    if step <= table.warmup_steps:
        return table.peak_rate * step / table.warmup_steps
    if table.schedule == "paper":
        return table.peak_rate * math.sqrt(table.warmup_steps / step)
    left = max(steps - step, 0) / max(steps - table.warmup_steps, 1)
    return table.peak_rate * left


class MasterAdam:
    """Adam over float32 copies ("masters") of the weights; the model's own may be bfloat16.

    A bfloat16 weight has 8 significant bits: a small step would be rounded away. Masters and
    moments are float32, and the model gets the rounded masters after every step.
    """

    def __init__(
        self,
        named: Iterable[tuple[str, nn.Parameter]],
        masters: Mapping[str, Tensor],
        table: OptimiserTable,
    ) -> None:
        """The weights of the model, and their unrounded values by the same names."""
        named = list(named)
        self.names = [name for name, _ in named]
        self.weights = [parameter for _, parameter in named]
        self.masters = [
            weight if weight.dtype == torch.float32 else masters[name]
            for name, weight in zip(self.names, self.weights, strict=True)
        ]
        self.adam = torch.optim.Adam(
            self.masters,
            lr=table.peak_rate,
            betas=(table.beta1, table.beta2),
            eps=table.epsilon,
            fused=True,
        )
        self.clip_norm = table.clip_norm

    def step(self, rate: float, scale: float) -> float:
        """One update with gradients multiplied by `scale`; returns their norm."""
        for master, weight in zip(self.masters, self.weights, strict=True):
            if weight.grad is None:
                raise ValueError("a weight has no gradient")
            if master is not weight:
                master.grad = weight.grad.float()
        gradients = [master.grad for master in self.masters if master.grad is not None]
        torch._foreach_mul_(gradients, scale)
        norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))
        if self.clip_norm and norm > self.clip_norm:
            torch._foreach_mul_(gradients, self.clip_norm / norm)
        if math.isfinite(norm):
            for group in self.adam.param_groups:
                group["lr"] = rate
            self.adam.step()
            self.publish()
        for master, weight in zip(self.masters, self.weights, strict=True):
            weight.grad = None
            master.grad = None
        return norm

    @torch.no_grad()
    def publish(self) -> None:
        """Give the model the rounded masters."""
        for master, weight in zip(self.masters, self.weights, strict=True):
            if master is not weight:
                weight.copy_(master)

    def named_masters(self) -> Iterator[tuple[str, Tensor]]:
        """The float32 weights by name."""
        for name, master in zip(self.names, self.masters, strict=True):
            yield name, master.detach()

    def state(self) -> dict[str, Tensor]:
        """Masters and moments by name, for a checkpoint."""
        tensors: dict[str, Tensor] = {}
        for name, master in zip(self.names, self.masters, strict=True):
            tensors[f"master.{name}"] = master.detach()
            for key, value in self.adam.state.get(master, {}).items():
                tensors[f"adam.{key}.{name}"] = value.detach()
        return tensors

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""
        for name, master in zip(self.names, self.masters, strict=True):
            master.copy_(tensors[f"master.{name}"])
            suffix = f".{name}"
            moments = {
                key.removeprefix("adam.").removesuffix(suffix): value.to(master.device)
                for key, value in tensors.items()
                if key.startswith("adam.") and key.split(".", 2)[2] == name
            }
            if moments:
                self.adam.state[master] = moments
        self.publish()
