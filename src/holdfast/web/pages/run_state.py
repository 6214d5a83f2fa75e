"""The tab "State" of a run: its checkpoints, and before, after and difference of each."""

from __future__ import annotations

import threading
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.checkpoint import RunInfo
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError
from holdfast.views import states, threads
from holdfast.views.errors import NotFoundError
from holdfast.views.legible import LARGEST, legible, text_of
from holdfast.views.runs import of_id
from holdfast.web.downloads import attachment
from holdfast.web.pages.shown_run import ShownRun, Tab
from holdfast.web.rendering import page
from holdfast.web.site import Site

_ROWS: Final = 100
_NEWER: Final = 30  # entries above a checkpoint that is asked for, in its list
_HUGE: Final = 64 << 20  # bytes of states that no page shows
_LARGE: Final = threading.BoundedSemaphore(2)  # what is read of large states at once takes memory
_GONE: Final = (CheckpointCorruptedError, CheckpointNotFoundError)
_VIEWS: Final = ("difference", "after", "before")


def render(site: Site, run: ShownRun) -> dict[str, Any]:
    """What the tab shows."""
    rows, older = states.rows(site.cp, run.info, limit=_ROWS)
    at = run.number("at")
    starts_at_newest = at is None or not rows or at >= rows[-1].seq
    if at is not None and not starts_at_newest:
        rows, older = states.rows(site.cp, run.info, after=at + _NEWER, limit=_ROWS)
    shown = states.current(site.cp, run.info) if at is None else at
    panel = {} if shown is None else _panel(site, run.info, shown, _view(run.request))
    return {
        "rows": rows,
        "older": older,
        "starts_at_newest": starts_at_newest,
        "at": shown,
        "panel": panel,
        **({"command": panel["command"]} if panel else {}),
    }


def checkpoints(request: Request) -> Response:
    """More rows of the list."""
    site: Site = request.app.state.site
    with site.noting_outages():
        info = of_id(site.cp, request.path_params["run_id"])
        rows, older = states.rows(site.cp, info, after=_number(request, "after"), limit=_ROWS)
    return page(request, "run/state_rows.html", run_id=info.run_id, rows=rows, older=older, at=None)


def panel(request: Request) -> Response:
    """One checkpoint, also a large one."""
    site: Site = request.app.state.site
    with site.noting_outages():
        info = of_id(site.cp, request.path_params["run_id"])
        seq = request.path_params["seq"]
        start = _number(request, "start")
        with _LARGE:
            found = _panel(site, info, seq, _view(request), wait=True, start=start)
    return page(request, "run/state_panel.html", run_id=info.run_id, panel=found)


def value(request: Request) -> Response:
    """A part of a state that was too large to be shown at once."""
    site: Site = request.app.state.site
    with site.noting_outages():
        tree, name = _part(site, request)
    text = text_of(legible(tree), most=LARGEST)
    if text.is_too_large:
        return attachment(tree, name)
    return page(request, "run/value.html", text=text)


def download(request: Request) -> Response:
    """A state, or a part of it, as a file of JSON."""
    site: Site = request.app.state.site
    with site.noting_outages():
        return attachment(*_part(site, request))


def _part(site: Site, request: Request) -> tuple[Any, str]:
    """What is at a pointer into a state, and a name for it."""
    info = of_id(site.cp, request.path_params["run_id"])
    seq = request.path_params["seq"]
    try:
        with _LARGE:
            found = states.value(site.cp, info, seq, request.query_params.get("path", ""))
    except LookupError:
        raise HTTPException(404, "The state has nothing there.") from None
    return found, f"{info.run_id}-{seq}"


def _panel(
    site: Site,
    info: RunInfo,
    seq: int,
    view: str,
    *,
    wait: bool = False,
    start: int | None = None,
) -> dict[str, Any]:
    """One checkpoint. What is large is read only if the reader is to `wait` for it."""
    commands = site.commands
    found: dict[str, Any] = {
        "seq": seq,
        "name": "",
        "view": view,
        "views": _VIEWS,
        "selected": None,
        "differences": None,
        "fields": None,
        "waits": False,
        "huge": False,
        "problem": "",
        "missing": False,
        "before_is": "",
        "nearest": None,
        "command": commands.line("show", info.run_id, f"--at={seq}"),
        "fork": commands.line("fork", info.run_id, f"--at={seq}"),
        "rollback": commands.line("rollback", info.run_id, places=[str(seq)]),
        "verify": commands.line("verify", info.run_id),
        "wide": commands.line("show", info.run_id, f"--at={seq}", "--full"),
    }
    try:
        selected = states.select(site.cp, info, seq)
        found["selected"] = selected
        if selected.entry is not None:
            is_thread = info.flow == threads.FLOW
            found["name"] = states.name_of(selected.entry, is_thread=is_thread)
        if selected.entry is None:
            return found | {"problem": selected.damage}
        if view == "difference" and selected.before is not None:
            places = [str(selected.before), str(seq)]
            found["command"] = commands.line("diff", info.run_id, places=places)
        if selected.weight > _HUGE:
            found["huge"] = True
        elif selected.is_large and not wait:
            found["waits"] = True
        elif view == "difference":
            try:
                found["differences"] = states.change(site.cp, info, selected)
            except _GONE as error:  # if it is the one before, this one can still be shown
                found["fields"] = states.fields(site.cp, info, seq)
                found |= {"view": "after", "before_is": str(error)}
        elif view == "after":
            found["fields"] = states.fields(site.cp, info, seq, start=start or 0)
        elif selected.before is not None:
            found["fields"] = states.fields(site.cp, info, selected.before, start=start or 0)
    except CheckpointCorruptedError as error:
        found["problem"] = str(error)
    except (CheckpointNotFoundError, NotFoundError):
        found |= {"missing": True, "nearest": states.before(site.cp, info, seq)}
    return found


def _view(request: Request) -> str:
    asked = request.query_params.get("view", "")
    return asked if asked in _VIEWS else _VIEWS[0]


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


TAB: Final = Tab("state", "State", render, scripts=("history.js",), styles=("history.css",))
ROUTES: list[BaseRoute] = [
    Route("/runs/{run_id:id}/states", checkpoints),
    Route("/runs/{run_id:id}/states/{seq:seq}", panel),
    Route("/runs/{run_id:id}/states/{seq:seq}/value", value),
    Route("/runs/{run_id:id}/states/{seq:seq}/download", download),
]
