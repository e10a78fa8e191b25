"""Looking into a model: what is shown is what the model computed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from app.transformer import decoding
from app.translation.local import LocalModel
from app.translation.protocol import BadRequest, Interventions, Options, Sentence


def translate(local: LocalModel, text: str, options: Options | None = None) -> Sentence:
    options = options or Options()
    work = local.work(text)
    results: list[decoding.Found] = []
    local.translate([work], options, on_found=lambda _, found: results.append(found))
    return local.sentence(work, results[0], options)


def ids(tokens: object) -> list[int]:
    return [token.id for token in tokens]  # type: ignore[attr-defined]


SOURCE = "the cat saw the cat"
LITERAL = 'a<b </s> 😀 ä & # "q" {{7*7}} <img src=x onerror=alert(1)>'


def test_repeated_words_stay_separate_tokens(local: LocalModel) -> None:
    source = local.work(SOURCE).ids
    trace = local.trace(source, [5, 6, 3], Interventions())
    assert len(trace.source_tokens) == len(source)
    assert trace.encoder.shape[2:] == (len(source), len(source))
    words = "".join(token.text for token in trace.source_tokens[:-1])
    assert words == "▁" + SOURCE.replace(" ", "▁")


def test_text_is_kept_literally(local: LocalModel) -> None:
    work = local.work(LITERAL)
    tokens = local.tokens(work.ids)
    assert local.tokenizer.decode(work.ids) == LITERAL
    assert [token.kind for token in tokens].count("end") == 1  # the typed </s> is text
    assert tokens[-1].kind == "end"
    assert "unknown" not in {token.kind for token in tokens}
    emoji = [token for token in tokens if token.character == "😀"]
    assert [token.text for token in emoji] == ["<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]
    sentence = translate(local, LITERAL)
    assert sentence.text == LITERAL
    for hypothesis in sentence.hypotheses:
        assert "</s>" not in hypothesis.text


def test_bytes_that_make_no_character_have_none(local: LocalModel) -> None:
    first_byte = next(i for i in range(320) if local.tokens([i])[0].text == "<0x00>")
    lead, lone = first_byte + 0xF0, first_byte + 0x80
    ascii_letter = first_byte + ord("a")
    tokens = local.tokens([lead, ascii_letter, lone])
    assert [token.character for token in tokens] == ["", "a", ""]


def test_hypotheses_add_up(local: LocalModel) -> None:
    sentence = translate(local, SOURCE, Options(beam_size=4, alpha=0.6))
    assert len(sentence.hypotheses) == 4
    scores = [h.score for h in sentence.hypotheses]
    assert scores == sorted(scores, reverse=True)
    for h in sentence.hypotheses:
        assert sum(h.log_probs) == pytest.approx(h.log_prob, abs=1e-4)
        assert h.score == pytest.approx(h.log_prob / h.length_penalty)
        assert h.length_penalty == decoding.length_penalty(len(h.tokens), 0.6)
        assert len(h.tokens) <= len(sentence.source_tokens) + 50
        trace = local.trace(ids(sentence.source_tokens), ids(h.tokens), Interventions())
        assert trace.log_prob == pytest.approx(h.log_prob, abs=1e-3)


def test_attention_rows_sum_to_one_and_the_future_is_closed(local: LocalModel) -> None:
    trace = local.trace(local.work(SOURCE).ids, [9, 8, 7, 6, 3], Interventions())
    for kind in ("encoder", "decoder", "cross"):
        weights = trace.attention(kind)  # type: ignore[arg-type]
        assert np.allclose(weights.sum(-1), 1, atol=1e-6)
    n_tgt, n_src = len(trace.target_tokens), len(trace.source_tokens)
    assert trace.cross.shape == (2, 2, n_tgt, n_src)
    above = np.triu(np.ones((n_tgt, n_tgt), dtype=bool), 1)
    assert not trace.decoder[..., above].any()
    opened = local.trace(local.work(SOURCE).ids, [9, 8, 7, 6, 3], Interventions(causal=False))
    assert opened.decoder[..., above].any()
    assert trace.target_tokens[0].kind == "start"
    assert trace.source_tokens[-1].kind == trace.predicted[-1].kind == "end"


def test_sublayers_are_what_they_say(local: LocalModel) -> None:
    trace = local.trace(local.work(SOURCE).ids, [9, 8, 3], Interventions())
    assert list(trace.sublayers) == [
        *(f"encoder.{i}.{s}" for i in range(2) for s in ("self_attention", "feed_forward")),
        *(
            f"decoder.{i}.{s}"
            for i in range(2)
            for s in ("self_attention", "cross_attention", "feed_forward")
        ),
    ]
    norms = dict(local.model.named_modules())
    for name, sublayer in trace.sublayers.items():
        assert np.allclose(sublayer.mean, sublayer.residual_sum.mean(-1), atol=1e-5)
        assert np.allclose(sublayer.deviation, sublayer.residual_sum.std(-1), atol=1e-5)
        norm = norms[f"{name}_norm"].layer_norm
        by_hand = (sublayer.residual_sum - sublayer.mean[:, None]) / np.sqrt(
            sublayer.deviation[:, None] ** 2 + norm.eps
        ) * norm.weight.numpy() + norm.bias.numpy()  # type: ignore[union-attr, operator]
        assert np.allclose(sublayer.layer_norm, by_hand, atol=1e-5)


def test_distributions(local: LocalModel) -> None:
    trace = local.trace(local.work(SOURCE).ids, [9, 8, 3], Interventions())
    assert np.allclose(np.exp(trace.log_probs).sum(-1), 1, atol=1e-5)
    for row, likeliest in zip(trace.log_probs, trace.next_tokens, strict=True):
        assert [entry.token.id for entry in likeliest] == list(np.argsort(-row, kind="stable")[:10])
        assert likeliest[0].probability == pytest.approx(float(np.exp(row.max())), abs=1e-6)


def test_the_past_does_not_know_the_future_to_the_last_bit(local: LocalModel) -> None:
    source = local.work(SOURCE).ids
    a = local.trace(source, [9, 8, 7, 6, 5, 3], Interventions())
    b = local.trace(source, [9, 8, 7, 20, 5, 3], Interventions())
    # the fourth token is read at position 4 (START is 0)
    assert np.array_equal(a.log_probs[:4], b.log_probs[:4])
    assert not np.array_equal(a.log_probs[4], b.log_probs[4])
    for name in a.sublayers:
        if name.startswith("decoder"):
            x, y = a.sublayers[name].layer_norm, b.sublayers[name].layer_norm
            assert np.array_equal(x[:4], y[:4])
    opened = Interventions(causal=False)
    a, b = (
        local.trace(source, [9, 8, 7, 6, 5, 3], opened),
        local.trace(source, [9, 8, 7, 20, 5, 3], opened),
    )
    assert not np.array_equal(a.log_probs[0], b.log_probs[0])


def test_without_positions_order_is_invisible(local: LocalModel) -> None:
    source = [10, 20, 30, 3]
    shuffled = [30, 10, 20, 3]
    without = Interventions(positions=False)
    a, b = local.trace(source, [9, 3], without), local.trace(shuffled, [9, 3], without)
    assert np.allclose(a.log_probs, b.log_probs, atol=1e-5)
    a, b = (
        local.trace(source, [9, 3], Interventions()),
        local.trace(shuffled, [9, 3], Interventions()),
    )
    assert not np.allclose(a.log_probs, b.log_probs, atol=1e-3)


@pytest.mark.parametrize(
    "how", [Interventions(), Interventions(positions=False), Interventions(causal=False)]
)
def test_what_is_written_on_is_what_the_passes_find_likeliest(
    local: LocalModel, how: Interventions
) -> None:
    """Against one whole pass a token, whose last row predicts the next."""
    source, given = local.work(SOURCE).ids, [5, 6]
    written = ids(local.continued(source, given, 9, how))
    assert written[:2] == given
    assert len(written) == 9 or written[-1] == 3
    for end in range(2, len(written)):
        trace = local.trace(source, [*written[:end], 3], how)
        row = np.delete(trace.log_probs[-1], [0, 1, 2])  # padding, START and unknown: never written
        assert int(row.argmax()) + 3 == written[end]


@pytest.mark.parametrize("given", [[5, 3], [5] * 9])
def test_nothing_is_written_after_the_end_or_beyond_the_limit(
    local: LocalModel, given: list[int]
) -> None:
    assert ids(local.continued(local.work(SOURCE).ids, given, 9, Interventions())) == given


def test_head_importance_is_the_trace_s_difference(local: LocalModel) -> None:
    source, target = local.work(SOURCE).ids, [9, 8, 7, 3]
    heads = local.head_importance(source, target)
    assert len(heads) == 3 * 2 * 2  # encoder, decoder and cross; 2 layers; 2 heads
    assert [h.change for h in heads] == sorted(h.change for h in heads)
    whole = local.trace(source, target, Interventions()).log_prob
    for h in (heads[0], heads[-1]):
        silenced = Interventions(silenced=frozenset({(h.kind, h.layer, h.head)}))
        without = local.trace(source, target, silenced).log_prob
        assert h.log_prob == pytest.approx(without, abs=1e-4)
        assert h.change == pytest.approx(without - whole, abs=1e-4)


def test_cache_steps(local: LocalModel) -> None:
    source, target = local.work(SOURCE).ids, [9, 8, 7, 6, 3]
    steps = local.cache_steps(source, target)
    assert [step.token.id for step in steps] == target
    assert all(step.largest_difference < 1e-4 for step in steps)
    config = local.config
    d, layers, n = config.d_model, config.N_decoder, len(source)
    # by hand, first step: 1 position, itself and n source positions to attend to
    first = layers * (6 * d * d + 2 * d + 2 * n * d + 2 * d * config.d_ff) + d * config.vocab_size
    assert steps[0].multiply_adds_with == first
    # without: the memory's keys and values again
    assert steps[0].multiply_adds_without == first + layers * 2 * n * d * d
    work = [step.multiply_adds_without - step.multiply_adds_with for step in steps]
    assert work == sorted(work)
    assert steps[1].bytes_cached - steps[0].bytes_cached == 4 * 2 * layers * d


@pytest.mark.parametrize(
    ("source", "target", "field"),
    [
        ([], [3], "text"),
        ([5, 3], [], "target"),
        ([5, 3], [5, 10**9], "target"),
        ([-1, 3], [5], "text"),
        ([0, 3], [5], "text"),
        ([5] * 300, [5], "text"),
    ],
)
def test_impossible_tokens_are_refused(
    local: LocalModel, source: list[int], target: list[int], field: str
) -> None:
    for ask in (
        lambda: local.trace(source, target, Interventions()),
        lambda: local.head_importance(source, target),
        lambda: local.cache_steps(source, target),
    ):
        with pytest.raises(BadRequest) as caught:
            ask()
        assert caught.value.field == field


def test_interventions_reach_the_translation(local: LocalModel) -> None:
    plain = translate(local, SOURCE, Options(beam_size=1))
    heads = frozenset(("cross", layer, head) for layer in range(2) for head in range(2))
    changed = translate(
        local, SOURCE, Options(beam_size=1, interventions=Interventions(silenced=heads))
    )
    assert changed.hypotheses[0].log_prob != plain.hypotheses[0].log_prob


def test_history_has_every_step(local: LocalModel) -> None:
    sentence = translate(local, SOURCE, Options(beam_size=2, history=True))
    assert max(len(h.tokens) for h in sentence.hypotheses) == len(sentence.history)
    assert all(1 <= len(step) <= 4 for step in sentence.history)
    assert not translate(local, SOURCE).history


def test_traces_are_what_the_model_says(local: LocalModel) -> None:
    source, target = local.work(SOURCE).ids, [9, 8, 3]
    trace = local.trace(source, target, Interventions())
    with torch.inference_mode():
        logits = local.model(torch.tensor([source]), torch.tensor([[2, 9, 8]]))[0]
    assert np.allclose(trace.log_probs, logits.log_softmax(-1).numpy(), atol=1e-6)
