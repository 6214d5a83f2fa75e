"""The list of runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.errors import CheckpointCorruptedError
from holdfast.heads import Position
from holdfast.model import Status
from holdfast.views import words
from holdfast.views.histograms import histogram
from holdfast.views.rows import Row, row_of
from holdfast.views.runs import ANSWERED, ORPHANED, UNDER_WAY, meant_by
from holdfast.views.searching import Found, Query, find, to_position, to_text
from holdfast.views.shapes import strip
from holdfast.web.rendering import page, with_query
from holdfast.web.site import Site

SHOWN: Final = 50
STRIP: Final = 132
"""Pixels of a shape."""

_MOST_IDS: Final = 100  # rows that can be asked for at a time
_TABS: Final = (
    Status.RUNNING.value,
    Status.PAUSED.value,
    Status.FAILED.value,
    ORPHANED,
    Status.COMPLETED.value,
    Status.CANCELLED.value,
)
_RARE: Final = (ANSWERED, Status.SUBMITTED.value, Status.OPEN.value)  # a tab if there are any
_AGES: Final = {"": "any time", "1h": "1 h", "24h": "24 h", "7d": "7 days", "30d": "30 days"}
_PIECES: Final = {
    "earlier": "more",
    "done": "ok",
    "restored": "old",
    "failed": "bad",
    "waits": "ask",
    "queued": "todo",
    "crash": "gap",
    "running": "run",
    "cancelled": "can",
    "damaged": "dmg",
}
"""The class of each piece of a shape."""


class Tab(NamedTuple):
    """A status, and how many runs have it."""

    label: str
    number: int
    path: str
    current: bool
    bad: bool


def home(request: Request) -> Response:
    """The first page is the list of runs."""
    return RedirectResponse("/runs")


def runs(request: Request) -> Response:
    """Runs, the last started first; for htmx, what changes with the filters."""
    site: Site = request.app.state.site
    given = request.query_params
    query = Query.parse(given)
    before, after = to_position(given.get("before")), to_position(given.get("after"))
    with site.noting_outages():
        context = _listing(site, query, before, after)
    context["query"] = query
    part = "hx-request" in request.headers
    response = page(request, "runs/listing.html" if part else "runs/page.html", **context)
    if part and "quiet" not in given:
        place = {name: given[name] for name in ("before", "after") if given.get(name)}
        _say_url(request, response, query, place)
    response.headers["vary"] = "hx-request"
    return response


def _say_url(request: Request, response: Response, query: Query, place: dict[str, str]) -> None:
    """Have htmx show where this page is: typing on in a search leaves no history."""
    shown = urlsplit(request.headers.get("hx-current-url", ""))
    before = dict(parse_qsl(shown.query))
    now = query.parameters() | place
    typing = "q" in before and before | {"q": ""} == now | {"q": ""}
    name = "hx-replace-url" if typing or before == now else "hx-push-url"
    response.headers[name] = with_query("/runs", now)


def rows(request: Request) -> Response:
    """The rows of some runs, for a page that shows them and was told that they changed."""
    site: Site = request.app.state.site
    found = []
    with site.noting_outages():
        for run_id in _ids(request.query_params):
            try:
                run = site.cp.run(run_id)
            except CheckpointCorruptedError:
                continue
            if run is not None:
                found.append(row_of(site.cp, run))
    return page(request, "runs/rows.html", rows=[_shown(row) for row in found])


def news(request: Request) -> Response:
    """How many runs that match were started after the newest one that a page shows."""
    site: Site = request.app.state.site
    query = Query.parse(request.query_params)
    newest = to_position(request.query_params.get("newest"))
    with site.noting_outages():
        number = _newer(site, query, newest)
    return page(request, "runs/new.html", number=number)


def _newer(site: Site, query: Query, newest: Position | None) -> int:
    if query.q or query.status in UNDER_WAY:
        found = find(site.cp, query, SHOWN)
        return sum(newest is None or place > newest for place in found.positions)
    where = query.filter()
    if newest is not None:
        where = where._replace(since=max(newest[0], where.since or 0))
    return max(0, sum(site.cp.store.counts(where).values()) - (newest is not None))


def _ids(given: QueryParams) -> list[str]:
    return list(dict.fromkeys(given.getlist("id")))[:_MOST_IDS]


def _listing(
    site: Site, query: Query, before: Position | None, after: Position | None
) -> dict[str, Any]:
    """All that the page shows."""
    found = find(site.cp, query, SHOWN, before=before, after=after)
    shown = [_shown(row_of(site.cp, run)) for run in found.runs]
    everything = sum(site.cp.store.counts().values())
    return {
        "rows": shown,
        "found": found,
        "everything": everything,
        "children": _children(query, found, everything),
        "tabs": _tabs(query, found),
        "chart": _chart(site, query) if everything else None,
        "ages": _ages(query),
        "command": query.command(site.commands),
        "older": _older(query, found),
        "newer": _newer_path(query, found, before or after),
        "newest": to_text(found.positions[0]) if found.positions and found.first == 1 else "",
        "meant": None if found.total else _meant(site, query),
        "path_with": lambda **changed: with_query("/runs", query.parameters(**changed)),
    }


def _meant(site: Site, query: Query) -> str | None:
    """The id of another run that may have been meant, if nothing but a text was asked for."""
    if not query.q or query.status or query.narrows != {"q": query.q}:
        return None
    meant = meant_by(site.cp, query.q)
    return None if meant == query.q else meant


def _children(query: Query, found: Found, everything: int) -> str:
    """How many runs the list leaves out because they are child runs, if nothing else is."""
    number = everything - sum(found.counts.values())
    if query.children or query.narrows or number <= 0:
        return ""
    return "1 is a child run" if number == 1 else f"{number:,} are child runs"


def _ages(query: Query) -> dict[str, str]:
    """The choices of a time, with the one that was made."""
    return _AGES if query.since in _AGES else _AGES | {query.since: query.since}


def _tabs(query: Query, found: Found) -> list[Tab]:
    counts = found.counts
    named = [*_TABS, *(each for each in _RARE if counts.get(each) or query.status == each)]
    return [
        Tab(
            name.capitalize() if name else "All",
            sum(counts.values()) if not name else counts.get(name, 0),
            with_query("/runs", query.parameters(status=name)),
            query.status == name,
            bool(name in ("failed", ORPHANED) and counts.get(name)),
        )
        for name in ("", *named)
    ]


def _older(query: Query, found: Found) -> str:
    if not found.more:
        return ""
    return with_query("/runs", query.parameters() | {"before": to_text(found.positions[-1])})


def _newer_path(query: Query, found: Found, place: Position | None) -> str:
    if found.first <= 1:
        return with_query("/runs", query.parameters()) if place and not found.positions else ""
    return with_query("/runs", query.parameters() | {"after": to_text(found.positions[0])})


def _shown(row: Row) -> dict[str, Any]:
    """A row as its template draws it."""
    marks: dict[str, list[str]] = {}
    for bar in strip(row.shape, STRIP):
        marks.setdefault(_PIECES[bar.what], []).append(f"M{bar.start:g} 5h{bar.length:g}")
    return {
        "row": row,
        "run": row.run,
        "key": key_of(row.run.run_id),
        "marks": {kind: "".join(paths) for kind, paths in marks.items()},
        "took": None if row.took is None else words.span(row.took),
        "stored": words.size(row.stored) if row.stored else None,
        "executor": " · ".join(row.executor.rsplit(":", 1)) if row.executor else None,
    }


def key_of(run_id: str) -> str:
    """What names the row of a run in a page, as its id may hold anything."""
    return f"r{hashlib.sha256(run_id.encode(errors='replace')).hexdigest()[:20]}"


def _chart(site: Site, query: Query) -> dict[str, Any] | None:
    """The histogram: its paths, and what it says in words."""
    drawn = histogram(site.cp, query.begin, query.flow or None)
    if not any(drawn.started):
        return None
    highest, width = max(*drawn.started, *drawn.failed), 960 / len(drawn.started)
    hours = drawn.length.total_seconds() / 3600
    each = "hour" if hours == 1 else f"{hours:g} hours" if hours < 48 else f"{hours / 24:g} days"
    failed = sum(drawn.failed)
    return {
        "started": _bars(drawn.started, highest, width),
        "failed": _bars(drawn.failed, highest, width),
        "start": drawn.start,
        "completed": words.plural(drawn.completed, "completion"),
        "bad": failed,
        "failed_times": words.plural(failed, "failure"),
        "median": None if drawn.median is None else words.span(drawn.median.total_seconds()),
        "highest": highest,
        "each": each,
        "label": f"Runs started per {each}, at most {highest:,}: {sum(drawn.started):,} in all, "
        f"{words.plural(drawn.completed, 'completion')}, {words.plural(failed, 'failure')}",
    }


def _bars(values: Sequence[int], highest: int, width: float) -> str:
    bars = []
    for at, value in enumerate(values):
        if value:
            height = max(1.5, 40 * value / highest)
            left, wide = at * width, max(1.0, width - 3)
            bars.append(f"M{left:.1f} 40v-{height:.1f}h{wide:.1f}v{height:.1f}z")
    return "".join(bars)


ROUTES: list[BaseRoute] = [
    Route("/", home),
    Route("/runs", runs),
    Route("/rows", rows),
    Route("/news", news),
]
