"""The heads index: one small row for each run, so that no question about runs reads journals.

A row is derived from its run's entries and from nothing else. Stores keep it in the transaction
that appends an entry; `fold` makes it anew. Most entries change no row, and cost nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from holdfast.model import HIDDEN, MAX_ID_BYTES, OF_CHILD, Entry, Kind, Status

Position = tuple[int, str]
"""Where a run is in lists: when it was opened, and its id. It stays there until it is deleted."""

TOUCH: Final = 64
"""Every so many entries a row changes in any case, so that saves are counted while a run runs."""

MAX_LABELS: Final = 32
"""The most labels of a run that are in the index."""

UNKNOWN: Final = "?"
"""Stands for a holder that can't be read: the run is found, and the journal decides."""

NOW: Final = -1
"""In place of an hour: these rows of a tally count the runs that there are, by status."""

HOUR: Final = 3_600_000_000
"""Microseconds."""

_ENDS: Final = (Status.COMPLETED.value, Status.FAILED.value, Status.CANCELLED.value)
_OVER: Final = (Status.COMPLETED.value, Status.CANCELLED.value)  # nothing is asked any more
_TOLD: Final = (*_ENDS, Status.PAUSED.value)
_OPENS: Final = (Kind.OPEN.value, Kind.CLAIM.value)
ASKS: Final = (Kind.QUESTION.value, Kind.ANSWER.value, Kind.REQUEST.value)
"""The kinds of entries that change a row though they begin no term."""

OF_STEPS: Final = (Kind.FAIL.value, Kind.SLEEP.value)
"""The kinds of entries whose `due` is a step's own, and not that of the run."""

_MAY_CHANGE: Final = frozenset({*ASKS, Kind.TOMBSTONE.value})

_FACTS: Final = re.compile('"(?:holder|due|questions|labels|parent)"')
_LARGEST_META: Final = 4 << 20
_MOST: Final = 1 << 63


class RunHead(NamedTuple):
    """What the index keeps of a run. Times are in microseconds since the epoch."""

    run: str
    opened: int  # the time of the run's first entry
    changed: int  # the time of the entry that changed the row last
    status: str
    flow: str | None
    thread: str | None
    owner: str | None
    parent: str | None  # the run that it is a child of
    holder: str | None  # who executes it, as the opening or claim says; None if nobody does
    due: int | None  # from then on a worker should execute it; None if none should
    questions: int  # that are open
    labels: tuple[str, ...]  # "name=value", sorted
    seq: int  # of the entry that changed the row last

    @property
    def position(self) -> Position:
        """Where it is in lists."""
        return self.opened, self.run


class RowChange(NamedTuple):
    """What entries of one run do to its row: an upsert that needs no look at the row before."""

    run: str
    removes: bool  # the row that is there, first
    makes: RunHead | None = None  # the row if there is none, or what it becomes
    first: int = 0  # the seq of the first entry that it is made of
    keeps_holder: bool = False  # if there is a row, these fields of it stay
    keeps_due: bool = False
    keeps_questions: bool = False


class Tally(NamedTuple):
    """A number of a store's statistics: of one hour, or of now.

    `what` is "started", "saves" (entries) or the status that runs got: "completed", "failed",
    "cancelled" or "paused". Where runs ended, `total` has the microseconds since they were opened,
    and `bucket` b says that each took less than 2**b milliseconds, but not half of it.
    """

    hour: int  # since the epoch, or `NOW`
    flow: str  # empty for runs without one
    what: str
    bucket: int
    n: int
    total: int


