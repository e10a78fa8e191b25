"""Worked examples beside the chapter's own: sound ones of other sizes, and refused ones."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.chapters import table_of_contents
from app.chapters.three_positions import load
from app.chapters.worked_example import WorkedExampleError
from app.main import create_app
from app.paths import WORKED_EXAMPLES
from app.settings import Settings
from tests.web.html import assert_clean, read

OWN = (WORKED_EXAMPLES / "three_positions" / "example.toml").read_text(encoding="utf-8")


def other(n: int, d_model: int, h: int) -> str:
    """A sound example of these sizes, with d_k = 2 and d_v = 3."""

    def matrix(rows: int, columns: int, first: int) -> str:
        return str([[(first + 3 * i + 5 * j) % 7 - 3 for j in range(columns)] for i in range(rows)])

    heads = "".join(
        f"[[heads]]\nW_Q = {matrix(d_model, 2, k)}\nW_K = {matrix(d_model, 2, k + 1)}\n"
        f"W_V = {matrix(d_model, 3, k + 2)}\n"
        for k in range(h)
    )
    return (
        f'format = 1\ntitle = "Other <sizes> & {h} heads"\nX = {matrix(n, d_model, 0)}\n{heads}'
        f'[[output_projections]]\nname = "full"\ntitle = "Full"\n'
        f"W_O = {matrix(h * 3, d_model, 1)}\n"
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The chapter's own example, and room for others."""
    shutil.copytree(WORKED_EXAMPLES / "three_positions", tmp_path / "three_positions")
    return tmp_path


