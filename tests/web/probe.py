"""A chapter made for testing the web core: every path of it, and nothing of the paper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from app import paths
from app.chapters.contract import Busy, Download, Event, NotReady, Panel, Parsed, Problem
from app.settings import Settings
from app.web.site import Site

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class Parameters:
    number: float = 1.0
    text: str = ""


class Probe:
    """`number` is a number; `text` is anything, and some texts make it misbehave."""

    slug = "probe"
    number = 1
    title = "Probe <one>"
    section = "§0"
    minutes = 1
    summary = "A chapter for tests."
    panels = (Panel("bench", "Bench", 480), Panel("side-view", "Side & view", 300))
    downloads = (
        Download("state.json", "application/json", "State", lambda p: b'{"number": %r}' % p.number),
    )
    template = "chapters/probe.html"
    uses_plotly = False

    def __init__(self) -> None:
        self.parts = {"half": self._half}
        self.cancelled = asyncio.Event()

    def parse(self, query: Sequence[tuple[str, str]]) -> Parsed[Parameters]:
        typed = {name: tuple(v for n, v in query if n == name) for name, _ in query}
        number, problems = 1.0, []
        for index, text in enumerate(typed.get("number", ())):
            try:
                number = float(text)
            except ValueError:
                problems.append(Problem("number", index, text, "A number is accepted."))
        text = (typed.get("text") or ("",))[0]
        return Parsed(Parameters(number, text), tuple(problems), typed)

    def query(self, parameters: Parameters) -> str:
        parts = []
        if parameters.number != 1.0:
            parts.append(f"number={parameters.number:g}")
        if parameters.text:
            parts.append(f"text={quote_plus(parameters.text)}")
        return "&".join(parts)

    def calculate(self, parameters: Parameters) -> float:
        return parameters.number * 2

    def context(self, parsed: Parsed[Parameters]) -> Any:
        match parsed.parameters.text:
            case "crash":
                raise ValueError(f"secret {parsed.parameters.text}")
            case "busy":
                raise Busy(retry_after=7)
            case "loading":
                raise NotReady()
            case "wait":
                return self._waited(parsed, 0.01)
            case "wait long":
                return self._waited(parsed, 60)
            case "wait busy":
                return self._busy()
        return self._context(parsed)

    def _context(self, parsed: Parsed[Parameters]) -> dict[str, Any]:
        return {"double": self.calculate(parsed.parameters), "problems": parsed.problems}

    async def _waited(self, parsed: Parsed[Parameters], seconds: float) -> dict[str, Any]:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return self._context(parsed)

    async def _busy(self) -> dict[str, Any]:
        await asyncio.sleep(0)
        raise Busy(retry_after=3)

    async def stream(self, parsed: Parsed[Parameters]) -> AsyncIterator[Event]:
        text = parsed.parameters.text
        if text == "busy":
            raise Busy(retry_after=7)
        try:
            for count in range(3):
                yield Event("stream_piece", {"piece": f"{text} {count}"})
                if text == "crash":
                    raise ValueError("secret")
                if text == "full on the way":
                    raise Busy(retry_after=7)
                await asyncio.sleep(60 if text == "wait long" else 0.001)
            yield Event("stream_piece", {"piece": "done"}, "finished")
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled.set()
            raise

    def api(self, parameters: Parameters) -> Any:
        if parameters.text == "wait":
            return self._api_later(parameters)
        return {
            "number": parameters.number,
            "third": parameters.number / 3,
            "text": parameters.text,
        }

    async def _half(self, parameters: Parameters) -> bytes:
        return b'{"half": %r}' % (parameters.number / 2)

    async def _api_later(self, parameters: Parameters) -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"number": parameters.number, "later": True}


def probe_site(settings: Settings | None = None) -> Site:
    """A site whose only chapter is the probe."""
    return Site(
        settings or Settings(),
        (Probe(),),
        template_folders=(TEMPLATES, paths.TEMPLATES),
    )
