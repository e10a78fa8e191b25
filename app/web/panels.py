"""One panel's HTML, which is what a page with scripts asks for at every edit. The hot path."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from app.web.errors import answers
from app.web.pages import html, state_context
from app.web.routing import Route
from app.web.site import Site, block_name


def routes(site: Site) -> list[BaseRoute]:
    """`/chapters/{slug}/panels/{panel}`."""

    async def panel_fragment(request: Request) -> Response:
        chapter = site.chapter(request)
        panel = site.panel(chapter, request)
        context = await state_context(site, request, chapter, "fragment", panel.slug)
        fragment = site.templates.block(chapter.template, block_name(panel), context)
        if context["parsed"].problems:
            # The address stays that of the last valid state: what is refused is not worth a
            # bookmark.
            return html(request, fragment, 422)
        # Relative, so that it is right in the page and in an embed alike.
        here = context["view"].link(context["query"])
        return html(request, fragment, headers={"HX-Replace-Url": here})

    return [Route("/chapters/{slug}/panels/{panel}", answers(site, "fragment", panel_fragment))]
