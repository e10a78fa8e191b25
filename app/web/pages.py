"""The table of contents and the chapters, each complete without scripts."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from app.chapters.contract import Chapter
from app.web.conditional import REVALIDATE, not_modified, weak_tag
from app.web.errors import answers
from app.web.routing import Route
from app.web.site import Site, settle
from app.web.views import Form


def routes(site: Site) -> list[BaseRoute]:
    """`/` and `/chapters/{slug}`."""

    async def index(request: Request) -> Response:
        view = site.view(request, "page", "")
        return html(request, site.templates.page("index.html", {"view": view, "chapter": None}))

    async def chapter_page(request: Request) -> Response:
        chapter = site.chapter(request)
        context = await state_context(site, request, chapter, "page")
        return html(
            request,
            site.templates.page(chapter.template, context),
            422 if context["parsed"].problems else 200,
        )

    return [
        Route("/", answers(site, "page", index)),
        Route("/chapters/{slug}", answers(site, "page", chapter_page)),
    ]


async def state_context(
    site: Site, request: Request, chapter: Chapter[Any], form: Form, panel: str = ""
) -> dict[str, Any]:
    """Everything a chapter's templates get: its own context, `chapter`, `parsed`, `query` and
    `view`.
    """
    pairs, view_fields = site.read(request)
    parsed = chapter.parse(pairs)
    query = chapter.query(parsed.parameters)
    context = dict(await settle(request, chapter.context(parsed)))
    context["view"] = site.view(
        request, form, query, chapter=chapter.slug, panel=panel, **view_fields
    )
    context["chapter"] = chapter
    context["parsed"] = parsed
    context["query"] = query
    return context


def html(
    request: Request, text: str, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """An HTML answer that the browser may keep and ask about."""
    body = text.encode("utf-8", "replace")
    headers = {"ETag": weak_tag(body), "Cache-Control": REVALIDATE, **(headers or {})}
    if status == 200 and (unchanged := not_modified(request, headers)) is not None:
        return unchanged
    return Response(body, status, headers, "text/html")
