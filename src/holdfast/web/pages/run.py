"""One run: its header, and the tab that is asked for."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.views.pauses import Pause, pause_of
from holdfast.views.rows import stored_bytes
from holdfast.views.runs import doing, nobody, of_id
from holdfast.web.pages import (
    run_drawer,
    run_evidence,
    run_forks,
    run_graph,
    run_journal,
    run_state,
    run_timeline,
)
from holdfast.web.pages.known_steps import known_steps
from holdfast.web.pages.offers import offered
from holdfast.web.pages.shown_run import ShownRun, Tab
from holdfast.web.rendering import page, run_path
from holdfast.web.site import Site

TABS: Final[dict[str, Tab]] = {
    tab.name: tab
    for tab in (
        run_timeline.TAB,
        run_graph.TAB,
        run_state.TAB,
        run_evidence.TAB,
        run_journal.TAB,
        run_forks.TAB,
    )
}


def run(request: Request) -> Response:
    """The page of a run."""
    site: Site = request.app.state.site
    with site.noting_outages():
        shown = shown_run(site, request)
        if request.headers.get("hx-target") == "drawer":
            return page(request, "run/drawer.html", run=shown, **run_timeline.drawer(site, shown))
        tab = TABS.get(shown.asked("tab") or "", run_timeline.TAB)
        context = tab.render(site, shown)
        badges = {name: each.badge(site, shown) for name, each in TABS.items()}
        header = header_of(site, shown)
        at = shown.number("at") if shown.asked("tab") == "state" else None
        offers = offered(site, shown.info, shown.word, at)
    return page(
        request,
        "run/page.html",
        run=shown,
        tab=tab,
        tabs=TABS.values(),
        badges=badges,
        command=context.pop("command", header["command"]),
        header=header,
        offers=offers,
        **context,
    )


def shown_run(site: Site, request: Request) -> ShownRun:
    """The run whose id is in the path. Raises `NotFoundError`."""
    info = of_id(site.cp, request.path_params["run_id"])
    word, facts = doing(site.cp, info)
    return ShownRun(request, info, word, facts)


def header_of(site: Site, shown: ShownRun) -> dict[str, Any]:
    """What stands above the tabs."""
    info = shown.info
    pause = pause_of(site.cp, info)
    known = known_steps(site, info)
    return {
        "command": site.commands.line("show", info.run_id),
        "parent": None if info.parent_id is None else run_path(info.parent_id),
        "why": _why(site, shown, pause),
        "until": None if pause is None or pause.why != "timer" else pause.until,
        "worked": known.worked,
        "stored": stored_bytes(site.cp, info.run_id),
    }


def _why(site: Site, shown: ShownRun, pause: Pause | None) -> str:
    """What there is to say beside its status."""
    executor = site.executor
    if executor is not None and executor.problem(shown.run_id) is not None:
        return "it could not be continued here"
    if shown.info.damage:
        return shown.info.damage
    if shown.word == "orphaned":
        return nobody(shown.facts.get("holder"))
    if shown.word == "answered":
        return "waits for a worker"
    if pause is not None and pause.why == "timer" and pause.until is not None:
        return "sleeps until"  # and the time follows
    text = "" if pause is None else str(pause)
    return "" if text == "was paused" else text


def rows(request: Request) -> Response:
    """More rows of the timeline."""
    site: Site = request.app.state.site
    with site.noting_outages():
        shown = shown_run(site, request)
        context = run_timeline.rows(site, shown)
    return page(request, "run/rows.html", run=shown, **context)


def result(request: Request) -> Response:
    """The result of a step, as far as it can be shown."""
    site: Site = request.app.state.site
    with site.noting_outages():
        shown = shown_run(site, request)
        value = run_drawer.value_page(site, shown)
    return page(request, "run/result.html", run=shown, value=value)


def download(request: Request) -> Response:
    """The result of a step, as a file."""
    site: Site = request.app.state.site
    with site.noting_outages():
        return run_drawer.download(site, shown_run(site, request))


def problem(request: Request) -> Response:
    """To the next step that somebody should look at."""
    site: Site = request.app.state.site
    with site.noting_outages():
        return run_timeline.next_problem(site, shown_run(site, request))


ROUTES: list[BaseRoute] = [
    Route("/runs/{run_id:id}", run),
    Route("/runs/{run_id:id}/rows", rows),
    Route("/runs/{run_id:id}/problem", problem),
    Route("/runs/{run_id:id}/result", result),
    Route("/runs/{run_id:id}/result.json", download),
]
