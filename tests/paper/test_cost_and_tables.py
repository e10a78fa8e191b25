"""Section 4's costs by hand, and the tables against what the paper says of them in words."""

from __future__ import annotations

import math

import pytest

from app.paper import tables
from app.paper.cost import (
    TABLE_1,
    attention_bytes,
    attention_entries,
    encoder_layer,
    max_path,
    operations,
    parameters,
    sequential,
    training_flops,
)
from app.paper.errors import RangeError
from app.paper.tables import BASE, BIG, TABLE_2, TABLE_3, TABLE_4


def test_self_attention_is_cheaper_than_recurrence_while_n_is_below_d() -> None:
    """Section 4: n² d < n d² exactly where n < d."""
    for n, cheaper in ((511, True), (512, False), (513, False)):
        assert (operations("self-attention", n, 512) < operations("recurrent", n, 512)) is cheaper


def test_table_1_as_numbers() -> None:
    """n = 100, d = 10, k = 5, r = 20."""
    counted = [operations(layer.name, 100, 10, k=5, r=20) for layer in TABLE_1]
    assert counted == [100_000, 10_000, 50_000, 20_000]
    assert [sequential(layer.name, 100) for layer in TABLE_1] == [1, 100, 1, 1]
    assert [max_path(layer.name, 100, k=5, r=20) for layer in TABLE_1] == [1, 100, 3, 5]


@pytest.mark.parametrize(
    ("n", "k", "steps"), [(1, 3, 1), (3, 3, 1), (4, 3, 2), (243, 3, 5), (244, 3, 6), (1000, 10, 3)]
)
def test_a_convolution_reaches_k_times_as_far_with_each_layer(n: int, k: int, steps: int) -> None:
    """The logarithm of 243 to the base 3 is 5, though floating point says a little more."""
    assert max_path("convolutional", n, k=k) == steps


def test_a_neighbourhood_of_everything_is_self_attention() -> None:
    assert operations("restricted", 30, 8, r=99) == operations("self-attention", 30, 8)
    assert max_path("restricted", 30, r=99) == 1


def test_stored_weights() -> None:
    """8 · 1024² = 8,388,608 entries of two bytes are 16 MiB; twice the length, four times that."""
    assert attention_entries(1024, 8) == 8_388_608
    assert attention_bytes(1024, 8) == 16 * 2**20
    assert attention_bytes(2048, 8) == 4 * attention_bytes(1024, 8)
    assert attention_entries(2, 1, m=4, N=6) == 48


def test_pairs_overtake_projections_at_twice_d_model() -> None:
    """2 n² d = 4 n d² where n = 2 d."""
    for n, above in ((1023, False), (1024, False), (1025, True)):
        cost = encoder_layer(n, 512, 2048)
        assert (cost.pairs > cost.projections) is above
    assert encoder_layer(10, 4, 16).total == 640 + 800 + 1280


def test_parameters_by_hand() -> None:
    """d = 2, d_ff = 3: attention 16, network 2·2·3 + 5 = 17, LayerNorm 4; 41 + 61, and 5 · 2."""
    assert parameters(N=1, d_model=2, d_ff=3, vocabulary=5) == (16 + 17 + 8) + (32 + 17 + 12) + 10


@pytest.mark.parametrize("model", [BASE, BIG])
def test_parameters_come_close_to_the_papers_figures(model: tables.Configuration) -> None:
    counted = parameters(model.N, model.d_model, model.d_ff, vocabulary=37_000) / 1e6
    assert counted == pytest.approx(model.params_millions, rel=0.04)


@pytest.mark.parametrize(("hours", "row"), [(12, "Transformer (base)"), (84, "Transformer (big)")])
def test_training_costs_follow_from_the_training_time(hours: int, row: str) -> None:
    """Footnote 5: time, times 8 GPUs, times 9.5 TFLOPS."""
    printed = next(each.flops_en_de for each in TABLE_2 if each.model == row)
    assert training_flops(hours * 3600, 8) == pytest.approx(printed, rel=0.01)


@pytest.mark.parametrize("model", [BASE, BIG])
def test_configurations_are_consistent(model: tables.Configuration) -> None:
    assert model.h * model.d_k == model.h * model.d_v == model.d_model
    assert model.d_ff == 4 * model.d_model


def test_training_times_follow_from_the_steps() -> None:
    """100,000 steps of 0.4 s are about 12 hours; 300,000 of 1.0 s are 3.5 days."""
    assert BASE.train_steps * BASE.seconds_a_step / 3600 == pytest.approx(12, abs=1)
    assert BIG.train_steps * BIG.seconds_a_step / 86_400 == pytest.approx(3.5, abs=0.1)


def test_table_2_keeps_both_versions_of_the_disputed_figure() -> None:
    big = TABLE_2[-1]
    assert (big.en_fr, big.en_fr_arxiv_v7) == (41.0, 41.8)
    assert all(row.en_fr_arxiv_v7 is None for row in TABLE_2[:-1])
    assert "41.0" in tables.TABLE_2_SOURCE
    assert "41.8" in tables.TABLE_2_SOURCE


def test_the_big_model_gains_what_the_proceedings_say() -> None:
    base, big = TABLE_2[-2:]
    assert base.en_de is not None
    assert base.en_fr is not None
    assert big.en_de is not None
    assert big.en_fr is not None
    assert big.en_de - base.en_de == pytest.approx(1.1)
    assert big.en_fr - base.en_fr == pytest.approx(2.9)


def test_the_big_model_beats_all_others_by_two_points_from_english_to_german() -> None:
    """The abstract: more than 2 BLEU above the best, ensembles included."""
    others = [row.en_de for row in TABLE_2 if "Transformer" not in row.model and row.en_de]
    assert TABLE_2[-1].en_de is not None
    assert TABLE_2[-1].en_de - max(others) > 2


def test_table_3_as_the_paper_reads_it() -> None:
    """Section 6.2: one head is 0.9 BLEU worse than the best; too many are worse as well."""
    base = TABLE_3[0]
    heads = {dict(row.changed)["h"]: row for row in TABLE_3 if row.row == "A"}
    assert max(each.bleu for each in (base, *heads.values())) - heads[1].bleu == pytest.approx(0.9)
    assert heads[32].bleu < base.bleu
    for row in heads.values():
        changed = dict(row.changed)
        assert changed["h"] * changed["d_k"] == BASE.d_model
    assert [row.row for row in TABLE_3] == sorted(
        (row.row for row in TABLE_3), key=["base", "A", "B", "C", "D", "E", "big"].index
    )
    assert len(TABLE_3) == 20
    names = {name for row in TABLE_3 for name, _ in row.changed}
    assert names <= {*BASE.__slots__, "positions"}
    assert TABLE_3[-1].params_millions == BIG.params_millions


def test_table_4() -> None:
    assert [row.f1 for row in TABLE_4] == [91.3, 92.7]
    assert "arXiv" in tables.TABLE_4_SOURCE


def test_what_is_refused_is_named() -> None:
    with pytest.raises(RangeError, match="n: expected at least 1"):
        operations("recurrent", 0, 5)
    with pytest.raises(RangeError, match="k: expected a kernel of at least 2"):
        max_path("convolutional", 5, k=1)
    with pytest.raises(RangeError, match="seconds and sustained"):
        training_flops(math.nan, 8)
    with pytest.raises(RangeError, match="devices"):
        training_flops(1, 0)
