"""The tab "Timeline" of a run: its steps along the time, and what one of them did."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from holdfast.errors import CheckpointCorruptedError
from holdfast.views import words
from holdfast.views.axis import Axis, Label, Tick
from holdfast.views.errors import NotFoundError
from holdfast.views.runs import doing, has_died
from holdfast.views.step_groups import Group
from holdfast.views.steps import Execution, Steps
from holdfast.web.pages.known_steps import shown_steps
from holdfast.web.pages.run_cards import cards_of
from holdfast.web.pages.run_drawer import drawer_of
from holdfast.web.pages.run_notes import notes_of
from holdfast.web.pages.run_rows import Drawing, Line, Row
from holdfast.web.pages.shown_run import ShownRun, Tab
from holdfast.web.rendering import run_path
from holdfast.web.site import Site

WINDOW: Final = 200
"""Rows that are sent at once."""

_MOST_ROWS: Final = 2000  # that a page may ask for again, to refresh what it shows
_BEFORE: Final = 20  # rows to show before the one that is selected
_UNBEGUN: Final = {"running": "running", "orphaned": "cut off", "completed": ""}
"""By the status of a run: that of the items of a `for_each` that have recorded nothing.

A completed run went on without them, as after an error that its flow caught: they will never begin.
"""

_NUMBER: Final = re.compile(r"^(\d+) items")


@dataclass(frozen=True, slots=True)
class Timeline:
    """What of a run's timeline is shown."""

    rows: Sequence[Row]
    count: int  # of all rows
    groups: int  # rows while nothing is unfolded
    first: int  # the place of the first one that is shown
    axis: Axis
    ticks: Sequence[Tick]
    labels: Sequence[Label]
    steps: Steps
    problems: int
    find: str
    now: int

    @property
    def counted(self) -> str:
        """How many steps are finished, as the list of runs counts them: rows may fold several."""
        done = sum(one.current and one.status == "completed" for one in self.steps.executions)
        said = f"{words.plural(done, 'step')} finished"
        return said if done <= self.groups else f"{said}, in {words.plural(self.groups, 'row')}"

    @property
    def next(self) -> int | None:
        """The place of the first row of the next window; None if there is none."""
        end = self.first + len(self.rows)
        return end if end < self.count else None


def timeline_of(site: Site, run: ShownRun, *, first: int | None = None) -> Timeline:
    """The rows from a place on; if none is given, from where the selected step is among them."""
    known = shown_steps(site, *run[1:])
    now = time.time_ns() // 1000
    steps, groups = known.steps, known.groups
    axis = known.axis(now, orphaned=has_died(run.word, run.facts))
    find = (run.asked("find") or "").strip()
    selected = _selected(run)
    opened = set(run.request.query_params.getlist("open"))
    if selected is not None:
        opened |= _holding(groups, selected)
    lines = list(_found(groups, find) if find else _lines(site, groups, opened))
    if first is None:
        first = _first(lines, selected)
    shown = min(max(run.number("shown") or WINDOW, WINDOW), _MOST_ROWS)
    drawing = Drawing(axis, steps, now)
    rows = [
        drawing.row(_counted(site, steps, run.word, line), selected)
        for line in lines[first : first + shown]
    ]
    return Timeline(
        rows,
        len(lines),
        len(groups),
        first,
        axis,
        axis.ticks(),
        axis.labels(),
        steps,
        known.problems,
        find,
        now,
    )


def render(site: Site, run: ShownRun) -> dict[str, Any]:
    """What the tab shows."""
    timeline = timeline_of(site, run, first=run.number("from"))
    return {
        "timeline": timeline,
        "notes": notes_of(
            timeline.steps,
            orphaned=run.word == "orphaned",
            died=has_died(run.word, run.facts),
        ),
        **_drawer(site, run),
        "cards": cards_of(site, run, timeline.steps),
        **_links(run),
    }


def drawer(site: Site, run: ShownRun) -> dict[str, Any]:
    """Only what is beside the table."""
    return {**_drawer(site, run), **_links(run)}


def _drawer(site: Site, run: ShownRun) -> dict[str, Any]:
    """A step that is not there, or not any more, takes nothing away from the page."""
    try:
        return {"drawer": drawer_of(site, run), "missing": ""}
    except NotFoundError as error:
        return {"drawer": None, "missing": str(error)}


def rows(site: Site, run: ShownRun) -> dict[str, Any]:
    """More rows of the table, from a place on."""
    timeline = timeline_of(site, run, first=run.number("from") or 0)
    return {"timeline": timeline, "is_window": True, **_links(run)}


