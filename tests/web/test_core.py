"""The routes, with a chapter made for tests: one URL, one representation, and every error an
answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.web.errors import ClientGone
from app.web.site import settle
from tests.web.html import assert_clean
from tests.web.probe import Probe, probe_site


def test_a_page_shows_the_state_of_its_url(probe: TestClient) -> None:
    answer = probe.get("/chapters/probe?number=3")
    assert answer.status_code == 200
    document = assert_clean(answer.text)
    assert document.all("output")[0].text == "6.0"
    assert 'rel="canonical" href="http://127.0.0.1:8000/chapters/probe?number=3"' in answer.text


def test_a_panel_is_its_block_alone_and_names_the_canonical_query(probe: TestClient) -> None:
    answer = probe.get("/chapters/probe/panels/bench?number=3.0&unknown=1")
    assert answer.status_code == 200
    assert "<html" not in answer.text
    assert answer.headers["HX-Replace-Url"] == "?number=3"
    assert 'data-form="fragment"' in answer.text


def test_the_answer_does_not_depend_on_who_asks(probe: TestClient) -> None:
    for path in ("/chapters/probe?number=3", "/chapters/probe/panels/bench?number=3"):
        plain = probe.get(path)
        htmx = probe.get(path, headers={"HX-Request": "true", "HX-Request-Type": "partial"})
        assert plain.content == htmx.content


def test_an_embed_is_a_document_with_the_panel_and_a_link_to_the_lesson(probe: TestClient) -> None:
    answer = probe.get("/embed/probe/side-view?text=hello&theme=dark")
    assert answer.status_code == 200
    document = assert_clean(answer.text)
    assert document.all("html")[0].attributes["data-theme"] == "dark"
    assert "/chapters/probe?text=hello" in document.values("href")


def test_view_fields_stay_in_the_links_of_an_embed_and_out_of_the_state(probe: TestClient) -> None:
    answer = probe.get("/embed/probe/bench?theme=dark&number=3&controls=hide")
    document = assert_clean(answer.text)
    assert "?number=3&theme=dark&controls=hide" in document.values("href")
    hidden = {
        e.attributes["name"] for e in document.all("input") if e.attributes.get("type") == "hidden"
    }
    assert hidden == {"theme", "controls"}
    fragment = probe.get("/chapters/probe/panels/bench?theme=dark&number=3")
    assert fragment.headers["HX-Replace-Url"] == "?number=3&theme=dark"


def test_an_unknown_theme_is_the_default(probe: TestClient) -> None:
    answer = probe.get('/embed/probe/bench?theme="><script>')
    assert assert_clean(answer.text).all("html")[0].attributes["data-theme"] == "auto"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/chapters/probe", "text/html"),
        ("/chapters/probe/panels/bench", "text/html"),
        ("/embed/probe/bench", "text/html"),
        ("/api/v1/probe", "application/json"),
        ("/download/probe/state.json", "text/html"),
    ],
)
@pytest.mark.parametrize("value", ["one", "<script>alert(1)</script>", "9" * 400 + "x", "٣x", ""])
def test_a_refused_value_is_a_422_in_the_form_of_the_route(
    probe: TestClient, path: str, kind: str, value: str
) -> None:
    answer = probe.get(path, params={"number": value})
    assert answer.status_code == 422
    assert answer.headers["content-type"].startswith(kind)
    assert "A number is accepted." in answer.text
    assert "<script>alert" not in answer.text or kind == "application/json"
    assert "HX-Replace-Url" not in answer.headers


def test_api_errors_say_field_cell_value_and_message(probe: TestClient) -> None:
    answer = probe.get("/api/v1/probe?number=1&number=one")
    assert answer.json() == {
        "errors": [
            {"field": "number", "index": 1, "value": "one", "message": "A number is accepted."}
        ]
    }


def test_api_numbers_have_full_precision(probe: TestClient) -> None:
    answer = probe.get("/api/v1/probe?number=0.1")
    assert answer.json()["third"] == 0.1 / 3
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


def test_large_numbers_have_addresses_of_their_own(probe: TestClient) -> None:
    assert probe.get("/api/v1/probe/half?number=3").json() == {"half": 1.5}
    assert probe.get("/api/v1/probe/half?number=x").status_code == 422
    assert probe.get("/api/v1/probe/third").status_code == 404


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_api_says_null_where_there_is_no_number(probe: TestClient, value: str) -> None:
    answer = probe.get(f"/api/v1/probe?number={value}")
    strict = json.loads(answer.text, parse_constant=lambda name: pytest.fail(name))
    assert strict["number"] is None


def test_a_download_is_made_from_the_state_of_its_url(probe: TestClient) -> None:
    answer = probe.get("/download/probe/state.json?number=3")
    assert answer.json() == {"number": 3.0}
    assert answer.headers["Content-Disposition"] == 'attachment; filename="state.json"'


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/chapters/nowhere",
        "/chapters/probe/",
        "/chapters/probe/panels/nowhere",
        "/chapters/nowhere/panels/bench",
        "/embed/probe/nowhere",
        "/embed/nowhere/bench",
        "/api/v1/nowhere",
        "/api/nowhere",
        "/download/probe/nowhere.json",
        "/download/probe/..%2f..%2fpyproject.toml",
        "/static/x/nowhere.css",
        "/static/x/../../pyproject.toml",
        "/vendor/x/nowhere.js",
    ],
)
def test_what_is_not_there_is_a_friendly_404(probe: TestClient, path: str) -> None:
    answer = probe.get(path)
    assert answer.status_code == 404
    assert len(answer.text) > 10
    if path.startswith("/api/"):
        assert answer.json()["errors"][0]["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/", "/chapters/probe", "/api/v1/probe", "/healthz"])
def test_other_methods_are_a_405_that_says_so(probe: TestClient, method: str, path: str) -> None:
    answer = probe.request(method, path)
    assert answer.status_code == 405
    assert "GET" in answer.headers["Allow"]
    assert "GET and HEAD" in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/chapters/probe",
        "/chapters/probe/panels/bench",
        "/embed/probe/bench",
        "/api/v1/probe",
        "/download/probe/state.json",
        "/healthz",
        "/sitemap.xml",
    ],
)
def test_head_is_get_without_a_body(probe: TestClient, path: str) -> None:
    got, head = probe.get(path), probe.head(path)
    assert head.status_code == got.status_code
    assert head.headers.get("etag") == got.headers.get("etag")


@pytest.mark.parametrize(
    "path",
    [
        "/chapters/probe?number=2",
        "/chapters/probe/panels/bench?number=2",
        "/embed/probe/bench?number=2",
        "/api/v1/probe?number=2",
        "/download/probe/state.json?number=2",
    ],
)
def test_what_the_client_has_is_not_sent_again(probe: TestClient, path: str) -> None:
    first = probe.get(path)
    assert first.headers["Cache-Control"] == "public, no-cache"
    tag = first.headers["ETag"]
    for known in (tag, f'"other", {tag}', tag.removeprefix("W/"), "*"):
        again = probe.get(path, headers={"If-None-Match": known})
        assert again.status_code == 304
        assert again.headers["ETag"] == tag
        assert not again.content
        assert again.headers["Content-Security-Policy"] == first.headers["Content-Security-Policy"]
    assert probe.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
    other = probe.get(path.replace("=2", "=5"), headers={"If-None-Match": tag})
    assert other.status_code == 200


@pytest.mark.parametrize("text", ["busy", "loading", "wait busy"])
@pytest.mark.parametrize(
    "path", ["/chapters/probe", "/chapters/probe/panels/bench", "/embed/probe/bench"]
)
def test_what_cannot_be_had_now_is_a_503_to_be_asked_again(
    probe: TestClient, path: str, text: str
) -> None:
    answer = probe.get(path, params={"text": text})
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) in (3, 7)
    assert "Please try again" in answer.text
    assert ("<html" in answer.text) == ("panels" not in path)
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_chapter_may_take_its_time(probe: TestClient) -> None:
    assert probe.get("/chapters/probe?text=wait&number=2").status_code == 200
    assert probe.get("/chapters/probe/panels/bench?text=wait").status_code == 200
    assert probe.get("/api/v1/probe?text=wait").json() == {"number": 1.0, "later": True}


def test_work_is_cancelled_when_the_client_leaves() -> None:
    chapter = Probe()

    async def leave() -> dict[str, str]:
        await asyncio.sleep(0.02)
        return {"type": "http.disconnect"}

    async def run() -> None:
        request = Request({"type": "http", "headers": []}, leave)
        parsed = chapter.parse([("text", "wait long")])
        with pytest.raises(ClientGone):
            await settle(request, chapter.context(parsed))
        assert chapter.cancelled.is_set()

    asyncio.run(asyncio.wait_for(run(), 2))


@pytest.mark.parametrize(
    "path", ["/chapters/probe", "/chapters/probe/panels/bench", "/embed/probe/bench"]
)
def test_a_crash_is_a_sentence_for_the_reader_and_a_place_for_the_log(
    probe: TestClient, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = probe.get(path, params={"text": "crash"})
    assert answer.status_code == 500
    assert "our fault" in answer.text
    assert "secret" not in answer.text + caplog.text
    assert "Content-Security-Policy" in answer.headers


def test_a_panel_without_its_block_is_found_at_start_up() -> None:
    class Broken(Probe):
        panels = (*Probe.panels, Probe.panels[0].__class__("missing", "Missing", 100))

    from app import paths
    from app.web.site import Site
    from tests.web.probe import TEMPLATES

    with pytest.raises(ValueError, match="panel_missing"):
        Site(Settings(), (Broken(),), template_folders=(TEMPLATES, paths.TEMPLATES))


class Slow:
    """A service that is ready when told so."""

    def __init__(self, fails: bool = False) -> None:
        self.state = "loading"
        self.fails = fails
        self.may_finish = asyncio.Event()
        self.stopped = False

    async def start(self) -> None:
        await self.may_finish.wait()
        if self.fails:
            self.state = "failed"
            raise OSError("damaged")
        self.state = "ready"

    async def stop(self) -> None:
        self.stopped = True


def test_pages_are_up_while_a_service_loads_and_readyz_tells() -> None:
    service = Slow()
    app = create_app(Settings(), site=probe_site(), services={"slow": service})
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        waiting = client.get("/readyz")
        assert (waiting.status_code, waiting.json()["status"]) == (503, "loading")
        assert waiting.json()["parts"] == {"slow": "loading"}
        assert client.get("/chapters/probe").status_code == 200
        assert client.get("/healthz").json() == {"status": "alive"}
        client.portal.call(service.may_finish.set)
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert service.stopped


def test_a_service_that_fails_leaves_the_rest_serving() -> None:
    service = Slow(fails=True)
    app = create_app(Settings(), site=probe_site(), services={"slow": service})
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        client.portal.call(service.may_finish.set)
        answer = client.get("/readyz")
        assert answer.json() == {"status": "ready", "parts": {"slow": "failed"}}
        assert client.get("/chapters/probe").status_code == 200


def test_openapi_describes_the_numbers(probe: TestClient) -> None:
    schema = probe.get("/api/openapi.json").json()
    operation = schema["paths"]["/api/v1/{slug}"]["get"]
    assert {"200", "404", "422", "503"} <= operation["responses"].keys()
    assert math.isclose(len(schema["paths"]), 1)


def test_crawlers_find_each_chapter_once(probe: TestClient) -> None:
    assert "<loc>http://127.0.0.1:8000/chapters/probe</loc>" in probe.get("/sitemap.xml").text
    assert "Sitemap: http://127.0.0.1:8000/sitemap.xml" in probe.get("/robots.txt").text
