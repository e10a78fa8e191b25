"""`create_app()`: the one place where everything meets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette_compress import CompressMiddleware

from app import __version__
from app.chapters import CHAPTERS
from app.chapters.contract import Chapter
from app.settings import Settings
from app.web import api, crawlers, downloads, embeds, health, oembed, pages, panels, streams
from app.web.errors import as_refusal, refuse
from app.web.logs import RequestLog, log, log_crash
from app.web.security import Gate
from app.web.site import Site


def create_app(
    settings: Settings | None = None,
    *,
    chapters: Sequence[Chapter[Any]] = CHAPTERS,
    services: Mapping[str, health.Service] = MappingProxyType({}),
    site: Site | None = None,
) -> FastAPI:
    """The application.

    `services`, by name, load in the background once the pages are up; `/readyz` says how far they
    are, and `app.state.services` has them.
    """
    settings = settings or Settings()
    site = site or Site(settings, chapters)

    async def failed(request: Request, error: Exception) -> Response:
        form = "json" if request.scope["path"].startswith("/api/") else "page"
        return refuse(site, "json" if form == "json" else "page", as_refusal(error))

    app = FastAPI(
        title="Explorable Attention",
        version=__version__,
        summary="Every number of “Attention Is All You Need”, for any state of its chapters.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_background(services),
        exception_handlers={HTTPException: failed},
        middleware=[
            Middleware(RequestLog),
            Middleware(Gate, settings=settings),
            Middleware(
                CompressMiddleware,
                minimum_size=settings.compress_minimum_bytes,
                zstd_level=settings.zstd_level,
                brotli_quality=settings.brotli_quality,
                gzip_level=settings.gzip_level,
            ),
        ],
        routes=[
            *panels.routes(site),
            *streams.routes(site),
            *pages.routes(site),
            *embeds.routes(site),
            *site.assets.routes(),
            *downloads.routes(site),
            *oembed.routes(site),
            *health.routes(services),
            *crawlers.routes(site),
        ],
    )
    app.include_router(api.router(site))
    app.state.site = site
    app.state.services = services
    return app


def _background(services: Mapping[str, health.Service]) -> Any:
    """A lifespan that starts the services without waiting for them, and stops them at the end."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(_start(name, service)) for name, service in services.items()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stopped in await asyncio.gather(
                *(service.stop() for service in services.values()), return_exceptions=True
            ):
                if isinstance(stopped, Exception):
                    log_crash(stopped)

    return lifespan


async def _start(name: str, service: health.Service) -> None:
    try:
        await service.start()
    except Exception as error:
        log_crash(error)
    log.info("service", name=name, state=service.state)
