"""Reading text, encoding it and dealing it out."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from app.training.data import (
    DataError,
    Encoded,
    Ragged,
    batches,
    collate,
    encode,
    join_pairs,
    read_parallel,
    rounded,
)
from app.translation.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer


def test_bad_lines_are_counted_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_bytes(
        b"one\teins\tnews\nno tab here\n\tleer\nempty\t \nbad\tgr\xfcn\ntwo\tzwei\r\n\n"
    )
    text = read_parallel([path])
    assert text.sources == ["one", "two"]
    assert text.targets == ["eins", "zwei"]
    assert text.skipped == Counter(
        {"no tab between source and target": 2, "empty source or target": 2, "not UTF-8": 1}
    )


def test_gzip_is_read_and_a_damaged_one_named(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv.gz"
    packed = gzip.compress(b"one\teins\n" * 5000)
    path.write_bytes(packed)
    assert len(read_parallel([path])) == 5000
    path.write_bytes(packed[:-20])
    with pytest.raises(DataError, match="cut off or damaged"):
        read_parallel([path])


@pytest.mark.parametrize(("content", "message"), [(None, "cannot read"), (b"", "no usable line")])
def test_unusable_files_are_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "missing.tsv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=f"{message}.*missing.tsv"):
        read_parallel([path])


def test_too_long_pairs_are_counted(corpus: Path, tokenizer: Tokenizer) -> None:
    text = read_parallel([corpus / "train.tsv"])
    everything, short = encode(text, tokenizer, 40), encode(text, tokenizer, 4)
    assert everything.too_long == 0
    assert 0 < short.too_long == len(text) - len(short)
    assert max(short.source.lengths.max(), short.target.lengths.max()) <= 4
    with pytest.raises(DataError, match="at most 0 tokens"):
        encode(text, tokenizer, 0)


def test_sampled_segmentations_repeat_with_their_seed(corpus: Path, tokenizer: Tokenizer) -> None:
    text = read_parallel([corpus / "train.tsv"])

    def draw(seed: int) -> list[int]:
        return encode(text, tokenizer, 200, sample_alpha=0.2, seed=seed).target.tokens.tolist()

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    once = encode(text, tokenizer, 200, sample_alpha=0.2, seed=1)
    first = once.target.tokens[: once.target.starts[1]].tolist()
    assert tokenizer.decode(first) == text.targets[0]


def test_joined_pairs_are_whole_pairs_in_the_same_order_on_both_sides() -> None:
    """Pair i is i source tokens `10 + i` and one target token `100 + i`: parts stay visible."""
    data = Encoded(
        Ragged.of([[10 + i] * i for i in range(1, 9)]), Ragged.of([[100 + i] for i in range(1, 9)])
    )
    longer = join_pairs(data, 10.0, max_tokens=12, seed=(1, 0))
    assert longer.source.tokens[: len(data.source.tokens)].tolist() == data.source.tokens.tolist()
    added = range(len(data), len(longer))
    assert 20 < len(added) < 80, "those beyond 12 tokens are left out"
    seen = set()
    for row in added:
        source = longer.source.tokens[longer.source.starts[row] : longer.source.starts[row + 1]]
        target = longer.target.tokens[longer.target.starts[row] : longer.target.starts[row + 1]]
        assert source.tolist() == [token - 90 for token in target for _ in range(token - 100)]
        assert len(source) <= 12
        seen.add(len(target))
    assert seen == {2, 3, 4}


def test_joined_pairs_follow_their_seed() -> None:
    data = Encoded(Ragged.of([[i] for i in range(5, 50)]), Ragged.of([[i] for i in range(5, 50)]))

    def draw(*seed: int) -> list[int]:
        return join_pairs(data, 0.5, 60, seed).source.tokens.tolist()

    assert draw(1, 0) == draw(1, 0)
    assert len({tuple(draw(s, e)) for s in (1, 2) for e in (0, 1)}) == 4


def test_batches_hold_every_pair_once_within_the_budget(corpus: Path, tokenizer: Tokenizer) -> None:
    data = encode(read_parallel([corpus / "train.tsv"]), tokenizer, 40)
    dealt = batches(data, 500, seed=1, epoch=0)
    assert sorted(np.concatenate(dealt).tolist()) == list(range(len(data)))
    for rows in dealt:
        batch = collate(data, rows)
        assert batch.src.numel() + batch.tgt_in.numel() <= 500


def test_batches_follow_seed_and_epoch(corpus: Path, tokenizer: Tokenizer) -> None:
    data = encode(read_parallel([corpus / "train.tsv"]), tokenizer, 40)

    def order(seed: int, epoch: int) -> list[int]:
        return np.concatenate(batches(data, 500, seed, epoch)).tolist()

    assert order(1, 0) == order(1, 0)
    assert len({tuple(order(s, e)) for s in (1, 2) for e in (0, 1)}) == 4


def test_processes_share_the_batches(corpus: Path, tokenizer: Tokenizer) -> None:
    """Property: disjoint, equally many, together all but at most world - 1 of them."""
    data = encode(read_parallel([corpus / "train.tsv"]), tokenizer, 40)
    everything = batches(data, 300, seed=1, epoch=0)
    shares = [batches(data, 300, seed=1, epoch=0, rank=r, world=3) for r in range(3)]
    assert len({len(share) for share in shares}) == 1
    dealt = [tuple(rows) for share in shares for rows in share]
    assert len(dealt) == len(set(dealt)) == len(everything) // 3 * 3
    assert set(dealt) <= {tuple(rows) for rows in everything}


def test_a_pair_longer_than_the_budget_is_a_batch_of_its_own() -> None:
    rows = Ragged.of([[5] * 30, [6], [7]])
    dealt = batches(Encoded(rows, rows), 20, seed=0, epoch=0)
    assert sorted(len(batch) for batch in dealt) == [1, 2]


def test_collate_by_hand() -> None:
    """Two pairs: source 5 6 / 7, target 8 / 9 10. END closes both; START opens what is read."""
    data = Encoded(Ragged.of([[5, 6], [7]]), Ragged.of([[8], [9, 10]]))
    batch = collate(data, np.array([0, 1]))
    assert batch.src.tolist() == [[5, 6, EOS_ID], [7, EOS_ID, PAD_ID]]
    assert batch.tgt_in.tolist() == [[BOS_ID, 8, EOS_ID], [BOS_ID, 9, 10]]
    assert batch.tgt_out.tolist() == [[8, EOS_ID, PAD_ID], [9, 10, EOS_ID]]
    assert batch.target_tokens == 5


def test_rounded_lengths_never_shrink_and_are_few() -> None:
    """By hand: 8 values up to 8, then 4 each up to 16, 32 and 64."""
    values = [rounded(n) for n in range(1, 65)]
    assert all(value >= n for n, value in enumerate(values, 1))
    assert len(set(values)) == 20
