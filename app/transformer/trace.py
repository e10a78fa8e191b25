"""Two ways to look into the one implementation: record what it computes, and change what it does.

Both are optional arguments of the model. Left out, they cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

# a head: which attention ("encoder", "decoder", "cross"), which layer from 0, which head from 0
Head = tuple[str, int, int]


@dataclass(slots=True)
class Trace:
    """Collects named intermediates, detached copies in float32 or wider.

    Names are paths: `encoder.0.self_attention.weights`, `decoder.2.cross_attention.output`,
    `decoder.2.feed_forward.layer_norm`, `encoder.embedding`. Inside an attention the paper's names
    hold: Q, K, V, scores, scaled_scores, masked_scores, weights, output (per head, before W_O);
    around each sub-layer: sublayer (its output), residual_sum, layer_norm.
    """

    wanted: tuple[str, ...] = ()  # endings of the names to keep; all when empty
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def record(self, name: str, tensor: Tensor) -> None:
        """Keep a copy, if wanted."""
        if not self.wanted or name.endswith(self.wanted):
            kept = tensor.detach()
            self.tensors[name] = (kept if kept.dtype == torch.float64 else kept.float()).clone()

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]


@dataclass(frozen=True, slots=True)
class Interventions:
    """What to do differently from the paper; the defaults change nothing."""

    causal: bool = True  # False: every target position sees all the others
    scaled: bool = True  # False: no division by √d_k
    positions: bool = True  # False: the sinusoids are left out, order becomes invisible
    silenced: frozenset[Head] = frozenset()  # heads whose output is replaced by zeros

    def silence(self, heads: Tensor, name: str) -> Tensor:
        """Zero the silenced heads of (batch, h, n, d_v); `name` as `encoder.0.self_attention`."""
        stack, layer, kind = name.split(".")
        which = "cross" if kind == "cross_attention" else stack
        silent = [
            head
            for (silenced_kind, silenced_layer, head) in self.silenced
            if silenced_kind == which and silenced_layer == int(layer)
        ]
        if not silent:
            return heads
        keep = torch.ones(heads.shape[1], dtype=heads.dtype, device=heads.device)
        keep[silent] = 0
        return heads * keep[None, :, None, None]
