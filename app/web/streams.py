"""Answers that come in pieces, as server-sent events: a translation, token by token.

Each piece is a block of the chapter's template. HTMX's SSE extension swaps pieces without a name,
and raises an event for the others. Whoever leaves gives their place up at once: the chapter's
generator is closed, and its `finally` runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute

from app.chapters.contract import Chapter, Event, Streaming
from app.web.errors import Refusal, answers, as_refusal, refuse
from app.web.pages import html, state_context
from app.web.routing import Route
from app.web.site import Site, block_name, settle

PING_SECONDS: Final = 10.0
"""A comment is sent when nothing else was for this long: proxies close what is silent for a
minute."""


def routes(site: Site) -> list[BaseRoute]:
    """`/chapters/{slug}/stream`."""

    async def stream(request: Request) -> Response:
        chapter = site.chapter(request)
        if not isinstance(chapter, Streaming):
            raise Refusal(404, "This chapter's answers come whole.")
        pairs, view_fields = site.read(request)
        parsed = chapter.parse(pairs)
        if parsed.problems:
            panel = chapter.panels[0]
            context = await state_context(site, request, chapter, "fragment", panel.slug)
            return html(
                request, site.templates.block(chapter.template, block_name(panel), context), 422
            )
        query = chapter.query(parsed.parameters)
        shared = {
            "view": site.view(request, "fragment", query, chapter=chapter.slug, **view_fields),
            "chapter": chapter,
            "parsed": parsed,
            "query": query,
        }
        events = aiter(chapter.stream(parsed))
        # The first piece decides whether this is an answer at all, or a refusal with a status.
        first: Event = await settle(request, anext(events))
        return StreamingResponse(
            _encoded(site, chapter, shared, first, events),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    return [Route("/chapters/{slug}/stream", answers(site, "fragment", stream))]


async def _encoded(
    site: Site,
    chapter: Chapter[Any],
    shared: dict[str, Any],
    first: Event,
    events: AsyncIterator[Event],
) -> AsyncIterator[bytes]:
    """The events as they go over the wire; an error on the way is told as the last but one."""

    def encoded(event: Event) -> bytes:
        context = {**shared, **event.context}
        return encode_event(
            site.templates.block(chapter.template, event.block, context), event.name
        )

    try:
        yield encoded(first)
        async with contextlib.aclosing(_with_pings(events)) as rest:
            async for event in rest:
                yield b": still here\n\n" if event is None else encoded(event)
    except Exception as error:
        notice = bytes(refuse(site, "fragment", as_refusal(error)).body).decode()
        yield encode_event(notice)
    yield encode_event("", "end")


async def _with_pings(events: AsyncIterator[Event]) -> AsyncGenerator[Event | None, None]:
    """The events, and None whenever there was none for `PING_SECONDS`."""
    while True:
        step = asyncio.ensure_future(anext(events))
        try:
            while not (await asyncio.wait({step}, timeout=PING_SECONDS))[0]:
                yield None
            yield step.result()
        except StopAsyncIteration:
            return
        finally:
            if not step.done():  # the reader left: so that the generator's own `finally` runs now
                step.cancel()
                await asyncio.gather(step, return_exceptions=True)


def encode_event(html: str, name: str = "") -> bytes:
    r"""One server-sent event; line ends inside the HTML become lines of data.

    >>> encode_event("<b>\n</b>", "token")
    b'event: token\ndata: <b>\ndata: </b>\n\n'
    """
    lines = [f"event: {name}"] if name else []
    # Only the three line ends of the format: str.splitlines knows many more, which may be text.
    text = html.replace("\r\n", "\n").replace("\r", "\n")
    lines += [f"data: {line}" for line in text.split("\n")]
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")
