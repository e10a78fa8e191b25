"""How well a model translates: BLEU and chrF by sacreBLEU, over sentences with references."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sacrebleu

from app.transformer.config import TransformerConfig
from app.transformer.decoding import SearchOptions, search
from app.transformer.model import Transformer
from app.transformer.prepared import Precision, PreparedTransformer
from app.transformer.steps import CachedSteps
from app.translation.tokenizer import EOS_ID, Tokenizer


class EvaluationError(ValueError):
    """A file that cannot be evaluated; the message names the line and the remedy."""


@dataclass(frozen=True, slots=True)
class Example:
    """A source sentence and its one or more references."""

    source: str
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scores:
    """Corpus scores; the signatures say exactly how they were computed."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A model's scores on a file, its translations in the file's order, and its speed."""

    scores: Scores
    hypotheses: tuple[str, ...]
    seconds: float

    @property
    def sentences_per_second(self) -> float:
        """Wall-clock speed, tokenising included and loading excluded."""
        return len(self.hypotheses) / self.seconds


def read_examples(path: Path, limit: int | None = None) -> list[Example]:
    """Tab-separated lines: a source, then its references. EvaluationError names a bad line."""
    examples: list[Example] = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise EvaluationError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise EvaluationError(f"{path} is not UTF-8 text: {error.reason}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if limit is not None and len(examples) >= limit:
            break
        source, *references = (field.strip() for field in line.split("\t"))
        references = [reference for reference in references if reference]
        if not source or not references:
            raise EvaluationError(
                f"{path}, line {number}: a source, a tab and at least one reference are needed"
            )
        examples.append(Example(source, tuple(references)))
    if not examples:
        raise EvaluationError(f"{path} holds no sentence")
    return examples


def score(hypotheses: Sequence[str], examples: Sequence[Example]) -> Scores:
    """BLEU and chrF of `hypotheses` against every example's references, however many each has."""
    most = max(len(example.references) for example in examples)
    # sacreBLEU takes the first references of all sentences, then the second ones …; None: no more
    columns: Any = [
        [e.references[i] if i < len(e.references) else None for e in examples] for i in range(most)
    ]
    bleu, chrf = sacrebleu.BLEU(), sacrebleu.CHRF()
    bleu_score = bleu.corpus_score(list(hypotheses), columns).score
    chrf_score = chrf.corpus_score(list(hypotheses), columns).score
    return Scores(bleu_score, chrf_score, str(bleu.get_signature()), str(chrf.get_signature()))


def translate_all(
    model: Transformer | PreparedTransformer,
    tokenizer: Tokenizer,
    sources: Sequence[str],
    options: SearchOptions | None = None,
    *,
    precision: Precision = "float32",
    batch_size: int = 64,
    progress: Callable[[int], None] | None = None,
) -> list[str]:
    """The best translation of each source, in order; `progress` is told how many more are done.

    Sentences of similar length share a batch. A source beyond the model's positions is cut there.
    """
    prepared = (
        model if isinstance(model, PreparedTransformer) else PreparedTransformer(model, precision)
    )
    steps = CachedSteps(prepared)
    ids = [_fitting(row, prepared.config) for row in tokenizer.encode_all(sources)]
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    translations = [""] * len(ids)
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        found = search(
            steps, prepared.config, [ids[i] for i in batch], options, device=prepared.device
        )
        for i, result in zip(batch, found, strict=True):
            translations[i] = tokenizer.decode(result.best.tokens)
        if progress is not None:
            progress(len(batch))
    return translations


def evaluate(
    model: Transformer | PreparedTransformer,
    tokenizer: Tokenizer,
    examples: Sequence[Example],
    options: SearchOptions | None = None,
    *,
    precision: Precision = "float32",
    batch_size: int = 64,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Translate every example and score the translations."""
    started = time.perf_counter()
    hypotheses = translate_all(
        model,
        tokenizer,
        [example.source for example in examples],
        options,
        precision=precision,
        batch_size=batch_size,
        progress=progress,
    )
    seconds = time.perf_counter() - started
    return Evaluation(score(hypotheses, examples), tuple(hypotheses), seconds)


def _fitting(ids: list[int], config: TransformerConfig) -> list[int]:
    return [*ids[: config.max_len - 1], EOS_ID]
