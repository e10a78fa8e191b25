"""What a chapter is: the only thing the web routes, the navigation and the contract tests know of
it.

A chapter turns the decoded query of a URL into parameters, parameters into numbers, and hands its
templates everything that they need. It knows nothing of HTTP. A chapter whose numbers take time
(a translation) returns awaitables from `context` and `api`; whoever asks awaits them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from app.translation.protocol import Busy, NotReady, Unavailable

__all__ = [
    "Busy",
    "Chapter",
    "Download",
    "Event",
    "NotReady",
    "Panel",
    "Parsed",
    "Problem",
    "Streaming",
    "Unavailable",
]

P = TypeVar("P")
Q = TypeVar("Q", contravariant=True)


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of a chapter with an address of its own, as fragment and as embed."""

    slug: str
    title: str
    height: int
    """CSS pixels: what an iframe gets before the embed has said how high it is."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One value that was refused."""

    field: str
    index: int | None
    """Which cell of a repeated field, from 0; None for a field that stands alone."""
    typed: str
    message: str
    """A sentence that says what is accepted."""


@dataclass(frozen=True, slots=True)
class Parsed(Generic[P]):
    """A query, understood: parameters to calculate with, and what was wrong."""

    parameters: P
    """The last valid state when there are problems."""
    problems: tuple[Problem, ...]
    typed: Mapping[str, tuple[str, ...]]
    """What stands in each field, to show again as it was typed."""


@dataclass(frozen=True, slots=True)
class Download(Generic[P]):
    """A file made from a chapter's state."""

    name: str
    """For example `state.json`; unique in its chapter."""
    media_type: str
    title: str
    make: Callable[[P], bytes | Awaitable[bytes]]
    """Called in a worker thread, since drawing a figure may take a while; an awaitable that it
    returns is awaited in the event loop."""


class Chapter(Protocol[P]):
    """One module-level instance a chapter, listed in `app.chapters.CHAPTERS`.

    Read-only as properties, so that plain attributes, class variables and dataclass fields all fit.
    """

    @property
    def slug(self) -> str:
        """The chapter's name in URLs, lower case with dashes."""

    @property
    def number(self) -> int:
        """Its place in the table of contents, from 1."""

    @property
    def title(self) -> str:
        """Its heading."""

    @property
    def section(self) -> str:
        """Where it is in the paper: `§3.2`."""

    @property
    def minutes(self) -> int:
        """How long reading and trying takes."""

    @property
    def summary(self) -> str:
        """One or two sentences for the table of contents and search engines."""

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Its panels; the first stands for the chapter when somebody embeds the page's URL."""

    @property
    def downloads(self) -> tuple[Download[P], ...]:
        """Files made from its state."""

    @property
    def template(self) -> str:
        """Its template, with a block `panel_<slug>` a panel (dashes become underscores)."""

    @property
    def uses_plotly(self) -> bool:
        """Whether its pages load the plotting library."""

    def parse(self, query: Sequence[tuple[str, str]]) -> Parsed[P]:
        """Understand decoded name–value pairs, in their order. Never raises."""

    def query(self, parameters: P) -> str:
        """The canonical query: declared order, defaults left out, "" for the default state."""

    def calculate(self, parameters: P) -> Any:
        """Every number that the chapter shows. Pure."""

    def context(self, parsed: Parsed[P]) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """Everything that its templates need.

        Raises `Busy` or `NotReady` when a model cannot answer now.
        """

    def api(self, parameters: P) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """The JSON contract: plain dictionaries, lists, numbers, strings, booleans and None."""


@dataclass(frozen=True, slots=True)
class Event:
    """A piece of a streamed answer: a block of the chapter's template, with what it needs."""

    block: str
    context: Mapping[str, Any]
    name: str = ""
    """Empty: the block's HTML is swapped in; otherwise the name of the event that scripts see."""


@runtime_checkable
class Streaming(Protocol[P]):
    """What a chapter has besides when its answer comes in pieces: `/chapters/{slug}/stream?…`."""

    def stream(self, parsed: Parsed[P]) -> AsyncIterator[Event]:
        """The pieces, in order. Raises `Unavailable` before the first when none will come.

        Closed, with its `finally` run, as soon as the reader leaves.
        """


@runtime_checkable
class InParts(Protocol[Q]):
    """What a chapter has besides when some of its JSON is large: `/api/v1/{slug}/{part}?…`."""

    @property
    def parts(self) -> Mapping[str, Callable[[Q], bytes | Awaitable[bytes]]]:
        """JSON documents by name, each made from the state."""
