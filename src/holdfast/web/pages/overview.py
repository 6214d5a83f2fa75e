"""The overview: what happened over time, what is slow or fails, who works, and how the store is.

The first byte says only what the index knows at once. All else is loaded by the page, and kept for
some seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.model import check_id
from holdfast.views import continuing, health, recent, searching, statistics, words
from holdfast.views.present import present, recent_flows
from holdfast.views.recent import Recent
from holdfast.views.searching import Query
from holdfast.views.statistics import WINDOWS, Window
from holdfast.web.rendering import page
from holdfast.web.site import Site

_SHORT: Final = 10.0  # seconds that an answer from the index is kept
_LONG: Final = 60.0  # an answer for which journals were read
_SHOWN: Final = 10  # steps, kinds of errors, findings
_ORDER: Final = ("error", "warning", "ok")  # of findings
_MOST_EXAMINED: Final = 10_000  # runs that are examined for damage while a page waits


def overview(request: Request) -> Response:
    """The page, without what takes long."""
    site, window, flow = _asked(request)
    with site.noting_outages():
        counts = site.cp.count_runs(flow=flow)
    options = [f"--since={window.name}", *([f"--flow={flow}"] if flow else [])]
    return page(
        request,
        "overview/page.html",
        window=window,
        windows=WINDOWS.values(),
        flow=flow,
        counts=counts,
        command=site.commands.line("stats", None, *options),
    )


def data(request: Request) -> Response:
    """What runs did over time, from the index."""
    site, window, flow = _asked(request)

    def ask() -> dict[str, Any]:
        return statistics.over_time(site.cp, window, flow)

    with site.noting_outages():
        return _json(site.kept.get(("data", window, flow), _SHORT, ask))


def recent_data(request: Request) -> Response:
    """Bytes and verdicts over time, from the newest runs."""
    site, window, flow = _asked(request)
    found = _recent(site, window, flow)
    document = found._asdict() | {
        "hours": window.step,
        "limits": _limits(found),
        "whole": found.whole,
    }
    return _json({name: document[name] for name in _CHARTED})


_CHARTED: Final = ("as_of", "hours", "limits", "whole", "starts", "unread", "bytes", "checks")


def part(request: Request) -> Response:
    """A part of the page that is loaded later."""
    name = request.path_params["part"]
    site, window, flow = _asked(request)
    render = _PARTS.get(name)
    if render is None:
        raise HTTPException(404)
    with site.noting_outages():
        context = render(site, window, flow, full="full" in request.query_params)
    return page(request, f"overview/{name}.html", flow=flow, words=words, **context)


def _counts(site: Site, window: Window, flow: str | None, *, full: bool) -> dict[str, Any]:
    def ask() -> dict[str, int]:
        return searching.count(site.cp, Query(flow=flow or ""))

    return {"counts": site.kept.get(("counts", flow), _SHORT, ask)}


def _now(site: Site, window: Window, flow: str | None, *, full: bool) -> dict[str, Any]:
    return {"now": site.kept.get(("now", flow), _SHORT, lambda: present(site.cp, flow))}


def _workers(site: Site, window: Window, flow: str | None, *, full: bool) -> dict[str, Any]:
    given: list[str | None] = list(site.settings.sources.values()) or [None]
    options = [option for one in given for option in continuing.flow_options(one)]
    command = site.commands.line("worker", None, *options)
    return _now(site, window, flow, full=full) | {"command": command}


def _flows(site: Site, window: Window, flow: str | None, *, full: bool) -> dict[str, Any]:
    return {"flows": site.kept.get("flows", _LONG, lambda: recent_flows(site.cp))}


def _newest(site: Site, window: Window, flow: str | None, *, full: bool) -> dict[str, Any]:
    found = _recent(site, window, flow)
    return {"recent": found, "limits": _limits(found), "shown": _SHOWN}


def _health(site: Site, window: Window, flow: str | None, *, full: bool) -> dict[str, Any]:
    """What is wrong with the store: of what can be said at once, or in full."""
    runs = sum(site.cp.count_runs().values())
    if full and runs > _MOST_EXAMINED:
        raise HTTPException(403, f"the command line examines more than {_MOST_EXAMINED:,} runs")
    how = health.Examination(site.commands, quick=not full, every=False)

    def ask() -> tuple[datetime, list[health.Finding]]:
        return datetime.now(UTC), health.examine(site.cp, how)

    as_of, findings = site.kept.get(("health", full), _LONG, ask)
    return {
        "as_of": as_of,
        "findings": sorted(findings, key=lambda one: _ORDER.index(one.status)),
        "shown": _SHOWN,
        "full": full,
        "runs": runs,
        "here": runs <= _MOST_EXAMINED,
        "command": how.commands.line("doctor"),
    }


_PARTS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "counts": _counts,
    "now": _now,
    "workers": _workers,
    "flows": _flows,
    "steps": _newest,
    "errors": _newest,
    "health": _health,
}


def _asked(request: Request) -> tuple[Site, Window, str | None]:
    """The site, the time and the flow that a request is about."""
    name = request.query_params.get("since", "24h")
    window = WINDOWS.get(name)
    if window is None:
        raise HTTPException(400, f"since is one of {', '.join(WINDOWS)}")
    flow = request.query_params.get("flow") or None
    return request.app.state.site, window, None if flow is None else check_id("flow", flow)


def _recent(site: Site, window: Window, flow: str | None) -> Recent:
    def ask() -> Recent:
        return recent.recent(site.cp, window, flow)

    with site.noting_outages():
        return site.kept.get(("recent", window, flow), _LONG, ask)


def _limits(found: Recent) -> str:
    """How much of the window was read, in words."""
    if found.whole:
        return f"From all {words.plural(found.runs, 'run')} of this time."
    text = f"From the newest {found.read:,} of {words.plural(found.runs, 'run')}."
    if found.in_part:
        text += f" Of {words.plural(found.in_part, 'long run')}, only the newest entries."
    return text


def _json(document: dict[str, Any]) -> Response:
    return JSONResponse(_plain(document))


def _plain(value: Any) -> Any:
    """Times as seconds since the epoch: charts draw those."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


ROUTES: list[BaseRoute] = [
    Route("/overview", overview),
    Route("/overview/data", data),
    Route("/overview/recent", recent_data),
    Route("/overview/part/{part}", part),
]
