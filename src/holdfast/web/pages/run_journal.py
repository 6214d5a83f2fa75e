"""The tab "Journal" of a run: every entry, also damaged ones."""

from __future__ import annotations

from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.checkpoint import RunInfo
from holdfast.errors import CheckpointCorruptedError
from holdfast.model import Kind
from holdfast.views import entries, moments
from holdfast.views import run as views
from holdfast.views.legible import LARGEST, legible, text_of
from holdfast.views.redaction import redacted_moment
from holdfast.views.runs import of_id
from holdfast.web.downloads import attachment
from holdfast.web.pages.known_steps import known_steps
from holdfast.web.pages.shown_run import Badge, ShownRun, Tab
from holdfast.web.rendering import page
from holdfast.web.site import Site

_ROWS: Final = 100
_ABOVE: Final = 10  # newer entries above one that is jumped to


def render(site: Site, run: ShownRun) -> dict[str, Any]:
    """What the tab shows."""
    at = run.number("at")
    found = _rows(site, run.info, run.request, None if at is None else at + _ABOVE + 1)
    return {
        **found,
        "at": at,
        "kinds": entries.KINDS,
        "starts_at_newest": at is None or at + _ABOVE >= run.info.seq,
        "command": site.commands.line("show", run.run_id, "--full"),
    }


def badge(site: Site, run: ShownRun) -> Badge:
    """How many entries there are, about: deleted ones count."""
    return Badge(f"{run.info.seq + 1:,}")


def rows(request: Request) -> Response:
    """More entries: older ones."""
    site: Site = request.app.state.site
    with site.noting_outages():
        info = of_id(site.cp, request.path_params["run_id"])
        found = _rows(site, info, request, _number(request, "after"))
    return page(request, "run/journal_rows.html", run_id=info.run_id, at=None, **found)


def entry(request: Request) -> Response:
    """What one entry says."""
    site: Site = request.app.state.site
    with site.noting_outages():
        info = of_id(site.cp, request.path_params["run_id"])
        looked = entries.look(site.cp, info.run_id, request.path_params["seq"])
        advice = _advice(site, info, looked) if looked.damage else []
    return page(
        request,
        "run/journal_entry.html",
        run_id=info.run_id,
        looked=looked,
        large=entries.LARGE,
        meta=None if looked.meta is None else text_of(looked.meta, most=LARGEST),
        advice=advice,
    )


def value(request: Request) -> Response:
    """The value of an entry that was too large to be shown at once."""
    tree, name = _value(request)
    text = text_of(legible(tree), most=LARGEST)
    if text.is_too_large:
        return attachment(tree, name)
    return page(request, "run/value.html", text=text)


def download(request: Request) -> Response:
    """The value of an entry as a file of JSON."""
    return attachment(*_value(request))


def _value(request: Request) -> tuple[Any, str]:
    site: Site = request.app.state.site
    with site.noting_outages():
        info = of_id(site.cp, request.path_params["run_id"])
        seq = request.path_params["seq"]
        try:
            return entries.value_at(site.cp, info.run_id, seq), f"{info.run_id}-{seq}"
        except CheckpointCorruptedError as error:
            raise HTTPException(404, str(error)) from None


def _rows(site: Site, info: RunInfo, request: Request, after: int | None) -> dict[str, Any]:
    """A page of moments, newest first."""
    asked = request.query_params.get("kind", "")
    kind = asked if asked in entries.KINDS else ""
    found = site.cp.timeline(
        info.run_id,
        after=after,
        newest_first=True,
        limit=_ROWS + 1,
        kinds=(kind,) if kind else (),
    )
    said = views.in_words(site.cp, info, found[:_ROWS][::-1])[::-1]
    shown = [redacted_moment(one) for one in said]
    return {
        "moments": [(one, moments.what(one), moments.note(one)) for one in shown],
        "void": _void(site, info) if any(one.kind == Kind.QUESTION for one in shown) else {},
        "older": len(found) > _ROWS,
        "kind": kind,
    }


def _void(site: Site, info: RunInfo) -> dict[int | None, str]:
    """The questions that nobody is asked any more, by seq, and why."""
    steps = known_steps(site, info).steps.executions
    return {one.seq: one.note.removeprefix("void: ") for one in steps if one.status == "void"}


def _advice(site: Site, info: RunInfo, looked: entries.EntryDetail) -> list[tuple[str, str]]:
    """What helps with a damaged entry, each with its command."""
    commands = site.commands
    found = [("See all that is damaged", commands.line("verify", info.run_id))]
    back = entries.last_good(site.cp, info.run_id, looked.seq)
    if back is not None:
        line = commands.line("rollback", info.run_id, places=[str(back)])
        found.append((f"Go back to @{back}, the newest before it that can be loaded", line))
    return found


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


TAB: Final = Tab(
    "journal", "Journal", render, badge, scripts=("history.js",), styles=("history.css",)
)
ROUTES: list[BaseRoute] = [
    Route("/runs/{run_id:id}/entries", rows),
    Route("/runs/{run_id:id}/entries/{seq:seq}", entry),
    Route("/runs/{run_id:id}/entries/{seq:seq}/value", value),
    Route("/runs/{run_id:id}/entries/{seq:seq}/download", download),
]
