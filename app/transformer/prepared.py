"""The model's weights laid out for translating: the same function, in fewer and larger operations.

`Transformer` is written to be read, trained and looked into. Translating one token reads every
weight of the decoder once, so there the traffic of the weights and the number of operations decide.
What is prepared, once per model:

- W_Q, W_K and W_V side by side, one product instead of three; 1/√d_k multiplied into W_Q.
- Matrices transposed for float32 products; bfloat16 ones packed for the CPU's matrix units where
  torch offers that.

And once per source sentence, because its memory does not change while it is translated:

- Cross-attention folded (§3.2.3). A head's scores are (x W_Q)(M W_K)^T = x (W_Q (M W_K)^T), and its
  contribution to the output is weights (M W_V) W_O. Both brackets are fixed for the sentence: two
  products with matrices of h · n_src columns replace the projections W_Q and W_O.

The results differ from the readable model's by rounding alone (tests hold them to 1e-5).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from app.transformer.attention import MultiHeadAttention
from app.transformer.layers import AddAndNorm, DecoderLayer, EncoderLayer, FeedForward
from app.transformer.model import Transformer

Precision = Literal["float32", "bfloat16"]
Linear = Callable[[Tensor], Tensor]  # (rows, d_in) → (rows, d_out)

VOCABULARY_BLOCK = 64  # logits come in whole blocks, see decoding.top_logits


def linear(weight: Tensor, bias: Tensor | None) -> Linear:
    """The function x W^T + b of x (rows, d_in), with W (d_out, d_in) laid out once."""
    if weight.dtype == torch.bfloat16:
        if weight.device.type == "cpu" and torch.ops.mkldnn._is_mkldnn_bf16_supported():
            packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
            pointwise = torch.ops.mkldnn._linear_pointwise
            return lambda x: pointwise(x, packed, bias, "none", [], "")
        return lambda x: F.linear(x, weight, bias)
    transposed = weight.t().contiguous()
    if bias is None:
        return lambda x: x @ transposed
    return lambda x: torch.addmm(bias, x, transposed)


@dataclass(frozen=True, slots=True)
class Norm:
    """LayerNorm(x + sublayer) of §3.1."""

    gamma: Tensor
    beta: Tensor
    epsilon: float

    @classmethod
    def of(cls, module: AddAndNorm, dtype: torch.dtype) -> Norm:
        """The module's numbers in `dtype`."""
        norm = module.layer_norm
        return cls(norm.weight.to(dtype), norm.bias.to(dtype), norm.eps)

    def __call__(self, residual_sum: Tensor) -> Tensor:
        """(rows, d_model) → the same shape."""
        return F.layer_norm(
            residual_sum, (residual_sum.shape[-1],), self.gamma, self.beta, self.epsilon
        )


