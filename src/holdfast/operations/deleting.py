"""Deleting: delete, prune, clear, and what retention uses. Everything here blocks.

Whatever is deleted, two things stay whole. A delta whose base goes is rewritten as a keyframe in
the same transaction, and every deleted entry leaves a stub that keeps its place in the chain. The
marker appended at the head is the fence: if anyone saved meanwhile, nothing is deleted and the
attempt starts over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import islice
from typing import Final

from holdfast.checkpoint import to_micros
from holdfast.codec.meta import dump_meta
from holdfast.errors import (
    CheckpointCorruptedError,
    CheckpointNotFoundError,
    CheckpointSaveError,
    HoldfastError,
    RunActiveError,
    StoreUnavailableError,
)
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.kernel.entries import is_live
from holdfast.kernel.tip import Tip
from holdfast.model import (
    HIDDEN,
    Entry,
    Kind,
    Status,
    check_id,
    split_checkpoint_id,
    thread_journal,
    verdict_journal,
)
from holdfast.operations.children import family, head_to_delete, runs_of_thread
from holdfast.operations.dropping import (
    Seen,
    aliases_of,
    is_damaged,
    leads_to,
    refuse_if_unproved,
    steps_of,
    write_stubs,
)
from holdfast.store import PAGE

_PAUSE: Final = 0.02
FORCE: Final = "wait for it to end, or pass force=True to delete it anyway"


def delete(
    core: Core,
    run_id: str,
    checkpoint_id: str | None = None,
    *,
    seq: int | None = None,
    force: bool = False,
) -> int:
    """Delete one checkpoint, by id or seq; returns 1. If it was the current one, the one it was
    built on is.

    Raises `CheckpointNotFoundError`, and `RunActiveError` on a live or paused run unless forced.
    """
    if (checkpoint_id is None) == (seq is None):
        raise ValueError("delete needs a checkpoint_id or seq=; to delete everything, use clear")
    run, place = (run_id, seq) if checkpoint_id is None else split_checkpoint_id(checkpoint_id)
    missing = CheckpointNotFoundError(run_id, checkpoint_id or f"{run_id}@{seq}")
    if run != run_id:
        raise missing

    def only_this(live: list[Entry], branch: list[int]) -> list[int]:
        found = [entry.seq for entry in live if entry.seq == place]
        if not found:
            raise missing
        return found

    return drop(core, run_id, only_this, force, bad=place)


def prune(
    core: Core,
    run_id: str,
    *,
    before: datetime | None = None,
    keep_latest: int | None = None,
    force: bool = False,
) -> int:
    """Delete the checkpoints older than `before` and beyond the newest `keep_latest`.

    Give either or both; returns how many went. Naive datetimes are local time. Raises
    `CheckpointNotFoundError` for an unknown run, and `RunActiveError` on a live or paused run
    unless forced.
    """
    if before is None and keep_latest is None:
        raise ValueError(
            "prune needs before=, keep_latest= or both; to delete everything, use clear"
        )
    if keep_latest is not None and keep_latest < 0:
        raise ValueError(f"keep_latest can't be {keep_latest}")
    if before is not None and not isinstance(before, datetime):
        raise TypeError(f"before must be a datetime, not {type(before).__name__}")
    limit = None if before is None else to_micros(before)
    return drop(
        core,
        run_id,
        lambda live, branch: choose(live, branch, before=limit, keep_latest=keep_latest),
        force,
    )


def clear(core: Core, run_id: str, *, force: bool = False) -> int:
    """Delete a run with its child runs and verdicts; returns how many checkpoints were deleted.

    It stays deleted: a worker that still holds the run loses it. A plain `save` to the id begins
    a new run after the old one. Raises `RunActiveError` before anything is deleted if the run or
    one of its child runs is live or paused, unless forced. The child runs go first: where this is
    interrupted, the run is still there, and clearing it again deletes the rest.
    """
    check_id("run_id", run_id)
    return clear_family(core, run_id, lambda head: refuse_if_active(head, force))


def clear_family(
    core: Core,
    run_id: str,
    condition: Callable[[Entry], bool],
    before: Callable[[list[Entry]], object] = lambda _: None,
) -> int:
    """Clear a run and its child runs if all of their heads meet the condition; else return 0.

    `before` is called with the heads of the runs that are about to go, each time that is tried.
    """
    gone = 0

    def attempt() -> int | None:
        nonlocal gone
        heads = family(core, run_id)
        if not all(map(condition, heads)):
            return gone
        before(heads)
        for head in heads:
            count = _count(core, head.run)
            if not _erase(core, head):
                return None
            gone += count
        return gone

    return until_done(core, run_id, attempt)


def clear_if(core: Core, run_id: str, condition: Callable[[Entry], bool]) -> int:
    """Clear one journal, if its head still meets the condition at that very moment; else return 0."""

    def attempt() -> int | None:
        head = head_to_delete(core, run_id)
        if head is None or head.status == Status.DELETED or not condition(head):
            return 0
        count = _count(core, run_id)
        return count if _erase(core, head) else None

    return until_done(core, run_id, attempt)


def delete_thread(core: Core, thread_id: str, *, force: bool = False) -> int:
    """Delete every run of a thread, and the thread; returns how many checkpoints went.

    A LangGraph thread with the id is one of these, with all of its namespaces. Their child runs go with them. Raises `RunActiveError` before anything is deleted if one of
    these runs is live or paused, unless forced.
    """
    check_id("thread_id", thread_id)
    return clear_thread(core, thread_id, lambda head: refuse_if_active(head, force))


def clear_thread(core: Core, thread_id: str, condition: Callable[[Entry], bool]) -> int:
    """Clear the runs of a thread, and the thread, if the condition raises for none of their heads.

    So are runs that begin meanwhile: what is left is nothing, or an error.
    """
    count = 0
    while not clear_empty_thread(core, thread_id):
        runs = runs_of_thread(core, thread_id)
        for run in runs:
            for head in family(core, run):
                condition(head)
        count += sum(clear_family(core, run, condition) for run in runs)
    return count


def clear_empty_thread(core: Core, thread_id: str) -> bool:
    """Delete the list of a thread's runs; False if it has some, or one begins meanwhile."""
    name = thread_journal(thread_id)
    listed = head_to_delete(core, name)  # a run is listed before it begins
    if any(family(core, run) for run in runs_of_thread(core, thread_id)):
        return False
    if listed is None or listed.status == Status.DELETED:
        return True
    clear_if(core, name, lambda head: head.digest == listed.digest)
    left = head_to_delete(core, name)
    return left is None or left.status == Status.DELETED or left.digest == listed.digest


