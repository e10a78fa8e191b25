"""The shipped models themselves: sensible, whole, and faithful to the hard cases."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import numpy as np
import pytest

from app.paths import MODEL_WEIGHTS
from app.transformer import checkpoint, decoding
from app.translation.local import LocalModel
from app.translation.protocol import Interventions, Options, Sentence
from app.translation.service import TranslationService

NAMES = ("en-de", "en-fr")
EXPECTED = {
    "en-de": {
        "The children are playing in the garden.": ("Kinder", "Garten"),
        "Where is the station?": ("Wo", "Bahnhof"),
        "I am hungry.": ("Hunger|hungrig",),
    },
    "en-fr": {
        "The children are playing in the garden.": ("enfants", "jardin"),
        "Where is the station?": ("Où", "gare"),
        "I am hungry.": ("faim",),
    },
}
LITERAL = 'a<b </s> 😀 ä & # "q" {{7*7}} <img src=x onerror=alert(1)>'


@pytest.fixture(scope="module", params=NAMES)
def shipped(request: pytest.FixtureRequest) -> LocalModel:
    return LocalModel(request.param, checkpoint.load(MODEL_WEIGHTS / request.param))


def translate(model: LocalModel, text: str, options: Options | None = None) -> Sentence:
    options = options or Options(model=model.name)
    work = model.work(text)
    results: list[decoding.Found] = []
    model.translate([work], options, on_found=lambda _, found: results.append(found))
    return model.sentence(work, results[0], options)


def test_the_card_says_what_it_is(shipped: LocalModel) -> None:
    card = checkpoint.load(MODEL_WEIGHTS / shipped.name).card
    for word in ("BLEU", "Tatoeba", "CC BY"):
        assert word in card


def test_plain_sentences(shipped: LocalModel) -> None:
    for english, words in EXPECTED[shipped.name].items():
        sentence = translate(shipped, english)
        best = sentence.hypotheses[0]
        assert best.ended
        for word in words:
            assert re.search(word, best.text), best.text
        assert len({h.text for h in sentence.hypotheses}) > 1


def test_the_n_best_list_is_the_model_s_own(shipped: LocalModel) -> None:
    """Log-probabilities of the search, against one teacher-forced pass of the readable model."""
    sentence = translate(shipped, "Nobody knew why the old man had sold his house.")
    source = [token.id for token in sentence.source_tokens]
    for hypothesis in sentence.hypotheses:
        target = [token.id for token in hypothesis.tokens]
        trace = shipped.trace(source, target, Interventions())
        assert trace.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-3)


def test_alone_and_in_a_batch(shipped: LocalModel) -> None:
    """The whole list, not the best alone: who else is in the queue changes nothing."""
    texts = [
        "Hi.",
        "The cat saw the cat.",
        "I would like to know where the station is, please.",
        "She told me that she would call me as soon as she arrived.",
        "Nobody knew why the old man had sold his house.",
        "We should leave early, because the road will be full of cars.",
    ]
    together: dict[int, decoding.Found] = {}
    shipped.translate(
        [shipped.work(text) for text in texts],
        Options(model=shipped.name),
        on_found=together.__setitem__,
    )
    for index, text in enumerate(texts):
        alone = translate(shipped, text).hypotheses
        beside = together[index].hypotheses
        assert [tuple(t.id for t in h.tokens) for h in alone] == [h.tokens for h in beside]
        for one, other in zip(alone, beside, strict=True):
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)


def test_repeated_words_are_rows_of_their_own(shipped: LocalModel) -> None:
    work = shipped.work("the cat saw the cat")
    trace = shipped.trace(work.ids, [5, 3], Interventions())
    words = [token.text for token in trace.source_tokens]
    assert words.count("▁cat") == 2
    assert words.count("▁the") == 2
    assert trace.cross.shape == (shipped.config.N_decoder, shipped.config.h, 2, len(words))
    assert np.allclose(trace.cross.sum(-1), 1, atol=1e-5)


def test_text_that_looks_like_markup_stays_text(shipped: LocalModel) -> None:
    work = shipped.work(LITERAL)
    assert shipped.tokenizer.decode(work.ids) == LITERAL
    kinds = [token.kind for token in shipped.tokens(work.ids)]
    assert kinds.count("end") == 1
    assert "unknown" not in kinds
    for hypothesis in translate(shipped, LITERAL).hypotheses:
        assert "\ufffd" not in "".join(token.text for token in hypothesis.tokens)


@pytest.mark.parametrize("text", ["^" * 100, "Antidisestablishmentarianism", "שלום עולם"])
def test_hard_inputs_end(shipped: LocalModel, text: str) -> None:
    sentence = translate(shipped, text)
    for hypothesis in sentence.hypotheses:
        assert len(hypothesis.tokens) <= len(sentence.source_tokens) + 50


def test_positions_and_heads_matter(shipped: LocalModel) -> None:
    sentence = translate(shipped, "The dog bites the man.")
    source = [token.id for token in sentence.source_tokens]
    target = [token.id for token in sentence.hypotheses[0].tokens]
    whole = shipped.trace(source, target, Interventions()).log_prob
    assert shipped.trace(source, target, Interventions(positions=False)).log_prob < whole - 1
    heads = shipped.head_importance(source, target)
    assert heads[0].change < -0.05


def test_both_serve_together() -> None:
    async def run() -> list[str]:
        service = TranslationService(Path(MODEL_WEIGHTS), device="cpu", threads=1)
        await service.start()
        assert service.state == "ready"
        answers = await asyncio.gather(
            *(service.translate("Thank you! I am tired.", Options(model=n)) for n in NAMES)
        )
        await service.stop()
        return [answer.translation for answer in answers]

    german, french = asyncio.run(run())
    assert "Dank" in german
    assert "Merci" in french
