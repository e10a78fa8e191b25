"""oEmbed (https://oembed.com): paste a lesson's address into a page that knows it, get the
panel.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from markupsafe import escape
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from app.chapters.contract import Panel
from app.web.conditional import REVALIDATE
from app.web.errors import Refusal, answers
from app.web.jsons import json_response
from app.web.limits import read_query
from app.web.routing import Route
from app.web.site import Site
from app.web.views import VIEW_FIELDS, origin_of, split_view, with_query

WIDTH: Final = 760
"""CSS pixels: an iframe's width when nobody says less; the bench has its wide form from here."""

_PATH: Final = re.compile(
    r"/chapters/(?P<page>[a-z0-9-]+)|/embed/(?P<slug>[a-z0-9-]+)/(?P<panel>[a-z0-9-]+)"
)


def routes(site: Site) -> list[BaseRoute]:
    """`/oembed?url=…&maxwidth=…&maxheight=…&format=json`."""

    async def oembed(request: Request) -> Response:
        asked = dict(read_query(request.scope["query_string"], site.settings))
        if asked.get("format", "json") != "json":
            raise Refusal(501, "Only format=json is offered.")
        if not asked.get("url"):
            raise Refusal(400, "The field url is missing: the address of a chapter or an embed.")
        origin = origin_of(request, site.settings)
        title, panel, address = _describe(site, origin, asked["url"])
        width = min(WIDTH, _limit(asked, "maxwidth"))
        height = min(panel.height, _limit(asked, "maxheight"))
        return json_response(
            {
                "version": "1.0",
                "type": "rich",
                "title": title,
                "provider_name": "Explorable Attention",
                "provider_url": f"{origin}/",
                "cache_age": 86400,
                "width": width,
                "height": height,
                "html": iframe(address, title, width, height),
            },
            headers={"Cache-Control": REVALIDATE, "Access-Control-Allow-Origin": "*"},
        )

    return [Route("/oembed", answers(site, "json", oembed))]


def iframe(address: str, title: str, width: int | str, height: int) -> str:
    """The code that shows an embed."""
    return (
        f'<iframe src="{escape(address)}" title="{escape(title)}" width="{width}" '
        f'height="{height}" loading="lazy" allow="clipboard-write"></iframe>'
    )


def _describe(site: Site, origin: str, url: str) -> tuple[str, Panel, str]:
    """Title, panel and embed address for a URL of this site; raises a 404 `Refusal` for any
    other.
    """
    unknown = Refusal(404, "This is not the address of a chapter or an embed of this site.")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise unknown from None
    match = _PATH.fullmatch(parts.path)
    if match is None or parts.scheme not in ("http", "https"):
        raise unknown
    if parts.netloc.lower() != urlsplit(origin).netloc:
        raise unknown
    chapter = site.by_slug.get(match["page"] or match["slug"])
    if chapter is None:
        raise unknown
    panels = {panel.slug: panel for panel in chapter.panels}
    panel = panels.get(match["panel"]) if match["panel"] else chapter.panels[0]
    if panel is None:
        raise unknown
    pairs, view_fields = split_view(read_query(parts.query.encode(), site.settings))
    shown = "&".join(
        f"{name}={view_fields[name]}"
        for name, (usual, *_) in VIEW_FIELDS.items()
        if view_fields.get(name, usual) != usual
    )
    query = chapter.query(chapter.parse(pairs).parameters)
    query = "&".join(part for part in (query, shown) if part)
    return (
        f"{chapter.title}: {panel.title}",
        panel,
        origin + with_query(f"/embed/{chapter.slug}/{panel.slug}", query),
    )


def _limit(asked: dict[str, str], name: str) -> int:
    """`maxwidth` or `maxheight`, in CSS pixels; raises a 400 `Refusal` for what is not one."""
    text = asked.get(name, "")
    if not text:
        return 100_000
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text) >= 1):
        raise Refusal(400, f"{name} must be a whole number of pixels, from 1 to 999,999.")
    return int(text)
