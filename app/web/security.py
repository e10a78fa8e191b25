"""Headers that keep pages safe, and the gate that every request passes first.

The policy for framing follows from the route that answered, never from the text of a URL or a Host
header: an embed's handler sets `FRAMEABLE` itself; whatever has no policy when it leaves gets
`PAGE_POLICY`.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.settings import Settings
from app.web.limits import host_allowed, host_name

# Of the empty stylesheet, and of nothing else: Plotly adds one and fills it rule by rule, which is
# allowed. (Its heatmaps and colour bars also write style attributes, which stay blocked: draw those
# as tables, or as bars.)
_EMPTY_STYLE: Final = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"

_DIRECTIVES: Final = (
    "default-src 'none'",
    "script-src 'self'",
    f"style-src 'self' {_EMPTY_STYLE}",
    "img-src 'self' data: blob:",  # blob: and data: for the pictures that a figure saves
    "connect-src 'self'",
    "form-action 'self'",
    "frame-src 'self'",  # the preview in the Embed dialog
    "manifest-src 'self'",
    "base-uri 'none'",
)
PAGE_POLICY: Final = "; ".join((*_DIRECTIVES, "frame-ancestors 'none'"))
EMBED_POLICY: Final = "; ".join((*_DIRECTIVES, "frame-ancestors *"))

FRAMEABLE: Final = {
    "Content-Security-Policy": EMBED_POLICY,
    "Cross-Origin-Resource-Policy": "cross-origin",
}
"""What an embed's handler adds to its answer."""

_ALWAYS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "strict-origin-when-cross-origin"),
    (
        "Permissions-Policy",
        "camera=(), geolocation=(), microphone=(), payment=(), usb=(), browsing-topics=()",
    ),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)


class Gate:
    """ASGI middleware, outermost but for the log: hosts, body size, security headers."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        """Wrap `app`."""
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse what may not enter, and give every answer its headers."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in _ALWAYS:
                    headers.setdefault(name, value)
                if "Content-Security-Policy" not in headers:
                    headers["Content-Security-Policy"] = PAGE_POLICY
                    headers["X-Frame-Options"] = "DENY"
            await send(message)

        refusal = self._refusal(Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, guarded)
            return
        await self.app(scope, receive, guarded)

    def _refusal(self, headers: Headers) -> Response | None:
        hosts = headers.getlist("host")
        name = host_name(hosts[0]) if len(hosts) == 1 else None
        if name is None or not host_allowed(name, self.settings.allowed_hosts):
            return Response("This host name is not served here.\n", 400, media_type="text/plain")
        length = headers.get("content-length", "0")
        too_long = not length.isascii() or not length.isdigit() or len(length) > 18
        if too_long or int(length) > self.settings.max_body_bytes or "transfer-encoding" in headers:
            return Response(
                "This request's body is too large: what is needed here is in the address.\n",
                413,
                {"Connection": "close"},
                "text/plain",
            )
        return None
