"""oEmbed: the address of a lesson or an embed, in any state, becomes code that shows it."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.web.html import read

HOST = "http://127.0.0.1:8000"


def describe(client: TestClient, url: str, **more: Any) -> dict[str, Any]:
    answer = client.get("/oembed", params={"url": url, **more})
    assert answer.status_code == 200, answer.text
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    return answer.json()


def frame(described: dict[str, Any]) -> dict[str, str]:
    (element,) = read(described["html"]).all("iframe")
    return element.attributes


def test_a_chapters_address_gives_its_first_panel(probe: TestClient) -> None:
    described = describe(probe, f"{HOST}/chapters/probe")
    assert (described["version"], described["type"]) == ("1.0", "rich")
    assert described["title"] == "Probe <one>: Bench"
    shown = frame(described)
    assert shown["src"] == f"{HOST}/embed/probe/bench"
    assert shown["title"] == "Probe <one>: Bench"
    assert (shown["width"], shown["height"]) == ("760", "480")
    assert (described["width"], described["height"]) == (760, 480)


def test_the_state_travels_in_canonical_form(probe: TestClient) -> None:
    described = describe(
        probe, f"{HOST}/embed/probe/side-view?text=a%26b&number=3.0&theme=dark&x=1"
    )
    shown = frame(described)
    assert shown["src"] == f"{HOST}/embed/probe/side-view?number=3&text=a%26b&theme=dark"
    assert probe.get(shown["src"]).status_code == 200


def test_what_a_page_names_for_discovery_works(probe: TestClient) -> None:
    for path in ("/chapters/probe?number=3", "/embed/probe/side-view?number=3"):
        links = read(probe.get(path).text).all("link")
        (link,) = (e for e in links if e.attributes.get("type") == "application/json+oembed")
        assert "number=3" in frame(probe.get(link.attributes["href"]).json())["src"]


def test_it_is_never_larger_than_asked(probe: TestClient) -> None:
    described = describe(probe, f"{HOST}/chapters/probe", maxwidth=320, maxheight=200)
    assert (described["width"], described["height"]) == (320, 200)
    assert frame(described)["width"] == "320"


@pytest.mark.parametrize("field", ["maxwidth", "maxheight"])
@pytest.mark.parametrize("value", ["-1", "0", "1e3", "٣", "9" * 5000, "x"])
def test_a_size_that_is_none_is_refused(probe: TestClient, field: str, value: str) -> None:
    answer = probe.get("/oembed", params={"url": f"{HOST}/chapters/probe", field: value})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    "url",
    [
        "https://elsewhere.example/chapters/probe",
        f"{HOST}.evil.example/chapters/probe",
        f"{HOST}/",
        f"{HOST}/chapters/nowhere",
        f"{HOST}/embed/probe/nowhere",
        f"{HOST}/chapters/probe/panels/bench",
        "javascript:alert(1)",
        "http://[broken/chapters/probe",
        "probe",
        "//127.0.0.1:8000/chapters/probe",
    ],
)
def test_other_addresses_are_a_404(probe: TestClient, url: str) -> None:
    assert probe.get("/oembed", params={"url": url}).status_code == 404


def test_what_is_missing_or_not_offered_is_said(probe: TestClient) -> None:
    assert probe.get("/oembed").status_code == 400
    answer = probe.get("/oembed", params={"url": f"{HOST}/chapters/probe", "format": "xml"})
    assert answer.status_code == 501
    broken = probe.get("/oembed", params={"url": f"{HOST}/chapters/probe?number=%FF"})
    assert broken.status_code == 400
