"""The model's weights laid out for translating: the same function, in fewer and larger operations.

`Transformer` is written to be read, trained and looked into. Translating one token reads every
weight of the decoder once, so there the traffic of the weights and the number of operations decide.
What is prepared, once per model:

- W_Q, W_K and W_V side by side, one product instead of three.
- Matrices laid out for the fastest product there is: float16 weights read as they are stored and
  multiplied in float32, or bfloat16 ones packed for the CPU's matrix units.

And once per source, because its memory M does not change while it is translated:

- Cross-attention's keys M W_K and values M W_V (§3.2.3). For a single sentence they are folded:
  a head's scores are (x W_Q)(M W_K)^T = x (W_Q (M W_K)^T), and its contribution to the output is
  weights (M W_V) W_O. Both brackets are fixed: two products with matrices of h · n_src columns
  replace four. (For a batch it would be more to read, not less.)

The results differ from the readable model's by rounding alone (tests hold them to 1e-5).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from app.transformer.attention import MultiHeadAttention
from app.transformer.layers import AddAndNorm, DecoderLayer, EncoderLayer, FeedForward
from app.transformer.model import Transformer

Precision = Literal["float32", "bfloat16"]
Linear = Callable[[Tensor], Tensor]  # (rows, d_in) → (rows, d_out), both float32

VOCABULARY_BLOCK = 64  # logits come in whole blocks, see decoding.largest
# a softmax is over at least so many columns: over fewer, torch's takes several times as long
FULL_VECTOR = 16


def linear(weight: Tensor, bias: Tensor | None, precision: Precision) -> Linear:
    """The function x W^T + b, with W (d_out, d_in) laid out once.

    In bfloat16 the products' factors are rounded to it; sums and results stay float32 or come back
    to it.
    """
    if precision == "float32":
        return _float32_product(weight.float(), None if bias is None else bias.float())
    product = _bfloat16_product(weight, bias, "none")
    return lambda x: product(x.bfloat16()).float()


def feed_forward(module: FeedForward, precision: Precision) -> Linear:
    """Eq. 2, laid out once."""
    inner, outer = module.W_1, module.W_2
    activate = F.silu if module.swish else torch.relu_
    if precision == "float32":
        first = linear(inner.weight, inner.bias, precision)
        second = linear(outer.weight, outer.bias, precision)
        return lambda x: second(activate(first(x)))
    first = _bfloat16_product(inner.weight, inner.bias, "swish" if module.swish else "relu")
    second = _bfloat16_product(outer.weight, outer.bias, "none")
    return lambda x: second(first(x.bfloat16())).float()


def _float32_product(weight: Tensor, bias: Tensor | None) -> Linear:
    """Read half as many bytes where nothing is lost by it.

    A checkpoint's weights are float16 numbers. FBGEMM reads them as such and calculates in float32:
    the same result to rounding, in little more than half the time, because reading the weights is
    what takes it. torch announces that these operators will go; without them, or for other numbers,
    the usual product does the work.
    """
    if weight.device.type == "cpu" and torch.equal(weight.half().float(), weight):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the announcement
                packed = torch.fbgemm_pack_gemm_matrix_fp16(weight.contiguous())
                product = torch.fbgemm_linear_fp16_weight_fp32_activation
                product(weight.new_zeros(1, weight.shape[1]), packed, bias)
            return lambda x: product(x, packed, bias)
        except (AttributeError, RuntimeError):
            pass
    transposed = weight.t().contiguous()
    if bias is None:
        return lambda x: torch.mm(x, transposed)
    return lambda x: torch.addmm(bias, x, transposed)


def _bfloat16_product(
    weight: Tensor, bias: Tensor | None, then: Literal["none", "relu", "swish"]
) -> Linear:
    weight, bias = weight.bfloat16(), None if bias is None else bias.bfloat16()
    if weight.device.type == "cpu" and _has_packed_bfloat16():
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
        pointwise = torch.ops.mkldnn._linear_pointwise
        return lambda x: pointwise(x, packed, bias, then, [], "")
    activate = {"none": lambda x: x, "relu": torch.relu_, "swish": F.silu}[then]
    return lambda x: activate(F.linear(x, weight, bias))


def _has_packed_bfloat16() -> bool:
    """Whether this CPU and this build of torch have matrix units for bfloat16, packed."""
    try:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):
        return False


@dataclass(frozen=True, slots=True)
class Norm:
    """LayerNorm(x + sublayer) of §3.1."""

    gamma: Tensor
    beta: Tensor
    epsilon: float

    @classmethod
    def of(cls, module: AddAndNorm) -> Norm:
        """A copy of the module's numbers."""
        norm = module.layer_norm
        return cls(norm.weight.float().clone(), norm.bias.float().clone(), norm.eps)

    def __call__(self, residual_sum: Tensor) -> Tensor:
        """(rows, d_model) → the same shape."""
        return torch.layer_norm(residual_sum, self.gamma.shape, self.gamma, self.beta, self.epsilon)


