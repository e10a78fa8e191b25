"""What the handlers share: one object, made at start-up, read-only afterwards."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from starlette.requests import Request

from app import __version__
from app.chapters.contract import Chapter, Panel
from app.settings import Settings
from app.web.assets import Assets
from app.web.errors import ClientGone, Refusal
from app.web.limits import read_query
from app.web.templates import Templates
from app.web.views import Form, View, origin_of, split_view

T = TypeVar("T")


class Site:
    """Settings, chapters, templates and static files."""

    def __init__(
        self,
        settings: Settings,
        chapters: Sequence[Chapter[Any]],
        *,
        assets: Assets | None = None,
        template_folders: tuple[Any, ...] | None = None,
    ) -> None:
        """Check that every chapter's template has a block for every panel; `ValueError` if not."""
        self.settings = settings
        self.chapters = tuple(chapters)
        self.by_slug: Mapping[str, Chapter[Any]] = {chapter.slug: chapter for chapter in chapters}
        self.assets = assets or Assets()
        folders = {"folders": template_folders} if template_folders else {}
        self.templates = Templates(
            {
                "asset": self.assets.asset,
                "vendor": self.assets.vendor,
                "assets": self.assets,
                "chapters": self.chapters,
                "nearby": self.nearby,
                "version": __version__,
            },
            reload=settings.reload_templates,
            before=self.assets.refresh,
            **folders,
        )
        for chapter in self.chapters:
            blocks = self.templates.environment.get_template(chapter.template).blocks
            missing = {block_name(panel) for panel in chapter.panels} - blocks.keys()
            if missing:
                raise ValueError(
                    f"{chapter.template} lacks the blocks {', '.join(sorted(missing))}"
                )

    def chapter(self, request: Request) -> Chapter[Any]:
        """The chapter that the path names; raises a 404 `Refusal`."""
        chapter = self.by_slug.get(request.path_params["slug"])
        if chapter is None:
            raise Refusal(404, "There is no such chapter.")
        return chapter

    def panel(self, chapter: Chapter[Any], request: Request) -> Panel:
        """The panel that the path names; raises a 404 `Refusal`."""
        for panel in chapter.panels:
            if panel.slug == request.path_params["panel"]:
                return panel
        raise Refusal(404, "This chapter has no such panel.")

    def nearby(self, chapter: Chapter[Any] | None) -> Sequence[Chapter[Any]]:
        """For the header: a chapter's neighbours in the book, or the first three."""
        if chapter is None:
            return self.chapters[:3]
        at = self.chapters.index(chapter)
        return [*self.chapters[max(0, at - 1) : at], *self.chapters[at + 1 : at + 2]]

    def read(self, request: Request) -> tuple[list[tuple[str, str]], dict[str, str]]:
        """The request's query: the state's pairs and the view's fields. Raises `Refusal`."""
        return split_view(read_query(request.scope["query_string"], self.settings))

    def view(self, request: Request, form: Form, query: str, **more: str) -> View:
        """The view of one request."""
        origin = origin_of(request, self.settings)
        return View(form=form, origin=origin, path=request.scope["path"], query=query, **more)

    def blank_context(self) -> dict[str, Any]:
        """What `base.html` needs on a page without a chapter, when not even the request may be
        trusted.
        """
        return {"view": View(form="page", origin="", path=""), "chapter": None}


def block_name(panel: Panel) -> str:
    """The template block of a panel."""
    return f"panel_{panel.slug.replace('-', '_')}"


async def settle(request: Request, value: T | Awaitable[T]) -> T:
    """`value`, awaited if it has to be, and given up (cancelled) as soon as the client leaves.

    Raises `ClientGone` then.
    """
    if not inspect.isawaitable(value):
        return value
    work: asyncio.Future[Any] = asyncio.ensure_future(value)
    watch = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientGone
        result: T = work.result()
        return result
    finally:
        for task in (work, watch):
            task.cancel()
        await asyncio.gather(work, watch, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
