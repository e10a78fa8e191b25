"""The project's own static files and the few from npm, under addresses that change with their
content.

Own files share one digest, of the whole tree, so that a stylesheet or module may name its neighbour
relatively: `/static/1f0c…/css/site.css`. A file from npm has its own: `/vendor/9ab3…/htmx.min.js`.
Such addresses never change their content, so browsers keep them for a year without asking.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import brotli
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from app import paths
from app.web.conditional import not_modified
from app.web.routing import Route

VENDOR_FILES: Final[Mapping[str, str]] = {
    "htmx": "htmx.org/dist/htmx.min.js",
    "htmx-sse": "htmx.org/dist/ext/hx-sse.min.js",
    "plotly": "plotly.js-cartesian-dist-min/plotly-cartesian.min.js",
}
"""What the pages take from npm: short name → file below `paths.VENDOR`."""

CASCADE: Final = ("css/tokens.css", "css/base.css", "css/layout.css")
"""Stylesheets that come first, in this order; the others follow by name."""

IMMUTABLE: Final = "public, max-age=31536000, immutable"
_TEXT: Final = ("text/", "application/json", "application/javascript", "image/svg+xml")
_BROTLI_SLOW_BYTES: Final = 200_000  # beyond, the best quality takes seconds for a few per cent


@dataclass(slots=True)
class Asset:
    """One file in memory, with its compressed forms once somebody asked for them."""

    body: bytes
    media_type: str
    encoded: dict[str, bytes] = field(default_factory=dict)

    def encode(self, encoding: str) -> bytes:
        """The body as `br` or `gzip`, compressed once at a high level."""
        if encoding not in self.encoded:
            if encoding == "br":
                quality = 11 if len(self.body) < _BROTLI_SLOW_BYTES else 9
                self.encoded[encoding] = brotli.compress(self.body, quality=quality)
            else:
                self.encoded[encoding] = gzip.compress(self.body, 9, mtime=0)
        return self.encoded[encoding]


class Assets:
    """Every file that pages may load, by address."""

    def __init__(self, static: Path = paths.STATIC, vendor: Path = paths.VENDOR) -> None:
        """Read the files. Raises `FileNotFoundError`, with the remedy, when one from npm is
        missing.
        """
        self._static = static
        self._stamp: tuple[tuple[str, int], ...] = ()
        self._files: dict[str, Asset] = {}
        self._digest = ""
        self._vendor: dict[str, tuple[str, Asset]] = {}
        self._vendor_names: dict[str, str] = {}
        self.refresh()
        for name, relative in VENDOR_FILES.items():
            path = vendor / relative
            if not path.is_file():
                raise FileNotFoundError(
                    f"{relative} is not installed: run `npm ci` (or `make`) first"
                )
            asset = _read(path)
            digest = hashlib.blake2b(asset.body, digest_size=8).hexdigest()
            self._vendor[path.name] = (digest, asset)
            self._vendor_names[name] = f"/vendor/{digest}/{path.name}"

    def refresh(self) -> None:
        """Read the own files again if one of them changed."""
        found = sorted(path for path in self._static.rglob("*") if path.is_file())
        stamp = tuple((str(path), path.stat().st_mtime_ns) for path in found)
        if stamp == self._stamp:
            return
        files = {path.relative_to(self._static).as_posix(): _read(path) for path in found}
        digest = hashlib.blake2b(digest_size=8)
        for name, asset in files.items():
            digest.update(f"{name}\0{len(asset.body)}\0".encode())
            digest.update(asset.body)
        self._stamp, self._files, self._digest = stamp, files, digest.hexdigest()

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def names(self, suffix: str = "") -> list[str]:
        """The own files whose name ends in `suffix`, sorted."""
        return sorted(name for name in self._files if name.endswith(suffix))

    @property
    def stylesheets(self) -> list[str]:
        """What every page loads, in the order of the cascade; a chapter links its own itself."""
        rank = {name: place for place, name in enumerate(CASCADE)}
        shared = [name for name in self.names(".css") if not name.startswith("css/chapters/")]
        return sorted(shared, key=lambda name: (rank.get(name, len(rank)), name))

    def asset(self, name: str) -> str:
        """The address of an own file. Raises `KeyError` for a file that is not there."""
        if name not in self._files:
            raise KeyError(f"static/{name} does not exist")
        return f"/static/{self._digest}/{name}"

    def vendor(self, name: str) -> str:
        """The address of a file from npm, by its short name."""
        return self._vendor_names[name]

    def routes(self) -> list[BaseRoute]:
        """The routes that serve them."""
        return [
            Route("/static/{digest}/{name:path}", self._serve_static),
            Route("/vendor/{digest}/{name}", self._serve_vendor),
            Route("/favicon.ico", self._serve_favicon),
            Route("/favicon.svg", self._serve_favicon),
        ]

    async def _serve_static(self, request: Request) -> Response:
        asset = self._files.get(request.path_params["name"])
        fresh = request.path_params["digest"] == self._digest
        return await _answer(request, asset, self._digest, fresh)

    async def _serve_vendor(self, request: Request) -> Response:
        digest, asset = self._vendor.get(request.path_params["name"], ("", None))
        return await _answer(request, asset, digest, request.path_params["digest"] == digest)

    async def _serve_favicon(self, request: Request) -> Response:
        response = await _answer(request, self._files.get("favicon.svg"), self._digest, False)
        response.headers["Cache-Control"] = "public, max-age=86400"
        return response


def _read(path: Path) -> Asset:
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Asset(path.read_bytes(), media_type)


async def _answer(request: Request, asset: Asset | None, digest: str, fresh: bool) -> Response:
    """The file, compressed if the client can; an outdated address gets today's file, to be asked
    again.
    """
    if asset is None:
        return Response("No such file.\n", 404, media_type="text/plain")
    encoding = _encoding(request) if asset.media_type.startswith(_TEXT) else ""
    headers = {
        "ETag": f'"{digest}{"-" + encoding if encoding else ""}"',
        "Cache-Control": IMMUTABLE if fresh else "no-cache",
        "Vary": "Accept-Encoding",
        "Access-Control-Allow-Origin": "*",
    }
    if (unchanged := not_modified(request, headers)) is not None:
        return unchanged
    body = asset.body
    if encoding:
        headers["Content-Encoding"] = encoding
        done = asset.encoded.get(encoding)
        body = done if done is not None else await run_in_threadpool(asset.encode, encoding)
    return Response(body, headers=headers, media_type=asset.media_type)


def _encoding(request: Request) -> str:
    """The best compressed form that the client takes, or an empty string for none."""
    offered: dict[str, str] = {}
    for part in request.headers.get("accept-encoding", "").split(","):
        name, _, weight = part.partition(";")
        offered[name.strip().lower()] = weight.replace(" ", "")
    for encoding in ("br", "gzip"):
        if offered.get(encoding, "q=0") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            return encoding
    return ""
