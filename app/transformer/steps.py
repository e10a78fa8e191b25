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
from app.transformer.prepared import DecoderWeights, FoldedMemory, PreparedTransformer
from app.transformer.trace import Interventions


class Steps(Protocol):
    """What a search needs. Rows: sentence 0's hypotheses, then sentence 1's, `beam_size` each."""

    def start(self, src: Tensor, beam_size: int, max_new: int) -> None:
        """Encode `src` (batch, n), padded, and make room for `max_new` tokens."""

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor:
        """Float32 logits (rows, ≥ vocab_size), the caller's to change.

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
        self.folded: list[FoldedMemory] = [
            layer.cross.fold(memory, src_bias) for layer in model.decoder
        ]
        slots = max_new * beam_size
        shape = (2, self.batch, config.h, slots, config.d_k)  # keys, values
        self.cache = [
            torch.empty(shape, dtype=model.dtype, device=model.device) for _ in model.decoder
        ]
        own = torch.full((beam_size, beam_size), -torch.inf, dtype=model.dtype, device=model.device)
        self.mask = own.fill_diagonal_(0).repeat(self.batch, max_new)

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor:
        """One token further."""
        model, past = self.model, self.position * self.beam_size
        if parents is not None and past:
            self.mask[:, :past] = self.mask[:, :past].index_select(0, parents)
        slots = past + self.beam_size
        mask = self.mask[:, :slots].view(self.batch, 1, self.beam_size, slots)
        x = (F.embedding(tokens, model.embedding) + model.positions[self.position]).to(model.dtype)
        for layer, folded, cache in zip(model.decoder, self.folded, self.cache, strict=True):
            x = self._layer(layer, folded, cache, x, mask, past)
        self.position += 1
        return model.logits(x).float()

    def _layer(
        self,
        layer: DecoderWeights,
        folded: FoldedMemory,
        cache: Tensor,
        x: Tensor,
        mask: Tensor,
        past: int,
    ) -> Tensor:
        """(rows, d_model) → the same shape; writes this position's keys and values to `cache`."""
        rows, d_model = x.shape
        batch, beam_size, h = self.batch, self.beam_size, layer.attention.h
        slots = past + beam_size
        # self-attention: (3, batch, h, beam_size, d_k)
        qkv = layer.attention.qkv(x).view(batch, beam_size, 3, h, d_model // h)
        qkv = qkv.permute(2, 0, 3, 1, 4)
        cache[:, :, :, past:slots] = qkv[1:]
        keys, values = cache[0, :, :, :slots], cache[1, :, :, :slots]
        scores = torch.matmul(qkv[0], keys.transpose(2, 3)).add_(mask)
        heads = torch.matmul(torch.softmax(scores, dim=-1), values)
        concat = heads.transpose(1, 2).reshape(rows, d_model)
        x = layer.attention_norm(layer.attention.output(concat).add_(x))
        # cross-attention, folded: (batch, beam_size, h · n_src)
        scores = torch.baddbmm(folded.bias, x.view(batch, beam_size, d_model), folded.queries)
        weights = torch.softmax(scores.view(rows, h, -1), dim=-1).view(batch, beam_size, -1)
        attended = torch.matmul(weights, folded.values).view(rows, d_model)
        x = layer.cross_norm(attended.add_(x).add_(layer.cross.b_O))
        return layer.feed_forward_norm(layer.feed_forward(x).add_(x))

    def keep(self, sentences: Tensor) -> None:
        """Drop the other sentences."""
        self.batch = len(sentences)
        self.mask = self.mask[_rows(sentences, self.beam_size)]
        self.cache = [cache.index_select(1, sentences) for cache in self.cache]
        for folded in self.folded:
            folded.keep(sentences)


def _rows(sentences: Tensor, beam_size: int) -> Tensor:
    """The rows of these sentences' hypotheses."""
    offsets = torch.arange(beam_size, device=sentences.device)
    return (sentences[:, None] * beam_size + offsets).flatten()
