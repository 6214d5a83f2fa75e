"""The steps of runs, kept until something is added to them: to read 10,000 of them takes a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

from holdfast.checkpoint import RunInfo
from holdfast.errors import HoldfastError
from holdfast.operations.verifying import Integrity
from holdfast.views.axis import Axis, axis_of
from holdfast.views.run import proved
from holdfast.views.step_groups import Group, groups_of
from holdfast.views.step_pending import as_executed
from holdfast.views.step_reading import StepReader
from holdfast.views.steps import Steps
from holdfast.web.site import Site

_KEPT: Final = 16  # runs


class KnownSteps:
    """The steps of a run, and what follows from them, made when it is first needed."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    @cached_property
    def groups(self) -> list[Group]:
        """The same, folded."""
        return groups_of(self.steps)

    @cached_property
    def problems(self) -> int:
        """How many of them somebody should look at."""
        return sum(1 for one in self.steps.executions if one.is_problem)

    @cached_property
    def worked(self) -> float:
        """The seconds that all of them took."""
        return self.steps.worked

    @cached_property
    def finished_axis(self) -> Axis:
        """The axis of a run in which nothing is under way."""
        return axis_of(self.steps, self.steps.last, orphaned=False)

    def axis(self, now: int, *, orphaned: bool) -> Axis:
        """The axis as it is now."""
        if self.steps.status in ("running", "paused"):
            return axis_of(self.steps, now, orphaned=orphaned)
        return self.finished_axis


class _Run:
    """A run, as it was read last."""

    def __init__(self, site: Site, info: RunInfo) -> None:
        self._reader = StepReader(site.cp, info.run_id, info.flow)
        self._lock = Lock()
        self._known: tuple[int, str, KnownSteps] | None = None

    def read(self, info: RunInfo) -> KnownSteps:
        with self._lock:
            if self._known is None or self._known[:2] != (info.seq, info.status):
                self._known = info.seq, info.status, KnownSteps(self._reader.read(info))
            return self._known[2]


_known: WeakKeyDictionary[Site, OrderedDict[str, _Run]] = WeakKeyDictionary()
_lock: Final = Lock()


def known_steps(site: Site, info: RunInfo) -> KnownSteps:
    """The steps of a run. What was read before is not read again."""
    with _lock:
        mine = _known.setdefault(site, OrderedDict())
        run = mine.get(info.run_id)
        if run is None:
            run = mine[info.run_id] = _Run(site, info)
        mine.move_to_end(info.run_id)
        while len(mine) > _KEPT:
            mine.popitem(last=False)
    return run.read(info)


def shown_steps(site: Site, info: RunInfo, word: str, facts: Mapping[str, Any]) -> KnownSteps:
    """The steps of a run, given what `doing` found, with what is damaged among them."""
    known = known_steps(site, info)
    steps = as_executed(known.steps, word, facts)
    found = integrity_of(site, info, word)
    if found is not None and not found.ok:
        steps = _with_damage(steps, found)
    return known if steps is known.steps else KnownSteps(steps)


def integrity_of(site: Site, info: RunInfo, word: str) -> Integrity | None:
    """What checking a run found in the last minute; None if it is long, or can't be read."""
    known = None if word == "running" else info.seq  # what is being executed changes all the time
    try:
        return site.kept.get(("proved", info.run_id, known), 60, lambda: proved(site.cp, info))
    except HoldfastError:  # the page says why
        return None


def _with_damage(steps: Steps, found: Integrity) -> Steps:
    """The steps, with those marked whose entries can't be trusted."""
    wrong = {problem.seq: problem.reason for problem in found.problems}
    made = (
        one._replace(status="damaged", note=f"damaged: {wrong[one.seq]}")
        if one.seq in wrong and one.seq is not None and one.kind != "damage"
        else one
        for one in steps.executions
    )
    return steps._replace(executions=tuple(made))
