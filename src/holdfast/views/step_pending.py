"""Steps that have recorded something, and are not finished."""

from __future__ import annotations

from holdfast.model import Entry
from holdfast.views.steps import Execution


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