class SelfAttention:
    """Q, K and V in one product; `output` is W_O."""

    def __init__(self, module: MultiHeadAttention, precision: Precision) -> None:
        self.h = module.h
        self.d_k = module.W_Q.weight.shape[0] // module.h
        self.scale = 1 / math.sqrt(self.d_k)
        q, k, v = module.W_Q, module.W_K, module.W_V
        self.qkv = linear(
            torch.cat([q.weight.float(), k.weight.float(), v.weight.float()]),
            torch.cat([q.bias.float(), k.bias.float(), v.bias.float()]),
            precision,
        )
        self.output = linear(module.W_O.weight, module.W_O.bias, precision)


class CrossAttention:
    """One layer's queries and outputs over a memory."""

    def __init__(self, module: MultiHeadAttention, precision: Precision) -> None:
        self.h = module.h
        self.d_k = module.W_Q.weight.shape[0] // module.h
        self.scale = 1 / math.sqrt(self.d_k)
        self.query = linear(module.W_Q.weight, module.W_Q.bias, precision)
        self.output = linear(module.W_O.weight, module.W_O.bias, precision)


class CrossAttentions:
    """All layers' cross-attention; `over` makes their memory known, to all of them in one go."""

    def __init__(self, modules: Sequence[MultiHeadAttention], precision: Precision) -> None:
        self.layers = [CrossAttention(module, precision) for module in modules]
        projections = [part for module in modules for part in (module.W_K, module.W_V)]
        self.kv = linear(
            torch.cat([part.weight.float() for part in projections]),
            torch.cat([part.bias.float() for part in projections]),
            precision,
        )
        # for folding, over all layers' heads: b_Q is W_Q's last row, and since a head's weights sum
        # to 1, h-th parts of b_O on every value add up to b_O
        h, d_k, scale = modules[0].h, self.layers[0].d_k, self.layers[0].scale
        queries = [
            torch.cat((module.W_Q.weight.float(), module.W_Q.bias.float()[:, None]), 1) * scale
            for module in modules
        ]
        outputs = [module.W_O.weight.float().t() for module in modules]
        b_O = torch.stack([module.W_O.bias.float() for module in modules]) / h
        self.W_Q = torch.cat(queries).view(len(modules) * h, d_k, -1).transpose(1, 2).contiguous()
        self.W_O = torch.cat(outputs).reshape(len(modules) * h, d_k, -1)
        self.b_O = b_O.repeat_interleave(h, 0)[:, None]

    def over(
        self, memory: Tensor, src_bias: Tensor | None
    ) -> Sequence[FoldedMemory | ProjectedMemory]:
        """Each layer's attention over `memory` (batch, n, d_model).

        `src_bias` (batch, n): 0 at tokens, -inf at padding; None when nothing is padded.
        """
        batch, n, d_model = memory.shape
        N, h, d_k = len(self.layers), self.layers[0].h, self.layers[0].d_k
        kv = self.kv(memory.reshape(batch * n, d_model)).view(batch, n, N, 2, h, d_k)
        keys = kv[:, :, :, 0].permute(2, 0, 3, 4, 1)  # (N, batch, h, d_k, n)
        values = kv[:, :, :, 1].permute(2, 0, 3, 1, 4)  # (N, batch, h, n, d_k)
        if batch == 1:
            return self._fold(keys.reshape(N * h, d_k, n), values.reshape(N * h, n, d_k), src_bias)
        if src_bias is None:
            src_bias = memory.new_zeros(batch, n)
        bias = src_bias[:, None, None, :].expand(-1, h, -1, -1).reshape(-1, 1, n)
        keys, values = keys.reshape(N, -1, d_k, n), values.reshape(N, -1, n, d_k)
        return [
            ProjectedMemory(layer, keys[i], values[i], bias) for i, layer in enumerate(self.layers)
        ]

    def _fold(self, keys: Tensor, values: Tensor, src_bias: Tensor | None) -> list[FoldedMemory]:
        """From one sentence's keys (N · h, d_k, n) and values (N · h, n, d_k)."""
        N, h = len(self.layers), self.layers[0].h
        queries = torch.matmul(self.W_Q, keys)  # (N · h, d_model + 1, n)
        values = torch.matmul(values, self.W_O).add_(self.b_O)  # (N · h, n, d_model)
        if src_bias is not None:
            queries[:, -1] += src_bias
        short = FULL_VECTOR - keys.shape[-1]
        if short > 0:
            queries = F.pad(queries, (0, short))
            queries[:, -1, -short:] = -torch.inf
            values = F.pad(values, (0, 0, 0, short))
        queries = queries.view(N, h, *queries.shape[1:]).transpose(1, 2).flatten(2)
        values = values.view(N, -1, values.shape[-1])
        return [FoldedMemory(h, queries[i, :-1], queries[i, -1], values[i]) for i in range(N)]


