"""One panel's HTML, which is what a page with scripts asks for at every edit. The hot path."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from app.chapters.contract import Chapter, Panel
from app.web.errors import answers
from app.web.pages import html, state_context, written
from app.web.parts import Parts, RecentParts
from app.web.routing import Route
from app.web.site import Site, block_name
from app.web.views import View


def routes(site: Site) -> list[BaseRoute]:
    """`/chapters/{slug}/panels/{panel}`."""
    recent = RecentParts()

    def write(chapter: Chapter[Any], panel: Panel, view: View) -> str | None:
        """The panel in a state that was shown before; None if it is not a matter of arithmetic."""
        parsed = chapter.parse(parse_qsl(view.query, keep_blank_values=True))
        if chapter.query(parsed.parameters) != view.query:
            return None
        context = chapter.context(parsed)
        if inspect.isawaitable(context):
            if inspect.iscoroutine(context):
                context.close()
            return None
        more = {"view": view, "chapter": chapter, "parsed": parsed, "query": view.query}
        return site.templates.block(chapter.template, block_name(panel), {**context, **more})

    def changed(chapter: Chapter[Any], panel: Panel, view: View, fragment: str) -> str | None:
        """What differs from the panel on the screen, if that is known and pays."""
        shown = view.shown_state(panel.slug)
        if shown is None:
            return None
        before = replace(view, query=shown, shown="")
        now = Parts.of(fragment)
        recent.keep(replace(view, shown=""), now)
        old = recent.get(before, lambda: write(chapter, panel, before))
        return now.since(old) if old is not None else None

    async def panel_fragment(request: Request) -> Response:
        chapter = site.chapter(request)
        panel = site.panel(chapter, request)
        context = await state_context(site, request, chapter, "fragment", panel.slug)
        fragment = await written(
            chapter, lambda: site.templates.block(chapter.template, block_name(panel), context)
        )
        if context["parsed"].problems:
            # The address stays that of the last valid state: what is refused is not worth a
            # bookmark.
            return html(request, fragment, 422)
        view = context["view"]
        # Relative, so that it is right in the page and in an embed alike.
        headers = {"HX-Replace-Url": view.link(context["query"])}
        return html(request, changed(chapter, panel, view, fragment) or fragment, headers=headers)

    return [Route("/chapters/{slug}/panels/{panel}", answers(site, "fragment", panel_fragment))]