Chooser = Callable[[list[Entry], list[int]], list[int]]


def drop(
    core: Core,
    run: str,
    chooser: Chooser,
    force: bool,
    *,
    newest: int | None = None,
    dry_run: bool = False,
    before: Callable[[list[Entry]], object] = lambda _: None,
    bad: int | None = None,
) -> int:
    """Turn the chosen checkpoints into stubs, all or nothing; with `dry_run`, only count them.

    With `newest`, only so many of the run's newest entries are looked at. `before` is called with
    those that are about to go, each time that is tried. Damaged ones stay: they are to be seen.
    Only if the entry at the seq `bad` is damaged, it goes, and nothing else.
    """
    check_id("run_id", run)

    def attempt() -> int | None:
        seen = _look(core, run, force, newest)
        broken = bad if bad is not None and is_damaged(core, run, bad) else None
        refuse_if_unproved(core, seen, broken)
        gone = set(chooser(seen.sound, seen.branch)) if broken is None else {broken}
        if not gone:
            return 0
        going = [entry for entry in seen.found if entry.seq in gone]
        _refuse_if_needed(seen.head, going, force)
        if not dry_run:
            before(going)
        waiting, begun = steps_of(seen.found, seen.sound, gone)
        all_of_it = len(gone) == len(seen.sound) and newest is None
        if all_of_it and not waiting and not seen.damaged:
            return _drop_whole(core, seen.head, force, dry_run)
        if dry_run or write_stubs(core, seen, gone, begun, past_damage=bad in gone):
            return len(gone)
        return None

    return until_done(core, run, attempt)


