"""What runs ask people, of one run or of all. Nothing here writes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from holdfast.checkpoint import to_datetime
from holdfast.engine.people.dialog import Dialog
from holdfast.engine.people.questions import Question
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError
from holdfast.heads import RunHead
from holdfast.kernel.core import Core
from holdfast.kernel.reader import all_listed
from holdfast.logs import about, logger
from holdfast.model import Entry, Status, check_id
from holdfast.operations.reading import outages_named
from holdfast.store import RunFilter

log = logger()

_OVER: Final = (Status.COMPLETED, Status.CANCELLED)
_ASKING: Final = RunFilter(asking=True, statuses=(Status.PAUSED.value, Status.RUNNING.value))
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


def questions(core: Core, run_id: str) -> list[Question]:
    """The questions a run waits for, in the order they were asked. Blocks, and writes nothing."""
    check_id("run_id", run_id)
    with outages_named(run_id):
        head = core.journals.checked_head(run_id)
    if head is None or head.status == Status.DELETED:
        raise CheckpointNotFoundError(run_id)
    return [] if head.status in _OVER else _asked_by(core, head)


def open_questions(
    core: Core,
    run_id: str | None = None,
    *,
    assignee: str | None = None,
    overdue: bool = False,
) -> list[Question]:
    """What one run waits for, in the order asked, or what all runs of a store wait for, those due
    first. Blocks, and writes nothing.

    With `assignee`, what this person may answer; with `overdue`, those whose deadline has passed.
    """
    if assignee is not None:
        check_id("assignee", assignee)
    now = to_datetime(core.journals.clock.now())
    every = all_open(core) if run_id is None else questions(core, run_id)
    wanted = [
        found
        for found in every
        if (assignee is None or found.is_for(assignee)) and (not overdue or found.is_overdue(now))
    ]
    return sorted(wanted, key=_urgency) if run_id is None else wanted


def most_urgent(core: Core, most: int) -> tuple[list[Question], int]:
    """The first `most` questions of all runs, those due first, and how many there are. Blocks.

    The index says where to look, so that a few of many thousands are read at once. Of a run that
    still works, it does not say until when its questions wait: these are all read.
    """
    with outages_named():
        rows = list(all_listed(core.journals.store, _ASKING))
        working = [head for row, head in rows if row.status == Status.RUNNING]
        found = [question for head in working for question in _asked_if_readable(core, head)]
        enough = len(found) + most
        for row, head in sorted(rows, key=_urgency_of_row):
            if len(found) >= enough:
                break
            if row.status != Status.RUNNING:
                found += _asked_if_readable(core, head)
    total = max(len(found), sum(row.questions for row, _ in rows))
    return sorted(found, key=_urgency)[:most], total


def all_open(core: Core) -> Iterator[Question]:
    """What all runs that wait or work ask, run by run. Blocks."""
    with outages_named():
        for _, head in all_listed(core.journals.store, _ASKING):
            yield from _asked_if_readable(core, head)


def _asked_if_readable(core: Core, head: Entry) -> list[Question]:
    try:
        return _asked_by(core, head)
    except CheckpointNotFoundError:  # deleted since
        return []
    except CheckpointCorruptedError as error:  # what others ask is still to be seen
        log.warning(
            "the questions of run %s can't be read: %s", head.run, error, extra=about(head.run)
        )
        return []


def _asked_by(core: Core, head: Entry) -> list[Question]:
    dialog = Dialog(core, head.run)
    dialog.catch_up(head)
    return dialog.open_questions()


def _urgency_of_row(found: tuple[RunHead, Entry]) -> tuple[float, int, str]:
    row = found[0]
    return math.inf if row.due is None else row.due, row.changed, row.run


def _urgency(question: Question) -> tuple[datetime, datetime, str, str]:
    return question.deadline or _NEVER, question.asked_at, question.run_id, question.key
