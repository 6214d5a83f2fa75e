"""Runs: one, all that match, how many there are. Nothing here writes; everything blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from holdfast.checkpoint import RunInfo, run_info, to_micros
from holdfast.errors import CheckpointCorruptedError, CheckpointNotFoundError
from holdfast.heads import Position, RunHead, label_text
from holdfast.kernel.core import Core, Pages
from holdfast.kernel.threads import members
from holdfast.model import CARRY_STATE, Entry, Status, check_id, checkpoint_id, thread_journal
from holdfast.operations.reading import (
    check_limit,
    newest_proved,
    newest_readable,
    outages_named,
)
from holdfast.store import PAGE, RunFilter

_SMALL: Final = 1 << 20  # bytes of a state or result; larger ones are read one at a time


def runs(
    core: Core,
    *,
    status: str | Iterable[str] | None = None,
    flow: str | None = None,
    thread_id: str | None = None,
    owner: str | None = None,
    type: str | None = None,  # noqa: A002 - the word users know
    labels: Mapping[str, str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    asking: bool = False,
    roots: bool = False,
    prefix: str = "",
    limit: int | None = None,
    after: str | None = None,
) -> list[RunInfo]:
    """The runs that match, the last started first: all of them, or at most `limit`.

    A run matches if it has this status, or one of these; all of the `labels`; if it was started at
    `since` or later, and before `until`; with `asking`, if it waits for an answer; with `roots`, if
    it is not a child run. Each is as its newest entry is stored, which only `run` proves. Naive
    datetimes are local time. Give the last `run_id` of one page as `after` for the next, or let
    `iter_runs` do it. Raises `CheckpointNotFoundError` if that run was deleted meanwhile.
    """
    check_limit(limit)
    where = matching(
        status, flow, thread_id, owner, type, labels, since, until, asking, roots, prefix
    )
    with outages_named():
        pages = _pages(core, where, _position(core, after), limit)
        return [info for page in pages for info in infos(core, page)]


def iter_runs(
    core: Core,
    *,
    status: str | Iterable[str] | None = None,
    flow: str | None = None,
    thread_id: str | None = None,
    owner: str | None = None,
    type: str | None = None,  # noqa: A002 - the word users know
    labels: Mapping[str, str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    asking: bool = False,
    roots: bool = False,
    prefix: str = "",
    after: str | None = None,
) -> Pages[RunInfo]:
    """Iterate over what `runs` lists, without having all of it in memory.

    Runs that others add, change or delete meanwhile may or may not be seen; no other is skipped or
    repeated.
    """
    where = matching(
        status, flow, thread_id, owner, type, labels, since, until, asking, roots, prefix
    )
    return _iterate(core, where, after)


def count_runs(
    core: Core,
    *,
    status: str | Iterable[str] | None = None,
    flow: str | None = None,
    thread_id: str | None = None,
    owner: str | None = None,
    type: str | None = None,  # noqa: A002 - the word users know
    labels: Mapping[str, str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    asking: bool = False,
    roots: bool = False,
    prefix: str = "",
) -> dict[str, int]:
    """How many of the runs that `runs` would list have each status; others are left out.

    If at most a status and a flow are given, this takes no longer in a store with a million runs.
    """
    where = matching(
        status, flow, thread_id, owner, type, labels, since, until, asking, roots, prefix
    )
    with outages_named():
        return core.journals.store.counts(where)


def page_of_runs(
    core: Core, where: RunFilter, *, behind: Position | None = None, limit: int
) -> list[RunInfo]:
    """At most `limit` runs that match, the last started first, behind a place in that list.

    That place is when a run was started and its id: it stays valid when the run is deleted.
    """
    with outages_named():
        return [info for page in _pages(core, where, behind, limit) for info in infos(core, page)]


def run(core: Core, run_id: str) -> RunInfo | None:
    """What one run is doing, as its newest entry says, which is proved; None if there is no such run.

    If that entry is damaged, `damage` names it, and the rest is what the run was doing before that.
    Raises `CheckpointCorruptedError` if no entry can be read.
    """
    check_id("run_id", run_id)
    with outages_named(run_id):
        damage: CheckpointCorruptedError | None = None
        try:
            head = core.journals.proved_at(run_id)
        except CheckpointCorruptedError as error:
            damage, head = error, newest_proved(core.journals, run_id)
            if head is None:
                raise
        found = _about(core, head)
        return found if found is None or damage is None else found._replace(damage=_told(damage))


def last_known(core: Core, run_id: str) -> RunInfo | None:
    """As `run`, and nothing is proved: for those who prove what they use of it."""
    check_id("run_id", run_id)
    with outages_named(run_id):
        try:
            head = core.journals.head(run_id)
        except CheckpointCorruptedError:
            head = newest_readable(core.journals, run_id)
            if head is None:
                raise
        return _about(core, head)


def proved(core: Core, runs: Sequence[RunInfo]) -> list[RunInfo]:
    """These runs of a list, each proved as `run` does it, with a few reads for all of them."""
    journals = core.journals
    heads = [(one.run_id, one.seq) for one in runs]
    intact: set[str] = set()
    with outages_named(), suppress(CheckpointCorruptedError):  # then one by one, below
        before = [(run_id, seq - 1) for run_id, seq in heads]
        near = {(one.run, one.seq): one for one in journals.store.entries_at(heads + before)}
        small = [place for place in heads if place in near and near[place].size <= _SMALL]
        for entry in journals.store.entries_at(small, bodies=True):
            one_before = near.get((entry.run, entry.seq - 1))
            with suppress(CheckpointCorruptedError):
                journals.proved(entry, None if one_before is None else one_before.digest)
                intact.add(entry.run)
    return [one if one.run_id in intact else _proved_alone(core, one) for one in runs]


def _proved_alone(core: Core, listed: RunInfo) -> RunInfo:
    try:
        return run(core, listed.run_id) or listed
    except CheckpointCorruptedError as error:
        return listed._replace(damage=_told(error))


def _told(error: CheckpointCorruptedError) -> str:
    """What is damaged, and how, in one line."""
    place = error.run_id if error.seq is None else checkpoint_id(error.run_id, error.seq)
    return f"{place}: {error.reason}"


def _about(core: Core, head: Entry | None) -> RunInfo | None:
    return None if head is None or head.status == Status.DELETED else info_of(core, [head])[0]


def thread(core: Core, thread_id: str) -> list[RunInfo]:
    """The runs of a thread, the one opened last first."""
    name = thread_journal(check_id("thread_id", thread_id))
    found: dict[str, RunInfo] = {}
    with outages_named(name):
        for member in members(core.journals, thread_id):
            run_id = member.run
            info = None if run_id in found else run(core, run_id)
            if info is not None and info.thread_id == thread_id:
                found[run_id] = info
    return list(found.values())


def info_of(core: Core, heads: Sequence[Entry]) -> list[RunInfo]:
    """What the runs with these heads are doing."""
    store = core.journals.store
    return infos(core, [(store.row(head.run), head) for head in heads])


def infos(core: Core, found: Sequence[tuple[RunHead | None, Entry]]) -> list[RunInfo]:
    """What runs are doing, given what the index has of them and their heads.

    Where a head is about no step, such as a run's end, the last one is that of its state.
    """
    places = [
        (head.run, head.parent)
        for _, head in found
        if head.step is None and head.parent is not None and head.kind not in CARRY_STATE
    ]
    entries = core.journals.store.entries_at(places) if places else []
    steps = {entry.run: entry.step for entry in entries}
    return [run_info(head, row, head.step or steps.get(head.run)) for row, head in found]


def matching(
    status: str | Iterable[str] | None = None,
    flow: str | None = None,
    thread_id: str | None = None,
    owner: str | None = None,
    type_: str | None = None,
    labels: Mapping[str, str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    asking: bool = False,
    roots: bool = False,
    prefix: str = "",
) -> RunFilter:
    """Which runs are wanted, by what `runs` takes. Raises `ValueError` for what no run can have."""
    statuses = () if status is None else (status,) if isinstance(status, str) else tuple(status)
    for each in statuses:
        if each not in STATUSES:
            raise ValueError(f"status must be one of {', '.join(STATUSES)}, not {each!r}")
    for name, moment in (("since", since), ("until", until)):
        if not isinstance(moment, datetime | None):
            raise TypeError(f"{name} must be a datetime, not {moment!r}")
    one = statuses[0] if len(statuses) == 1 else None
    return RunFilter(
        status=one,
        flow=flow,
        thread=thread_id,
        owner=owner,
        type=type_,
        prefix=prefix,
        statuses=() if one else statuses,
        labels=tuple(_label(name, value) for name, value in (labels or {}).items()),
        since=None if since is None else to_micros(since),
        until=None if until is None else to_micros(until),
        asking=asking,
        roots=roots,
    )


STATUSES = tuple(status.value for status in Status if status != Status.DELETED)


def _label(name: Any, value: Any) -> str:
    found = label_text(name, value) if isinstance(name, str) and isinstance(value, str) else None
    if found is None:
        raise ValueError(f"no run can have the label {name!r}: {value!r}")
    return found


def _position(core: Core, after: str | None) -> Position | None:
    if not after:
        return None
    row = core.journals.store.row(check_id("run_id", after))
    if row is None:
        raise CheckpointNotFoundError(after)
    return row.position


def _pages(
    core: Core, where: RunFilter, before: Position | None, limit: int | None = None
) -> Iterator[list[tuple[RunHead, Entry]]]:
    while limit is None or limit > 0:
        wanted = PAGE if limit is None else min(limit, PAGE)
        page = core.journals.store.listed(where, before=before, limit=wanted)
        yield page
        if len(page) < wanted:
            return
        before = page[-1][0].position
        limit = None if limit is None else limit - wanted


def _iterate(core: Core, where: RunFilter, after: str | None) -> Pages[RunInfo]:
    with outages_named():
        for page in _pages(core, where, _position(core, after)):
            if page:
                yield infos(core, page)
