"""Case 17 and the rest of what headers promise."""

from __future__ import annotations

import base64
import hashlib

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from tests.web.probe import probe_site

PAGES = [
    "/",
    "/chapters/probe",
    "/chapters/probe/panels/bench",
    "/api/v1/probe",
    "/download/probe/state.json",
    "/oembed?url=x",
    "/healthz",
    "/readyz",
    "/sitemap.xml",
    "/robots.txt",
    "/nowhere",
    "/nowhere/embed/probe/bench",
    "/chapters/probe?embed=/embed/probe/bench",
    "/chapters/embed",
    "/embed",
    "/embed/",
    "/embed/probe",
    "//embed/probe/bench",
    "/%2e%2e/embed/probe/bench",
]


def policy(answer: object) -> dict[str, str]:
    parts = answer.headers["Content-Security-Policy"].split("; ")
    return dict(part.split(" ", 1) for part in parts)


@pytest.mark.parametrize("path", PAGES)
def test_nothing_but_an_embed_may_be_framed(probe: TestClient, path: str) -> None:
    answer = probe.get(path)
    assert policy(answer)["frame-ancestors"] == "'none'"
    assert answer.headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize(
    "path",
    [
        "/embed/probe/bench",
        "/embed/probe/bench?number=one",
        "/embed/probe/bench?text=busy",
        "/embed/probe/bench?text=crash",
        "/embed/probe/nowhere",
    ],
)
def test_an_embed_may_be_framed_with_its_errors(probe: TestClient, path: str) -> None:
    answer = probe.get(path)
    assert policy(answer)["frame-ancestors"] == "*"
    assert "X-Frame-Options" not in answer.headers


@pytest.mark.parametrize(
    "host", ["x/embed?", "x/embed/probe/bench?", "x/embed#", "x@y", "x\\embed", ""]
)
@pytest.mark.parametrize("path", ["/", "/chapters/probe", "/embed/probe/bench"])
def test_case_17_a_crafted_host_changes_nothing_but_is_refused(
    probe: TestClient, host: str, path: str
) -> None:
    answer = probe.get(path, headers={"Host": host})
    assert answer.status_code == 400
    assert policy(answer)["frame-ancestors"] == "'none'"
    assert answer.headers["X-Frame-Options"] == "DENY"


def test_case_17_an_unknown_host_is_refused_where_hosts_are_named() -> None:
    settings = Settings(allowed_hosts=("attention.example",))
    app = create_app(settings, site=probe_site(settings))
    client = TestClient(app, base_url="http://attention.example")
    assert client.get("/").status_code == 200
    for path in ("/", "/embed/probe/bench", "/chapters/probe?x=/embed/"):
        answer = client.get(path, headers={"Host": "evil.example"})
        assert answer.status_code == 400
        assert policy(answer)["frame-ancestors"] == "'none'"


def test_addresses_come_from_the_public_url_where_one_is_set() -> None:
    settings = Settings(public_url="https://attention.example")
    client = TestClient(create_app(settings, site=probe_site(settings)), base_url="http://inside")
    text = client.get("/chapters/probe").text
    assert 'rel="canonical" href="https://attention.example/chapters/probe"' in text
    assert "http://inside" not in text


@pytest.mark.parametrize("path", [*PAGES, "/embed/probe/bench"])
def test_every_answer_is_strict(probe: TestClient, path: str) -> None:
    answer = probe.get(path)
    rules = policy(answer)
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self'"
    empty = base64.b64encode(hashlib.sha256(b"").digest()).decode()
    assert rules["style-src"] == f"'self' 'sha256-{empty}'"
    assert rules["base-uri"] == "'none'"
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "strict-origin-when-cross-origin"
    assert "camera=()" in answer.headers["Permissions-Policy"]
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("encoding", ["zstd", "br", "gzip"])
def test_pages_are_compressed_in_what_the_client_takes(probe: TestClient, encoding: str) -> None:
    plain = probe.get("/chapters/probe", headers={"Accept-Encoding": "identity"})
    packed = probe.get("/chapters/probe", headers={"Accept-Encoding": encoding})
    assert packed.headers["Content-Encoding"] == encoding
    assert packed.headers["Vary"] == "Accept-Encoding"
    assert plain.headers["ETag"] == packed.headers["ETag"]
    assert int(packed.headers["Content-Length"]) < int(plain.headers["Content-Length"])
