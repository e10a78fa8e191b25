"""One token further for every hypothesis: the two ways to compute the next token's logits.

`CachedSteps` reads the keys and values of earlier positions from memory; `UncachedSteps` runs the
readable model over the whole prefix again, so that it can also answer "what if" (Interventions).
Both give the same logits to rounding; decoding.py does not know which it has.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from app.transformer.model import Transformer
from app.transformer.prepared import (
    DecoderWeights,
    FoldedMemory,
    PreparedTransformer,
    ProjectedMemory,
)
from app.transformer.trace import Interventions


class Steps(Protocol):
    """What a search needs. Rows: sentence 0's hypotheses, then sentence 1's, `beam_size` each."""

    def start(self, src: Tensor, beam_size: int, max_new: int) -> None:
        """Encode `src` (batch, n), padded, and make room for `max_new` tokens."""

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor:
        """Logits (rows, ≥ vocab_size).

        Row i continues what row `parents[i]` was with `tokens[i]`; None: each continues itself.
        """

    def keep(self, sentences: Tensor) -> None:
        """Go on with these sentences of the batch only."""


class UncachedSteps:
    """The whole prefix through the readable model, every time."""

    def __init__(self, model: Transformer, interventions: Interventions | None = None) -> None:
        self.model = model
        self.interventions = interventions

    def start(self, src: Tensor, beam_size: int, max_new: int) -> None:
        """Encode the batch."""
        self.beam_size = beam_size
        src_mask = self.model.src_mask(src)
        memory = self.model.encode(src, src_mask, interventions=self.interventions)
        self.src_mask = src_mask.repeat_interleave(beam_size, 0)
        self.memory = memory.repeat_interleave(beam_size, 0)
        self.prefix = src.new_empty((len(src) * beam_size, 0))

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor:
        """One token further."""
        prefix = self.prefix if parents is None else self.prefix[parents]
        self.prefix = torch.cat((prefix, tokens[:, None]), dim=1)
        hidden = self.model.decode(
            self.prefix, self.memory, self.src_mask, interventions=self.interventions
        )
        return self.model.logits(hidden[:, -1]).float()

    def keep(self, sentences: Tensor) -> None:
        """Drop the other sentences."""
        rows = _rows(sentences, self.beam_size)
        self.prefix, self.memory = self.prefix[rows], self.memory[rows]
        self.src_mask = self.src_mask[rows]


class CachedSteps:
    """Keys and values are computed once per position and never moved.

    A reordered beam usually reorders its cache. Here position t's keys and values stay where row i
    wrote them, in slot t · beam_size + i of its sentence, and each row remembers which slots are
    its own past: `mask` is 0 there and -inf elsewhere. Reordering the beam reorders that mask.
    """

    def __init__(self, model: PreparedTransformer) -> None:
        self.model = model

    def start(self, src: Tensor, beam_size: int, max_new: int) -> None:
        """Encode the batch."""
        model, config = self.model, self.model.config
        memory, src_bias = model.encode(src)
        self.batch, self.beam_size, self.position = len(src), beam_size, 0
        self.memories = model.cross.over(memory, src_bias)
        cache = (2, self.batch, config.h, max_new * beam_size, config.d_k)  # keys, then values
        self.caches = [memory.new_empty(cache) for _ in model.decoder]
        mask = memory.new_full((self.batch, beam_size, max_new, beam_size), -torch.inf)
        mask.diagonal(dim1=1, dim2=3).zero_()
        self.mask = mask.view(self.batch * beam_size, -1)

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor:
        """One token further."""
        model, past = self.model, self.position * self.beam_size
        slots = past + self.beam_size
        mask = self.mask[:, :slots]
        if parents is not None and past:
            own = mask[:, :past]
            own.copy_(own.index_select(0, parents))
        mask = mask.view(self.batch, 1, self.beam_size, slots)
        x = model.embedding.index_select(0, tokens).add_(model.positions[self.position])
        for i, layer in enumerate(model.decoder):
            x = self._layer(layer, self.memories[i], self.caches[i], x, mask)
        self.position += 1
        return model.logits(x)

    def _layer(
        self,
        layer: DecoderWeights,
        memory: FoldedMemory | ProjectedMemory,
        cache: Tensor,
        x: Tensor,
        mask: Tensor,
    ) -> Tensor:
        """(rows, d_model) → the same shape; writes this position's keys and values."""
        rows, d_model = x.shape
        beam_size, slots = mask.shape[-2:]
        qkv = layer.attention.qkv(x).view(-1, beam_size, 3, layer.attention.h, layer.attention.d_k)
        qkv = qkv.permute(2, 0, 3, 1, 4)  # (3, batch, h, beam_size, d_k)
        cache = cache[:, :, :, :slots]
        cache[:, :, :, -beam_size:] = qkv[1:]
        # over this position and the past ones
        heads = F.scaled_dot_product_attention(qkv[0], cache[0], cache[1], attn_mask=mask)
        concat = heads.transpose(1, 2).reshape(rows, d_model)
        x = layer.attention_norm(layer.attention.output(concat).add_(x))
        x = layer.cross_norm(memory.attend(x, beam_size))
        return layer.feed_forward_norm(layer.feed_forward(x).add_(x))

    def keep(self, sentences: Tensor) -> None:
        """Drop the other sentences."""
        self.batch = len(sentences)
        self.mask = self.mask[_rows(sentences, self.beam_size)]
        self.caches = [cache.index_select(1, sentences) for cache in self.caches]
        self.memories = [memory.keep(sentences) for memory in self.memories]


def _rows(sentences: Tensor, each: int) -> Tensor:
    """The rows of these sentences, where every sentence has `each` rows."""
    return (sentences[:, None] * each + torch.arange(each, device=sentences.device)).flatten()
