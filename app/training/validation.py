"""How good the model is while it trains: perplexity and greedy BLEU on held-out sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from app.training.data import Encoded, ParallelText, batches, collate, encode
from app.training.evaluation import Example, score, translate_all
from app.transformer.decoding import SearchOptions
from app.transformer.model import Transformer
from app.translation.tokenizer import PAD_ID, Tokenizer


@dataclass(frozen=True, slots=True)
class Validation:
    """What one look at the held-out sentences found."""

    perplexity: float  # on every sentence's first reference
    bleu: float | None  # sacreBLEU of greedy translations, on the first sentences
    translations: tuple[tuple[str, str], ...]  # a few of them: source, translation


def validate(
    model: Transformer, tokenizer: Tokenizer, examples: list[Example], bleu_sentences: int
) -> Validation:
    """Look at a model in evaluation mode; BLEU on the first `bleu_sentences`, none if 0."""
    text = ParallelText([e.source for e in examples], [e.references[0] for e in examples])
    data = encode(text, tokenizer, model.config.max_len - 1)
    first = examples[:bleu_sentences]
    sources = [example.source for example in first]
    outputs = translate_all(model, tokenizer, sources, SearchOptions(beam_size=1)) if first else []
    return Validation(
        perplexity(model, data),
        score(outputs, first).bleu if first else None,
        tuple(zip(sources[:5], outputs[:5], strict=True)),
    )


@torch.no_grad()
def perplexity(model: Transformer, data: Encoded) -> float:
    """exp of the mean negative log-probability of the target tokens, END included, unsmoothed."""
    device = model.embedding.weight.device
    total, tokens = 0.0, 0
    for rows in batches(data, 4000, seed=0, epoch=0):
        batch = collate(data, rows)
        logits = model(batch.src.to(device), batch.tgt_in.to(device))
        wanted = batch.tgt_out.to(device).flatten()
        total += float(
            F.cross_entropy(logits.flatten(0, 1), wanted, ignore_index=PAD_ID, reduction="sum")
        )
        tokens += batch.target_tokens
    return math.exp(min(total / tokens, 700.0))