def _parts(module: nn.Linear, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return module.weight.detach().to(dtype), module.bias.detach().to(dtype)


class SelfAttention:
    """Q, K and V in one product; `output` is W_O."""

    def __init__(self, module: MultiHeadAttention, dtype: torch.dtype) -> None:
        self.h = module.h
        scale = 1 / math.sqrt(module.W_Q.weight.shape[0] // module.h)
        weights = [module.W_Q.weight.detach().float() * scale, module.W_K.weight, module.W_V.weight]
        biases = [module.W_Q.bias.detach().float() * scale, module.W_K.bias, module.W_V.bias]
        self.qkv = linear(
            torch.cat([w.detach().to(dtype) for w in weights]),
            torch.cat([b.detach().to(dtype) for b in biases]),
        )
        self.output = linear(*_parts(module.W_O, dtype))


class CrossAttention:
    """The fixed half of attention over a memory."""

    def __init__(self, module: MultiHeadAttention, dtype: torch.dtype) -> None:
        self.h = h = module.h
        d_model = module.W_Q.weight.shape[0]
        d_k = d_model // h
        scale = 1 / math.sqrt(d_k)
        weights = torch.cat([module.W_K.weight.detach(), module.W_V.weight.detach()]).to(dtype)
        biases = torch.cat([module.W_K.bias.detach(), module.W_V.bias.detach()]).to(dtype)
        self.kv = linear(weights, biases)
        # (h, d_model, d_k) and (h, 1, d_k)
        self.W_Q = (
            (module.W_Q.weight.detach().float() * scale).view(h, d_k, d_model).transpose(1, 2)
        )
        self.W_Q = self.W_Q.to(dtype).contiguous()
        self.b_Q = (module.W_Q.bias.detach().float() * scale).view(h, 1, d_k).to(dtype)
        # (h, d_k, d_model)
        self.W_O = module.W_O.weight.detach().t().reshape(h, d_k, d_model).to(dtype).contiguous()
        self.b_O = module.W_O.bias.detach().to(dtype)

    def fold(self, memory: Tensor, src_bias: Tensor | None) -> FoldedMemory:
        """Fold the projections into `memory` (batch, n, d_model).

        `src_bias` (batch, n): 0 at tokens, -inf at padding; None when nothing is padded.
        """
        batch, n, d_model = memory.shape
        h, d_k = self.h, d_model // self.h
        kv = self.kv(memory.reshape(batch * n, d_model)).view(batch, n, 2, h, d_k)
        k = kv[:, :, 0].permute(0, 2, 3, 1)  # (batch, h, d_k, n)
        v = kv[:, :, 1].transpose(1, 2)  # (batch, h, n, d_k)
        queries = torch.matmul(self.W_Q, k)  # (batch, h, d_model, n)
        queries = queries.transpose(1, 2).reshape(batch, d_model, h * n)
        bias = torch.matmul(self.b_Q, k)  # (batch, h, 1, n)
        if src_bias is not None:
            bias = bias + src_bias[:, None, None, :]
        values = torch.matmul(v, self.W_O).reshape(batch, h * n, d_model)
        return FoldedMemory(queries, bias.reshape(batch, 1, h * n), values)


@dataclass(slots=True)
class FoldedMemory:
    """One layer's cross-attention for fixed sources.

    scores = x queries + bias; its output is weights values + b_O.
    """

    queries: Tensor  # (batch, d_model, h · n_src)
    bias: Tensor  # (batch, 1, h · n_src): -inf at padding
    values: Tensor  # (batch, h · n_src, d_model)

    def keep(self, index: Tensor) -> None:
        """Keep the sentences of `index`, in its order."""
        self.queries = self.queries.index_select(0, index)
        self.bias = self.bias.index_select(0, index)
        self.values = self.values.index_select(0, index)


class FeedForwardWeights:
    """Eq. 2; the activation in place."""

    def __init__(self, module: FeedForward, dtype: torch.dtype) -> None:
        self.inner = linear(*_parts(module.W_1, dtype))
        self.outer = linear(*_parts(module.W_2, dtype))

    def __call__(self, x: Tensor) -> Tensor:
        """(rows, d_model) → the same shape."""
        return self.outer(self.inner(x).relu_())


class EncoderWeights:
    """One encoder layer."""

    def __init__(self, layer: EncoderLayer, dtype: torch.dtype) -> None:
        self.attention = SelfAttention(layer.self_attention, dtype)
        self.attention_norm = Norm.of(layer.self_attention_norm, dtype)
        self.feed_forward = FeedForwardWeights(layer.feed_forward, dtype)
        self.feed_forward_norm = Norm.of(layer.feed_forward_norm, dtype)

    def __call__(self, x: Tensor, batch: int, src_bias: Tensor | None) -> Tensor:
        """(batch · n, d_model) → the same shape."""
        rows, d_model = x.shape
        n, h = rows // batch, self.attention.h
        d_k = d_model // h
        q, k, v = self.attention.qkv(x).view(batch, n, 3, h, d_k).permute(2, 0, 3, 1, 4)
        scores = torch.matmul(q, k.transpose(2, 3))  # (batch, h, n, n)
        if src_bias is not None:
            scores = scores + src_bias[:, None, None, :]
        heads = torch.matmul(torch.softmax(scores, dim=-1), v)
        concat = heads.transpose(1, 2).reshape(rows, d_model)
        x = self.attention_norm(self.attention.output(concat).add_(x))
        return self.feed_forward_norm(self.feed_forward(x).add_(x))


class DecoderWeights:
    """One decoder layer; decoding.CachedSteps runs it."""

    def __init__(self, layer: DecoderLayer, dtype: torch.dtype) -> None:
        self.attention = SelfAttention(layer.self_attention, dtype)
        self.attention_norm = Norm.of(layer.self_attention_norm, dtype)
        self.cross = CrossAttention(layer.cross_attention, dtype)
        self.cross_norm = Norm.of(layer.cross_attention_norm, dtype)
        self.feed_forward = FeedForwardWeights(layer.feed_forward, dtype)
        self.feed_forward_norm = Norm.of(layer.feed_forward_norm, dtype)


class PreparedTransformer:
    """`Transformer` for inference, in `precision`, on copies of the weights.

    float32 gives a sentence the same translation alone and in a batch, to rounding. bfloat16 is for
    large batches on CPUs and GPUs with units for it.
    """

    def __init__(self, model: Transformer, precision: Precision = "float32") -> None:
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        with torch.no_grad():
            self.config = config = model.config
            self.dtype = dtype
            self.device = model.embedding.weight.device
            weight = model.embedding.weight.detach()
            self.embedding = weight.float() * math.sqrt(config.d_model)
            self.positions = model.positions.float()
            padded = -config.vocab_size % VOCABULARY_BLOCK
            bias = torch.zeros(config.vocab_size + padded, device=self.device, dtype=dtype)
            bias[config.vocab_size :] = -torch.inf
            self.logits = linear(F.pad(weight.to(dtype), (0, 0, 0, padded)), bias)
            self.encoder = [EncoderWeights(layer, dtype) for layer in model.encoder]  # type: ignore[arg-type]
            self.decoder = [DecoderWeights(layer, dtype) for layer in model.decoder]  # type: ignore[arg-type]

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor | None]:
        """Memory (batch, n, d_model) of `src` (batch, n); its bias (batch, n): -inf at padding."""
        batch, n = src.shape
        padding = src == self.config.pad_id
        src_bias = None
        if bool(padding.any()):
            src_bias = torch.zeros(src.shape, dtype=self.dtype, device=self.device)
            src_bias.masked_fill_(padding, -torch.inf)
        x = (F.embedding(src, self.embedding) + self.positions[:n]).to(self.dtype)
        x = x.view(batch * n, -1)
        for layer in self.encoder:
            x = layer(x, batch, src_bias)
        return x.view(batch, n, -1), src_bias
