"""Errors that a person can cause, and the one place where any error becomes an answer."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from app.translation.protocol import BadRequest, Unavailable
from app.web.jsons import json_response
from app.web.logs import log_crash

if TYPE_CHECKING:
    from app.web.site import Site

Form = Literal["page", "fragment", "json", "text"]
Handler = Callable[[Request], Awaitable[Response]]

_SENTENCES: Final[Mapping[int, str]] = {
    400: "This request could not be understood.",
    404: "There is nothing at this address.",
    405: "This address can only be read: it takes GET and HEAD.",
    413: "This request is too large. Nothing here needs a body: everything is in the address.",
    500: (
        "Something went wrong here, and it is our fault. "
        "It has been recorded, without what you typed."
    ),
}


class Refusal(Exception):
    """A request that cannot be answered, with a sentence for whoever sent it."""

    def __init__(
        self,
        status: int,
        message: str = "",
        headers: Mapping[str, str] | None = None,
        field: str | None = None,
    ) -> None:
        """`message` never repeats what the request held; `field` is what has to be put right."""
        super().__init__(message)
        self.status = status
        self.message = message or _SENTENCES.get(status, HTTPStatus(status).phrase + ".")
        self.headers = dict(headers or {})
        self.field = field


class ClientGone(Exception):
    """The client left before its answer was ready; nobody needs one."""


def as_refusal(error: Exception) -> Refusal:
    """What any exception means to the client. Only the unexpected ones are logged."""
    match error:
        case Refusal():
            return error
        case Unavailable():
            return Refusal(503, error.message, {"Retry-After": str(error.retry_after)})
        case BadRequest():
            return Refusal(422, error.message, field=error.field)
        case ClientGone():
            return Refusal(503, "The request was given up.")
        case HTTPException():
            return Refusal(error.status_code, _SENTENCES.get(error.status_code, ""), error.headers)
        case _:
            log_crash(error)
            return Refusal(500)


def answers(site: Site, form: Form, handler: Handler) -> Handler:
    """`handler`, with every exception turned into an answer of its own form."""

    @functools.wraps(handler)
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:
            return refuse(site, form, as_refusal(error))

    return answer


def refuse(site: Site, form: Form, refusal: Refusal) -> Response:
    """An error as page, fragment, JSON or plain text."""
    headers = {"Cache-Control": "no-store", **refusal.headers}
    if form == "json":
        error = {"field": refusal.field, "index": None, "value": None, "message": refusal.message}
        headers["Access-Control-Allow-Origin"] = "*"
        return json_response({"errors": [error]}, refusal.status, headers)
    if form == "text":
        return Response(f"{refusal.message}\n", refusal.status, headers, "text/plain")
    context = {
        "status": refusal.status,
        "phrase": HTTPStatus(refusal.status).phrase,
        "message": refusal.message,
        "retry_after": refusal.headers.get("Retry-After"),
    }
    html = (
        site.templates.block("error.html", "notice", context)
        if form == "fragment"
        else site.templates.page("error.html", context | site.blank_context())
    )
    return Response(html, refusal.status, headers, "text/html")
