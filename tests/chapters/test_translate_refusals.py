"""What the translation chapter refuses or brings back into range: said once, beside its field."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.translation.protocol import BadRequest
from app.web.errors import as_refusal, refuse
from app.web.site import Site
from tests import tiny
from tests.web.html import assert_clean

TEXT = "The cat saw the cat."


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tiny.make(tmp_path_factory.mktemp("models"))
    settings = Settings(models=str(folder), translate_seconds=300)
    with TestClient(create_app(settings), base_url="http://a") as client:
        while client.get("/readyz").status_code == 503:
            time.sleep(0.05)
        yield client


def api(client: TestClient, status: int = 200, **query: str) -> dict[str, Any]:
    answer = client.get("/api/v1/translate", params={"text": TEXT, **query})
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def best(page: str) -> list[str]:
    """The translations that a page shows in large."""
    return [e.text for e in assert_clean(page).all("p") if e.attributes.get("class") == "best"]


@pytest.mark.parametrize("edit", ["1", "3"])
@pytest.mark.parametrize("to", ["▁", "▁▁▁"])
def test_a_replacement_that_makes_no_token_is_refused(
    client: TestClient, edit: str, to: str
) -> None:
    (error,) = api(client, 422, edit=edit, to=to)["errors"]
    assert error["field"] == "to"
    assert "no token" in error["message"]
    answer = client.get(
        "/chapters/translate/panels/ask", params={"text": TEXT, "edit": edit, "to": to}
    )
    assert answer.status_code == 422
    assert error["message"] in " ".join(e.text for e in assert_clean(answer.text).all("p"))


def test_heads_that_there_are_not_are_refused_in_one_sentence(client: TestClient) -> None:
    heads = ",".join(f"cross.{layer}.{head}" for layer in range(1, 30) for head in range(1, 30))
    (error,) = api(client, 422, silence=heads[:4000].rpartition(",")[0])["errors"]
    assert error["field"] == "silence"
    assert "there is no cross." in error["message"]
    assert len(error["message"]) < 300


def test_what_was_brought_back_into_range_is_told_in_the_numbers_too(client: TestClient) -> None:
    assert api(client)["notices"] == []
    (notice,) = api(client, sentence="7")["notices"]
    assert notice == "There is one sentence: number 7 became 1."


@pytest.mark.parametrize("sublayer", ["", "encoder.1.feed_forward", "decoder.1.self_attention"])
def test_a_position_beyond_the_sublayers_is_told(client: TestClient, sublayer: str) -> None:
    found = api(client, at="999", sublayer=sublayer)
    length = (
        len(found["source_tokens"])
        if sublayer.startswith("encoder")
        else found["hypotheses"][0]["length"]
    )
    (notice,) = found["notices"]
    assert f"number 999 became {length}" in notice


def test_what_the_numbers_refuse_names_its_field(client: TestClient) -> None:
    answer = client.get("/download/translate/attention.svg", params={"text": " "})
    assert answer.status_code == 422
    assert "There is nothing to draw without a text." in answer.text
    refusal = as_refusal(BadRequest("text", "Shorten it."))
    (error,) = json.loads(refuse(Site(Settings(), ()), "json", refusal).body)["errors"]
    assert error == {"field": "text", "index": None, "value": None, "message": "Shorten it."}


@pytest.mark.parametrize("text", ["", "  \n "])
def test_a_blank_text_is_no_mistake_anywhere(client: TestClient, text: str) -> None:
    assert api(client, text=text)["translation"] == ""
    answer = client.get("/api/v1/translate/trace", params={"text": text, "silence": "cross.1.1"})
    assert answer.status_code == 200
    blank = answer.json()
    full = client.get("/api/v1/translate/trace", params={"text": TEXT}).json()
    assert blank.keys() == full.keys()
    assert blank["interventions"]["silenced"] == ["cross.1.1"]
    assert not any(blank[name] for name in blank.keys() - {"model", "interventions"})


def test_without_the_last_valid_state_the_rest_of_the_query_counts(client: TestClient) -> None:
    """So a link with one bad value shows its own text, not another sentence's translation."""
    answer = client.get("/chapters/translate", params={"text": "Close the window.", "alpha": "9"})
    assert answer.status_code == 422
    shown = client.get("/chapters/translate", params={"text": "Close the window."})
    assert best(answer.text) == best(shown.text)


def test_a_text_too_long_to_be_remembered_stays_when_something_else_is_refused(
    client: TestClient,
) -> None:
    text = ("ش" * 40 + "\n") * 12
    page = client.get("/chapters/translate/panels/translation", params={"text": text}).text
    fields = [e.attributes["name"] for e in assert_clean(page).all("input")]
    assert "valid" not in fields
    refused = client.get("/chapters/translate", params={"text": text, "alpha": "9"})
    assert best(refused.text) == best(page)


def test_a_long_sentence_is_told_how_many_tokens_it_makes(client: TestClient) -> None:
    (error,) = api(client, 422, text="Short.\n" + "☃" * 90)["errors"]
    assert error["field"] == "text"
    assert re.match(r"One sentence makes \d+ tokens; at most 128 are", error["message"])
    assert error["value"].startswith("☃")
