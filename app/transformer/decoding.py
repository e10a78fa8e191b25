"""Greedy and beam search with the paper's length penalty (§6.1), for one sentence or a batch.

The rules, where systems differ:

- A hypothesis's score is its log-probability divided by lp(Y) = (5 + |Y|)^α / (5 + 1)^α (Wu et al.
  2016). |Y| counts target tokens only, END among them since its probability is counted too.
- Each step looks at the 2 · beam_size likeliest continuations of a sentence's running hypotheses.
  One that writes END is finished if it is among the first beam_size of them, and dropped otherwise;
  the first beam_size that do not write END run on. A sentence is done once beam_size hypotheses are
  finished. (fairseq's rule; `early_stopping=True` in transformers.)
- At most source length + 50 tokens, END included on both sides, and no more than the model has
  positions. What runs then is taken as it is, unfinished, if fewer than beam_size are finished.
- Padding, START and the unknown token are never written. Their probability still counts in the
  softmax: the log-probabilities are the model's own.
- Greedy search is beam_size = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from app.transformer.config import TransformerConfig
from app.transformer.prepared import FULL_VECTOR, VOCABULARY_BLOCK
from app.transformer.steps import Steps


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = (5 + |Y|)^α / (5 + 1)^α for |Y| = `length` target tokens.

    >>> round(-2.0 / length_penalty(4, 0.6), 6), round(-2.3 / length_penalty(7, 0.6), 6)
    (-1.568105, -1.517434)
    """
    return float(((5 + length) / 6) ** alpha)


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search; the defaults are the paper's."""

    beam_size: int = 4
    alpha: float = 0.6
    max_extra: int = 50  # output tokens beyond the source's
    history: bool = False  # keep every candidate of every step

    def __post_init__(self) -> None:
        if self.beam_size < 1:
            raise ValueError(f"beam_size = {self.beam_size}: at least 1 is needed")
        if not math.isfinite(self.alpha) or self.alpha < 0:
            raise ValueError(f"alpha = {self.alpha}: a number of at least 0 is needed")


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A translation as tokens, END included when `ended`, each with its log-probability."""

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    log_prob: float
    score: float  # log_prob / length_penalty(len(tokens), alpha)
    ended: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """A continuation that the search looked at."""

    parent: int  # which running hypothesis it continues, from 0 in the order they were kept
    token: int
    token_log_prob: float
    log_prob: float  # of the whole hypothesis
    fate: Literal["kept", "finished", "dropped"]


@dataclass(frozen=True, slots=True)
class Found:
    """A sentence's hypotheses, best score first, and each step's candidates, best first."""

    hypotheses: tuple[Hypothesis, ...]
    history: tuple[tuple[Candidate, ...], ...]
    cancelled: bool = False

    @property
    def best(self) -> Hypothesis:
        """The hypothesis with the best score."""
        return self.hypotheses[0]


_ROWS_IN_CACHE = 32  # rows of logits that are looked at together: 1 MB for 8,000 tokens

# called after each step with the sentence's number in the batch and its likeliest tokens so far;
# False gives the sentence up
OnStep = Callable[[int, tuple[int, ...]], bool]
# called once per sentence, as soon as it is done
OnFound = Callable[[int, Found], None]


@dataclass(slots=True)
class _Node:
    """A hypothesis as its last token and what came before."""

    before: _Node | None
    token: int
    token_log_prob: float
    log_prob: float  # of the whole hypothesis, summed in float64

    def tokens(self) -> tuple[int, ...]:
        return tuple(node.token for node in self._path())

    def _path(self) -> list[_Node]:
        path, node = [], self
        while node.before is not None:
            path.append(node)
            node = node.before
        return path[::-1]

    def hypothesis(self, alpha: float, *, ended: bool) -> Hypothesis:
        path = self._path()
        return Hypothesis(
            tokens=tuple(node.token for node in path),
            log_probs=tuple(node.token_log_prob for node in path),
            log_prob=self.log_prob,
            score=self.log_prob / length_penalty(len(path), alpha),
            ended=ended,
        )


@dataclass(slots=True)
class _Sentence:
    """One sentence's beam."""

    number: int
    max_new: int
    eos_id: int
    options: SearchOptions
    running: list[_Node] = field(default_factory=lambda: [_Node(None, -1, 0.0, 0.0)])
    parents: list[int] = field(default_factory=list)  # of each running one, in the step before
    finished: list[Hypothesis] = field(default_factory=list)
    history: list[tuple[Candidate, ...]] = field(default_factory=list)
    length: int = 0
    done: bool = False
    cancelled: bool = False

    def advance(
        self, parents: Sequence[int], tokens: Sequence[int], log_probs: Sequence[float]
    ) -> None:
        """Take a step's candidates, best first."""
        beam_size = self.options.beam_size
        self.length += 1
        kept: list[_Node] = []
        kept_parents: list[int] = []
        looked_at: list[Candidate] = []
        for rank, (parent, token, token_log_prob) in enumerate(
            zip(parents, tokens, log_probs, strict=True)
        ):
            if len(kept) == beam_size and not self.options.history:
                break
            before = self.running[parent]
            log_prob = before.log_prob + token_log_prob
            fate: Literal["kept", "finished", "dropped"] = "dropped"
            if token == self.eos_id:
                if rank < beam_size and len(self.finished) < beam_size:
                    fate = "finished"
                    node = _Node(before, token, token_log_prob, log_prob)
                    self.finished.append(node.hypothesis(self.options.alpha, ended=True))
            elif len(kept) < beam_size:
                fate = "kept"
                kept.append(_Node(before, token, token_log_prob, log_prob))
                kept_parents.append(parent)
            if self.options.history:
                looked_at.append(Candidate(parent, token, token_log_prob, log_prob, fate))
        self.running, self.parents = kept, kept_parents
        if self.options.history:
            self.history.append(tuple(looked_at))
        self.done = len(self.finished) >= beam_size or not kept or self.length >= self.max_new

    def likeliest(self) -> tuple[int, ...]:
        """What to show while the sentence is being translated."""
        if self.running:
            return self.running[0].tokens()
        return self.finished[0].tokens if self.finished else ()

    def found(self) -> Found:
        hypotheses = list(self.finished)
        for node in self.running[: self.options.beam_size - len(hypotheses)]:
            if node.before is not None:
                hypotheses.append(node.hypothesis(self.options.alpha, ended=False))
        hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
        return Found(tuple(hypotheses), tuple(self.history), self.cancelled)


