"""Sub-layers and layers (§3.1, §3.3): residual sum, then LayerNorm ("post-norm")."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from app.transformer.attention import MultiHeadAttention
from app.transformer.config import TransformerConfig
from app.transformer.trace import Interventions, Trace


@torch.library.custom_op("explorable::dropout_mask", mutates_args=())
def dropout_mask(like: Tensor, p: float) -> Tensor:
    """Entries of 0 (a share `p`) and of 1 / (1 - p), in the shape and number format of `like`.

    Drawn from torch's seeded generator, 16 bits an entry out of its 64-bit words: drawing Bernoulli
    numbers one by one would cost a tenth of the training time. `p` is rounded to a multiple of
    2^-15.
    """
    count = like.numel()
    words = torch.empty((count + 3) // 4, dtype=torch.int64, device=like.device)
    words.random_(-(2**63), None)
    drawn = words.view(torch.int16)[:count].bitwise_right_shift_(1)  # -2^14 … 2^14 - 1
    dropped = round(p * 2**15)
    # the sign bit, spread over the number: -1 where the entry is dropped, 0 where it is kept
    drawn.sub_(dropped - 2**14).bitwise_right_shift_(15)
    scale = 2**15 / (2**15 - dropped)
    return drawn.add_(1).to(like.dtype).mul_(scale).view(like.shape)


@dropout_mask.register_fake
def _(like: Tensor, p: float) -> Tensor:
    return torch.empty_like(like, memory_format=torch.contiguous_format)


class Dropout(nn.Module):
    """Zero a share p of the entries while training and scale the rest by 1 / (1 - p) (§5.4)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """The shape of x; x itself when not training."""
        if not self.training or self.p == 0:
            return x
        if x.is_cuda:
            return F.dropout(x, self.p, training=True)
        kept: Tensor = dropout_mask(x.detach(), self.p)
        return x * kept


class _ReLU(torch.autograd.Function):
    """max(0, x), whose gradient is the sign of the result times what comes from above.

    The usual gradient keeps a boolean for every entry, and compiled CPU code stores booleans one
    at a time: it spent more on them than on any matrix.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result = x.clamp_min(0)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, *above: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        return above[0] * torch.sign(result)


def relu(x: Tensor) -> Tensor:
    """max(0, x), entry by entry."""
    result: Tensor = _ReLU.apply(x)  # type: ignore[no-untyped-call]
    return result


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2, eq. 2, at every position alike.

    With `activation` "swish", as in Marian's models, z sigmoid(z) takes the place of max(0, z).
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu") -> None:
        super().__init__()
        self.swish = activation == "swish"
        self.W_1 = nn.Linear(d_model, d_ff)
        self.W_2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor, *, trace: Trace | None = None, name: str = "") -> Tensor:
        """(…, d_model) → (…, d_model)."""
        inner: Tensor = F.silu(self.W_1(x)) if self.swish else relu(self.W_1(x))
        if trace is not None:
            trace.record(f"{name}.inner", inner)
        output: Tensor = self.W_2(inner)
        return output


class AddAndNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))): what surrounds every sub-layer (§3.1, §5.4).

    LayerNorm divides by the population deviation, with epsilon inside the root.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dropout = Dropout(config.dropout)
        self.layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_epsilon)

    def forward(
        self, x: Tensor, sublayer: Tensor, *, trace: Trace | None = None, name: str = ""
    ) -> Tensor:
        """Both (batch, n, d_model)."""
        residual_sum = x + self.dropout(sublayer)
        output: Tensor = self.layer_norm(residual_sum)
        if trace is not None:
            trace.record(f"{name}.sublayer", sublayer)
            trace.record(f"{name}.residual_sum", residual_sum)
            trace.record(f"{name}.layer_norm", output)
        return output


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.h)
        self.self_attention_norm = AddAndNorm(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.feed_forward_norm = AddAndNorm(config)

    def forward(
        self,
        x: Tensor,
        src_mask: Tensor | None,
        *,
        trace: Trace | None = None,
        interventions: Interventions | None = None,
        name: str = "",
    ) -> Tensor:
        """(batch, n_src, d_model); `src_mask` as in MultiHeadAttention."""
        here = f"{name}.self_attention"
        attended = self.self_attention(
            x, x, x, src_mask, trace=trace, interventions=interventions, name=here
        )
        x = self.self_attention_norm(x, attended, trace=trace, name=here)
        here = f"{name}.feed_forward"
        output: Tensor = self.feed_forward_norm(
            x, self.feed_forward(x, trace=trace, name=here), trace=trace, name=here
        )
        return output


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's memory, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.h)
        self.self_attention_norm = AddAndNorm(config)
        self.cross_attention = MultiHeadAttention(config.d_model, config.h)
        self.cross_attention_norm = AddAndNorm(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.feed_forward_norm = AddAndNorm(config)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        src_mask: Tensor | None,
        tgt_mask: Tensor | None = None,
        *,
        trace: Trace | None = None,
        interventions: Interventions | None = None,
        name: str = "",
    ) -> Tensor:
        """(batch, n_tgt, d_model) from x of that shape and memory (batch, n_src, d_model)."""
        here = f"{name}.self_attention"
        attended = self.self_attention(
            x,
            x,
            x,
            tgt_mask,
            causal=interventions is None or interventions.causal,
            trace=trace,
            interventions=interventions,
            name=here,
        )
        x = self.self_attention_norm(x, attended, trace=trace, name=here)
        here = f"{name}.cross_attention"
        attended = self.cross_attention(
            x, memory, memory, src_mask, trace=trace, interventions=interventions, name=here
        )
        x = self.cross_attention_norm(x, attended, trace=trace, name=here)
        here = f"{name}.feed_forward"
        output: Tensor = self.feed_forward_norm(
            x, self.feed_forward(x, trace=trace, name=here), trace=trace, name=here
        )
        return output
