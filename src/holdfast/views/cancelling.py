"""Runs that stopped and were asked to cancel: whoever continues them undoes their steps.

What such a run asks is void: nobody needs an answer any more. Blocks, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec.meta import Meta
from holdfast.engine.people.questions import Question
from holdfast.errors import CheckpointCorruptedError, KeyMissingError
from holdfast.kernel.core import Core
from holdfast.kernel.reader import all_listed
from holdfast.model import Entry, Kind, Status
from holdfast.store import RunFilter
from holdfast.views.errors import RefusedError

WHY = "the run was asked to cancel"
"""Why its questions are void."""

_ASKING: Final = RunFilter(asking=True, statuses=(Status.PAUSED.value, Status.RUNNING.value))
_STOPPED: Final = (Status.SUBMITTED, Status.PAUSED, Status.FAILED, Status.OPEN)


def is_to_cancel(core: Core, run_id: str) -> bool:
    """Whether this run stopped and was asked to cancel."""
    try:
        return request_of(core, core.journals.head(run_id)) is not None
    except (CheckpointCorruptedError, KeyMissingError):  # nobody can tell
        return False


def request_of(core: Core, head: Entry | None) -> Entry | None:
    """The request to cancel that the run with this head got since it stopped.

    None also if that can't be read. Who asks for a pause afterwards does not take it back.
    """
    try:
        while head is not None:
            stop = head if head.seq == head.term else core.journals.entry(head.run, head.term)
            if stop is None or stop.status not in _STOPPED:
                return None
            if stop is not head:
                asked = requested(core.journals.trail(head.run, start=head.term, bodies=False))
                if asked is not None:
                    return asked
            if stop.kind != Kind.PAUSE or Meta(stop).action is None:
                return None
            head = core.journals.entry(head.run, stop.seq - 1)
    except (CheckpointCorruptedError, KeyMissingError):
        pass
    return None


def requested(since: Iterable[Entry]) -> Entry | None:
    """The first request to cancel among these entries."""
    asked = (e for e in since if e.kind == Kind.REQUEST and Meta(e).action == "cancel")
    return next(asked, None)


def asking(core: Core) -> dict[str, int]:
    """How many questions are void for that reason, by run."""
    rows = all_listed(core.journals.store, _ASKING)
    return {row.run: row.questions for row, head in rows if request_of(core, head)}


def without(core: Core, questions: list[Question]) -> list[Question]:
    """The questions that are not void for that reason."""
    runs = {one.run_id for one in questions}
    over = asking(core) if len(runs) > 1 else {run for run in runs if is_to_cancel(core, run)}
    return [one for one in questions if one.run_id not in over]


def refuse(cp: SyncCheckpointer, run_id: str) -> None:
    """Refuse an answer to such a run."""
    if is_to_cancel(cp.core, run_id):
        raise RefusedError(
            f"run {run_id!r} was asked to cancel: its questions are void, and its steps are undone "
            "when it is continued"
        )
