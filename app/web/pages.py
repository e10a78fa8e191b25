"""The table of contents and the chapters, each complete without scripts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
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
        page = await written(chapter, lambda: site.templates.page(chapter.template, context))
        return html(request, page, 422 if context["parsed"].problems else 200)

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


async def written(chapter: Chapter[Any], write: Callable[[], str]) -> str:
    """What `write` makes of a chapter's template.

    A chapter that waits for a model shows what the model said in thousands of cells. For a long
    sentence that takes half a second, in which others want to be answered: another thread does it.
    The quick chapters are spared the change of threads.
    """
    if inspect.iscoroutinefunction(chapter.context):
        return await run_in_threadpool(write)
    return write()


def html(
    request: Request, text: str, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """An HTML answer that the browser may keep and ask about."""
    body = text.encode("utf-8", "replace")
    headers = {"ETag": weak_tag(body), "Cache-Control": REVALIDATE, **(headers or {})}
    if status == 200 and (unchanged := not_modified(request, headers)) is not None:
        return unchanged
    return Response(body, status, headers, "text/html")
