"""Reading a query within limits: quickly, without ever failing on what it finds."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from app.settings import Settings
from app.web.errors import Refusal

_HOST = re.compile(
    r"(?P<name>[a-z0-9]([a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:\d{1,5})?", re.ASCII
)


def read_query(raw: bytes, settings: Settings) -> list[tuple[str, str]]:
    """Decode a raw query into name–value pairs, in their order.

    Raises `Refusal`: 414 when it is too long, 400 for too many or too long fields, for bytes that
    are not UTF-8 and for NUL characters. A name without `=` has the value "".
    """
    if not raw:
        return []
    if len(raw) > settings.max_query_bytes:
        raise Refusal(
            414,
            f"The address is too long: what follows the question mark may have "
            f"{settings.max_query_bytes:,} bytes, and this has {len(raw):,}.",
        )
    if raw.count(b"&") >= settings.max_query_fields:
        raise Refusal(
            400,
            f"The address has too many fields: {settings.max_query_fields} are accepted, "
            f"and this has {raw.count(b'&') + 1:,}.",
        )
    pairs = []
    for field in raw.split(b"&"):
        if not field:
            continue
        name, _, value = field.partition(b"=")
        pair = (_decode(name), _decode(value))
        if max(len(pair[0]), len(pair[1])) > settings.max_field_chars:
            raise Refusal(
                400,
                f"One field of the address is too long: {settings.max_field_chars:,} characters "
                "are accepted.",
            )
        pairs.append(pair)
    return pairs


def _decode(raw: bytes) -> str:
    """Percent-encoded bytes as text. Surrogates are not UTF-8, so they are refused with the
    rest.
    """
    if b"%" in raw or b"+" in raw:
        raw = unquote_to_bytes(raw.replace(b"+", b" "))
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Refusal(400, "The address has bytes that are not text in UTF-8.") from None
    if "\0" in text:
        raise Refusal(400, "The address has a NUL character, which no field accepts.")
    return text


def host_name(header: str) -> str | None:
    """The name in a Host header, without its port, in lower case; None if it is not a host at
    all.
    """
    match = _HOST.fullmatch(header.lower()) if len(header) <= 255 else None
    return match["name"] if match else None


def host_allowed(name: str, allowed: tuple[str, ...]) -> bool:
    """Whether `name` is one of `allowed`, where `*` is any and `*.example.org` any name below
    it.
    """
    return any(
        pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:]))
        for pattern in allowed
    )