def hours(since: int, until: int) -> tuple[int, int]:
    """From which hour on, and before which, in hours since the epoch, `Store.tally` counts."""
    return max(0, since // HOUR), max(0, -(-until // HOUR))


def changes(entry: Entry) -> bool:
    """Whether an entry changes its run's row. Internal journals have none."""
    seq, kind = entry.seq, entry.kind
    return (
        entry.term == seq
        or seq % TOUCH == 0
        or (kind in _MAY_CHANGE and (kind in ASKS or _erases(entry)))
    ) and not entry.run.startswith(HIDDEN)


def change_of(entries: Iterable[Entry]) -> RowChange | None:
    """What entries of one run, in the order of their seqs, do to its row; None if nothing."""
    found: RowChange | None = None
    for entry in entries:
        if changes(entry):
            found = _joined(found, change_by(entry))
    return found


def changes_of(entries: Iterable[Entry]) -> list[RowChange]:
    """What entries of any runs do to their rows: at most one change for each run, sorted by run."""
    found: dict[str, RowChange] = {}
    for entry in entries:
        if changes(entry):
            found[entry.run] = _joined(found.get(entry.run), change_by(entry))
    return [found[run] for run in sorted(found)]


def applied(row: RunHead | None, change: RowChange) -> RunHead | None:
    """The row after a change."""
    made = change.makes
    if made is None or row is None or change.removes:
        return made
    return RunHead(
        made.run,
        row.opened,
        made.changed,
        made.status,
        made.flow,
        made.thread,
        made.owner,
        row.parent,
        row.holder if change.keeps_holder else made.holder,
        row.due if change.keeps_due else made.due,
        row.questions if change.keeps_questions else made.questions,
        row.labels,
        made.seq,
    )


def after(row: RunHead | None, entry: Entry) -> RunHead | None:
    """The row after an entry."""
    return applied(row, change_by(entry)) if changes(entry) else row


def fold(journal: Iterable[Entry]) -> RunHead | None:
    """The row of a run, from all that is left of its journal; None if the run was deleted.

    Deleted checkpoints still say when the run was opened and changed. What it was then, the next
    entry says, too.
    """
    row: RunHead | None = None
    unsure = False
    for entry in journal:
        if entry.status == Status.DELETED and not _erases(entry):
            if row is None or changes(entry):
                bare = row or change_by(entry).makes
                assert bare is not None
                row = bare._replace(changed=entry.at, seq=entry.seq)
                if entry.term == entry.seq:
                    row = row._replace(holder=None, due=None)
                unsure = True
        elif changes(entry):
            row, unsure = after(row, entry), False
        elif unsure and row is not None:
            row = row._replace(
                status=entry.status, flow=entry.flow, thread=entry.thread, owner=entry.owner
            )
            unsure = False
    return None if unsure else row


def glimpse(head: Entry) -> RunHead | None:
    """As much of a row as the head alone says, for a run that is damaged before it."""
    return change_by(head).makes


def differences(
    before: RunHead | None, change: RowChange, row: RunHead | None = None
) -> Iterator[Tally]:
    """What a change of a row adds to the statistics. `row` is what it makes, if that is known."""
    row = applied(before, change) if row is None else row
    if before is not None and (change.removes or row is None):
        yield Tally(NOW, before.flow or "", before.status, 0, -1, 0)
        before = None
    if row is None:
        return
    flow, hour = row.flow or "", max(0, row.changed // HOUR)
    if before is None:
        yield Tally(max(0, row.opened // HOUR), flow, "started", 0, 1, 0)
    was = None if before is None else (before.flow or "", before.status)
    if was != (flow, row.status):
        if was is not None:
            yield Tally(NOW, *was, 0, -1, 0)
        yield Tally(NOW, flow, row.status, 0, 1, 0)
    saves = row.seq - (change.first - 1 if before is None else before.seq)
    if saves > 0:
        yield Tally(hour, flow, "saves", 0, saves, 0)
    if row.status in _TOLD and (before is None or before.status != row.status):
        total = max(0, row.changed - row.opened) if row.status in _ENDS else 0
        yield Tally(hour, flow, row.status, bucket_of(total), 1, total)


def bucket_of(microseconds: int) -> int:
    """The bucket of a duration: it is less than 2**bucket milliseconds, but not half of it."""
    return (microseconds // 1000).bit_length()


def _erases(entry: Entry) -> bool:
    return entry.kind == Kind.TOMBSTONE and entry.status == Status.DELETED


def change_by(entry: Entry) -> RowChange:
    """What one entry does to its run's row, which it `changes`."""
    if _erases(entry):
        return RowChange(entry.run, True)
    facts = _facts(entry)
    begins = entry.term == entry.seq
    held = begins and entry.kind in _OPENS and entry.status == Status.RUNNING
    speaks = begins or entry.kind in ASKS
    due = _number(facts.get("due")) if speaks and entry.kind not in OF_STEPS else None
    questions = _number(facts.get("questions"))
    opens = entry.kind == Kind.OPEN
    row = RunHead(
        entry.run,
        entry.at,
        entry.at,
        entry.status,
        entry.flow,
        entry.thread,
        entry.owner,
        _parent(entry.run, facts.get("parent")) if opens else None,
        (_text(facts.get("holder")) or UNKNOWN) if held else None,
        due,
        max(0, questions or 0),
        _labels(facts.get("labels")) if opens else (),
        entry.seq,
    )
    keeps_due = not begins and due is None
    keeps_questions = questions is None and not (begins and entry.status in _OVER)
    return RowChange(entry.run, False, row, entry.seq, not begins, keeps_due, keeps_questions)


def _joined(first: RowChange | None, then: RowChange) -> RowChange:
    """Two changes of one row as one."""
    if first is None or then.makes is None:
        return then
    if first.makes is None:
        return then._replace(removes=True)
    return RowChange(
        then.run,
        first.removes,
        applied(first.makes, then),
        first.first,
        first.keeps_holder and then.keeps_holder,
        first.keeps_due and then.keeps_due,
        first.keeps_questions and then.keeps_questions,
    )


def _facts(entry: Entry) -> dict[str, Any]:
    """The metadata, if it can be read and says anything of what the index keeps."""
    text = entry.meta
    if not text or len(text) > _LARGEST_META or not _FACTS.search(text):
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _number(value: object) -> int | None:
    return value if type(value) is int and -_MOST <= value < _MOST else None


def _text(value: object) -> str | None:
    """The text, if every store can keep it in an index."""
    if type(value) is not str or not value:
        return None
    if not value.isprintable() and min(value) < " ":
        return None
    try:
        return value if len(value.encode()) <= MAX_ID_BYTES else None
    except UnicodeEncodeError:
        return None


def _labels(value: object) -> tuple[str, ...]:
    if not isinstance(value, dict):
        return ()
    texts = {label_text(name, own) for name, own in value.items() if isinstance(own, str)}
    return tuple(sorted(text for text in texts if text is not None)[:MAX_LABELS])


def label_text(name: str, value: str) -> str | None:
    """A label as the index has it; None if the index can't have it."""
    return _text(f"{name}={value}") if name and "=" not in name else None


def _parent(run: str, said: object) -> str | None:
    """The run in RUN@STEP; either may hold an @, too, but the child's id begins with the run's."""
    if type(said) is not str or len(said) > 2 * MAX_ID_BYTES:
        return None
    names = [said[:place] for place, char in enumerate(said) if char == "@"]
    ours = (name for name in names if run.startswith(f"{name}{OF_CHILD}"))
    return _text(next(ours, names[-1] if names else None))
