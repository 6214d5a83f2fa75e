"""Runs in lists: what each is doing, in a word and as a document."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import RunInfo, to_micros
from holdfast.checkpointer import SyncCheckpointer
from holdfast.engine.resume.activity import activity_of
from holdfast.errors import CheckpointCorruptedError, KeyMissingError
from holdfast.errors.base import closest, meant, one_line
from holdfast.heads import Position
from holdfast.model import Status, checkpoint_id
from holdfast.operations.listing import page_of_runs, proved
from holdfast.store import RunFilter
from holdfast.views.errors import NoRunError, NotFoundError

ORPHANED: Final = "orphaned"
"""Shown instead of the status of a run that is running, and that nobody executes."""

ANSWERED: Final = "answered"
"""Shown instead of the status of a run that waited for an answer, has it, and is not resumed yet."""

UNDER_WAY: Final = (Status.RUNNING.value, ORPHANED, ANSWERED)
"""What a run is shown as, and listed under, whose recorded status is `running`."""

_NEAR: Final = 300  # runs or steps whose names are compared with one that is wrong
_ALIKE: Final = 3  # characters at the beginning of an id that are mostly right

DAMAGED: Final = "damaged"
"""Shown instead of the status of a run whose newest entry is not proved."""

Find = Callable[[SyncCheckpointer, str], RunInfo]
"""From what somebody gave as the id of a run to the run."""


def doing(cp: SyncCheckpointer, run: RunInfo) -> tuple[str, dict[str, Any]]:
    """The status to show for a run, and the facts behind it for JSON, as `Activity` has them."""
    if run.damage:
        return DAMAGED, {}
    try:
        found = activity_of(cp.core, run)
    except (CheckpointCorruptedError, KeyMissingError):  # `show` and `verify` report it
        return run.status, {}
    word = ORPHANED if found.orphaned else ANSWERED if found.answered else run.status
    return word, found._asdict()


def document(cp: SyncCheckpointer, run: RunInfo) -> dict[str, Any]:
    """A run as `holdfast runs --json` has it."""
    return run._asdict() | doing(cp, run)[1]


class Page(NamedTuple):
    """Some of the runs that match, the last started first."""

    runs: list[RunInfo]
    last: Position | None  # where the next page begins behind; None if this is the last one


def page(
    cp: SyncCheckpointer,
    where: RunFilter,
    *,
    behind: Position | None = None,
    limit: int,
    statuses: Collection[str] = (),
) -> Page:
    """A page of the runs that match, proved. What others add or delete meanwhile moves no run.

    With `statuses`, only runs that are shown with one of these.
    """
    found: list[RunInfo] = []
    more = True
    while more and len(found) <= limit:
        read = page_of_runs(cp.core, where, behind=behind, limit=limit + 1)
        found += [run for run in read if is_listed(cp, run, statuses)]
        more = len(read) > limit
        behind = place_of(read[-1]) if read else behind
    last = place_of(found[limit - 1]) if len(found) > limit else None
    return Page(proved(cp.core, found[:limit]), last)


def recorded(statuses: Collection[str]) -> list[str]:
    """The statuses that a store knows, given those that are shown."""
    words = (Status.RUNNING.value if one in UNDER_WAY else one for one in statuses)
    return list(dict.fromkeys(words))


def is_listed(cp: SyncCheckpointer, run: RunInfo, statuses: Collection[str]) -> bool:
    """Whether a run with one of these recorded statuses is shown with one of them."""
    if run.status != Status.RUNNING or tells_nothing_apart(statuses):
        return True
    word = doing(cp, run)[0]
    return (word if word in UNDER_WAY else run.status) in statuses


def tells_nothing_apart(statuses: Collection[str]) -> bool:
    """Whether the recorded statuses decide alone which runs are listed under these."""
    return len({*UNDER_WAY}.intersection(statuses)) in (0, len(UNDER_WAY))


def place_of(run: RunInfo) -> Position:
    """Where a run is in lists."""
    return to_micros(run.started_at), run.run_id


def has_died(word: str, facts: Mapping[str, Any]) -> bool:
    """Whether the process of a run is dead, given what `doing` found. One that left it is not."""
    return word == ORPHANED and facts.get("holder") not in (None, "unknown")


def nobody(holder: str | None) -> str:
    """Why nobody executes an orphaned run, given the process that did."""
    if holder is None or holder == "unknown":
        return "nobody executes it"
    return f"its process {one_line(holder)} is dead"


def of_id(cp: SyncCheckpointer, run_id: str) -> RunInfo:
    """The run of exactly this id. Raises `NoRunError`."""
    found = cp.run(run_id)
    if found is None:
        raise NoRunError(run_id, cp.store.url, meant_by(cp, run_id))
    return found


def meant_by(cp: SyncCheckpointer, text: str) -> str | None:
    """The id of the run that may have been meant: a new one, or one that begins alike."""
    near = cp.runs(limit=_NEAR)
    for begin in dict.fromkeys((text, text.lower(), text.upper())):
        near += cp.runs(prefix=begin[:_ALIKE], limit=_NEAR)
    return closest(text, dict.fromkeys(run.run_id for run in near))


def find_place(cp: SyncCheckpointer, run: str, where: str, find: Find = of_id) -> str:
    """The id of a checkpoint, given by seq, as RUN@SEQ, or by the step it was saved after.

    Raises `NotFoundError` if the run has no such step; there may be no checkpoint at a seq.
    """
    if where.isascii() and where.isdigit() and len(where) <= 18:
        return checkpoint_id(run, int(where))
    other, _, seq = where.rpartition("@")
    if other and seq.isascii() and seq.isdigit() and len(seq) <= 18:
        return checkpoint_id(find(cp, other).run_id, int(seq))
    newest = cp.list_checkpoints(run, step=where, limit=1)
    if not newest:
        steps = {one.step for one in cp.list_checkpoints(run, limit=_NEAR) if one.step}
        lead = meant(where, steps) or "; give a seq, RUN@SEQ or the name of a step"
        raise NotFoundError(f"run {run!r} has no checkpoint {where!r}{lead}")
    return newest[0].checkpoint_id
