"""All endpoints of the API, and their routes."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.codec.ascii_json import to_ascii
from holdfast.web.api import (
    acting,
    checkpoints,
    events,
    index,
    openapi,
    questions,
    runs,
    serving,
    store,
)
from holdfast.web.api.declaring import JSON, Endpoint
from holdfast.web.api.problems import PREFIX

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *index.ENDPOINTS,
    *runs.ENDPOINTS,
    *checkpoints.ENDPOINTS,
    *questions.ENDPOINTS,
    *store.ENDPOINTS,
    *acting.ENDPOINTS,
    *events.ENDPOINTS,
)


async def _openapi(request: Request) -> Response:
    return Response(to_ascii(openapi.document(ENDPOINTS)), media_type=JSON)


ROUTES: Final[list[BaseRoute]] = [
    Route(f"{PREFIX}/openapi.json", _openapi, methods=["GET"]),
    *serving.routes(ENDPOINTS),
]