def search(
    steps: Steps,
    config: TransformerConfig,
    sources: Sequence[Sequence[int]],
    options: SearchOptions | None = None,
    *,
    on_step: OnStep | None = None,
    on_found: OnFound | None = None,
    device: torch.device | str = "cpu",
) -> list[Found]:
    """Translate `sources`, each a sequence of token ids that closes with END; in their order.

    Raises ValueError for an empty source or one longer than the model's positions.
    """
    options = options or SearchOptions()
    for source in sources:
        if not 0 < len(source) <= config.max_len:
            raise ValueError(
                f"a source of {len(source)} tokens: from 1 to {config.max_len} are needed"
            )
    if not sources:
        return []
    with torch.inference_mode():
        return _search(steps, config, sources, options, on_step, on_found, torch.device(device))


def _search(
    steps: Steps,
    config: TransformerConfig,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    on_step: OnStep | None,
    on_found: OnFound | None,
    device: torch.device,
) -> list[Found]:
    beam_size = options.beam_size
    sentences = [
        _Sentence(i, min(len(s) + options.max_extra, config.max_len), config.eos_id, options)
        for i, s in enumerate(sources)
    ]
    src = _padded(sources, config.pad_id).to(device)
    steps.start(src, beam_size, max(sentence.max_new for sentence in sentences))
    never = torch.tensor(sorted({config.pad_id, config.bos_id, config.unk_id} - {config.eos_id}))
    never = never.to(device)
    active = sentences
    tokens = torch.full((len(active) * beam_size,), config.bos_id, device=device)
    parents: Tensor | None = None
    # all rows of a sentence start alike: only the first counts
    totals = torch.full((len(active), beam_size), -torch.inf, device=device)
    totals[:, 0] = 0.0
    while True:
        candidates = _candidates(steps.step(tokens, parents), totals, never, beam_size)
        for sentence, chosen in zip(active, candidates, strict=True):
            if sentence.done:
                continue
            sentence.advance(*chosen)
            if on_step is not None and not on_step(sentence.number, sentence.likeliest()):
                sentence.done = sentence.cancelled = True
            if sentence.done and on_found is not None:
                on_found(sentence.number, sentence.found())
        left = [row for row, sentence in enumerate(active) if not sentence.done]
        if not left:
            return [sentence.found() for sentence in sentences]
        if len(left) <= 0.75 * len(active):  # moving what is left pays only now and then
            steps.keep(torch.tensor(left, device=device))
            active = [active[row] for row in left]
        tokens, parents, totals = _next_rows(active, beam_size, config.eos_id, device)


