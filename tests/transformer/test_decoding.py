"""Search: the length penalty by hand, beams against exhaustive search, caches against none."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from app.transformer.config import TransformerConfig
from app.transformer.decoding import (
    Candidate,
    Found,
    SearchOptions,
    largest,
    length_penalty,
    search,
)
from app.transformer.model import Transformer
from app.transformer.prepared import PreparedTransformer
from app.transformer.steps import CachedSteps, UncachedSteps
from app.transformer.trace import Interventions
from tests.transformer.conftest import random_model, random_sources


def test_length_penalty_counts_target_tokens_only() -> None:
    # by hand: lp(4) = (9/6)^0.6 = 1.275425, lp(7) = (12/6)^0.6 = 1.515717
    a, b = -2.0 / length_penalty(4, 0.6), -2.3 / length_penalty(7, 0.6)
    assert a == pytest.approx(-1.568105, abs=5e-7)
    assert b == pytest.approx(-1.517434, abs=5e-7)
    assert b > a
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(30, 0.0) == 1.0


class Scripted:
    """Steps whose next-token probabilities are a table: (tokens so far) → {token: probability}."""

    config = TransformerConfig(vocab_size=8, d_model=2, N_encoder=1, N_decoder=1, h=1, d_ff=2)

    def __init__(self, table: dict[tuple[int, ...], dict[int, float]]) -> None:
        self.table = table

    def start(self, src: Tensor, beam_size: int, max_new: int) -> None:
        self.rows: list[tuple[int, ...]] = [()] * (len(src) * beam_size)

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor:
        if parents is not None:
            pairs = zip(parents.tolist(), tokens.tolist(), strict=True)
            self.rows = [(*self.rows[parent], token) for parent, token in pairs]
        logits = torch.full((len(self.rows), 8), -torch.inf)
        for row, tokens_so_far in enumerate(self.rows):
            for token, probability in self.table.get(tokens_so_far, {3: 1.0}).items():
                logits[row, token] = math.log(probability)
        return logits

    def keep(self, sentences: Tensor) -> None:
        beam = len(self.rows) // (int(sentences.max()) + 1)
        self.rows = [self.rows[s * beam + i] for s in sentences.tolist() for i in range(beam)]


# Greedy takes 4 (0.6) and goes on with 0.55 at best; 5 (0.4) is followed by a certain END.
GARDEN_PATH = {(): {4: 0.6, 5: 0.4}, (4,): {6: 0.55, 7: 0.45}, (5,): {3: 1.0}}


def one(steps: Scripted, **options: object) -> Found:
    (found,) = search(steps, Scripted.config, [[3]], SearchOptions(**options))  # type: ignore[arg-type]
    return found


def test_greedy_takes_the_likeliest_token_and_beams_look_further() -> None:
    steps = Scripted(GARDEN_PATH)
    greedy = one(steps, beam_size=1, alpha=0.0)
    assert greedy.best.tokens == (4, 6, 3)
    assert greedy.best.log_prob == pytest.approx(math.log(0.33), abs=1e-6)
    beam = one(steps, beam_size=2, alpha=0.0)
    assert beam.best.tokens == (5, 3)
    assert beam.best.log_prob == pytest.approx(math.log(0.4), abs=1e-6)
    assert beam.best.log_probs == pytest.approx((math.log(0.4), 0.0), abs=1e-6)


def test_the_length_penalty_decides_between_short_and_long() -> None:
    # short: 0.55, 2 tokens; long: 0.45, 8 tokens. By hand, α = 1: log 0.55 / (7/6) = -0.5124,
    # log 0.45 / (13/6) = -0.3685: the long one wins; α = 0: the short one.
    table: dict[tuple[int, ...], dict[int, float]] = {(): {4: 0.55, 5: 0.45}}
    for n in range(1, 7):
        table[(5,) * n] = {5: 1.0}
    short, long = (4, 3), (5,) * 7 + (3,)
    assert one(Scripted(table), beam_size=2, alpha=0.0).best.tokens == short
    found = one(Scripted(table), beam_size=2, alpha=1.0)
    assert found.best.tokens == long
    assert found.best.score == pytest.approx(-0.3685, abs=1e-4)
    assert [h.tokens for h in found.hypotheses] == [long, short]


def test_history_says_what_became_of_every_candidate() -> None:
    found = one(Scripted(GARDEN_PATH), beam_size=2, alpha=0.6, history=True)
    first, second, *_ = found.history
    assert [(c.parent, c.token, c.fate) for c in first[:2]] == [(0, 4, "kept"), (0, 5, "kept")]
    # 0.4 · 1 = 0.4, then 0.6 · 0.55 = 0.33 and 0.6 · 0.45 = 0.27
    assert [(c.parent, c.token, c.fate) for c in second[:3]] == [
        (1, 3, "finished"),
        (0, 6, "kept"),
        (0, 7, "kept"),
    ]
    for step in found.history:
        assert [c.log_prob for c in step] == sorted((c.log_prob for c in step), reverse=True)


def hypothesis_of(history: tuple[tuple[Candidate, ...], ...]) -> list[tuple[int, ...]]:
    """The finished hypotheses, spelled out by following parents through the history alone."""
    running: list[tuple[int, ...]] = [()]
    finished = []
    for step in history:
        finished += [(*running[c.parent], c.token) for c in step if c.fate == "finished"]
        running = [(*running[c.parent], c.token) for c in step if c.fate == "kept"]
    return finished


def test_the_history_spells_the_hypotheses() -> None:
    config = TransformerConfig(
        vocab_size=40, d_model=32, N_encoder=1, N_decoder=1, h=2, d_ff=32, output_bias=True
    )
    model = random_model(config)
    assert model.output_bias is not None
    model.output_bias[3] = 2.0  # END is likely
    steps = CachedSteps(PreparedTransformer(model))
    source = random_sources(model.config, [6])
    (found,) = search(steps, model.config, source, SearchOptions(beam_size=3, history=True))
    spelled = hypothesis_of(found.history)
    assert spelled
    assert set(spelled) == {h.tokens for h in found.hypotheses if h.ended}


def test_a_wide_beam_finds_what_exhaustive_search_finds() -> None:
    config = TransformerConfig(
        vocab_size=7, d_model=8, N_encoder=1, N_decoder=1, h=2, d_ff=8, max_len=16
    )
    model = random_model(config, seed=4)
    source = [4, 6, 5, 3]
    src = torch.tensor([source])
    best: tuple[float, tuple[int, ...]] = (-math.inf, ())
    for length in range(4):  # every target of up to three tokens and END, teacher-forced
        for body in itertools.product((4, 5, 6), repeat=length):
            target = (*body, 3)
            logits = model(src, torch.tensor([[2, *body]]))[0].double()
            log_probs = logits.log_softmax(-1)
            total = sum(float(log_probs[i, token]) for i, token in enumerate(target))
            best = max(best, (total / length_penalty(len(target), 0.6), target))
    # 3^3 + … + 1 = 40 targets: a beam of 40 drops none of up to four tokens
    steps = CachedSteps(PreparedTransformer(model))
    (found,) = search(steps, config, [source], SearchOptions(beam_size=40, max_extra=0))
    ended = [h for h in found.hypotheses if h.ended]
    assert ended[0].tokens == best[1]
    assert ended[0].score == pytest.approx(best[0], abs=1e-5)


@pytest.mark.parametrize("weights", ["tiny", "exact_tiny"])
def test_cached_and_uncached_agree(request: pytest.FixtureRequest, weights: str) -> None:
    model: Transformer = request.getfixturevalue(weights)
    sources = random_sources(model.config, [3, 9, 6, 1])
    options = SearchOptions(max_extra=8)
    cached = search(CachedSteps(PreparedTransformer(model)), model.config, sources, options)
    uncached = search(UncachedSteps(model), model.config, sources, options)
    for a, b in zip(cached, uncached, strict=True):
        assert [h.tokens for h in a.hypotheses] == [h.tokens for h in b.hypotheses]
        for x, y in zip(a.hypotheses, b.hypotheses, strict=True):
            assert x.log_probs == pytest.approx(y.log_probs, abs=1e-5)


@pytest.mark.parametrize("batch", [1, 3])
def test_cached_and_uncached_logits_while_the_beam_is_reordered(
    tiny: Transformer, batch: int
) -> None:
    """At every step, after arbitrary reordering and dropping of a sentence: logits to 1e-5."""
    config = tiny.config
    generator = torch.Generator().manual_seed(batch)
    src = torch.zeros(batch, 7, dtype=torch.long)
    for row, source in enumerate(random_sources(config, [7, 4, 2][:batch])):
        src[row, : len(source)] = torch.tensor(source)
    cached, uncached = CachedSteps(PreparedTransformer(tiny)), UncachedSteps(tiny)
    beam_size = 3
    with torch.inference_mode():
        for steps in (cached, uncached):
            steps.start(src, beam_size, 10)
        parents = None
        for step in range(10):
            if step == 5 and batch > 1:
                left = torch.tensor([0, 2])
                cached.keep(left)
                uncached.keep(left)
                batch = 2
                parents = None
            tokens = torch.randint(4, config.vocab_size, (batch * beam_size,), generator=generator)
            a = cached.step(tokens, parents)[:, : config.vocab_size]
            b = uncached.step(tokens, parents)
            scale = max(1.0, float(b.abs().max()))
            assert float((a - b).abs().max()) < 1e-5 * scale
            offsets = torch.arange(batch)[:, None] * beam_size
            chosen = torch.randint(0, beam_size, (batch, beam_size), generator=generator)
            parents = (offsets + chosen).flatten()


def test_a_sentence_is_translated_alike_alone_and_in_a_batch(tiny: Transformer) -> None:
    sources = random_sources(tiny.config, [2, 11, 5, 8, 3, 4, 6, 7, 9, 10])  # 40 rows: in parts
    steps = CachedSteps(PreparedTransformer(tiny))
    options = SearchOptions(max_extra=6)
    together = search(steps, tiny.config, sources, options)
    for source, found in zip(sources, together, strict=True):
        (alone,) = search(steps, tiny.config, [source], options)
        assert [h.tokens for h in alone.hypotheses] == [h.tokens for h in found.hypotheses]
        for x, y in zip(alone.hypotheses, found.hypotheses, strict=True):
            assert x.log_probs == pytest.approx(y.log_probs, abs=1e-5)


def test_bfloat16_stays_close(tiny: Transformer) -> None:
    """Products of factors with 8 significant bits: relative errors of 2^-9 in every product."""
    exact, rounded = PreparedTransformer(tiny), PreparedTransformer(tiny, "bfloat16")
    src = torch.tensor(random_sources(tiny.config, [9]))
    tokens = torch.tensor([2])
    logits = []
    for prepared in (exact, rounded):
        steps = CachedSteps(prepared)
        with torch.inference_mode():
            steps.start(src, 1, 4)
            logits.append(steps.step(tokens, None)[:, : tiny.config.vocab_size])
    assert float((logits[0] - logits[1]).std()) < 0.05 * float(logits[0].std())


def test_output_ends_at_source_plus_fifty_and_at_the_model_s_limit() -> None:
    never_ends = Scripted({(): {4: 1.0}} | {(4,) * n: {4: 1.0} for n in range(1, 200)})
    (found,) = search(never_ends, Scripted.config, [[5, 6, 3]], SearchOptions(beam_size=2))
    assert len(found.best.tokens) == 3 + 50
    assert not found.best.ended
    small = TransformerConfig(
        vocab_size=8, d_model=2, N_encoder=1, N_decoder=1, h=1, d_ff=2, max_len=20
    )
    (found,) = search(never_ends, small, [[5, 6, 3]])
    assert len(found.best.tokens) == 20


def test_a_cancelled_sentence_does_not_disturb_the_others(tiny: Transformer) -> None:
    sources = random_sources(tiny.config, [5, 6, 7])
    steps = CachedSteps(PreparedTransformer(tiny))
    options = SearchOptions(max_extra=5)
    seen: dict[int, list[tuple[int, ...]]] = {0: [], 1: [], 2: []}
    done: list[int] = []

    def on_step(index: int, tokens: tuple[int, ...]) -> bool:
        seen[index].append(tokens)
        return index != 1 or len(seen[1]) < 3

    whole = search(steps, tiny.config, sources, options)
    found = search(
        steps,
        tiny.config,
        sources,
        options,
        on_step=on_step,
        on_found=lambda index, _: done.append(index),
    )
    assert found[1].cancelled
    assert len(seen[1]) == 3
    assert done[0] == 1
    assert sorted(done) == [0, 1, 2]
    for index in (0, 2):
        assert not found[index].cancelled
        assert found[index].hypotheses[0].tokens == whole[index].hypotheses[0].tokens
        assert [len(tokens) for tokens in seen[index]] == list(range(1, len(seen[index]) + 1))


def test_interventions_change_the_translation_s_probabilities(tiny: Transformer) -> None:
    source = random_sources(tiny.config, [6])
    options = SearchOptions(beam_size=2, max_extra=2)

    def best(interventions: Interventions) -> float:
        (found,) = search(UncachedSteps(tiny, interventions), tiny.config, source, options)
        return found.best.log_prob

    plain = best(Interventions())
    (cached,) = search(CachedSteps(PreparedTransformer(tiny)), tiny.config, source, options)
    assert plain == pytest.approx(cached.best.log_prob, abs=1e-4)
    for changed in (
        Interventions(scaled=False),
        Interventions(positions=False),
        Interventions(causal=False),
        Interventions(silenced=frozenset({("cross", 0, 1)})),
    ):
        assert best(changed) != plain


@given(
    st.integers(1, 8),
    st.sampled_from([(1, 1), (1, 4), (3, 2)]),
    st.sampled_from([60, 64, 3_200, 4_096]),
    st.integers(0, 2**31),
)
@settings(max_examples=30, deadline=None)
def test_the_likeliest_are_those_of_topk(
    k: int, shape: tuple[int, int], columns: int, seed: int
) -> None:
    groups, each = shape
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(groups * each, columns, generator=generator)
    offsets = torch.randn(groups * each, 1, generator=generator)
    summed = (logits + offsets).view(groups, -1)
    for row, found in enumerate(largest(logits, offsets, groups, k)):
        places = [place for place, _, _ in found]
        assert [value for _, _, value in found] == summed[row].topk(k).values.tolist()
        assert [value for _, _, value in found] == summed[row, places].tolist()
        assert [logit for _, logit, _ in found] == logits.view(groups, -1)[row, places].tolist()


@pytest.mark.parametrize("source", [[], [3] * 65])
def test_a_source_without_tokens_or_with_too_many_is_refused(
    tiny: Transformer, source: list[int]
) -> None:
    with pytest.raises(ValueError, match=f"{len(source)} tokens"):
        search(UncachedSteps(tiny), tiny.config, [source])


@pytest.mark.parametrize("options", [{"beam_size": 0}, {"alpha": -1.0}, {"alpha": math.nan}])
def test_impossible_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        SearchOptions(**options)  # type: ignore[arg-type]


def test_no_sources_no_results(tiny: Transformer) -> None:
    assert search(UncachedSteps(tiny), tiny.config, []) == []