def _links(run: ShownRun) -> dict[str, Any]:
    """Where the links of the rows lead: what is open and searched for stays so."""
    opened = run.request.query_params.getlist("open")
    step, at, find = run.asked("step"), run.number("at"), run.asked("find")

    def where(**query: object) -> str:
        return run_path(run.run_id, **({"tab": "timeline", "find": find, "open": opened} | query))

    def fold(row: Row) -> str:
        kept = [one for one in opened if one != row.group]
        return where(open=kept if row.is_open else [*kept, row.group], step=step, at=at)

    def to_step(row: Row) -> str:
        if row.run:
            return run_path(row.run, tab="timeline", step=row.step, at=row.at)
        return where(step=row.step, at=row.at)

    def window(first: int) -> str:
        return where(**{"from": first}).replace("?", "/rows?", 1)

    return {
        "is_window": False,
        "fold_path": fold,
        "step_path": to_step,
        "window_path": window,
        "from_path": lambda first: where(**{"from": first}),
        "earlier": where(**{"from": 0}),
        "closed": where(),
        "problem": where(step=step, at=at).replace("?", "/problem?", 1),
        "here": where(step=step, at=at),
    }


def next_problem(site: Site, run: ShownRun) -> Response:
    """To the next step, after the selected one, that somebody should look at."""
    steps = shown_steps(site, *run[1:]).steps
    problems = [one for one in steps.executions if one.is_problem]
    selected = _selected(run)
    places = {one.seq: place for place, one in enumerate(steps.executions)}
    here = -1
    if selected is not None:
        here = next(
            (
                places[one.seq]
                for one in steps.executions
                if one.key == selected[0] and selected[1] in (None, one.seq)
            ),
            -1,
        )
    after = [one for one in problems if places[one.seq] > here]
    if selected is None:  # what failed in the end, before what did at first
        after = [one for one in problems if one.status != "completed"] or after
    found = after[0] if after else problems[0] if problems else None
    if found is None:
        return RedirectResponse(run_path(run.run_id, tab="timeline"), 303)
    where = run_path(run.run_id, tab="timeline", step=found.key, at=found.seq)
    return RedirectResponse(where, 303)


def _selected(run: ShownRun) -> tuple[str, int | None] | None:
    step = run.asked("step")
    return None if step is None else (step, run.number("at"))


def _holding(groups: Sequence[Group], selected: tuple[str, int | None]) -> set[str]:
    """The groups to open, so that the selected step can be seen."""
    step, at = selected
    return {
        group.name
        for group in groups
        if group.kind != "one" and any(one.key == step and at == one.seq for one in group.members)
    }


def _lines(site: Site, groups: Sequence[Group], opened: set[str]) -> Iterator[Line]:
    for group in groups:
        if group.kind == "one":
            yield from _one(site, Line(group), group.only, opened)
            continue
        is_open = group.name in opened
        yield Line(group, is_open=is_open)
        for member in group.members if is_open else ():
            yield from _one(site, Line(group, member, 1), member, opened)


def _one(site: Site, line: Line, one: Execution, opened: set[str]) -> Iterator[Line]:
    """A step, and below it the steps of the child run that it was."""
    if one.child is None or f"run:{one.child}" not in opened:
        yield line
        return
    yield line._replace(is_open=True)
    info = site.cp.run(one.child)
    if info is None:
        return
    for group in shown_steps(site, info, *doing(site.cp, info)).groups:
        yield Line(group, level=line.level + 1, run=one.child)


def _found(groups: Sequence[Group], find: str) -> Iterator[Line]:
    """The steps whose names hold a text."""
    wanted = find.casefold()
    for group in groups:
        if group.kind == "one":
            if wanted in group.name.casefold():
                yield Line(group)
            continue
        members = [one for one in group.members if wanted in one.name.casefold()]
        if members:
            yield Line(group, is_open=True)
            yield from (Line(group, one, 1) for one in members)


def _first(lines: Sequence[Line], selected: tuple[str, int | None] | None) -> int:
    if selected is None:
        return 0
    step, at = selected
    for place, line in enumerate(lines):
        one = line.one
        key = line.group.name if one is None else one.key
        if key == step and (at is None or (one is not None and one.seq == at)):
            return 0 if place < WINDOW - _BEFORE else place - _BEFORE
    return 0


def _counted(site: Site, steps: Steps, word: str, line: Line) -> Line:
    """The line of a `for_each`, with the number of its items, which is in the body of an entry."""
    seq = steps.items.get(line.group.name)
    if line.group.kind != "items" or line.member is not None or line.run or seq is None:
        return line
    try:
        said = site.cp.core.journals.value(steps.run_id, seq)
    except CheckpointCorruptedError:
        return line
    number = _NUMBER.match(said) if isinstance(said, str) else None
    if number is None:
        return line
    total = int(number[1])
    unbegun = "" if line.group.items >= total else _UNBEGUN.get(word, "not started")
    return line._replace(group=line.group._replace(total=total, unbegun=unbegun))


TAB: Final = Tab("timeline", "Timeline", render)
