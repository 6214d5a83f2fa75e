"""What other programs ask a server regularly: whether it works, and its metrics."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.codec.ascii_json import to_ascii
from holdfast.errors import HoldfastError
from holdfast.web.api.declaring import JSON
from holdfast.web.site import Site


def healthz(request: Request) -> Response:
    """Whether the store can be read, and since when it can't."""
    site: Site = request.app.state.site
    try:
        with site.noting_outages():
            site.cp.runs(limit=1)
    except HoldfastError:
        return _told(503, "down", site)
    return _told(200, "up", site)


def metrics(request: Request) -> Response:
    """What Prometheus reads: runs by status, and what this process saved, executed and checked.

    While the store can't be read, the runs are missing.
    """
    site: Site = request.app.state.site
    try:
        with site.noting_outages():
            runs = site.cp.count_runs()
    except HoldfastError:
        runs = None
    return Response(site.metrics.prometheus(runs), media_type=site.metrics.content_type)


def _told(status: int, word: str, site: Site) -> Response:
    since = site.lost_since
    return Response(to_ascii({"status": word, "down_since": since}), status, media_type=JSON)


ROUTES: Final[list[BaseRoute]] = [
    Route("/healthz", healthz, methods=["GET"]),
    Route("/metrics", metrics, methods=["GET"]),
]
