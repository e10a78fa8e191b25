"""What every chapter owes its readers, checked for each chapter in the table of contents.

The chapter made for tests goes through the same, so that the checks themselves are known to run.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import pytest
from starlette.testclient import TestClient

from app import paths
from app.chapters import CHAPTERS, table_of_contents
from app.chapters.contract import Chapter, Panel
from app.main import create_app, translation_service
from app.settings import Settings
from app.web.downloads import worked_example_files
from app.web.site import Site
from tests import tiny
from tests.web.html import Document, assert_clean, read
from tests.web.probe import TEMPLATES, Probe

BASE = "http://127.0.0.1:8000"
ALL: list[Chapter[Any]] = [*CHAPTERS, Probe()]
PANELS = [(chapter, panel) for chapter in ALL for panel in chapter.panels]

each_chapter = pytest.mark.parametrize("chapter", ALL, ids=lambda chapter: chapter.slug)
each_panel = pytest.mark.parametrize(
    ("chapter", "panel"), PANELS, ids=[f"{c.slug}/{p.slug}" for c, p in PANELS]
)

# Case 16, for whatever field: a clear refusal or the right number, never anything else.
STRANGE = [
    *("NaN", "Infinity", "-Infinity", "-0", "1e309", "1e400", "1_000", "0x10", "1,5", "٣", "", " "),
    *("1e-400", "--1", "\u22121", "1e", "9" * 400, "<b>", "{{7*7}}", "null", "1,2,3,4,5,6,7,8,9"),
]


@pytest.fixture(scope="module")
def everyone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Every chapter, and a translator whose models are small and know nothing."""
    settings = Settings(models=str(tiny.make(tmp_path_factory.mktemp("models"))))
    translator = translation_service(settings)
    chapters = [*table_of_contents(translator), Probe()]
    site = Site(settings, chapters, template_folders=(TEMPLATES, paths.TEMPLATES))
    app = create_app(settings, site=site, services={"translator": translator})
    with TestClient(app, base_url=BASE) as client:
        while client.get("/readyz").status_code == 503:
            time.sleep(0.05)
        yield client


def page(client: TestClient, chapter: Chapter[Any], query: str = "") -> Document:
    answer = client.get(f"/chapters/{chapter.slug}?{query}")
    assert answer.status_code == 200, answer.text
    return assert_clean(answer.text)


def later(answer: Any) -> bool:
    """Whether this answer needs a model, which no chapter has here: a 503 that says when to ask."""
    if answer.status_code != 503:
        return False
    assert int(answer.headers["Retry-After"]) > 0
    return True


