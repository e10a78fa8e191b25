"""Parallel text: read, encoded, and dealt out in batches of sentences of like length (§5.1)."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.translation.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer, seed_sampling


class DataError(ValueError):
    """Training or evaluation text that cannot be used at all, with the reason."""


@dataclass(slots=True)
class ParallelText:
    """Source and target sentences, and what was left out: reason → number of lines."""

    sources: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.sources)


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a text or .gz file, as bytes: a bad line must not stop the rest."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as packed:
                yield from packed
        else:
            with path.open("rb") as plain:
                yield from plain
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path} is cut off or damaged: {error}") from error


def read_parallel(paths: Sequence[Path]) -> ParallelText:
    """Source and target from the first two columns of TSV files; bad lines are counted."""
    text = ParallelText()
    for path in paths:
        for raw in read_lines(path):
            try:
                line = raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                text.skipped["not UTF-8"] += 1
                continue
            columns = line.split("\t")
            if len(columns) < 2:
                text.skipped["no tab between source and target"] += 1
            elif not columns[0].strip() or not columns[1].strip():
                text.skipped["empty source or target"] += 1
            else:
                text.sources.append(columns[0])
                text.targets.append(columns[1])
    if not text.sources:
        names = ", ".join(str(path) for path in paths)
        raise DataError(f"no usable line in {names}; wanted: source, a tab, target")
    return text


@dataclass(frozen=True, slots=True)
class Ragged:
    """Token sequences of different lengths, end to end in one array."""

    tokens: NDArray[np.int32]
    starts: NDArray[np.int64]  # one more than there are sequences

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """Pack rows of token ids."""
        lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
        starts = np.concatenate(([0], np.cumsum(lengths)))
        tokens = np.fromiter(
            (t for row in rows for t in row), dtype=np.int32, count=int(starts[-1])
        )
        return cls(tokens, starts)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens in each row."""
        return np.diff(self.starts)

    def with_joined(self, rows: Sequence[NDArray[np.int64]]) -> Ragged:
        """These sequences, then for each of `rows` the sequences it names, end to end as one."""
        pieces = [self.tokens[self.starts[i] : self.starts[i + 1]] for row in rows for i in row]
        lengths = [int(self.lengths[row].sum()) for row in rows]
        return Ragged(
            np.concatenate([self.tokens, *pieces]),
            np.concatenate([self.starts, self.starts[-1] + np.cumsum(lengths, dtype=np.int64)]),
        )

    def padded(self, which: NDArray[np.int64], before: int | None, after: int) -> Tensor:
        """(len(which), width) token ids, `before` and `after` around each, padded at the end."""
        lengths = self.lengths[which]
        # START is read where END is not, and END predicted where START is not: one of them counts
        width = rounded(int(lengths.max()) + 1) + (before is not None)
        out = np.full((len(which), width), PAD_ID, dtype=np.int64)
        first = 0
        if before is not None:
            out[:, 0] = before
            first = 1
        columns = np.arange(out.shape[1] - first)[None, :]
        inside = columns < lengths[:, None]
        flat = (self.starts[which][:, None] + columns)[inside]
        out[:, first:][inside] = self.tokens[flat]
        out[np.arange(len(which)), first + lengths] = after
        return torch.from_numpy(out)


@dataclass(frozen=True, slots=True)
class Batch:
    """A step's worth of sentence pairs."""

    src: Tensor  # (sentences, n_src), END last, then padding
    tgt_in: Tensor  # (sentences, n_tgt), START first: what the decoder reads
    tgt_out: Tensor  # (sentences, n_tgt), END last: what it should predict
    target_tokens: int  # those that are not padding


@dataclass(frozen=True, slots=True)
class Encoded:
    """Parallel text as tokens, without START and END."""

    source: Ragged
    target: Ragged
    too_long: int = 0  # pairs left out for their length

    def __len__(self) -> int:
        return len(self.source.starts) - 1