def add(folder: Path, slug: str, text: str) -> None:
    (folder / slug).mkdir(exist_ok=True)
    (folder / slug / "example.toml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("sizes", [(4, 6, 3), (1, 1, 1)])
def test_an_example_of_other_sizes_works_everywhere(
    folder: Path, sizes: tuple[int, int, int]
) -> None:
    add(folder, "other", other(*sizes))
    chapter = load(folder)
    client = TestClient(create_app(Settings(), chapters=[chapter]), base_url="http://a")
    n, d_model, h = sizes
    language = chapter.languages.by_slug["other"]
    row = ",".join(["2"] * d_model)
    for state in (
        "",
        f"&x{n}={row}&mask=all&scaled=false&gamma={row}&epsilon=0.5&show=head{h}.weights.{n}.1",
        "&guess1=1&guess2=abc&reveal=3",
        f"&x1={row},2,1",
    ):
        query = f"example=other{state}"
        expected = 422 if "abc" in query or state.endswith(",1") else 200
        page = client.get(f"/chapters/three-positions?{query}")
        assert page.status_code == expected, page.text
        assert_clean(page.text)
        for panel in chapter.panels:
            assert (
                client.get(f"/embed/three-positions/{panel.slug}?{query}").status_code == expected
            )
        for download in chapter.downloads:
            answer = client.get(f"/download/three-positions/{download.name}?{query}")
            assert answer.status_code == expected, answer.text
    for step in range(1, 11):
        answer = client.get(f"/chapters/three-positions/panels/steps?example=other&step={step}")
        assert answer.status_code == 200, step
    for address in sorted(language.addresses)[:: max(1, len(language.addresses) // 15)]:
        answer = client.get(f"/chapters/three-positions/panels/bench?example=other&show={address}")
        assert answer.status_code == 200, address
        assert "data-arithmetic" in answer.text, address
    numbers = client.get("/api/v1/three-positions?example=other").json()
    assert len(numbers["inputs"]["X"]) == n
    assert len(numbers["heads"]) == h
    assert len(numbers["layer_norm"][0]) == d_model


def test_the_words_about_an_example_are_about_its_own_sizes(folder: Path) -> None:
    add(folder, "other", other(4, 6, 3))
    client = TestClient(create_app(Settings(), chapters=[load(folder)]), base_url="http://a")
    text = client.get("/chapters/three-positions/panels/bench?example=other").text
    assert "four coordinates" not in text
    assert "Other &lt;sizes&gt; &amp; 3 heads" in text


def test_files_are_offered_for_the_example_that_is_shown(folder: Path) -> None:
    """The script and the 24 states are about the chapter's own."""
    add(folder, "other", other(4, 6, 3))
    client = TestClient(create_app(Settings(), chapters=[load(folder)]), base_url="http://a")

    def files(query: str) -> dict[str, str]:
        links = read(client.get(f"/chapters/three-positions/panels/bench{query}").text).all("a")
        addresses = [link.attributes["href"] for link in links if "download" in link.attributes]
        return {address.partition("?")[0].rpartition("/")[2]: address for address in addresses}

    own = files("")
    assert {
        "calculate.py",
        "states.json",
        "states.csv",
        "worked-example.toml",
        "state.json",
    } <= set(own)
    others = files("?example=other")
    assert set(own) - set(others) == {"calculate.py", "states.json", "states.csv"}
    assert all("example=other" in address for address in others.values())
    assert client.get(others["state.json"]).json()["inputs"]["example"] == "other"
    text = (folder / "other" / "example.toml").read_text(encoding="utf-8")
    assert client.get(others["worked-example.toml"]).text == text
    assert client.get(own["worked-example.toml"]).text == OWN


def test_the_page_counts_what_the_example_has(folder: Path) -> None:
    add(folder, "other", other(4, 6, 3))
    client = TestClient(create_app(Settings(), chapters=[load(folder)]), base_url="http://a")
    pages = {
        query: client.get(f"/chapters/three-positions{query}").text
        for query in ("", "?example=other")
    }
    assert "Three positions, four coordinates, two heads, every weight set by hand" in pages[""]
    assert "Four positions, six coordinates, three heads, every weight" in pages["?example=other"]


def test_a_last_state_of_another_example_does_no_harm(folder: Path) -> None:
    add(folder, "other", other(4, 6, 3))
    client = TestClient(create_app(Settings(), chapters=[load(folder)]), base_url="http://a")
    for query in (
        "example=other&x4=1,2,3,4,5,a&valid=",
        "x3=1,2,3,a&valid=example%3Dother%26position%3D4",
        "example=nothing&valid=example%3Dother&position=4",
    ):
        assert client.get(f"/chapters/three-positions/panels/bench?{query}").status_code == 422


def test_a_refused_example_leaves_the_others(folder: Path) -> None:
    add(folder, "other", "format = 1\nX = [[1, 0], [0]]")
    assert list(load(folder).languages.by_slug) == ["three_positions"]


@pytest.fixture(
    params=[
        ("format = 1\nX = [[", "is not valid TOML"),
        (OWN.replace("epsilon = 1e-6", "epsilon = -1"), "epsilon"),
        (other(3, 4, 2), "heads"),
        (other(4, 4, 2), "X"),
        (OWN.replace('name = "swapped"', 'name = "crossed"'), "output_projections"),
        (None, "is missing"),
    ],
    ids=["syntax", "value", "other heads", "other inputs", "other names", "missing"],
)
def unsound(request: pytest.FixtureRequest, folder: Path) -> tuple[Path, str]:
    """A folder whose example for the chapter is not what the chapter needs, and the reason."""
    text, reason = request.param
    if text is None:
        shutil.rmtree(folder / "three_positions")
    else:
        assert text != OWN
        add(folder, "three_positions", text)
    add(folder, "other", other(4, 6, 3))
    return folder, reason


def test_without_its_own_example_the_chapter_is_left_out(
    unsound: tuple[Path, str], caplog: pytest.LogCaptureFixture
) -> None:
    folder, reason = unsound
    with pytest.raises(WorkedExampleError, match=f"three_positions/example.toml.*{reason}"):
        load(folder)
    caplog.set_level(logging.ERROR)
    chapters = table_of_contents(examples=folder)
    assert [chapter.slug for chapter in chapters] == ["translate"]
    assert any(
        "chapter left out: three_positions/example.toml" in line and reason in line
        for line in caplog.messages
    )
    client = TestClient(create_app(Settings(), chapters=chapters), base_url="http://a")
    contents = client.get("/")
    assert contents.status_code == 200
    assert "/chapters/three-positions" not in contents.text
    assert client.get("/chapters/translate").status_code in (200, 503)
    for path in ("/chapters/three-positions", "/api/v1/three-positions", "/sitemap.xml"):
        assert client.get(path).status_code == (200 if path == "/sitemap.xml" else 404)
