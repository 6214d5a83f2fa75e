"""The list of runs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.web.rendering import page
from holdfast.web.site import Site

_SHOWN = 50


def home(request: Request) -> Response:
    """The first page is the list of runs."""
    return RedirectResponse("/runs")


def runs(request: Request) -> Response:
    """Runs, the last started first."""
    site: Site = request.app.state.site
    with site.noting_outages():
        found = site.cp.runs(roots=True, limit=_SHOWN)
        counts = site.cp.count_runs(roots=True)
    return page(request, "runs.html", runs=found, counts=counts)


ROUTES: list[BaseRoute] = [Route("/", home), Route("/runs", runs)]
