"""A panel alone, for other people's pages: the only answers that may be framed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from app.web.errors import answers
from app.web.pages import html, state_context, written
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

        def write() -> str:
            for part, block in (
                ("panel_html", block_name(panel)),
                ("head_html", "head"),
                ("scripts_html", "scripts"),
            ):
                context[part] = site.templates.block(chapter.template, block, context)
            return site.templates.page("embed.html", context)

        return html(
            request, await written(chapter, write), 422 if context["parsed"].problems else 200
        )

    answer = answers(site, "page", embed)

    async def frameable(request: Request) -> Response:
        response = await answer(request)
        response.headers.update(FRAMEABLE)
        return response

    return [Route("/embed/{slug}/{panel}", frameable)]
