"""A route that leaves its name in the scope, for the log."""

from __future__ import annotations

from starlette import routing
from starlette.routing import Match
from starlette.types import Scope


class Route(routing.Route):
    """Starlette's plain route, which FastAPI's router does not note in `scope["route"]` by
    itself.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As Starlette's."""
        match, child_scope = super().matches(scope)
        if match is not Match.NONE:
            child_scope["route"] = self
        return match, child_scope
