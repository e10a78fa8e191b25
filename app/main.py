"""`create_app()`: the one place where everything meets."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette_compress import CompressMiddleware

from app import __version__, paths
from app.chapters import table_of_contents
from app.chapters.contract import Chapter
from app.settings import Settings
from app.translation.protocol import Limits
from app.translation.service import TranslationService
from app.web import api, crawlers, downloads, embeds, health, oembed, pages, panels, streams
from app.web.errors import as_refusal, refuse
from app.web.logs import RequestLog, configure_logs, log, log_crash
from app.web.security import Gate
from app.web.site import Site


def application() -> FastAPI:
    """What each of the server's processes runs: the app, and its logs."""
    configure_logs()
    return create_app()


def create_app(
    settings: Settings | None = None,
    *,
    chapters: Sequence[Chapter[Any]] | None = None,
    services: Mapping[str, health.Service] | None = None,
    site: Site | None = None,
) -> FastAPI:
    """The application: every chapter, with the models of this machine, unless told otherwise.

    `services`, by name, load in the background once the pages are up; `/readyz` says how far they
    are, and `app.state.services` has them.
    """
    settings = settings or Settings()
    if site is None and chapters is None:
        translator = translation_service(settings)
        chapters = table_of_contents(translator, models_folder(settings))
        services = {"translator": translator} if services is None else services
    services = services or {}
    site = site or Site(settings, chapters or ())

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


def models_folder(settings: Settings) -> Path:
    """Where the models are."""
    return Path(settings.models) if settings.models else paths.MODEL_WEIGHTS


def translation_service(settings: Settings) -> TranslationService:
    """The translator of this machine's models, within the limits of the settings."""
    return TranslationService(
        models_folder(settings),
        Limits(
            characters=settings.translate_characters,
            tokens=settings.translate_tokens,
            beam_size=settings.translate_beam_size,
            waiting=settings.translate_waiting,
            seconds=settings.translate_seconds,
        ),
        device=settings.device,
        threads=settings.threads or None,
    )


def _background(services: Mapping[str, health.Service]) -> Any:
    """A lifespan that starts the services without waiting for them, and stops them at the end."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(_start(name, service)) for name, service in services.items()]
        # What was made until here stays: without this, now and then a collection of garbage walks
        # its 200,000 objects and keeps every reader waiting for a tenth of a second.
        gc.freeze()
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
    gc.freeze()  # the models, too
    log.info("service", name=name, state=service.state)
