"""Steps that have recorded something, and are not finished."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.model import Entry
from holdfast.views import runs
from holdfast.views.steps import Execution, Steps

UNDER_WAY: Final = "under way"
"""The name of what is executed, where nothing says which step it is: until it is finished."""

_COMES_NEXT: Final = "next step"  # its name while nobody executes it
_UNNAMED: Final = "a step that had recorded nothing yet"  # its name once it was cut off


class Pending:
    """What a step has recorded before it was finished."""

    __slots__ = ("begun", "child", "due", "fails", "outputs", "since", "term")

    def __init__(self, entry: Entry) -> None:
        self.fails: list[tuple[Entry, int | None]] = []  # and when it is tried again
        self.outputs: list[int] = []
        self.child: str | None = None
        self.due: int | None = None
        self.begun: Entry | None = None
        self.since = entry.at
        self.term = entry.term


def begun_step(begun: Entry, status: str, end: Entry | None) -> Execution:
    """A step of a task that was begun, and what became of it."""
    name = begun.step or begun.type or "step"
    return Execution(
        begun.entry_id.hex(), name, name, status, None if end is None else end.seq,
        begun.at, None if end is None else end.at,
    )  # fmt: skip


def as_executed(steps: Steps, word: str, facts: Mapping[str, Any]) -> Steps:
    """The steps of a run, given what `doing` found: nothing is under way that nobody executes."""
    if word == runs.ORPHANED:
        return _cut_off(steps, died=runs.has_died(word, facts))
    return _awaiting_worker(steps) if word == runs.ANSWERED else steps


def _cut_off(steps: Steps, *, died: bool) -> Steps:
    """The steps of a run that nobody executes: what seemed to be under way was cut off.

    A process that left it may not have begun what comes next. Which step it was that had recorded
    nothing can't be known: it may have begun before others that are finished.
    """
    finished = [one.name for one in steps.executions if one.current and one.end is not None]
    last = f"the last step recorded before that is {finished[-1]}" if finished else ""

    def cut(one: Execution) -> Execution:
        begun = died or one.tried or one.outputs or one.child
        if one.key == UNDER_WAY:
            note = f"cut off: {last or 'no step was recorded before that'}"
            one = one._replace(name=_UNNAMED, group=_UNNAMED, note=note)
        return one._replace(status="cut off" if begun else "not started")

    made = (
        cut(one) if one.status == "running" else one
        for one in steps.executions
        if died or one.key != UNDER_WAY or one.seq is not None
    )
    return steps._replace(executions=tuple(made))


def _awaiting_worker(steps: Steps) -> Steps:
    """The steps of a run that was answered, and that nobody executes: what comes next waits."""

    def wait(one: Execution) -> Execution:
        if one.key == UNDER_WAY:
            one = one._replace(name=_COMES_NEXT, group=_COMES_NEXT)
        return one._replace(status="waits", note="waits for a worker")

    made = (wait(one) if one.status == "running" else one for one in steps.executions)
    return steps._replace(executions=tuple(made))
