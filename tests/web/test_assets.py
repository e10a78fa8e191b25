"""Static files: addresses that change with the content, kept for a year, compressed once."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import brotli
import pytest
from starlette.testclient import TestClient

from app import paths
from app.web.assets import VENDOR_FILES, Assets


def test_an_address_changes_with_any_content(tmp_path: Path) -> None:
    (tmp_path / "css").mkdir()
    (tmp_path / "css" / "a.css").write_text("a{}")
    assets = Assets(tmp_path)
    before = assets.asset("css/a.css")
    assert re.fullmatch(r"/static/[0-9a-f]{16}/css/a\.css", before)
    assert Assets(tmp_path).asset("css/a.css") == before
    (tmp_path / "css" / "b.css").write_text("b{}")
    assets.refresh()
    assert assets.asset("css/a.css") != before
    with pytest.raises(KeyError, match=r"css/c\.css"):
        assets.asset("css/c.css")


def test_a_missing_npm_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="npm ci"):
        Assets(vendor=tmp_path)


def test_every_stylesheet_is_loaded_tokens_first(probe: TestClient) -> None:
    sheets = re.findall(r'rel="stylesheet" href="([^"]+)"', probe.get("/").text)
    names = [re.sub("^/static/[0-9a-f]+/", "", sheet) for sheet in sheets]
    found = {path.relative_to(paths.STATIC).as_posix() for path in paths.STATIC.rglob("*.css")}
    assert set(names) == {name for name in found if not name.startswith("css/chapters/")}
    assert names[0] == "css/tokens.css"


@pytest.mark.parametrize(
    "name", [path.relative_to(paths.STATIC).as_posix() for path in paths.STATIC.rglob("*.[cjs]*")]
)
def test_own_files_are_immutable_at_their_address_and_fresh_at_any_other(
    probe: TestClient, name: str
) -> None:
    address = probe.app.state.site.assets.asset(name)
    answer = probe.get(address)
    assert answer.status_code == 200
    assert answer.content == (paths.STATIC / name).read_bytes()
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    outdated = probe.get(f"/static/0000000000000000/{name}")
    assert outdated.content == answer.content
    assert outdated.headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize("name", VENDOR_FILES)
def test_npm_files_are_served_as_npm_left_them(probe: TestClient, name: str) -> None:
    address = probe.app.state.site.assets.vendor(name)
    answer = probe.get(address, headers={"Accept-Encoding": "identity"})
    assert answer.content == (paths.VENDOR / VENDOR_FILES[name]).read_bytes()
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["Cache-Control"]


@pytest.mark.parametrize(
    ("accepted", "encoding", "unpack"),
    [
        ("gzip, deflate, br, zstd", "br", brotli.decompress),
        ("gzip", "gzip", gzip.decompress),
        ("br;q=0, gzip;q=0.5", "gzip", gzip.decompress),
    ],
)
def test_files_are_compressed_as_the_client_accepts(
    probe: TestClient, accepted: str, encoding: str, unpack: object
) -> None:
    address = probe.app.state.site.assets.vendor("htmx")
    with probe.stream("GET", address, headers={"Accept-Encoding": accepted}) as answer:
        packed = b"".join(answer.iter_raw())
        assert answer.headers["Content-Encoding"] == encoding
        assert answer.headers["Vary"] == "Accept-Encoding"
    assert unpack(packed) == (paths.VENDOR / VENDOR_FILES["htmx"]).read_bytes()
    again = probe.get(
        address, headers={"Accept-Encoding": accepted, "If-None-Match": answer.headers["ETag"]}
    )
    assert again.status_code == 304


@pytest.mark.parametrize("accepted", ["identity", "", "br;q=0", "deflate"])
def test_files_stay_plain_for_other_clients(probe: TestClient, accepted: str) -> None:
    address = probe.app.state.site.assets.vendor("htmx")
    answer = probe.get(address, headers={"Accept-Encoding": accepted})
    assert "Content-Encoding" not in answer.headers
