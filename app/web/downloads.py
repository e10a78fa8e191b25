"""Files to take away: made from a chapter's state, and its worked example as it stands in the
repository.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from app import paths
from app.web.conditional import REVALIDATE, not_modified, weak_tag
from app.web.errors import Refusal, answers
from app.web.routing import Route
from app.web.site import Site, settle

_SUFFIXES: Final = frozenset({".toml", ".py", ".json", ".csv"})
_TYPES: Final = {".toml": "application/toml", ".py": "text/x-python", ".json": "application/json"}


def routes(site: Site) -> list[BaseRoute]:
    """`/download/{slug}/{name}`."""
    examples = {chapter.slug: worked_example_files(chapter.slug) for chapter in site.chapters}

    async def download(request: Request) -> Response:
        chapter = site.chapter(request)
        name = request.path_params["name"]
        for made in chapter.downloads:
            if made.name == name:
                pairs, _ = site.read(request)
                parsed = chapter.parse(pairs)
                if parsed.problems:
                    problem = parsed.problems[0]
                    raise Refusal(422, f"{problem.field}: {problem.message}")
                value: Any = await run_in_threadpool(made.make, parsed.parameters)
                return _file(request, name, made.media_type, await settle(request, value))
        if name in examples[chapter.slug]:
            path = examples[chapter.slug][name]
            media_type = _TYPES.get(path.suffix) or mimetypes.guess_type(name)[0] or "text/plain"
            return _file(request, name, media_type, await run_in_threadpool(path.read_bytes))
        raise Refusal(404, "This chapter has no such file.")

    return [Route("/download/{slug}/{name}", answers(site, "page", download))]


def worked_example_files(slug: str) -> Mapping[str, Path]:
    """The files of the worked example that goes with a chapter, by name."""
    folder = paths.WORKED_EXAMPLES / slug.replace("-", "_")
    if not folder.is_dir():
        return {}
    return {path.name: path for path in sorted(folder.iterdir()) if path.suffix in _SUFFIXES}


def _file(request: Request, name: str, media_type: str, body: bytes) -> Response:
    headers = {
        "ETag": weak_tag(body),
        "Cache-Control": REVALIDATE,
        "Content-Disposition": f'attachment; filename="{name}"',
        "Access-Control-Allow-Origin": "*",
    }
    return not_modified(request, headers) or Response(body, headers=headers, media_type=media_type)
