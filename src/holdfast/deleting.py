"""Letting go: delete, prune, clear and retention. Everything here blocks.

Whatever is deleted, two things stay whole. A delta whose base goes is rewritten as a keyframe in
the same transaction, and every deleted entry leaves a stub that keeps its place in the chain. The
marker appended at the head is the fence: whoever saved meanwhile makes the whole attempt void.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote

from holdfast.checkpoint import Checkpoint, dump_meta, to_micros
from holdfast.codec import envelope
from holdfast.core import Core
from holdfast.errors import (
    CheckpointNotFoundError,
    CheckpointSaveError,
    HoldfastError,
    RunActiveError,
    StoreUnavailableError,
)
from holdfast.journal import CARRY_STATE, Draft, Tip
from holdfast.model import (
    Entry,
    Kind,
    Status,
    check_id,
    split_checkpoint_id,
    thread_journal,
    verdict_journal,
)
from holdfast.model import (
    checkpoint_id as name_checkpoint,
)
from holdfast.retention import choose
from holdfast.store import RunFilter

BITE: Final = 500  # how many checkpoints or runs automatic retention takes at once
_PAUSE: Final = 0.02
_LONGEST_NAME: Final = 200
_MICROSECOND: Final = timedelta(microseconds=1)
_ACTIVE: Final = (Status.RUNNING.value, Status.PAUSED.value)


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
    if checkpoint_id is None:
        assert seq is not None
        run, place, name = run_id, seq, name_checkpoint(run_id, seq)
    else:
        (run, place), name = split_checkpoint_id(checkpoint_id), checkpoint_id
    if run != run_id:
        raise CheckpointNotFoundError(run_id, name)

    def only_this(live: list[Entry], branch: list[int]) -> list[int]:
        if not any(entry.seq == place for entry in live):
            raise CheckpointNotFoundError(run_id, name)
        return [place]

    return _drop(core, run_id, only_this, force)


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
    return _drop(
        core,
        run_id,
        lambda live, branch: choose(live, branch, before=limit, keep_latest=keep_latest),
        force,
    )


def clear(core: Core, run_id: str, *, force: bool = False) -> int:
    """Delete a run and all that stands beside it; returns how many checkpoints went.

    Deleted stays deleted: whoever still builds on the run finds out. A plain `save` to the id
    begins a new run after the old one. Raises `RunActiveError` on a live or paused run unless
    forced.
    """
    check_id("run_id", run_id)

    def attempt() -> int | None:
        head = core.journals.head(run_id)
        if head is None or head.status == Status.DELETED:
            return 0
        _refuse_if_active(head, force)
        count = core.journals.store.stats(run_id).checkpoints
        return count if _erase(core, head) else None

    count = _until_it_holds(core, run_id, attempt)
    beside = core.journals.head(verdict_journal(run_id))
    if beside is not None and beside.status != Status.DELETED:
        _until_it_holds(core, beside.run, lambda: _erased(core, beside.run))
    return count


def delete_thread(core: Core, thread_id: str, *, force: bool = False) -> int:
    """Delete every run of a thread, and the thread; returns how many checkpoints went.

    Raises `RunActiveError` before anything is deleted if one of its runs is live or paused,
    unless forced.
    """
    check_id("thread_id", thread_id)
    store = core.journals.store
    heads: list[Entry] = []
    while page := store.runs(RunFilter(thread=thread_id), after=heads[-1].run if heads else ""):
        heads += page
    for head in heads:
        _refuse_if_active(head, force)
    count = sum(clear(core, head.run, force=force) for head in heads)
    name = thread_journal(thread_id)
    if core.journals.head(name) is not None:
        _until_it_holds(core, name, lambda: _erased(core, name))
    return count


def apply_retention(core: Core) -> int:
    """Apply the retention policy to every run now; returns how many checkpoints went."""
    count = 0
    core.swept_to = ""
    while True:
        count += sweep(core)
        if not core.swept_to:
            return count


def sweep(core: Core) -> int:
    """Apply the retention policy to the next few runs; the bite automatic retention takes."""
    policy = core.settings.retention
    if policy is None:
        return 0
    heads = core.journals.store.runs(after=core.swept_to, limit=BITE)
    core.swept_to = heads[-1].run if len(heads) == BITE else ""
    count = 0
    for head in heads:
        if head.status in _ACTIVE:
            continue
        ttl = policy.run_ttl
        if ttl is not None and head.at < core.journals.clock.now() - ttl // _MICROSECOND:
            if policy.archive is not None:
                _archive(core, [e for e in core.journals.entries(head.run) if _is_live(e)])
            count += clear(core, head.run)
        else:
            count += thin(core, head.run)
    return count


def thin(core: Core, run_id: str) -> int:
    """Apply the retention policy to one run, a bite at the most."""
    policy = core.settings.retention
    if policy is None or not policy.thins_runs:
        return 0
    now = core.journals.clock.now()
    before = None if policy.max_age is None else now - policy.max_age // _MICROSECOND

    def beyond_policy(live: list[Entry], branch: list[int]) -> list[int]:
        gone = choose(live, branch, before=before, keep_latest=policy.keep_latest or 1)[:BITE]
        if policy.archive is not None:
            _archive(core, [entry for entry in live if entry.seq in set(gone)])
        return gone

    try:
        return _drop(core, run_id, beyond_policy, force=False)
    except (RunActiveError, CheckpointNotFoundError):
        return 0


Chooser = Callable[[list[Entry], list[int]], list[int]]


def _drop(core: Core, run: str, chooser: Chooser, force: bool) -> int:
    """Turn the chosen checkpoints into stubs, all or nothing."""
    check_id("run_id", run)

    def attempt() -> int | None:
        head = core.journals.head(run)
        if head is None or head.status == Status.DELETED:
            raise CheckpointNotFoundError(run)
        _refuse_if_active(head, force)
        live = [entry for entry in core.journals.entries(run) if _is_live(entry)]
        branch = [entry.seq for entry in core.journals.branch(run)]
        gone = set(chooser(live, branch))
        if not gone:
            return 0
        if len(gone) == len(live):
            return len(gone) if _erase(core, head) else None
        tip = Tip(run, head)
        if tip.state_seq in gone:
            left = next((entry for entry in by_seq(live, branch) if entry.seq not in gone), None)
            draft = Draft(
                Kind.TOMBSTONE.value,
                head.status,
                parent=left.seq if left else None,
                step=left.step if left else None,
                type=left.type if left else None,
            )
        else:
            draft = Draft(Kind.TRIM.value, head.status, step=head.step, type=head.type)
        marker = core.journals.place(tip, draft)
        done = core.journals.store.trim(marker, rewrite=_rewrites(core, live, gone), drop=gone)
        core.journals.forget(run)
        return len(gone) if done else None

    return _until_it_holds(core, run, attempt)


def _rewrites(core: Core, live: list[Entry], gone: Collection[int]) -> dict[int, bytes]:
    """New bodies for the checkpoints that stay but are stored as changes to one that goes."""
    rewrites = {}
    for entry in live:
        if entry.seq in gone or entry.parent not in gone:
            continue
        chain = core.journals.chain(entry.run, entry.seq)
        if chain.links:
            rewrites[entry.seq] = envelope.reseal(entry, *envelope.keyframe(chain.encoding))
    return rewrites


def _erased(core: Core, name: str) -> int | None:
    return 0 if _erase(core, core.journals.head(name)) else None


def _erase(core: Core, head: Entry | None) -> bool:
    """Put a tombstone behind the head and remove everything before it; False if the head moved."""
    if head is None:
        return True
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
    return done


def _until_it_holds(core: Core, run: str, attempt: Callable[[], int | None]) -> int:
    """Try again while others keep saving to the run in between."""
    clock = core.journals.clock
    deadline = clock.monotonic() + core.settings.deadline
    while True:
        reason: str | HoldfastError = "others kept saving to it until the deadline"
        try:
            count = attempt()
        except StoreUnavailableError as error:
            count, reason = None, error
            time.sleep(_PAUSE)
        if count is not None:
            return count
        if clock.monotonic() > deadline:
            cause = reason if isinstance(reason, HoldfastError) else None
            raise CheckpointSaveError(run, f"nothing was deleted: {reason}") from cause


def archive_name(run: str) -> str:
    """The file in the archive that a run's checkpoints go to."""
    name = quote(run, safe="")
    if len(name) > _LONGEST_NAME:
        name = f"{name[:100]}~{hashlib.sha256(run.encode()).hexdigest()}"
    return f"{name}.jsonl"


def by_seq(entries: list[Entry], seqs: list[int]) -> list[Entry]:
    """The entries at these seqs, in the order of the seqs."""
    found = {entry.seq: entry for entry in entries}
    return [found[seq] for seq in seqs if seq in found]


def _refuse_if_active(head: Entry, force: bool) -> None:
    if head.status in _ACTIVE and not force:
        raise RunActiveError(head.run, head.status)


def _is_live(entry: Entry) -> bool:
    return entry.kind in CARRY_STATE and entry.status != Status.DELETED


def _archive(core: Core, entries: list[Entry]) -> None:
    """Write checkpoints to the archive, durably, before they are deleted."""
    policy = core.settings.retention
    if policy is None or policy.archive is None or not entries:
        return
    directory = Path(policy.archive)
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / archive_name(entries[0].run)).open("a", encoding="utf-8") as file:
        for entry in entries:
            encoding = core.journals.chain(entry.run, entry.seq).encoding
            file.write(
                json.dumps(Checkpoint(entry, encoding, core.journals.decode).to_dict()) + "\n"
            )
        file.flush()
        os.fsync(file.fileno())
