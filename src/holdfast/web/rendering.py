"""Pages from templates. Everything that a template is given is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from holdfast import __version__
from holdfast.checkpoint import to_datetime
from holdfast.codec.redaction import redacted
from holdfast.views import claims, words
from holdfast.views.commands import has_placeholder
from holdfast.web.site import Site

STATIC: Final = Path(__file__).parent / "static"
CHIPS: Final = {
    "completed": "ok",
    "verified": "ok",
    "running": "run",
    "submitted": "new",
    "open": "new",
    "answered": "ask",
    "paused": "ask",
    "failed": "bad",
    "damaged": "bad",
    "orphaned": "orp",
    "cancelled": "can",
}
"""The class of each status and verdict: its color and its shape."""


def run_path(run_id: str, **query: object) -> str:
    """Where a run is shown. Its id may hold anything."""
    return with_query(f"/runs/{quote(run_id, safe='')}", query)


def with_query(path: str, query: Mapping[str, Any]) -> str:
    """A path with the parameters that are not empty."""
    known = {name: value for name, value in query.items() if value not in (None, "", ())}
    return f"{path}?{urlencode(known, doseq=True)}" if known else path


def action_path(run_id: str, action: str) -> str:
    """Where an action on a run is asked for, and done."""
    return f"/runs/{quote(run_id, safe='')}/do/{quote(action, safe='')}"


def _iso(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _absolute(when: datetime) -> str:
    """A point in time in UTC, until a script shows it in the reader's zone."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _relative(when: datetime) -> str:
    """A point in time as `relative` of app.js shows it: relative within a day."""
    seconds = round((datetime.now(UTC) - when).total_seconds())
    past = abs(seconds)
    if past >= 86_400:
        return _absolute(when)
    if past < 2:
        return "now"
    number, unit = (past, "s") if past < 60 else (past // 60, "m")
    text = f"{number} {unit}" if past < 3600 else f"{past // 3600} h"
    return f"in {text}" if seconds < 0 else f"{text} ago"


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["chip"] = lambda word: CHIPS.get(word, "can")
    made.filters["said"] = claims.said
    made.filters["iso"] = _iso
    made.filters["absolute"] = _absolute
    made.filters["relative"] = _relative
    made.filters["thousands"] = lambda number: f"{number:,}"
    made.filters["micros"] = to_datetime
    made.filters["clock"] = lambda when: f"{when:%H:%M:%S}"
    made.filters["sentence"] = lambda text: text[:1].upper() + text[1:]
    made.filters["redacted"] = redacted
    made.filters["span"] = words.span
    made.filters["has_placeholder"] = has_placeholder
    made.filters["size"] = words.size
    made.globals["run_path"] = run_path
    made.globals["action_path"] = action_path
    made.globals["version"] = __version__
    return made


_TEMPLATES: Final = _environment()


def page(request: Request, template: str, /, *, status: int = 200, **context: Any) -> Response:
    """A page, or a part of one, from a template."""
    site: Site = request.app.state.site
    found = _TEMPLATES.get_template(template)
    context |= {
        "site": site,
        "may_write": site.settings.allow_writes,
        "who": getattr(request.state, "who", None),  # of an error before anybody was let in
        "path": request.url.path,
    }
    # A lone surrogate in a state has no form in UTF-8: browsers show it as unknown.
    return HTMLResponse(found.render(context).encode("utf-8", "xmlcharrefreplace"), status)
