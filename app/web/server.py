"""The server process: uvicorn with this project's limits."""

from __future__ import annotations

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.settings import Settings
from app.web.logs import configure_logs


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's fast HTTP protocol, with a limit on the request line and headers together.

    The parser itself has none, so a client could fill the memory with one endless address.
    """

    max_head_bytes = 32_768
    _head_bytes = 0

    def on_message_begin(self) -> None:
        """Start counting."""
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count, and take a piece of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count, and take a header."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        # The parser turns an exception in a callback into its own error; uvicorn answers 400 and
        # closes.
        self._head_bytes += size
        if self._head_bytes > self.max_head_bytes:
            raise ValueError("head too large")


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    configure_logs()
    BoundedProtocol.max_head_bytes = settings.max_head_bytes
    uvicorn.run(
        "app.main:create_app",
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,  # it would write queries
        server_header=False,
        proxy_headers=True,
        forwarded_allow_ips=settings.forwarded_allow_ips,
        limit_concurrency=settings.max_connections,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )
