"""The shared cases 2, 6, 8 and 10 to 14, with the checkpoint that is shipped."""

from __future__ import annotations

import json
import math
import re
import time
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from app.chapters.translate_state import MODELS
from app.paths import MODEL_WEIGHTS
from app.settings import Settings
from app.transformer import checkpoint
from app.transformer.decoding import length_penalty
from app.transformer.trace import Trace
from app.translation.tokenizer import EOS_ID, Tokenizer
from tests.web.html import Document, assert_clean

ODD = 'a<b </s> 😀 ä & # "q" {{7*7}} <img src=x onerror=alert(1)>'


def page(client: TestClient, status: int = 200, **query: str) -> Document:
    answer = client.get("/chapters/translate", params=query)
    assert answer.status_code == status
    assert "\ufffd" not in answer.text
    return assert_clean(answer.text)


def api(client: TestClient, part: str = "", **query: str) -> dict[str, Any]:
    answer = client.get(f"/api/v1/translate{part}", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = json.loads(answer.text, parse_constant=lambda name: pytest.fail(name))
    return found


def table_rows(document: Document) -> list[str]:
    """The text of the open head's row headers, and so of its queries."""
    return [e.text for e in document.all("th") if e.attributes.get("scope") == "row"]


@pytest.mark.parametrize("model", MODELS)
def test_both_models_translate_the_sentence_of_the_readme(real: TestClient, model: str) -> None:
    found = api(real, text="The children are playing in the garden.", model=model)
    words = {"en-de": ("Kinder", "Garten"), "en-fr": ("enfants", "jardin")}[model]
    assert all(word in found["translation"] for word in words), found["translation"]
    assert found["hypotheses"][0]["text"] == found["translation"]
    assert 1 <= len(found["hypotheses"]) <= 4
    scores = [h["score"] for h in found["hypotheses"]]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("how", [{}, {"mask": "all"}, {"scaled": "false"}, {"positions": "false"}])
def test_case_2_no_row_of_weights_is_undefined(real: TestClient, how: dict[str, str]) -> None:
    found = api(real, "/trace", text="It rains.", **how)
    for kind in ("encoder", "decoder", "cross"):
        weights = np.array(found[kind])
        assert np.isfinite(weights).all()
        assert np.abs(weights.sum(-1) - 1).max() < 1e-5
    decoder = np.array(found["decoder"])
    future = np.triu(np.ones(decoder.shape[-2:], dtype=bool), 1)
    if "mask" in how:
        assert (decoder[..., future] > 0).any()
    else:
        assert (decoder[..., future] == 0).all()


def test_case_2_a_row_with_every_key_forbidden_is_zero_and_disturbs_nobody() -> None:
    loaded = checkpoint.load(MODEL_WEIGHTS / "en-de")
    tokenizer = Tokenizer(loaded.tokenizer)
    ids = tokenizer.encode("It rains.")
    pad = loaded.config.pad_id
    tgt = torch.tensor([[loaded.config.bos_id, 300]])
    with torch.inference_mode():
        alone = loaded.model(torch.tensor([ids]), tgt)
        batch = loaded.model(torch.tensor([ids, [pad] * len(ids)]), tgt.expand(2, 2))
    assert torch.isfinite(batch).all()
    assert torch.allclose(batch[:1], alone, atol=1e-5)


def test_case_6_a_padded_source_gets_no_weight_in_cross_attention() -> None:
    loaded = checkpoint.load(MODEL_WEIGHTS / "en-de")
    ids = [*Tokenizer(loaded.tokenizer).encode("Hello there")[:2], EOS_ID, loaded.config.pad_id]
    recorder = Trace(wanted=("cross_attention.weights",))
    with torch.inference_mode():
        loaded.model(
            torch.tensor([ids]), torch.tensor([[loaded.config.bos_id, 300]]), trace=recorder
        )
    for weights in recorder.tensors.values():
        assert weights.shape == (1, loaded.config.h, 2, 4)
        assert (weights[..., 3] == 0).all()
        assert (weights[..., :3] > 0).any()
        assert torch.allclose(weights.sum(-1), torch.ones(1), atol=1e-6)


def test_case_6_cross_attention_has_target_rows_and_source_columns_and_no_triangle(
    real: TestClient,
) -> None:
    found = api(real, "/trace", text="It rains.")
    rows, columns = len(found["target_tokens"]), len(found["source_tokens"])
    cross = np.array(found["cross"])
    assert cross.shape[-2:] == (rows, columns)
    assert (cross > 0).mean() > 0.9
    answer = real.get("/chapters/translate/panels/attention", params={"text": "It rains."})
    table = answer.text.split("<table")[1].split("</table>")[0]
    assert f"{rows} × {columns}" in table
    assert "blocked" not in table
    assert table.count("<tr") == rows + 1
    header = table.split("</thead>")[0]
    assert header.count('scope="col"') == columns + 1  # and the sum
    assert "END" in header
    assert "START" in table.split("<tbody>")[1]


def test_case_8_the_target_counts_and_the_source_does_not() -> None:
    assert -2.0 / length_penalty(4, 0.6) == pytest.approx(-1.568105, abs=1e-6)
    assert -2.3 / length_penalty(7, 0.6) == pytest.approx(-1.517434, abs=1e-6)


def test_case_8_the_page_shows_that_arithmetic(real: TestClient) -> None:
    found = api(real, text="The cat saw the cat.")
    for hypothesis in found["hypotheses"]:
        length = len(hypothesis["tokens"])
        penalty = ((5 + length) / 6) ** 0.6
        assert hypothesis["length"] == length
        assert hypothesis["length_penalty"] == pytest.approx(penalty, rel=1e-12)
        assert hypothesis["score"] == pytest.approx(hypothesis["log_prob"] / penalty, rel=1e-9)
        assert hypothesis["log_prob"] == pytest.approx(sum(hypothesis["log_probs"]), abs=1e-4)
    text = real.get("/chapters/translate", params={"text": "The cat saw the cat."}).text
    best = found["hypotheses"][0]
    assert f"<mn>{5 + best['length']}</mn>" in text
    assert f"<mn>{best['length_penalty']:.6f}</mn>" in text
    assert f"<mn>{best['score']:.6f}</mn>".replace("-", "−") in text


def test_case_10_equal_tokens_keep_rows_and_columns_of_their_own(real: TestClient) -> None:
    text = "the cat saw the cat"
    found = api(real, "/trace", text=text)
    pieces = [token["text"] for token in found["source_tokens"]]
    assert pieces.count("▁cat") == 2
    n = len(pieces)
    assert np.array(found["encoder"]).shape[-2:] == (n, n)
    answer = real.get(
        "/chapters/translate/panels/attention", params={"text": text, "head": "encoder.1.1"}
    )
    table = answer.text.split("<table")[1].split("</table>")[0]
    assert table.count("<tr") == n + 1
    rows = re.findall(r'<span class="at">(\d+)</span>', table)
    assert rows == [str(place) for place in range(1, n + 1)]


def test_case_11_markup_is_text_everywhere(real: TestClient) -> None:
    document = page(real, text=ODD)
    (area,) = (e for e in document.all("textarea") if e.attributes["id"] == "text")
    assert area.text.strip() == ODD
    assert not document.all("img")
    assert "49" not in "".join(e.text for e in document.all("bdi"))
    found = api(real, text=ODD)
    assert found["text"] == ODD
    ends = [token for token in found["source_tokens"] if token["kind"] == "end"]
    assert ends == [{"id": EOS_ID, "text": "</s>", "kind": "end"}]
    assert found["source_tokens"][-1] == ends[0]
    # A permalink brings exactly this text back.
    here = next(e for e in document.all("a") if e.attributes.get("id") == "here")
    again = assert_clean(real.get("/chapters/translate" + here.attributes["href"]).text)
    (area,) = (e for e in again.all("textarea") if e.attributes["id"] == "text")
    assert area.text.strip() == ODD


@pytest.mark.parametrize("name", ["translation.json", "n-best.csv", "trace.json", "attention.svg"])
def test_case_11_files_hold_the_text_and_nothing_broken(real: TestClient, name: str) -> None:
    answer = real.get(f"/download/translate/{name}", params={"text": ODD})
    assert answer.status_code == 200
    assert "\ufffd" not in answer.text
    if name.endswith(".svg"):
        assert "<img" not in answer.text
        assert "onerror" not in answer.text.split("<desc>")[0]
    if name.endswith(".json"):
        json.loads(answer.text)


def test_case_11_bytes_are_shown_in_hexadecimal(real: TestClient) -> None:
    document = page(real, text="☃")
    byte = [e.text for e in document.all("span") if "byte" in e.attributes.get("class", "")]
    assert ["E2", "98", "83"] in [byte[i : i + 3] for i in range(len(byte))]


def test_case_12_a_blank_text_gets_a_prompt(real: TestClient) -> None:
    for blank in ("", "   ", "\n\t "):
        text = page(real, text=blank).text_of_all()
        assert "Type an English sentence to see it translated." in text
        found = api(real, text=blank)
        assert found["translation"] == ""
        assert found["hypotheses"] == found["source_tokens"] == []


def test_case_13_too_long_a_text_is_refused_beside_the_field_and_kept(real: TestClient) -> None:
    long = "^" * 600
    document = page(real, 422, text=long)
    (area,) = (e for e in document.all("textarea") if e.attributes["id"] == "text")
    assert area.text.strip() == long
    assert area.attributes["aria-invalid"] == "true"
    assert "That is 600 characters; at most 500 are translated." in document.text_of_all()
    answer = real.get("/api/v1/translate", params={"text": "^" * 10_000})
    assert answer.status_code in (400, 414, 422)
    assert answer.json()["errors"][0]["message"]


def test_case_13_too_many_tokens_are_refused_beside_the_field(real: TestClient) -> None:
    document = page(real, 422, text="☃" * 200)
    assert "tokens" in document.text_of_all()


@pytest.mark.parametrize("text", ["flibbertigibbet", "^" * 100, "buffalo " * 30])
def test_case_13_a_translation_ends_at_the_length_limit(real: TestClient, text: str) -> None:
    started = time.monotonic()
    found = api(real, text=text)
    assert time.monotonic() - started < 60
    for sentence in found["sentences"]:
        for hypothesis in sentence["hypotheses"]:
            assert hypothesis["length"] <= len(sentence["source_tokens"]) + 50
            assert (
                hypothesis["ended"] or hypothesis["length"] == len(sentence["source_tokens"]) + 50
            )
            assert math.isfinite(hypothesis["score"])


@pytest.mark.parametrize(
    "text",
    [
        "שלום עולם",
        "a" + "\u0301" * 50,
        "👩‍👩‍👧‍👦",
        "\u202egnp.exe",
        "z\u200bw",
        "\u2028",
        "ﷺ",
        "\ufeffHi",
    ],
)
def test_case_14_odd_text_never_breaks_anything(real: TestClient, text: str) -> None:
    document = page(real, text=text)
    (area,) = (e for e in document.all("textarea") if e.attributes["id"] == "text")
    assert area.text.strip("\n") == text or not text.strip()
    api(real, text=text)


def test_case_14_what_is_no_text_is_refused(real: TestClient) -> None:
    for query in ("text=%ED%A0%80", "text=a%00b", "text=%FF"):
        for path in ("/chapters/translate", "/api/v1/translate", "/chapters/translate/stream"):
            assert real.get(f"{path}?{query}").status_code == 400
    assert real.get("/api/v1/translate?text=a%07").status_code == 422


def test_several_sentences_are_translated_in_order(real: TestClient) -> None:
    found = api(real, text="I am cold. Close the window, please.", sentence="2")
    assert [s["source"] for s in found["sentences"]] == ["I am cold.", "Close the window, please."]
    assert found["hypotheses"] == found["sentences"][1]["hypotheses"]
    best = [s["hypotheses"][0]["text"] for s in found["sentences"]]
    assert found["translation"] == " ".join(best)


def test_the_limits_are_settings() -> None:
    assert Settings().translate_characters == 500
    assert Settings().translate_tokens == 128
    assert Settings().translate_beam_size == 8
