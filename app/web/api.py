"""The numbers as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from app.chapters.contract import InParts
from app.web.conditional import REVALIDATE, not_modified, weak_tag
from app.web.errors import Refusal, answers
from app.web.jsons import json_bytes, json_response
from app.web.site import Site, settle

_ERRORS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "field": {"type": ["string", "null"]},
                    "index": {"type": ["integer", "null"], "description": "Cell of a row, from 0."},
                    "value": {"type": ["string", "null"], "description": "What was sent."},
                    "message": {"type": "string", "description": "What is accepted."},
                },
            },
        }
    },
}
_ERROR_CONTENT: dict[str, Any] = {"content": {"application/json": {"schema": _ERRORS}}}


def router(site: Site) -> APIRouter:
    """`/api/v1/{slug}`: a FastAPI router, so that OpenAPI describes it."""

    async def numbers(request: Request) -> Response:
        chapter = site.chapter(request)
        make: Callable[[Any], Any] = chapter.api
        part = request.path_params.get("part")
        if part is not None:
            if not isinstance(chapter, InParts) or part not in chapter.parts:
                raise Refusal(404, "This chapter's numbers have no such part.")
            make = chapter.parts[part]
        pairs, _ = site.read(request)
        parsed = chapter.parse(pairs)
        if parsed.problems:
            errors = [
                {
                    "field": problem.field,
                    "index": problem.index,
                    "value": problem.typed,
                    "message": problem.message,
                }
                for problem in parsed.problems
            ]
            return json_response({"errors": errors}, 422, {"Access-Control-Allow-Origin": "*"})
        made = await settle(request, make(parsed.parameters))
        body = made if isinstance(made, bytes) else json_bytes(made)
        headers = {
            "ETag": weak_tag(body),
            "Cache-Control": REVALIDATE,
            "Access-Control-Allow-Origin": "*",
        }
        return not_modified(request, headers) or Response(
            body, headers=headers, media_type="application/json"
        )

    answer = answers(site, "json", numbers)
    api = APIRouter(tags=["numbers"])

    @api.head("/api/v1/{slug}/{part}", include_in_schema=False, response_class=Response)
    @api.get("/api/v1/{slug}/{part}", include_in_schema=False, response_class=Response)
    @api.head("/api/v1/{slug}", include_in_schema=False, response_class=Response)
    @api.get(
        "/api/v1/{slug}",
        operation_id="numbers",
        summary="Every number of a chapter's calculation",
        description=(
            "The query is the chapter's own, exactly as in its page's address. A row of cells is "
            "`x1=1,0,1,0`; arrays are lists of rows; a blocked score is null; floats have full "
            "precision."
        ),
        response_class=Response,
        responses={
            200: {"content": {"application/json": {"schema": {"type": "object"}}}},
            404: _ERROR_CONTENT | {"description": "No such chapter."},
            422: _ERROR_CONTENT | {"description": "A value was refused."},
            503: _ERROR_CONTENT | {"description": "The model is busy or loading; see Retry-After."},
        },
        openapi_extra={
            "parameters": [
                {
                    "name": "slug",
                    "in": "path",
                    "required": True,
                    "schema": {"type": "string", "enum": sorted(site.by_slug)},
                }
            ]
        },
    )
    async def api_v1(request: Request) -> Response:
        return await answer(request)

    return api
