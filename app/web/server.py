"""The server process: uvicorn with this project's limits."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.settings import Settings
from app.web.logs import configure_logs


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's fast HTTP protocol, with limits on the request line and headers together.

    The parser itself has none, so a client could fill the memory with one endless address, or hold
    a connection for ever by sending a byte now and then.
    """

    def __init__(self, *args: Any, settings: Settings, **kwargs: Any) -> None:
        """uvicorn's arguments, and the limits."""
        super().__init__(*args, **kwargs)
        self._settings = settings
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a first request soon."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing any more."""
        self._stop_timer()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Start counting bytes and seconds."""
        self._head_bytes = 0
        self._start_timer()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is here in time."""
        self._stop_timer()
        super().on_headers_complete()

    def on_url(self, url: bytes) -> None:
        """Count, and take a piece of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count, and take a header."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _start_timer(self) -> None:
        self._stop_timer()
        self._head_timer = self.loop.call_later(self._settings.head_seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _count(self, size: int) -> None:
        # The parser turns an exception in a callback into its own error; uvicorn answers 400 and
        # closes.
        self._head_bytes += size
        if self._head_bytes > self._settings.max_head_bytes:
            raise ValueError("head too large")


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    configure_logs()
    uvicorn.run(
        "app.main:application",
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        http=cast("type[asyncio.Protocol]", partial(BoundedProtocol, settings=settings)),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,  # it would write queries
        server_header=False,
        proxy_headers=True,
        forwarded_allow_ips=settings.forwarded_allow_ips,
        limit_concurrency=settings.max_connections,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_worker_healthcheck=60,  # a starting process imports for a while before it answers
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )
