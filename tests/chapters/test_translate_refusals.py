"""What the translation chapter refuses or brings back into range: said once, beside its field."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
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
