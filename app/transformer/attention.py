"""Attention in torch: scaled dot product (§3.2.1), heads (§3.2.2), who may attend (§3.2.3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from app.transformer.trace import Interventions, Trace


def attention_weights(
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    *,
    scaled: bool = True,
    trace: Trace | None = None,
    name: str = "",
) -> Tensor:
    """softmax(Q K^T / √d_k) of eq. 1, (…, n_q, n_k), from q (…, n_q, d_k) and k (…, n_k, d_k).

    `mask`, broadcastable to (…, n_q, n_k): True = may attend. A query that may attend to nothing
    gets weights of zero rather than NaN.
    """
    scores = q @ k.transpose(-2, -1)
    scaled_scores = scores / math.sqrt(q.shape[-1]) if scaled else scores
    if mask is None:
        weights = torch.softmax(scaled_scores, dim=-1)
    else:
        # the lowest finite number, not -inf: a row without any True would become 0/0
        masked = scaled_scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = torch.softmax(masked, dim=-1).masked_fill(~mask, 0.0)
    if trace is not None:
        trace.record(f"{name}.scores", scores)
        trace.record(f"{name}.scaled_scores", scaled_scores)
        shown = scaled_scores if mask is None else scaled_scores.masked_fill(~mask, -math.inf)
        trace.record(f"{name}.masked_scores", shown)
        trace.record(f"{name}.weights", weights)
    return weights


class MultiHeadAttention(nn.Module):
    """h heads side by side, concatenated and projected by W_O (§3.2.2), d_k = d_v = d_model / h.

    The projections carry biases, as in the authors' successors (torch.nn.Transformer, Marian); they
    start at zero.
    """

    def __init__(self, d_model: int, h: int) -> None:
        super().__init__()
        self.h = h
        self.W_Q = nn.Linear(d_model, d_model)
        self.W_K = nn.Linear(d_model, d_model)
        self.W_V = nn.Linear(d_model, d_model)
        self.W_O = nn.Linear(d_model, d_model)

    def split(self, x: Tensor) -> Tensor:
        """(batch, n, d_model) → (batch, h, n, d_k): the heads' shares of one projection."""
        batch, n, d_model = x.shape
        return x.view(batch, n, self.h, d_model // self.h).transpose(1, 2)

    def project(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The heads' queries, keys and values, each (batch, h, n, d_k).

        Inputs that are the same tensor go through one product with the matrices side by side: the
        same numbers, fewer and larger operations.
        """
        if q is k and k is v:
            parts = _joined(q, self.W_Q, self.W_K, self.W_V)
        elif k is v:
            parts = (self.W_Q(q), *_joined(k, self.W_K, self.W_V))
        else:
            parts = (self.W_Q(q), self.W_K(k), self.W_V(v))
        heads_q, heads_k, heads_v = (self.split(part) for part in parts)
        return heads_q, heads_k, heads_v

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        trace: Trace | None = None,
        interventions: Interventions | None = None,
        name: str = "",
    ) -> Tensor:
        """(batch, n_q, d_model) from q (batch, n_q, d_model), k and v (batch, n_k, d_model).

        `mask`, broadcastable to (batch, h, n_q, n_k): True = may attend. `causal` says that
        position i may attend to positions up to i, in addition to the mask.
        """
        heads_q, heads_k, heads_v = self.project(q, k, v)
        plain = trace is None and interventions is None
        if plain and q.is_cuda:
            heads = _fused(heads_q, heads_k, heads_v, mask, causal)
        else:
            if causal:
                below = causal_mask(q.shape[1], q.device)
                mask = below if mask is None else mask & below
            scaled = interventions is None or interventions.scaled
            weights = attention_weights(
                heads_q, heads_k, mask, scaled=scaled, trace=trace, name=name
            )
            heads = weights @ heads_v
            if interventions is not None:
                heads = interventions.silence(heads, name)
            if trace is not None:
                trace.record(f"{name}.Q", heads_q)
                trace.record(f"{name}.K", heads_k)
                trace.record(f"{name}.V", heads_v)
                trace.record(f"{name}.output", heads)
        batch, h, n_q, d_v = heads.shape
        concat = heads.transpose(1, 2).reshape(batch, n_q, h * d_v)
        output: Tensor = self.W_O(concat)
        return output


def _joined(x: Tensor, *linears: nn.Linear) -> tuple[Tensor, ...]:
    weight = torch.cat([linear.weight for linear in linears])
    bias = torch.cat([linear.bias for linear in linears])
    return F.linear(x, weight, bias).chunk(len(linears), dim=-1)


def _fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Eq. 1 in one kernel, for a GPU, when nobody asks for what lies between."""
    if causal and mask is not None:
        mask, causal = mask & causal_mask(q.shape[-2], q.device), False
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)


def causal_mask(n: int, device: torch.device | None = None) -> Tensor:
    """(n, n), True on and below the diagonal: position i attends to positions up to i (§3.2.3).

    >>> causal_mask(2).tolist()
    [[True, False], [True, True]]
    """
    positions = torch.arange(n, device=device)
    return positions[:, None] >= positions[None, :]


def padding_mask(tokens: Tensor, pad_id: int) -> Tensor:
    """(batch, 1, 1, n) from token ids (batch, n): True where there is a token to attend to."""
    return (tokens != pad_id)[:, None, None, :]