@dataclass(frozen=True, slots=True)
class FoldedMemory:
    """One sentence's memory with the projections of queries and outputs multiplied in."""

    h: int
    queries: Tensor  # (d_model, h · n_src)
    bias: Tensor  # (h · n_src,)
    values: Tensor  # (h · n_src, d_model)

    def attend(self, x: Tensor, beam_size: int) -> Tensor:
        """x + attention's output, (rows, d_model)."""
        scores = torch.addmm(self.bias, x, self.queries)
        weights = scores.view(len(x), self.h, -1).softmax(-1).view(scores.shape)
        return torch.addmm(x, weights, self.values)

    def keep(self, sentences: Tensor) -> FoldedMemory:
        """The only sentence stays."""
        return self


@dataclass(frozen=True, slots=True)
class ProjectedMemory:
    """A batch's memories as keys and values."""

    attention: CrossAttention
    keys: Tensor  # (batch · h, d_k, n_src)
    values: Tensor  # (batch · h, n_src, d_k)
    bias: Tensor  # (batch · h, 1, n_src): -inf at padding

    def attend(self, x: Tensor, beam_size: int) -> Tensor:
        """x + attention's output, (rows, d_model)."""
        attention, (rows, d_model) = self.attention, x.shape
        shape = (rows // beam_size, attention.h, beam_size, attention.d_k)
        q = attention.query(x).view(shape[0], beam_size, attention.h, attention.d_k)
        q = q.transpose(1, 2).reshape(-1, beam_size, attention.d_k)
        scores = torch.baddbmm(self.bias, q, self.keys, alpha=attention.scale)
        heads = torch.bmm(scores.softmax(-1), self.values).view(shape)
        concat = heads.transpose(1, 2).reshape(rows, d_model)
        return attention.output(concat).add_(x)

    def keep(self, sentences: Tensor) -> ProjectedMemory:
        """These sentences of the batch, in this order."""
        h = self.attention.h
        rows = (sentences[:, None] * h + torch.arange(h, device=sentences.device)).flatten()
        return ProjectedMemory(self.attention, self.keys[rows], self.values[rows], self.bias[rows])


class EncoderWeights:
    """One encoder layer."""

    def __init__(self, layer: EncoderLayer, precision: Precision) -> None:
        self.attention = SelfAttention(layer.self_attention, precision)
        self.attention_norm = Norm.of(layer.self_attention_norm)
        self.feed_forward = feed_forward(layer.feed_forward, precision)
        self.feed_forward_norm = Norm.of(layer.feed_forward_norm)

    def __call__(self, x: Tensor, batch: int, src_bias: Tensor | None) -> Tensor:
        """(batch · n, d_model) → the same shape."""
        rows, d_model = x.shape
        n, h = rows // batch, self.attention.h
        d_k = d_model // h
        q, k, v = self.attention.qkv(x).view(batch, n, 3, h, d_k).permute(2, 0, 3, 1, 4)
        scores = torch.matmul(q * self.attention.scale, k.transpose(2, 3))  # (batch, h, n, n)
        if src_bias is not None:
            scores = scores + src_bias[:, None, None, :]
        heads = torch.matmul(torch.softmax(scores, dim=-1), v)
        concat = heads.transpose(1, 2).reshape(rows, d_model)
        x = self.attention_norm(self.attention.output(concat).add_(x))
        return self.feed_forward_norm(self.feed_forward(x).add_(x))


class DecoderWeights:
    """One decoder layer; steps.CachedSteps runs it."""

    def __init__(self, layer: DecoderLayer, precision: Precision) -> None:
        self.attention = SelfAttention(layer.self_attention, precision)
        self.attention_norm = Norm.of(layer.self_attention_norm)
        self.cross_norm = Norm.of(layer.cross_attention_norm)
        self.feed_forward = feed_forward(layer.feed_forward, precision)
        self.feed_forward_norm = Norm.of(layer.feed_forward_norm)


class PreparedTransformer:
    """`Transformer` for inference, on copies of the weights.

    In float32 a sentence gets the same translation alone and in a batch. bfloat16 is for batches,
    on machines with units for it: large products in that format, everything else in float32.
    """

    def __init__(self, model: Transformer, precision: Precision = "float32") -> None:
        with torch.no_grad():
            self.config = config = model.config
            self.device = model.embedding.weight.device
            weight = model.embedding.weight.float()
            self.embedding = weight * math.sqrt(config.d_model)
            self.positions = model.positions.float().clone()
            padded = -config.vocab_size % VOCABULARY_BLOCK
            bias = model.output_bias
            if padded:
                if bias is None:
                    bias = torch.zeros(config.vocab_size, device=self.device)
                bias = F.pad(bias, (0, padded), value=-torch.inf)
            weight = F.pad(weight, (0, 0, 0, padded))
            if precision == "bfloat16":
                product = _bfloat16_product(weight, bias, "none")
                # left in bfloat16: many rows of a large vocabulary, see decoding._candidates
                self.logits: Linear = lambda x: product(x.bfloat16())
            else:
                self.logits = linear(weight, bias, precision)
            encoder = cast("list[EncoderLayer]", list(model.encoder))
            decoder = cast("list[DecoderLayer]", list(model.decoder))
            self.encoder = [EncoderWeights(layer, precision) for layer in encoder]
            self.decoder = [DecoderWeights(layer, precision) for layer in decoder]
            self.cross = CrossAttentions([layer.cross_attention for layer in decoder], precision)

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor | None]:
        """Memory (batch, n, d_model) of `src` (batch, n); its bias (batch, n): -inf at padding."""
        batch, n = src.shape
        padding = src == self.config.pad_id
        src_bias = None
        if bool(padding.any()):
            src_bias = torch.zeros(src.shape, device=self.device).masked_fill_(padding, -torch.inf)
        x = (F.embedding(src, self.embedding) + self.positions[:n]).view(batch * n, -1)
        for layer in self.encoder:
            x = layer(x, batch, src_bias)
        return x.view(batch, n, -1), src_bias
