"""ETags: an answer that the client already has is not sent again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

REVALIDATE = "public, no-cache"
"""For whatever a template made: keep it, but ask whether it is still right."""


def weak_tag(body: bytes) -> str:
    """A weak ETag of the uncompressed body: its compressed forms mean the same."""
    return f'W/"{hashlib.blake2b(body, digest_size=9).hexdigest()}"'


def not_modified(request: Request, headers: Mapping[str, str]) -> Response | None:
    """304 when the client's If-None-Match names the ETag in `headers`, otherwise None."""
    known = request.headers.get("if-none-match")
    if known is None:
        return None
    tag = headers["ETag"].removeprefix("W/")
    if known.strip() != "*" and all(
        part.strip().removeprefix("W/") != tag for part in known.split(",")
    ):
        return None
    kept = {name: value for name, value in headers.items() if not name.startswith("Content-")}
    return Response(status_code=304, headers=kept)
