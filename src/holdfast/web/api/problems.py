"""Errors as RFC 9457 has them: what is wrong, and what to do; never where our code was."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from holdfast.codec.ascii_json import to_ascii
from holdfast.logs import logger
from holdfast.views.errors import message
from holdfast.web.statuses import InvalidFieldError, TooLargeError, status_of

PREFIX: Final = "/api/v1"
"""Where the API is."""

_ROOT: Final = "/api"  # of all its versions, also of those that there are not

MEDIA: Final = "application/problem+json"
_log: Final = logger()

_ADVICE: Final = {
    403: "Start `holdfast ui` with --allow-writes to change runs.",
    404: "Look for it in the list of runs: GET /api/v1/runs.",
    405: "See /api/v1/openapi.json for what can be done here.",
    413: "Use the command line for what is so large.",
    503: "See whether the store can be reached: GET /healthz, or holdfast doctor.",
}


class ProblemError(Exception):
    """What a request is refused with."""

    def __init__(self, status: int, detail: str, advice: str = "", **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.advice = advice
        self.more = more


def is_of_api(path: str) -> bool:
    """Whether programs ask for this path: they get documents, and people pages."""
    return path == _ROOT or path.startswith(f"{_ROOT}/")


def problem(status: int, detail: str, advice: str = "", **more: Any) -> Response:
    """A response that says what is wrong."""
    document = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "advice": advice or _ADVICE.get(status, ""),
        **more,
    }
    return Response(to_ascii(document), status, media_type=MEDIA)


def of_error(request: Request, error: Exception) -> Response:
    """The response for an error, whatever it is."""
    if isinstance(error, ProblemError):
        return problem(error.status, error.detail, error.advice, **error.more)
    if isinstance(error, HTTPException):
        advice = f"See {PREFIX} for what there is." if error.status_code == 404 else ""
        found = problem(error.status_code, f"{error.detail}.", advice)
        found.headers.update(error.headers or {})
        return found
    if isinstance(error, TooLargeError):
        return problem(413, "The request is too large.")
    status = status_of(error)
    if isinstance(error, InvalidFieldError):
        return problem(status, message(error), parameter=error.field)
    if status != 500:
        return problem(status, message(error))
    _log.error("the REST API failed at %s", request.url.path, exc_info=error)
    return problem(500, "Something went wrong here.", "The log of `holdfast ui` has more.")
