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
        self.memories = [layer.cross.over(memory, src_bias) for layer in model.decoder]
        batch_heads, slots = (self.batch, config.h), max_new * beam_size
        # keys lie transposed, as the product with queries reads them
        self.keys = [memory.new_empty((*batch_heads, config.d_k, slots)) for _ in model.decoder]
        self.values = [memory.new_empty((*batch_heads, slots, config.d_k)) for _ in model.decoder]
        own = memory.new_full((beam_size, beam_size), -torch.inf).fill_diagonal_(0)
        self.mask = own.repeat(self.batch, max_new)

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor:
        """One token further."""
        model, past = self.model, self.position * self.beam_size
        slots = past + self.beam_size
        mask = self.mask[:, :slots]
        if parents is not None and past:
            own = mask[:, :past]
            own.copy_(own.index_select(0, parents))
        if self.batch > 1:
            mask = mask.view(self.batch, 1, self.beam_size, slots)
            mask = mask.expand(-1, model.config.h, -1, -1).reshape(-1, self.beam_size, slots)
        x = F.embedding(tokens, model.embedding).add_(model.positions[self.position])
        for i, layer in enumerate(model.decoder):
            x = self._layer(layer, self.memories[i], self.keys[i], self.values[i], x, mask)
        self.position += 1
        return model.logits(x)

    def _layer(
        self,
        layer: DecoderWeights,
        memory: FoldedMemory | ProjectedMemory,
        keys: Tensor,
        values: Tensor,
        x: Tensor,
        mask: Tensor,
    ) -> Tensor:
        """(rows, d_model) → the same shape; writes this position's keys and values."""
        rows, d_model = x.shape
        batch, beam_size, h = self.batch, self.beam_size, layer.attention.h
        slots = mask.shape[-1]
        past = slots - beam_size
        # self-attention over this position and the past ones: mask + Q K^T, in (batch · h) products
        q, k, v = layer.attention.qkv(x).view(batch, beam_size, 3, h, d_model // h).unbind(2)
        keys[..., past:slots] = k.permute(0, 2, 3, 1)
        values[:, :, past:slots] = v.transpose(1, 2)
        q = q.transpose(1, 2).reshape(batch * h, beam_size, -1)
        past_keys, past_values = keys.flatten(0, 1)[..., :slots], values.flatten(0, 1)[:, :slots]
        scores = torch.baddbmm(mask, q, past_keys, alpha=layer.attention.scale)
        heads = torch.bmm(scores.softmax(-1), past_values)
        concat = heads.view(batch, h, beam_size, -1).transpose(1, 2).reshape(rows, d_model)
        x = layer.attention_norm(layer.attention.output(concat).add_(x))
        x = layer.cross_norm(memory.attend(x, beam_size))
        return layer.feed_forward_norm(layer.feed_forward(x).add_(x))

    def keep(self, sentences: Tensor) -> None:
        """Drop the other sentences."""
        self.batch = len(sentences)
        self.mask = self.mask[_rows(sentences, self.beam_size)]
        self.keys = [keys.index_select(0, sentences) for keys in self.keys]
        self.values = [values.index_select(0, sentences) for values in self.values]
        self.memories = [memory.keep(sentences) for memory in self.memories]


def _rows(sentences: Tensor, each: int) -> Tensor:
    """The rows of these sentences, where every sentence has `each` rows."""
    return (sentences[:, None] * each + torch.arange(each, device=sentences.device)).flatten()
