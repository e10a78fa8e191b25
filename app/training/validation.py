"""How good the model is while it trains: perplexity and greedy BLEU on held-out sentences."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from sacrebleu.metrics import BLEU
from torch import Tensor
from torch.nn import functional as F

from app.training.data import DataError, Encoded, batches, collate, read_lines
from app.transformer.model import Transformer
from app.translation.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer


def read_references(path: Path) -> tuple[list[str], list[list[str]]]:
    """Sources, and for each its references: every further column of the TSV file."""
    sources, references = [], []
    for raw in read_lines(path):
        source, *targets = raw.decode("utf-8", "replace").rstrip("\r\n").split("\t")
        targets = [target for target in targets if target.strip()]
        if source.strip() and targets:
            sources.append(source)
            references.append(targets)
    if not sources:
        raise DataError(f"no usable line in {path}; wanted: source, a tab, one or more references")
    return sources, references


@torch.no_grad()
def perplexity(model: Transformer, data: Encoded, device: torch.device) -> float:
    """exp of the mean negative log-probability of the target tokens, END included, unsmoothed."""
    total, tokens = 0.0, 0
    for rows in batches(data, 4000, seed=0, epoch=0):
        batch = collate(data, rows)
        logits = model(batch.src.to(device), batch.tgt_in.to(device)).float()
        total += float(
            F.cross_entropy(
                logits.flatten(0, 1),
                batch.tgt_out.to(device).flatten(),
                ignore_index=PAD_ID,
                reduction="sum",
            )
        )
        tokens += batch.target_tokens
    return math.exp(min(total / tokens, 700.0))


@torch.no_grad()
def greedy(model: Transformer, src: Tensor, limit: int) -> list[list[int]]:
    """The likeliest token at every step, for source tokens (batch, n_src); ids without START and END."""
    mask = model.src_mask(src)
    memory = model.encode(src, mask)
    tgt = torch.full((len(src), 1), BOS_ID, device=src.device)
    done = torch.zeros(len(src), dtype=torch.bool, device=src.device)
    for _ in range(limit):
        hidden = model.decode(tgt, memory, mask)[:, -1]
        token = model.logits(hidden.float()).argmax(dim=-1).masked_fill(done, PAD_ID)
        done |= token == EOS_ID
        tgt = torch.cat((tgt, token[:, None]), dim=1)
        if bool(done.all()):
            break
    return [[t for t in row[1:] if t not in (EOS_ID, PAD_ID)] for row in tgt.tolist()]


def greedy_bleu(
    model: Transformer,
    tokenizer: Tokenizer,
    sources: list[str],
    references: list[list[str]],
    device: torch.device,
) -> tuple[float, list[str]]:
    """sacreBLEU of greedy translations, and the translations."""
    ids = [tokenizer.encode(source)[-model.config.max_len :] for source in sources]
    by_length = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    outputs = [""] * len(ids)
    for first in range(0, len(ids), 50):
        rows = by_length[first : first + 50]
        longest = max(len(ids[i]) for i in rows)
        src = torch.full((len(rows), longest), PAD_ID)
        for place, i in enumerate(rows):
            src[place, : len(ids[i])] = torch.tensor(ids[i])
        limit = min(longest + 20, model.config.max_len - 1)
        for i, row in zip(rows, greedy(model, src.to(device), limit), strict=True):
            outputs[i] = tokenizer.decode(row)
    most = max(len(row) for row in references)
    streams = [[row[i] if i < len(row) else None for row in references] for i in range(most)]
    return float(BLEU().corpus_score(outputs, streams).score), outputs
