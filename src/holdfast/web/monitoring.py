"""What other programs ask a server regularly: whether it works, and its metrics."""

from __future__ import annotations

import math
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast import __version__
from holdfast.codec.ascii_json import to_ascii
from holdfast.errors import HoldfastError
from holdfast.web.api.declaring import JSON
from holdfast.web.site import Site
from holdfast.web.store_metrics import Totals, store_metrics

_KEPT: Final = 10.0  # seconds: Prometheus asks every 15 s or less often


def healthz(request: Request) -> Response:
    """Whether the store can be read, and since when it can't."""
    site: Site = request.app.state.site
    try:
        with site.noting_outages():
            site.cp.count_runs()
    except HoldfastError:
        return _told(503, site)
    return _told(200, site)


def metrics(request: Request) -> Response:
    """What Prometheus reads: what is in the store, and what this process saved and executed.

    While the store can't be read, only the latter is there.
    """
    site: Site = request.app.state.site
    try:
        with site.noting_outages():
            store = site.kept.get("metrics", _KEPT, lambda: _of_store(site))
    except HoldfastError:
        store = ""
    return Response(site.metrics.prometheus() + store, media_type=site.metrics.content_type)


def _of_store(site: Site) -> str:
    totals = site.kept.get("totals", math.inf, lambda: Totals(site.since))
    return "".join(f"{line}\n" for line in store_metrics(site.cp, totals))


def _told(status: int, site: Site) -> Response:
    document = {
        "ok": status == 200,
        "store": site.short_name,
        "lost_since": site.lost_since,
        "version": __version__,
    }
    return Response(to_ascii(document), status, media_type=JSON)


ROUTES: Final[list[BaseRoute]] = [
    Route("/healthz", healthz, methods=["GET"]),
    Route("/metrics", metrics, methods=["GET"]),
]
