"""Looking inside the model, and changing what it does."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from app.transformer.model import Transformer
from app.transformer.trace import Interventions, Trace
from tests.transformer.tiny import make, tokens


@pytest.fixture
def model() -> Transformer:
    return make()


# -- looking inside --------------------------------------------------------------------------


@pytest.fixture
def traced(model: Transformer) -> tuple[Trace, Tensor, Tensor]:
    src, tgt = tokens(2, 5), tokens(2, 4, seed=2)
    src[1, 3:] = model.config.pad_id
    trace = Trace()
    with torch.no_grad():
        logits = model(src, tgt, trace=trace)
        assert torch.equal(logits, model(src, tgt))  # looking changes nothing
    return trace, src, tgt


def test_a_trace_names_every_step(traced: tuple[Trace, Tensor, Tensor], model: Transformer) -> None:
    """Shapes by hand: batch 2, h 2, n_src 5, n_tgt 4, d_k 16, d_model 32, d_ff 64."""
    trace = traced[0]
    shapes = {
        "Q": (2, 2, 4, 16), "K": (2, 2, 5, 16), "V": (2, 2, 5, 16), "scores": (2, 2, 4, 5),
        "scaled_scores": (2, 2, 4, 5), "masked_scores": (2, 2, 4, 5), "weights": (2, 2, 4, 5),
        "output": (2, 2, 4, 16), "sublayer": (2, 4, 32), "residual_sum": (2, 4, 32),
        "layer_norm": (2, 4, 32),
    }  # fmt: skip
    for name, shape in shapes.items():
        assert trace[f"decoder.1.cross_attention.{name}"].shape == shape, name
    assert trace["encoder.0.feed_forward.inner"].shape == (2, 5, 64)
    assert trace["encoder.embedding"].shape == (2, 5, 32)
    attentions = [name for name in trace.tensors if name.endswith(".weights")]
    assert len(attentions) == model.config.N_encoder + 2 * model.config.N_decoder


def test_traced_weights_are_softmax_rows(traced: tuple[Trace, Tensor, Tensor]) -> None:
    """Properties: rows sum to 1, nothing on padding or the future, scaling by √16 = 4."""
    trace = traced[0]
    for name, weights in trace.tensors.items():
        if name.endswith(".weights"):
            assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-6)
    assert not trace["encoder.1.self_attention.weights"][1, :, :, 3:].any()
    causal = trace["decoder.0.self_attention.weights"]
    assert not causal.triu(1).any()
    assert trace["decoder.0.self_attention.masked_scores"].triu(1)[0, 0, 0, 1] == -math.inf
    assert torch.equal(
        trace["decoder.0.self_attention.scores"] / 4,
        trace["decoder.0.self_attention.scaled_scores"],
    )


def test_a_trace_keeps_only_what_is_wanted(model: Transformer) -> None:
    trace = Trace(wanted=("cross_attention.weights",))
    model(tokens(1, 5), tokens(1, 4), trace=trace)
    assert set(trace.tensors) == {
        "decoder.0.cross_attention.weights", "decoder.1.cross_attention.weights"
    }  # fmt: skip


# -- changing what it does -------------------------------------------------------------------


@torch.no_grad()
def test_interventions_that_change_nothing_change_nothing(model: Transformer) -> None:
    src, tgt = tokens(2, 5), tokens(2, 4, seed=2)
    assert torch.equal(model(src, tgt, interventions=Interventions()), model(src, tgt))


@torch.no_grad()
def test_without_the_causal_mask_the_future_is_seen(model: Transformer) -> None:
    src, tgt = tokens(1, 5), tokens(1, 4, seed=2)
    other = tgt.clone()
    other[0, 3] = 4 if other[0, 3] != 4 else 5
    everything = Interventions(causal=False)
    before = model(src, tgt, interventions=everything)
    after = model(src, other, interventions=everything)
    assert not torch.equal(before[0, 0], after[0, 0])


@torch.no_grad()
def test_without_scaling_scores_are_used_as_they_are(model: Transformer) -> None:
    trace = Trace()
    model(tokens(1, 5), tokens(1, 4), trace=trace, interventions=Interventions(scaled=False))
    scores = trace["encoder.0.self_attention.scores"]
    assert torch.equal(trace["encoder.0.self_attention.weights"], torch.softmax(scores, -1))


@torch.no_grad()
def test_without_positions_the_encoder_cannot_tell_order(model: Transformer) -> None:
    """Property: shuffling the source then shuffles the memory and nothing else."""
    src = tokens(1, 6)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    off = Interventions(positions=False)
    memory = model.encode(src, None, interventions=off)
    shuffled = model.encode(src[:, order], None, interventions=off)
    assert torch.allclose(shuffled, memory[:, order], atol=1e-5)
    assert not torch.allclose(
        model.encode(src[:, order], None), model.encode(src, None)[:, order], atol=1e-2
    )


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "where"),
    [("encoder", "encoder.1.self_attention"), ("decoder", "decoder.1.self_attention"),
     ("cross", "decoder.1.cross_attention")],
)  # fmt: skip
def test_a_silenced_head_contributes_nothing(model: Transformer, kind: str, where: str) -> None:
    """Its output is zero, its neighbour's and everything in the layer before it are untouched."""
    src, tgt = tokens(1, 5), tokens(1, 4, seed=2)
    plain, silent = Trace(), Trace()
    before = model(src, tgt, trace=plain)
    gone = Interventions(silenced=frozenset({(kind, 1, 0)}))
    after = model(src, tgt, trace=silent, interventions=gone)
    assert not silent[f"{where}.output"][:, 0].any()
    assert torch.equal(silent[f"{where}.output"][:, 1], plain[f"{where}.output"][:, 1])
    assert torch.equal(silent[f"{where}.weights"], plain[f"{where}.weights"])
    assert not torch.equal(before, after)
