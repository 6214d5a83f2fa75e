"""Two runs, branches or checkpoints side by side."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.codec import readable
from holdfast.codec.summaries import shortened
from holdfast.errors import CheckpointCorruptedError
from holdfast.views import forks, runs, sides, words
from holdfast.views.differences import Differences
from holdfast.views.legible import preview
from holdfast.views.sides import Side
from holdfast.web.rendering import page
from holdfast.web.site import Site

_SUGGESTED: Final = 30  # runs
_LINE: Final = 120  # characters of inputs
_SHARED: Final = ("Flow", "Version", "Inputs", "Thread", "Owner")  # one line if they are equal


def compare(request: Request) -> Response:
    """The page."""
    site: Site = request.app.state.site
    asked = [request.query_params.get(name, "").strip()[:1200] for name in "ab"]
    with site.noting_outages():
        a, b = (sides.find(site.cp, text) for text in asked)
        both = a.info is not None and b.info is not None
        found = sides.state_differences(site.cp, a, b) if both else ""
        return page(
            request,
            "compare.html",
            a=a,
            b=b,
            both=both,
            **_split(_facts(site, a, b) if both else []),
            aligned=sides.align(a, b) if both else None,
            differences=found if isinstance(found, Differences) else None,
            problem=found if isinstance(found, str) else "",
            suggestions=_suggestions(site, a if a.info is not None else b),
            command=_command(site, a, b),
        )


def summary(request: Request) -> Response:
    """How many steps differ, for a link to the page."""
    site: Site = request.app.state.site
    a, b = (request.query_params.get(name, "").strip()[:1200] for name in "ab")
    with site.noting_outages():
        left, right = sides.find(site.cp, a), sides.find(site.cp, b)
    told = "Compare"
    if left.info is not None and right.info is not None:
        differing = sides.align(left, right).differing
        told = f"{words.plural(differing, 'step')} differ" if differing != 1 else "1 step differs"
    return page(request, "compare_link.html", a=a, b=b, told=told)


def _command(site: Site, a: Side, b: Side) -> str | None:
    if a.info is None or b.info is None or a.seq is None or b.seq is None:
        return None
    places = [str(a.seq), str(b.seq) if b.info.run_id == a.info.run_id else b.place]
    return site.commands.line("diff", a.info.run_id, places=places)


def _facts(site: Site, a: Side, b: Side) -> list[tuple[str, Any, Any]]:
    """The names of facts, with the value on each side."""
    assert a.info is not None
    assert b.info is not None
    found: list[tuple[str, Any, Any]] = [
        ("Status", runs.doing(site.cp, a.info)[0], runs.doing(site.cp, b.info)[0]),
        ("Flow", a.info.flow, b.info.flow),
        ("Version", a.version, b.version),
        ("Inputs", *_inputs(site, a, b)),
        ("Thread", a.info.thread_id, b.info.thread_id),
        ("Owner", a.info.owner, b.info.owner),
        ("Began", a.began, b.began),
        ("Saved", a.at, b.at),
        ("Steps", f"{len(a.steps):,}", f"{len(b.steps):,}"),
        ("In steps", _worked(a), _worked(b)),
        ("State", words.size(a.size), words.size(b.size)),
    ]
    return [fact for fact in found if fact[1] is not None or fact[2] is not None]


def _split(facts: list[tuple[str, Any, Any]]) -> dict[str, Any]:
    """The facts in which the sides differ, and those that they share."""
    same = [fact for fact in facts if fact[1] == fact[2] and fact[0] in _SHARED]
    return {"facts": [fact for fact in facts if fact not in same], "shared": same}


def _inputs(site: Site, a: Side, b: Side) -> tuple[str | None, str | None]:
    """What each side was given, on a line, with its digest if the lines don't tell them apart."""
    left, right = _given(site, a), _given(site, b)
    if left != right or a.inputs == b.inputs:
        return left, right
    return _with_digest(left, a), _with_digest(right, b)


def _with_digest(line: str | None, side: Side) -> str | None:
    if side.inputs is None:
        return None
    return f"{line or ''} (digest {side.inputs[:12]})".strip()


def _given(site: Site, side: Side) -> str | None:
    """The inputs of a side on a line; only their size if they are large."""
    assert side.info is not None
    journals = site.cp.core.journals
    try:
        opening = journals.opening(side.info.run_id)
        if opening is None or not opening.size:
            return None
        if opening.size > sides.LARGEST:
            return words.size(opening.size)
        value = journals.value(side.info.run_id, opening.seq, opening, as_data=True)
    except CheckpointCorruptedError:
        return "damaged"
    return shortened(" ".join(preview(readable.to_json(value)).text.split()), _LINE)


def _worked(side: Side) -> str | None:
    took = sum(done.took or 0.0 for _, done in side.steps)
    return words.span(took) if took else None


def _suggestions(site: Site, side: Side) -> list[str]:
    """Runs that may be compared with this one: its origin, and others of its thread or flow."""
    if side.info is None:
        found = site.cp.runs(roots=True, limit=_SUGGESTED)
        return [run.run_id for run in found]
    origin = forks.origin_of(site.cp, side.info.run_id)
    first = [] if origin is None else [origin[0]]
    near = site.cp.runs(prefix=side.info.run_id, roots=True, limit=_SUGGESTED)
    same = site.cp.runs(flow=side.info.flow, roots=True, limit=_SUGGESTED)
    names = dict.fromkeys([*first, *(run.run_id for run in (*near, *same))])
    return list(names)[:_SUGGESTED]


ROUTES: list[BaseRoute] = [Route("/compare", compare), Route("/compare/summary", summary)]
