"""The translation chapter on models that know nothing: what does not depend on quality."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from app.chapters.contract import Busy
from app.chapters.translate import Translate
from app.chapters.translate_answers import PRECOMPUTED, Desk, answer
from app.chapters.translate_beam import tree
from app.chapters.translate_default import load_default, read_default, write_default
from app.chapters.translate_state import DEFAULT_TEXT, Parameters
from app.chapters.translate_tokens import joined, label, visible
from app.chapters.translate_words import Recipe, differences, read_recipe
from app.main import create_app
from app.paths import MODEL_WEIGHTS
from app.settings import Settings
from app.translation.protocol import ModelInfo, Token
from app.translation.service import TranslationService
from tests import tiny
from tests.web.html import Document, assert_clean

TEXT = DEFAULT_TEXT  # to which this model has a dozen tokens to say


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with TestClient(create_app(Settings(models=str(folder))), base_url="http://a") as client:
        while client.get("/readyz").status_code == 503:
            time.sleep(0.05)
        yield client


def api(client: TestClient, part: str = "", **query: str) -> dict[str, Any]:
    return dict(client.get(f"/api/v1/translate{part}", params=query).json())


def panel(client: TestClient, name: str, **query: str) -> Document:
    answer = client.get(f"/chapters/translate/panels/{name}", params=query)
    assert answer.status_code == 200, answer.text
    return assert_clean(answer.text)


def texts(document: Document, tag: str) -> list[str]:
    return [" ".join(element.text.split()) for element in document.all(tag)]


# ── Questions ────────────────────────────────────────────────────────────────────────────────────


def test_an_edit_reaches_nothing_before_it_under_the_causal_mask(client: TestClient) -> None:
    found = api(client, text=TEXT, edit="4", to_id="290")["changed"]
    same = [position["identical"] for position in found["positions"]]
    assert same[:4] == [True] * 4
    assert not any(same[4:])
    for position in found["positions"][:4]:
        assert position["largest_probability_change"] == 0
        assert position["kl_divergence"] == 0
        assert position["largest_layer_norm_change"] == 0
    assert all(p["largest_layer_norm_change"] > 0 for p in found["positions"][4:])


def test_the_same_edit_reaches_everything_without_the_mask(client: TestClient) -> None:
    found = api(client, text=TEXT, edit="4", to_id="290", mask="all")["changed"]
    assert not any(position["identical"] for position in found["positions"])
    assert found["interventions"]["causal"] is False


def test_an_edit_of_the_last_token_is_read_by_nobody(client: TestClient) -> None:
    length = api(client, text=TEXT)["hypotheses"][0]["length"]
    query = {"text": TEXT, "edit": str(length), "to_id": "290"}
    assert all(p["identical"] for p in api(client, **query)["changed"]["positions"])
    assert "no position reads it" in " ".join(texts(panel(client, "ask", **query), "p"))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"scaled": "false"}, "Scores are no longer divided by √"),
        ({"positions": "false"}, "No position has a sinusoid any more"),
        ({"silence": "encoder.1.1"}, "One head is silent"),
        ({"silence": "cross.1.1,cross.1.2"}, "2 heads are silent"),
    ],
)
def test_every_change_of_the_model_is_told_with_its_reason(
    client: TestClient, query: dict[str, str], words: str
) -> None:
    assert words in " ".join(texts(panel(client, "ask", text=TEXT, **query), "p"))
    changed = api(client, text=TEXT, **query)["changed"]
    assert not all(position["identical"] for position in changed["positions"])
    assert changed["translation"] is not None


def test_silencing_in_the_decoder_leaves_the_encoder_alone(client: TestClient) -> None:
    bold = texts(panel(client, "ask", text=TEXT, silence="decoder.1.1"), "b")
    assert "Encoder: identical to the last bit" in bold
    bold = texts(panel(client, "ask", text=TEXT, silence="encoder.1.1"), "b")
    assert any(re.fullmatch(r"Encoder: changed at \d+ of \d+ positions", line) for line in bold)


def test_a_replacement_of_several_tokens_takes_as_many_places(client: TestClient) -> None:
    before = api(client, text=TEXT)["hypotheses"][0]["tokens"]
    pieces = api(client, text="garden")["source_tokens"][:-1]
    assert len(pieces) > 1
    after = api(client, text=TEXT, edit="2", to="garden")["changed"]["target_tokens"]
    assert after[1] == before[0]
    assert after[2 : 2 + len(pieces)] == pieces
    assert len(after) == len(before)


def test_a_head_the_model_lacks_is_refused(client: TestClient) -> None:
    for field in ("head", "silence"):
        answer = client.get("/api/v1/translate", params={field: "cross.9.1"})
        assert answer.status_code == 422
        (error,) = answer.json()["errors"]
        assert error["field"] == field
        assert "2 encoder and 2 decoder layers with 2 heads each" in error["message"]


def test_what_is_out_of_range_is_brought_back_with_a_notice(client: TestClient) -> None:
    document = panel(client, "translation", text=TEXT, hypothesis="8", position="900")
    notices = [text for text in texts(document, "p") if "became" in text]
    assert len(notices) == 2, notices


# ── Looking ──────────────────────────────────────────────────────────────────────────────────────


def test_every_head_is_drawn_and_says_what_it_shows(client: TestClient) -> None:
    trace = api(client, "/trace", text=TEXT)
    document = panel(client, "attention", text=TEXT, head="decoder.2.1")
    eyes = [e for e in document.all("a") if e.attributes.get("class", "").startswith("heads-eye")]
    shapes = [np.array(trace[kind]).shape[:2] for kind in ("encoder", "decoder", "cross")]
    assert len(eyes) == sum(layers * heads for layers, heads in shapes)
    assert all("Largest weight: " in e.attributes["aria-label"] for e in eyes)
    (current,) = (e for e in eyes if "aria-current" in e.attributes)
    assert current.attributes["id"] == "see-decoder.2.1"


def test_the_table_holds_the_weights_and_hatches_the_future(client: TestClient) -> None:
    weights = np.array(api(client, "/trace", text=TEXT)["decoder"])[1, 0]
    document = panel(client, "attention", text=TEXT, head="decoder.2.1")
    n = len(weights)
    cells = [e for e in document.all("td") if e.attributes.get("class", "") != "apart"]
    shown = [e for e in cells if e.attributes.get("class", "").startswith(("heat-", "blocked"))]
    assert len(shown) == n * n
    blocked = [e for e in shown if e.attributes["class"] == "blocked"]
    assert len(blocked) == n * (n - 1) // 2
    for cell, weight in zip(shown, weights.ravel(), strict=True):
        if cell.attributes["class"].startswith("heat-"):
            assert cell.text == (f"{weight:.3f}" if weight >= 0.0005 else "<0.001")


def test_the_residual_sum_and_its_statistics_are_the_traces(client: TestClient) -> None:
    query = {"text": TEXT, "sublayer": "decoder.1.cross_attention", "at": "2"}
    trace = api(client, "/trace", **query)
    total = np.array(trace["sublayer"]["residual_sum"])[1]
    statistics = trace["statistics"]["decoder.0.cross_attention"]
    assert statistics["mean"][1] == pytest.approx(total.mean(), abs=1e-6)
    assert statistics["deviation"][1] == pytest.approx(total.std(), abs=1e-6)
    document = panel(client, "layer-norm", **query, numbers="true")
    rows = document.all("tr")[1:]
    assert len(rows) == len(total)
    assert f"{total.std():.3f}" in texts(document, "dd")


def test_the_ten_likeliest_tokens_are_those_of_the_distribution(client: TestClient) -> None:
    trace = api(client, "/trace", text=TEXT)
    probabilities = [entry["probability"] for entry in trace["next_tokens"][0]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert len(probabilities) == 10
    document = panel(client, "next-tokens", text=TEXT)
    links = [a for a in document.all("a") if a.text == "put it there"]
    assert len(links) >= 9
    assert all("edit=1" in a.attributes["href"] for a in links)


def test_the_ranking_orders_every_head_by_what_is_lost(client: TestClient) -> None:
    document = panel(client, "heads", text=TEXT, rank="true")
    changes = [
        float(e.text.replace("−", "-").replace("×10", "e").translate(_PLAIN))
        for e in document.all("td")
        if e.attributes.get("class") == "n"
    ]
    assert len(changes) == 12
    assert changes == sorted(changes)


_PLAIN = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def test_the_cache_comparison_writes_every_token_of_the_translation(client: TestClient) -> None:
    length = api(client, text=TEXT)["hypotheses"][0]["length"]
    document = panel(client, "cache", text=TEXT, cache="true")
    assert len(document.all("tr")) == length + 2
    assert "The same logits" in " ".join(texts(document, "p"))


def test_a_stream_ends_with_the_translation(client: TestClient) -> None:
    found = api(client, text="Close the window.", alpha="0.7")
    streamed = client.get(
        "/chapters/translate/stream", params={"text": "Close the window.", "alpha": "0.9"}
    )
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert streamed.text.rstrip().endswith("event: end\ndata:")
    assert found["translation"] == "" or found["translation"][0] in streamed.text


# ── Beam ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_tree_leads_to_every_translation(folder: Path) -> None:
    async def search() -> None:
        service = TranslationService(folder)
        await service.start()
        try:
            (sentence,) = (await service.translate(TEXT, PRECOMPUTED)).sentences
            for hypothesis in sentence.hypotheses:
                found = tree(sentence, hypothesis)
                chosen = [line for step in found.steps for line in step.lines if line.chosen]
                assert [line.token.id for line in chosen] == [t.id for t in hypothesis.tokens]
                assert chosen[-1].fate == ("finished" if hypothesis.ended else "kept")
                assert str(found.drawing).count("<g class") == found.kept
        finally:
            await service.stop()

    asyncio.run(search())


# ── Without a model, and when it is busy ─────────────────────────────────────────────────────────


def test_without_a_model_the_sentence_made_in_advance_is_there() -> None:
    made = load_default()
    assert made is not None, "run python -m scripts.translate_default"
    desk = Desk(None, made)
    found = asyncio.run(answer(desk, Parameters()))
    assert found.translation is made
    assert found.precomputed
    assert asyncio.run(answer(desk, Parameters(text="Hi"))).translation is None


def test_a_page_without_a_model_says_so_and_keeps_the_text() -> None:
    from app.web.site import Site

    settings = Settings()
    app = create_app(settings, site=Site(settings, (Translate(),)))
    with TestClient(app, base_url="http://a") as client:
        answer = client.get("/chapters/translate", params={"text": "Good morning."})
        document = assert_clean(answer.text)
        assert answer.status_code == 200
        assert "cannot be used here" in answer.text
        assert any(e.text.strip() == "Good morning." for e in document.all("textarea"))
        refused = client.get("/api/v1/translate", params={"text": "Good morning."})
        assert refused.status_code == 503
        assert refused.headers["Retry-After"]
        assert client.get("/api/v1/translate").status_code == 200  # made in advance


def test_a_model_that_failed_is_named_with_its_reason_and_the_other_works(tmp_path: Path) -> None:
    tiny.make(tmp_path, "en-de", "en-fr")
    (tmp_path / "en-fr" / "model.safetensors").write_bytes(b"damaged")
    with TestClient(create_app(Settings(models=str(tmp_path))), base_url="http://a") as client:
        while client.get("/readyz").status_code == 503:
            time.sleep(0.05)
        text = client.get("/chapters/translate").text
        assert "en-fr" in text
        assert "model.safetensors" in text
        assert str(tmp_path) not in text
        assert client.get("/api/v1/translate").json()["model"] == "en-de"
        assert client.get("/api/v1/translate?model=en-fr").status_code == 503


def test_a_busy_translator_is_a_503_with_a_sentence(folder: Path) -> None:
    class Full(TranslationService):
        async def translate(self, text: str, options: Any) -> Any:
            raise Busy

    desk = Desk(Full(folder), None)
    with pytest.raises(Busy, match="try again"):
        asyncio.run(answer(desk, Parameters()))


def test_a_panel_that_asks_at_the_same_time_asks_once(folder: Path) -> None:
    class Counting(TranslationService):
        asked = 0

        async def translate(self, text: str, options: Any) -> Any:
            self.asked += 1
            return await super().translate(text, options)

    async def ask() -> int:
        service = Counting(folder)
        await service.start()
        desk = Desk(service, None)
        await asyncio.gather(*(answer(desk, Parameters()) for _ in range(5)))
        await service.stop()
        return service.asked

    assert asyncio.run(ask()) == 1


# ── Made in advance ──────────────────────────────────────────────────────────────────────────────


def test_the_sentence_made_in_advance_is_what_the_shipped_model_says() -> None:
    """If this fails, the weights were replaced: run python -m scripts.translate_default."""

    async def made() -> str:
        service = TranslationService(MODEL_WEIGHTS, device="cpu", threads=1)
        await service.start()
        try:
            return write_default(await service.translate(DEFAULT_TEXT, PRECOMPUTED))
        finally:
            await service.stop()

    kept = load_default()
    assert kept is not None
    fresh = read_default(asyncio.run(made()))
    assert kept.digest == fresh.digest
    assert kept.translation == fresh.translation
    (old,), (new,) = kept.sentences, fresh.sentences
    assert old.source_tokens == new.source_tokens
    assert [h.tokens for h in old.hypotheses] == [h.tokens for h in new.hypotheses]
    for one, other in zip(old.hypotheses, new.hypotheses, strict=True):
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-3)
    assert len(old.history) == len(new.history)


def test_what_was_written_reads_back_the_same() -> None:
    made = load_default()
    assert made is not None
    assert read_default(write_default(made)) == made
    assert json.loads(write_default(made))["seconds"] == 0


# ── Words and tokens ─────────────────────────────────────────────────────────────────────────────


def test_the_paper_and_the_model_are_told_apart_by_the_models_own_files(tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text(
        "[model]\ndropout = 0.15\n[optimiser]\npeak_rate = 1e-3\nwarmup_steps = 1600\n"
        'schedule = "linear"\nlabel_smoothing = 0.1\n[run]\nsteps = 9000\nbatch_tokens = 5000\n'
    )
    (tmp_path / "card.md").write_text("Trained on 245,598 sentence pairs.")
    info = ModelInfo(
        "en-de", "English", "German", "ready", "", "abc", 4, 3, 4, 256, 1024, 8000, 8_400_000
    )
    found = {d.name: (d.here, d.paper) for d in differences(info, read_recipe(tmp_path))}
    assert found["Layers"] == ("4 encoder, 3 decoder", "6 encoder, 6 decoder")
    assert found["Sentence pairs"] == ("245,598", "4.5 million")
    assert found["Steps"] == ("9,000", "100,000")
    assert found["Dropout"] == ("0.15", "0.1")
    assert found["Learning rate"][0] == "up to 0.001 in 1,600 steps, then down in a straight line"
    assert found["Learning rate"][1] == "up to 0.0007 in 4,000 steps, then down with √step"
    assert differences(None, Recipe({})) == []
    assert read_recipe(tmp_path / "nowhere") == Recipe({})


@pytest.mark.parametrize(
    ("token", "text", "kind"),
    [
        (Token(3, "</s>", "end"), "END", "special"),
        (Token(2, "<s>", "start"), "START", "special"),
        (Token(9, "<0xF0>", "byte", "😀"), "F0", "byte"),
        (Token(300, "▁a<b", "text"), "▁a<b", "text"),
        (Token(301, "\u200d", "text"), "U+200D", "text"),
    ],
)
def test_tokens_are_written_faithfully(token: Token, text: str, kind: str) -> None:
    written = label(token)
    assert (written.text, written.kind) == (text, kind)
    assert "<b>" not in str(written.html)


def test_signs_cannot_be_confused_with_text_that_looks_like_them() -> None:
    typed, sign = label(Token(77, "</s>", "text")), label(Token(3, "</s>", "end"))
    assert typed.text == "</s>"
    assert typed.html != sign.html
    assert visible("\u0301").startswith("◌")


def test_joined_leaves_out_bytes_that_make_no_character() -> None:
    tokens = [Token(1, "▁Hi", "text"), Token(2, "<0xE2>", "byte"), Token(3, "</s>", "end")]
    assert joined(tokens) == "Hi"
