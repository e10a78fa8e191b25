"""The panels around the bench: what they say, and where their links lead, on the page and alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from starlette.testclient import TestClient

from app.chapters.three_positions import load
from app.chapters.three_positions_sweep import ticks
from app.main import create_app
from app.settings import Settings
from tests.web.html import read

PAGE = "/chapters/three-positions"


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(Settings(), chapters=[load()]), base_url="http://a")


@pytest.mark.parametrize("panel", ["sweep", "steps", "reading", "quiz"])
def test_a_panel_alone_speaks_of_nothing_that_is_not_there(client: TestClient, panel: str) -> None:
    """In somebody else's page there is nothing above it."""
    text = client.get(f"/embed/three-positions/{panel}").text
    assert "Above you" not in text
    assert "stand above" not in text


def test_the_reading_alone_opens_the_lesson_where_the_bench_is(client: TestClient) -> None:
    """What can be tried, and every number, needs the bench to show it."""
    document = read(client.get("/embed/three-positions/reading?mask=all&theme=dark").text)
    links = document.all("a")
    assert len(links) > 30
    for link in links:
        assert link.attributes["href"].startswith(f"{PAGE}?"), link
        assert link.attributes["target"] == "_blank", link
        assert link.attributes["rel"] == "noopener", link
        address = link.attributes["href"]
        assert client.get(address).status_code == 200, address


def test_the_reading_on_the_page_stays_there(client: TestClient) -> None:
    document = read(client.get(f"{PAGE}/panels/reading?mask=all").text)
    links = [link.attributes for link in document.all("a")]
    assert len(links) > 30
    for link in links:
        assert link["href"].startswith("?"), link
        assert "target" not in link, link


def test_links_have_no_empty_fields(client: TestClient) -> None:
    for query in ("", "?scaled=false", "?x3=2,-1,1,0&show=head1.weights.3.3"):
        for address in read(client.get(PAGE + query).text).values("href", "src", "hx-get"):
            assert "?&" not in address, address
            assert "&&" not in address, address
            assert not address.endswith("&"), address


def test_both_scalings_open_in_their_own_state(client: TestClient) -> None:
    text = client.get(f"{PAGE}/panels/reading?x3=2,-1,1,0").text
    for address in ("?x3=2,-1,1,0&show=", "?x3=2,-1,1,0&scaled=false&show="):
        wanted = address.replace("&", "&amp;") + "head1.weights.3.3"
        assert f'href="{wanted}"' in text


@pytest.mark.parametrize("number", range(1, 11))
def test_a_step_shows_a_formula_of_each_thing_that_it_speaks_of(
    client: TestClient, number: int
) -> None:
    """And four at most. Joining ends with the output projection."""
    document = read(client.get(f"{PAGE}/panels/steps?step={number}").text)
    titles = [element.text for element in document.all("figcaption")]
    assert 1 <= len(titles) <= 4
    if number == 9:
        assert titles[0].startswith("Concatenation for position 3")
        assert titles[-1].startswith("Output of the attention sublayer"), titles


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (0, 1e-9), (0, 2.527), (-4, 5), (0.1, 0.7), (999_992, 1e6), (0, 4.2e5), (-1e6, 1e6)],
)
def test_ticks_are_few_round_and_within(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 3 <= len(found) <= 6
    assert low <= found[0]
    assert found[-1] <= high
    assert all(len(f"{tick:.6g}".strip("-").replace(".", "").lstrip("0")) <= 6 for tick in found)
    steps = {round(later - tick, 12) for tick, later in pairwise(found)}
    assert len(steps) == 1
