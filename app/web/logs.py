"""Structured logs, a JSON object a line, without anything that a person typed.

A request is logged by its route's template (`/chapters/{slug}`), never by its path or query, and a
crash by the places in the code that it passed, never by its message, which may quote a value.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log: structlog.stdlib.BoundLogger = structlog.get_logger("explorable_attention")

_QUIET = frozenset(
    {"/healthz", "/readyz", "/static/{digest}/{name:path}", "/vendor/{digest}/{name}"}
)


def configure_logs(level: int = logging.INFO) -> None:
    """Send this app's and the server's messages to standard error, a JSON object a line."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _without_messages_of_exceptions,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = name != "uvicorn.access"


def crash_place(error: BaseException) -> list[str]:
    """Where an exception passed, innermost last: `module.py:12 function`."""
    return [
        f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ][-12:]


def log_crash(error: BaseException) -> None:
    """Record an unexpected exception."""
    log.error("crash", exception=type(error).__qualname__, passed=crash_place(error))


def _without_messages_of_exceptions(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Replace a traceback, whose last line may quote a value, by the places that it passed."""
    info = event.pop("exc_info", None)
    error = info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        event["exception"] = type(error).__qualname__
        event["passed"] = crash_place(error)
    return event


class RequestLog:
    """ASGI middleware: one line a request, with route, status, milliseconds and bytes."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and log it when it is answered."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status, size = 0, 0

        async def watched(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            route = getattr(scope.get("route"), "path", None)
            if route not in _QUIET or status >= 400:
                log.info(
                    "request",
                    method=scope["method"] if scope["method"] in _METHODS else "other",
                    route=route,
                    status=status,
                    ms=round((time.perf_counter() - started) * 1000, 2),
                    bytes=size,
                )


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