def _candidates(
    logits: Tensor, totals: Tensor, never: Tensor, beam_size: int
) -> list[tuple[list[int], list[int], list[float]]]:
    """Each sentence's 2 · beam_size likeliest continuations, best first.

    As their parents, tokens and the tokens' log-probabilities. `logits` is (rows, ≥ vocab_size),
    `totals` (sentences, beam_size) are the running hypotheses' log-probabilities. A large batch is
    looked at in parts that stay in a core's cache.
    """
    part = max(1, _ROWS_IN_CACHE // beam_size)
    if logits.device.type != "cpu" or len(totals) <= part:
        return _candidates_of(logits.float(), totals, never, beam_size)
    results = []
    for some, past in zip(
        torch.split(logits, part * beam_size), torch.split(totals, part), strict=True
    ):
        results += _candidates_of(some.float(), past, never, beam_size)
    return results


def _candidates_of(
    logits: Tensor, totals: Tensor, never: Tensor, beam_size: int
) -> list[tuple[list[int], list[int], list[float]]]:
    log_probs = logits.log_softmax(-1).index_fill_(1, never, -torch.inf)
    columns = logits.shape[1]
    count = min(2 * beam_size, beam_size * columns)
    results = []
    for places in largest(log_probs, totals.view(-1, 1), len(totals), count):
        parents, tokens, chosen = [], [], []
        for place, log_prob, total in places:
            if total == -math.inf:  # no hypothesis's continuation, or a token that is never written
                break
            parent, token = divmod(place, columns)
            parents.append(parent)
            tokens.append(token)
            chosen.append(log_prob)
        results.append((parents, tokens, chosen))
    return results


def _next_rows(
    active: Sequence[_Sentence], beam_size: int, filler: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, parents (both (rows,)) and totals of what runs on.

    A row that no hypothesis needs (its sentence is done) gets the token `filler`, and -inf.
    """
    tokens: list[int] = []
    parents: list[int] = []
    totals: list[float] = []
    for row, sentence in enumerate(active):
        first = row * beam_size
        for parent, node in zip(sentence.parents, sentence.running, strict=True):
            tokens.append(node.token)
            parents.append(first + parent)
            totals.append(node.log_prob)
        for _ in range(beam_size - len(sentence.running)):
            tokens.append(filler)
            parents.append(first)
            totals.append(-math.inf)
    steps = torch.tensor([tokens, parents], device=device)
    return steps[0], steps[1], torch.tensor(totals, device=device).view(-1, beam_size)


def largest(
    values: Tensor, offsets: Tensor, groups: int, k: int
) -> list[list[tuple[int, float, float]]]:
    """The k largest of `values + offsets` in each group of rows, largest first.

    Each as its place (counted through the group's rows), its value, and the sum. `values` (rows,
    columns), `offsets` (rows, 1). Sorting thousands of columns costs more than computing them did.
    But the k largest lie in the k blocks with the largest maxima, so only those need sorting.
    """
    columns = values.shape[1]
    size = columns if columns % VOCABULARY_BLOCK else VOCABULARY_BLOCK
    per_row = columns // size
    blocks = values.view(-1, size)
    maxima = blocks.amax(-1).view(-1, per_row).add_(offsets).view(groups, -1)
    chosen = maxima.topk(min(k, maxima.shape[1]), sorted=False).indices  # (groups, k): which blocks
    flat = chosen
    if groups > 1:
        flat = chosen + torch.arange(0, len(blocks), maxima.shape[1], device=values.device)[:, None]
    flat = flat.view(-1)
    inside = blocks.index_select(0, flat)
    sums = inside + offsets.index_select(0, flat.div(per_row, rounding_mode="floor"))
    best, index = sums.view(groups, -1).topk(k)
    found = inside.view(groups, -1).gather(1, index)
    lists = (chosen.tolist(), index.tolist(), found.tolist(), best.tolist())
    return [
        [
            (blocks_of[i // size] * size + i % size, value, total)
            for i, value, total in zip(places, values_of, sums_of, strict=True)
        ]
        for blocks_of, places, values_of, sums_of in zip(*lists, strict=True)
    ]


def _padded(sources: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    n = max(map(len, sources))
    if len(sources) > 1:
        n = max(n, FULL_VECTOR)
    return torch.tensor([[*source, *[pad_id] * (n - len(source))] for source in sources])
