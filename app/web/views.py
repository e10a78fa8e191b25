"""How a state is shown: as page, fragment or embed, in which theme, and under which addresses."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import quote, urlencode

from starlette.requests import Request

from app.settings import Settings

Form = Literal["page", "fragment", "embed"]

VIEW_FIELDS: Final = {"theme": ("auto", "light", "dark"), "controls": ("show", "hide")}
"""Fields of a query that say how to show a state, not which; the first value is the default.

They are taken out before a chapter parses the query, and put back into every link of an embed.
"""

SHOWN: Final = "shown"
"""The field in which a form says what stands on the screen: see `View.showing`."""

RUN: Final = secrets.token_hex(4)
"""Tells this run of the program from others, which may write a state differently."""


@dataclass(frozen=True, slots=True)
class View:
    """What templates know of the request, as `view`."""

    form: Form
    origin: str
    """Scheme and host, no slash at the end."""
    path: str
    """This document's own path."""
    query: str = ""
    """The canonical query of the state that is shown."""
    chapter: str = ""
    panel: str = ""
    theme: str = "auto"
    controls: str = "show"
    prefix: str = ""
    """Before every id, so that two instances can share a document."""
    shown: str = ""
    """What stands on the screen of whoever asks, as `showing` wrote it."""

    def showing(self, panel: str) -> str:
        """What a form sends back as `shown`: the panel, the state in it, and who wrote it."""
        return f"{RUN}.{panel}.{self.query}"

    def shown_state(self, panel: str) -> str | None:
        """The canonical query of the state of `panel` on the screen, None if that is not known."""
        start = f"{RUN}.{panel}."
        return self.shown.removeprefix(start) if self.shown.startswith(start) else None

    @property
    def hidden(self) -> tuple[tuple[str, str], ...]:
        """Name–value pairs that a form must send along as hidden fields."""
        chosen = {"theme": self.theme, "controls": self.controls}
        return tuple(
            (name, chosen[name])
            for name, (usual, *_) in VIEW_FIELDS.items()
            if chosen[name] != usual
        )

    def link(self, query: str) -> str:
        """A relative address of another state in this same document: `?x1=…`, `?` for the
        default.
        """
        return "?" + "&".join(part for part in (query, urlencode(self.hidden)) if part)

    @property
    def page(self) -> str:
        """The whole lesson in this state, a path."""
        return with_query(f"/chapters/{self.chapter}" if self.chapter else self.path, self.query)

    @property
    def canonical(self) -> str:
        """The whole lesson in this state, with scheme and host."""
        return self.origin + self.page

    def panel_path(self, panel: str) -> str:
        """Where a panel's fragment is."""
        return f"/chapters/{self.chapter}/panels/{panel}"

    def embed(self, panel: str) -> str:
        """A panel's embed in this state, with scheme and host."""
        return self.origin + with_query(f"/embed/{self.chapter}/{panel}", self.query)

    @property
    def oembed(self) -> str:
        """Where oEmbed consumers find the description of this document."""
        url = self.embed(self.panel) if self.panel else self.canonical
        return f"{self.origin}/oembed?format=json&url={quote(url, safe='')}"


def with_query(path: str, query: str) -> str:
    """`path?query`, or the path alone for an empty query."""
    return f"{path}?{query}" if query else path


def split_view(pairs: Sequence[tuple[str, str]]) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """A query's pairs without the view's fields, and those with accepted values; others are
    dropped.
    """
    state, view = [], {}
    for name, value in pairs:
        if name == SHOWN:
            view[name] = value
        elif name not in VIEW_FIELDS:
            state.append((name, value))
        elif value in VIEW_FIELDS[name]:
            view[name] = value
    return state, view


def origin_of(request: Request, settings: Settings) -> str:
    """Scheme and host for absolute addresses: the configured one, else the request's (already
    checked).
    """
    return settings.public_url or f"{request.scope['scheme']}://{request.headers['host'].lower()}"
