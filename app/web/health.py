"""Whether the process is alive, and whether everything that loads in the background is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from app.web.jsons import json_response
from app.web.routing import Route

State = Literal["loading", "ready", "failed"]


class Service(Protocol):
    """Something that loads after the pages are up, such as a translator."""

    @property
    def state(self) -> State:
        """Where it stands."""

    async def start(self) -> None:
        """Load. Runs in the background; what it raises makes the service `failed`, not the app."""

    async def stop(self) -> None:
        """Give everything back, within a second."""


def routes(services: Mapping[str, Service]) -> list[BaseRoute]:
    """`/healthz` and `/readyz`."""

    async def healthz(request: Request) -> Response:
        return json_response({"status": "alive"}, headers={"Cache-Control": "no-store"})

    async def readyz(request: Request) -> Response:
        parts = {name: service.state for name, service in services.items()}
        states = set(parts.values())
        # A model that failed is not coming: the rest of the app serves, and says so here.
        status = "loading" if "loading" in states else "ready"
        return json_response(
            {"status": status, "parts": parts},
            503 if status == "loading" else 200,
            {"Cache-Control": "no-store"} | ({"Retry-After": "2"} if status == "loading" else {}),
        )

    return [Route("/healthz", healthz), Route("/readyz", readyz)]