def _look(core: Core, run: str, force: bool, newest: int | None) -> Seen:
    """The run as it is. Raises `CheckpointNotFoundError` if there is nothing, and `RunActiveError`."""
    head = head_to_delete(core, run)
    if head is None or head.status == Status.DELETED:
        raise CheckpointNotFoundError(run)
    refuse_if_active(head, force)
    damaged: dict[int | None, CheckpointCorruptedError] = {}

    def keep(error: CheckpointCorruptedError) -> None:
        damaged.setdefault(error.seq, error)

    page = PAGE if newest is None else min(newest, PAGE)
    entries = core.journals.entries(run, newest_first=True, page=page, damage=keep)
    found = list(islice(entries, newest))
    live = [entry for entry in found if is_live(entry)][::-1]
    after = live[0].seq - 1 if live and newest is not None else -1
    branch = [entry.seq for entry in core.journals.branch(run, keep, after=after)]
    sound = [entry for entry in live if entry.seq not in damaged]
    return Seen(head, found, sound, branch, damaged)


def _drop_whole(core: Core, head: Entry, force: bool, dry_run: bool) -> int | None:
    """Delete a run of which nothing is to stay, with its child runs; None if its head moved."""
    heads = family(core, head.run)
    if not heads or heads[-1].digest != head.digest:
        return None
    for found in heads:
        refuse_if_active(found, force)
    count = sum(_count(core, found.run) for found in heads)
    return count if dry_run or all(_erase(core, found) for found in heads) else None


def _erase(core: Core, head: Entry) -> bool:
    """Put a tombstone behind the head and remove everything before it; False if the head moved.

    Verdicts and aliases go first: if a crash comes in between, the run can be deleted again.
    """
    if not head.run.startswith(HIDDEN):
        clear_if(core, verdict_journal(head.run), lambda head: True)
        for alias in aliases_of(core, head):
            clear_if(core, alias, lambda head, run=head.run: leads_to(run, head))  # type: ignore[misc]
    tip = Tip(head.run, head)
    tip.flow = tip.thread = tip.owner = None  # a tombstone tells nothing about whose run it was
    draft = Draft(
        Kind.TOMBSTONE.value,
        Status.DELETED.value,
        parent=None,
        meta=dump_meta({"after": tip.digest.hex()}),
    )
    done = core.journals.store.erase(core.journals.place(tip, draft))
    core.journals.forget(head.run)
    core.withholding.forget(head.run)
    return done


def _count(core: Core, run: str) -> int:
    try:
        return core.journals.store.stats(run).checkpoints
    except CheckpointCorruptedError:
        return 1  # at least the one that can't be read


def until_done(core: Core, run: str, attempt: Callable[[], int | None]) -> int:
    """Try again while others keep saving to the run in between, or the store is unavailable."""
    clock = core.journals.clock
    deadline = clock.monotonic() + core.settings.deadline
    while True:
        trouble: HoldfastError | None = None
        try:
            count = core.journals.undisturbed(run, attempt)
            if count is not None:
                return count
        except StoreUnavailableError as error:
            trouble = error
            time.sleep(_PAUSE)
        if clock.monotonic() > deadline:
            reason = trouble or "others kept saving to it until the deadline"
            raise CheckpointSaveError(run, f"nothing was deleted: {reason}") from trouble


def is_active(head: Entry) -> bool:
    """Whether the run is live, paused or still to be executed."""
    return head.status in (Status.RUNNING, Status.PAUSED, Status.SUBMITTED)


def refuse_if_active(head: Entry, force: bool) -> bool:
    """True. Raises `RunActiveError` for a run that is live or paused, unless forced."""
    if is_active(head) and not force:
        raise RunActiveError(head.run, head.status, advice=FORCE)
    return True


def _refuse_if_needed(head: Entry, gone: list[Entry], force: bool) -> None:
    """A run that records results needs every one of them until it is over."""
    over = head.status in (Status.COMPLETED, Status.CANCELLED)
    if not over and not force and any(entry.kind == Kind.RESULT for entry in gone):
        raise RunActiveError(head.run, head.status, advice=FORCE)


def choose(
    live: Iterable[Entry], branch: list[int], *, before: int | None, keep_latest: int | None
) -> list[int]:
    """The seqs to delete: beyond the newest `keep_latest` and older than `before` (microseconds).

    `branch` lists the seqs that lead to the current state, newest first. Checkpoints that a
    rollback left behind are not on it, and never count as the newest.
    """
    kept = set(branch[: keep_latest or 0])
    return [e.seq for e in live if e.seq not in kept and (before is None or e.at < before)]