def encode(
    text: ParallelText,
    tokenizer: Tokenizer,
    max_tokens: int,
    *,
    sample_alpha: float = 0.0,
    seed: int = 0,
) -> Encoded:
    """Tokens of the pairs of at most `max_tokens` a side; with `sample_alpha`, drawn by `seed`."""

    def rows() -> tuple[list[list[int]], list[list[int]]]:
        if not sample_alpha:
            return tokenizer.encode_all(text.sources), tokenizer.encode_all(text.targets)
        return (
            tokenizer.encode_all(text.sources, sample_alpha=sample_alpha),
            tokenizer.encode_all(text.targets, sample_alpha=sample_alpha),
        )

    # SentencePiece seeds its generator once a thread: a fresh thread makes the draws repeatable
    seed_sampling(seed)
    with ThreadPoolExecutor(max_workers=1) as fresh:
        sources, targets = fresh.submit(rows).result()
    kept = [
        (source, target)
        for source, target in zip(sources, targets, strict=True)
        if source and target and len(source) <= max_tokens and len(target) <= max_tokens
    ]
    if not kept:
        raise DataError(f"no pair has at most {max_tokens} tokens on both sides")
    return Encoded(
        Ragged.of([source for source, _ in kept]),
        Ragged.of([target for _, target in kept]),
        len(sources) - len(kept),
    )


def join_pairs(data: Encoded, share: float, max_tokens: int, seed: tuple[int, ...]) -> Encoded:
    """`data` and, for every 1/`share` of its pairs, one longer pair made of two to four of them.

    A model that has only seen single short sentences breaks off in long texts. The parts are drawn
    by `seed` and stand end to end, in the same order on both sides; what would exceed `max_tokens`
    on a side is not added.
    """
    generator = np.random.default_rng(seed)
    wanted = round(share * len(data))
    drawn = generator.integers(0, len(data), size=(wanted, 4))
    parts = generator.integers(2, 5, size=wanted)
    chosen = [row[:count] for row, count in zip(drawn, parts, strict=True)]

    def fits(row: NDArray[np.int64]) -> bool:
        return all(
            int(side.lengths[row].sum()) <= max_tokens for side in (data.source, data.target)
        )

    rows = [row for row in chosen if fits(row)]
    return Encoded(data.source.with_joined(rows), data.target.with_joined(rows), data.too_long)


def rounded(length: int) -> int:
    """A sentence's length as batches pad it: exact when short, then in ever larger steps.

    Few distinct shapes mean few matrix kernels to build, and building one takes longer than using
    it.

    >>> [rounded(n) for n in (7, 9, 15, 17, 33)]
    [7, 10, 16, 20, 40]
    """
    step = 1 if length <= 8 else 2 if length <= 16 else 4 if length <= 32 else 8
    return -(-length // step) * step


def batches(
    data: Encoded, batch_tokens: int, seed: int, epoch: int, *, rank: int = 0, world: int = 1
) -> list[NDArray[np.int64]]:
    """The epoch's batches as rows of `data`, in order; the same for the same seed and epoch.

    Pairs are sorted by length, ties at random, cut before padded source + target would exceed
    `batch_tokens` and where the number of sentences is a multiple of 16 (again for few shapes),
    and the batches shuffled. Of `world` processes each gets every world-th batch.
    """
    generator = np.random.default_rng((seed, epoch))
    longest = int(max(data.source.lengths.max(), data.target.lengths.max())) + 1
    padded = np.array([rounded(n) for n in range(longest + 1)])
    src, tgt = padded[data.source.lengths + 1], padded[data.target.lengths + 1]
    order = np.lexsort((generator.random(len(src)), tgt, src))
    cuts = [0]
    while cuts[-1] < len(order):
        first = cuts[-1]
        # no batch is larger than if all its pairs were as short as the first
        most = max(batch_tokens // int(src[order[first]] + tgt[order[first]]), 1)
        rows = order[first : first + most]
        widest = np.maximum.accumulate(src[rows]) + np.maximum.accumulate(tgt[rows])
        fits = int((widest * np.arange(1, len(rows) + 1) <= batch_tokens).sum())
        last = first + len(rows) == len(order) and fits == len(rows)
        count = fits if last or fits < 16 else fits // 16 * 16
        cuts.append(first + max(count, 1))
    pieces = np.split(order, cuts[1:-1])
    shuffled = [pieces[i] for i in generator.permutation(len(pieces))]
    whole = len(shuffled) // world * world or len(shuffled)
    return shuffled[rank:whole:world]


def collate(data: Encoded, rows: NDArray[np.int64]) -> Batch:
    """The tensors of one batch."""
    tgt = data.target.padded(rows, BOS_ID, EOS_ID)
    # the decoder reads everything but the last column; END at a shorter row's end is read too, and
    # its prediction ignored
    return Batch(
        src=data.source.padded(rows, None, EOS_ID),
        tgt_in=tgt[:, :-1],
        tgt_out=tgt[:, 1:],
        target_tokens=int((tgt[:, 1:] != PAD_ID).sum()),
    )
