"""A panel alone, for other people's pages: the only answers that may be framed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from app.web.errors import answers
from app.web.pages import html, state_context
from app.web.routing import Route
from app.web.security import FRAMEABLE
from app.web.site import Site, block_name


def routes(site: Site) -> list[BaseRoute]:
    """`/embed/{slug}/{panel}`."""

    async def embed(request: Request) -> Response:
        chapter = site.chapter(request)
        panel = site.panel(chapter, request)
        context = await state_context(site, request, chapter, "embed", panel.slug)
        context["panel"] = panel
        context["panel_html"] = site.templates.block(chapter.template, block_name(panel), context)
        context["head_html"] = site.templates.block(chapter.template, "head", context)
        context["scripts_html"] = site.templates.block(chapter.template, "scripts", context)
        page = site.templates.page("embed.html", context)
        return html(request, page, 422 if context["parsed"].problems else 200)

    answer = answers(site, "page", embed)

    async def frameable(request: Request) -> Response:
        response = await answer(request)
        response.headers.update(FRAMEABLE)
        return response

    return [Route("/embed/{slug}/{panel}", frameable)]
