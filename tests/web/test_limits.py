"""Cases 14 and 15, the part before the network: queries that nobody honest sends."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from app.settings import Settings
from app.web.errors import Refusal
from app.web.limits import host_allowed, host_name, read_query

SETTINGS = Settings()


def test_pairs_keep_their_order_and_their_blanks() -> None:
    raw = b"x1=1&x1=0&empty=&name&a%20b=c+d&&e=%C3%A4%26"
    assert read_query(raw, SETTINGS) == [
        ("x1", "1"),
        ("x1", "0"),
        ("empty", ""),
        ("name", ""),
        ("a b", "c d"),
        ("e", "ä&"),
    ]


@given(st.binary(max_size=200))
def test_any_bytes_are_pairs_or_a_refusal(raw: bytes) -> None:
    with contextlib.suppress(Refusal):
        for pair in read_query(raw, SETTINGS):
            "".join(pair).encode("utf-8")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"&".join(b"x1=1" for _ in range(2000)), 400),
        (b"x1=" + b"1" * 5_000_000, 414),
        (b"x1=" + b"1" * 5_000, 400),
        (b"x1=%ff", 400),
        (b"x1=\xff", 400),
        (b"x1=%ED%A0%80", 400),
        (b"x1=%00", 400),
        (b"%C3%28=1", 400),
    ],
    ids=["2000 fields", "5 MB", "5000 digits", "ff", "raw ff", "surrogate", "NUL", "bad name"],
)
def test_case_14_and_15_hostile_queries_are_refused_quickly(raw: bytes, status: int) -> None:
    started = time.perf_counter()
    with pytest.raises(Refusal) as caught:
        read_query(raw, SETTINGS)
    assert caught.value.status == status
    assert caught.value.message.endswith(".")
    assert time.perf_counter() - started < 0.1


@pytest.mark.parametrize(
    "path",
    [
        "/chapters/probe",
        "/chapters/probe/panels/bench",
        "/embed/probe/bench",
        "/api/v1/probe",
        "/download/probe/state.json",
        "/oembed",
    ],
)
@pytest.mark.parametrize(
    "query", ["number=%ED%A0%80", "a=%00", "b=%ff", "&".join(["x=1"] * 2000), "x=" + "9" * 5000]
)
def test_hostile_queries_are_a_sentence_on_every_route(
    probe: TestClient, path: str, query: str
) -> None:
    answer = probe.get(f"{path}?{query}")
    assert answer.status_code == 400
    assert "The address has" in answer.text or "One field of the address" in answer.text


@pytest.mark.parametrize("path", ["/", "/chapters/probe", "/api/v1/probe", "/nowhere"])
def test_a_large_body_is_refused_unread(probe: TestClient, path: str) -> None:
    for method in ("GET", "POST"):
        answer = probe.request(method, path, content=b"x" * 1_000_000)
        assert answer.status_code == 413

        def endless() -> object:
            yield b"x"

        assert probe.request(method, path, content=endless()).status_code == 413


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("example.org", "example.org"),
        ("Example.ORG:8000", "example.org"),
        ("127.0.0.1:8000", "127.0.0.1"),
        ("[::1]:8000", "[::1]"),
        ("localhost", "localhost"),
        ("x/embed?", None),
        ("x/embed", None),
        ("a@b", None),
        ("a b", None),
        ("", None),
        ("a:99999999", None),
        ("a#b", None),
        ("é.org", None),
        ("a" * 300, None),
    ],
)
def test_a_host_is_a_name_or_nothing(header: str, name: str | None) -> None:
    assert host_name(header) == name


def test_allowed_hosts_may_have_a_wildcard_in_front() -> None:
    assert host_allowed("a.example.org", ("*.example.org",))
    assert not host_allowed("example.org.evil", ("*.example.org", "example.org"))
    assert not host_allowed("badexample.org", ("*.example.org",))
    assert host_allowed("anything", ("*",))


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPLORABLE_ATTENTION_ALLOWED_HOSTS", "a.example, B.example")
    monkeypatch.setenv("EXPLORABLE_ATTENTION_PORT", "9000")
    monkeypatch.setenv("EXPLORABLE_ATTENTION_PUBLIC_URL", "https://attention.example/")
    settings = Settings()
    assert settings.allowed_hosts == ("a.example", "b.example")
    assert settings.port == 9000
    assert settings.public_url == "https://attention.example"


@pytest.mark.parametrize(
    "values", [{"port": 0}, {"public_url": "attention.example"}, {"max_query_bytes": 40_000}]
)
def test_impossible_settings_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(values))):
        Settings(**values)