def own_states(document: Document) -> list[str]:
    """Queries of the links from a document to other states of itself, a sample across the page."""
    links = (v.partition("#")[0] for v in document.values("href") if v.startswith("?"))
    found = list(dict.fromkeys(link[1:] for link in links))
    return found[:: max(1, len(found) // 15)]


def test_slugs_and_numbers_are_unique_and_in_order() -> None:
    assert len({chapter.slug for chapter in CHAPTERS}) == len(CHAPTERS)
    numbers = [chapter.number for chapter in CHAPTERS]
    assert numbers == sorted(set(numbers))


@each_chapter
def test_a_chapter_describes_itself(chapter: Chapter[Any]) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", chapter.slug)
    assert chapter.title.strip()
    assert chapter.summary.strip()
    assert chapter.section.startswith("§")
    assert chapter.minutes > 0
    assert chapter.panels
    names = [panel.slug for panel in chapter.panels]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)
    assert all(100 <= panel.height <= 5000 for panel in chapter.panels)
    files = [download.name for download in chapter.downloads]
    assert len(set(files)) == len(files)
    assert all(re.fullmatch(r"[a-z0-9._-]+\.[a-z0-9]+", name) for name in files)
    assert not set(files) & worked_example_files(chapter.slug).keys()


@each_chapter
def test_the_default_state_has_the_empty_query(chapter: Chapter[Any]) -> None:
    parsed = chapter.parse([])
    assert not parsed.problems
    assert chapter.query(parsed.parameters) == ""


@each_chapter
def test_the_page_is_complete_and_clean(everyone: TestClient, chapter: Chapter[Any]) -> None:
    document = page(everyone, chapter)
    (html,) = document.all("html")
    assert html.attributes["lang"] == "en"
    assert len(document.all("h1")) == len(document.all("main")) == 1
    assert chapter.title in document.all("title")[0].text
    levels = [int(e.tag[1]) for e in document.elements if re.fullmatch("h[1-6]", e.tag)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    for control in ("input", "select", "textarea"):
        for element in document.all(control):
            if element.attributes.get("type") not in ("hidden", "submit", "button"):
                assert element.attributes.get("name") or "form" in element.attributes
    for form in document.all("form"):
        assert form.attributes.get("method", "get").lower() in ("get", "dialog")
    for frame in document.all("iframe"):
        assert frame.attributes.get("title")
    assert len(document.all("table")) == len(document.all("caption"))


@each_chapter
def test_every_link_on_the_page_leads_somewhere(
    everyone: TestClient, chapter: Chapter[Any]
) -> None:
    here = f"{BASE}/chapters/{chapter.slug}"
    document = page(everyone, chapter)
    paths_seen = set()
    for value in document.values("href", "src", "action", "hx-get"):
        target = urlsplit(urljoin(here, value))
        if target.netloc != urlsplit(BASE).netloc:
            assert target.scheme == "https", value
            continue
        if value.startswith("#"):
            assert value[1:] in document.ids, value
            continue
        if target.path not in paths_seen:
            paths_seen.add(target.path)
            query = f"?{target.query}" if target.query else ""
            answer = everyone.get(target.path + query)
            assert answer.status_code == 200 or later(answer), value


@each_chapter
def test_links_to_other_states_work_and_round_trip(
    everyone: TestClient, chapter: Chapter[Any]
) -> None:
    for query in own_states(page(everyone, chapter)):
        parsed = chapter.parse(parse_qsl(query, keep_blank_values=True))
        assert not parsed.problems, query
        canonical = chapter.query(parsed.parameters)
        assert canonical.isascii()
        assert not re.search(r"[\s\"'<>#]", canonical)
        again = chapter.parse(parse_qsl(canonical, keep_blank_values=True))
        assert again.parameters == parsed.parameters
        assert chapter.query(again.parameters) == canonical
        page(everyone, chapter, query)


@each_panel
def test_a_panel_is_the_same_on_page_fragment_and_embed(
    everyone: TestClient, chapter: Chapter[Any], panel: Panel
) -> None:
    fragment = everyone.get(f"/chapters/{chapter.slug}/panels/{panel.slug}")
    assert fragment.status_code == 200
    assert fragment.headers["HX-Replace-Url"] == "?"
    assert fragment.headers["Cache-Control"] == "public, no-cache"
    alone = read(fragment.text)
    assert not alone.misnested
    assert alone.ids
    assert set(alone.ids) <= set(page(everyone, chapter).ids)
    embed = everyone.get(f"/embed/{chapter.slug}/{panel.slug}")
    assert embed.status_code == 200
    document = assert_clean(embed.text)
    assert set(alone.ids) <= set(document.ids)
    assert len(document.all("h1")) == 1
    assert f"/chapters/{chapter.slug}" in document.values("href")
    assert "frame-ancestors *" in embed.headers["Content-Security-Policy"]


@each_panel
def test_an_embed_keeps_state_and_theme(
    everyone: TestClient, chapter: Chapter[Any], panel: Panel
) -> None:
    for query in own_states(page(everyone, chapter))[:4]:
        answer = everyone.get(f"/embed/{chapter.slug}/{panel.slug}?{query}&theme=dark")
        assert answer.status_code == 200
        document = assert_clean(answer.text)
        assert document.all("html")[0].attributes["data-theme"] == "dark"
        for value in document.values("href"):
            assert not value.startswith("?") or "theme=dark" in value, value


@each_chapter
def test_the_api_answers_in_strict_json(everyone: TestClient, chapter: Chapter[Any]) -> None:
    for query in ["", *own_states(page(everyone, chapter))[:5]]:
        answer = everyone.get(f"/api/v1/{chapter.slug}?{query}")
        assert answer.status_code == 200 or later(answer)
        assert answer.headers["content-type"] == "application/json"
        json.loads(answer.text, parse_constant=lambda name: pytest.fail(name))


@pytest.mark.parametrize(
    ("slug", "name"),
    [(chapter.slug, download.name) for chapter in ALL for download in chapter.downloads]
    + [(chapter.slug, name) for chapter in ALL for name in worked_example_files(chapter.slug)],
)
def test_every_file_can_be_taken_away(everyone: TestClient, slug: str, name: str) -> None:
    answer = everyone.get(f"/download/{slug}/{name}")
    if later(answer):
        return
    assert answer.status_code == 200
    assert answer.content
    assert name in answer.headers["Content-Disposition"]
    if name.endswith(".json"):
        json.loads(answer.text, parse_constant=lambda constant: pytest.fail(constant))
    if name.endswith(".png"):
        assert answer.content.startswith(b"\x89PNG")
    if name.endswith(".svg"):
        assert b"<svg" in answer.content


@each_panel
def test_oembed_shows_every_panel(
    everyone: TestClient, chapter: Chapter[Any], panel: Panel
) -> None:
    url = f"{BASE}/embed/{chapter.slug}/{panel.slug}"
    described = everyone.get("/oembed", params={"url": url}).json()
    (frame,) = read(described["html"]).all("iframe")
    assert frame.attributes["src"] == url
    assert int(frame.attributes["height"]) == panel.height
    assert everyone.get(frame.attributes["src"]).status_code == 200


def fields(document: Document) -> list[str]:
    """The names that the page's form sends."""
    names = [
        e.attributes["name"]
        for t in ("input", "select", "textarea")
        for e in document.all(t)
        if "name" in e.attributes
    ]
    return list(dict.fromkeys(names))


@each_chapter
@pytest.mark.parametrize("value", STRANGE)
def test_case_16_strange_values_are_refused_in_words_or_understood(
    everyone: TestClient, chapter: Chapter[Any], value: str
) -> None:
    names = fields(page(everyone, chapter))
    for name in names:
        api = everyone.get(f"/api/v1/{chapter.slug}", params={name: value})
        assert api.status_code in (200, 422) or later(api), name
        for error in json.loads(api.text)["errors"] if api.status_code == 422 else ():
            assert error.keys() == {"field", "index", "value", "message"}
            assert error["field"] == name
            assert len(error["message"]) > 10
    everything = {name: value for name in names if name != "valid"}
    api = everyone.get(f"/api/v1/{chapter.slug}", params=everything)
    whole = everyone.get(f"/chapters/{chapter.slug}", params=everything)
    assert whole.status_code == api.status_code or (later(api) and whole.status_code == 200)
    document = assert_clean(whole.text)
    for panel in chapter.panels:
        path = f"/chapters/{chapter.slug}/panels/{panel.slug}"
        assert everyone.get(path, params=everything).status_code == whole.status_code
    if api.status_code == 422:
        for error in json.loads(api.text)["errors"]:
            assert error["message"] in document.text_of_all()


@each_chapter
def test_case_20_page_and_fragment_never_share_an_address(
    everyone: TestClient, chapter: Chapter[Any]
) -> None:
    # Back and reload ask for the page's own address, whatever was swapped: always a document.
    for query in ["", *own_states(page(everyone, chapter))[:5]]:
        for headers in ({}, {"HX-Request": "true"}, {"HX-History-Restore-Request": "true"}):
            answer = everyone.get(f"/chapters/{chapter.slug}?{query}", headers=headers)
            assert answer.text.lstrip().startswith("<!doctype html>")
            assert answer.headers["Cache-Control"] == "public, no-cache"
            assert "HX-Request" not in answer.headers.get("Vary", "")


@each_chapter
def test_the_first_page_is_at_most_60_kb_compressed_without_plotly(
    everyone: TestClient, chapter: Chapter[Any]
) -> None:
    headers = {"Accept-Encoding": "gzip"}
    document = page(everyone, chapter)
    addresses = [f"/chapters/{chapter.slug}"]
    addresses += [e.attributes["src"] for e in document.all("script") if "src" in e.attributes]
    addresses += [
        e.attributes["href"]
        for e in document.all("link")
        if e.attributes.get("rel") in ("stylesheet", "icon", "modulepreload")
    ]
    for address in addresses:  # grows on the way: what modules import counts too
        if "/js/" in address:
            imported = re.findall(r'\bimport [^"]*"([^"]+)"', everyone.get(address).text)
            addresses += [urljoin(address, name) for name in imported]
    sizes = {
        address: len(raw_body(everyone, address, headers))
        for address in dict.fromkeys(addresses)
        if "plotly" not in address
    }
    assert sum(sizes.values()) <= 60_000, sizes


def raw_body(client: TestClient, address: str, headers: dict[str, str]) -> bytes:
    with client.stream("GET", address, headers=headers) as answer:
        assert answer.status_code == 200
        return b"".join(answer.iter_raw())
