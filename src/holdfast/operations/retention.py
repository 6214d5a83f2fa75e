"""Applying retention: deletes old checkpoints and idle runs, some at a time. Blocks."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from holdfast.checkpoint import Checkpoint
from holdfast.errors import (
    CheckpointCorruptedError,
    CheckpointNotFoundError,
    HoldfastError,
    RunActiveError,
)
from holdfast.kernel.core import Core
from holdfast.kernel.reader import all_runs
from holdfast.logs import about, logger
from holdfast.model import Entry, Status, check_id
from holdfast.operations.children import family, parent_run
from holdfast.operations.deleting import choose, clear_family, drop, is_active
from holdfast.operations.private_files import make_directories, open_to_append
from holdfast.operations.transfer import export_run
from holdfast.operations.unfinished import is_unfinished
from holdfast.retention import Retention

log = logger()

BITE: Final = 500  # how many checkpoints or runs are taken at once
SWEEP_EVERY: Final = 1024  # saves of a checkpointer between two bites among all runs
UNFINISHED: Final = "unfinished"  # a thread of LangGraph's; it has no status that says so
_MICROSECOND: Final = timedelta(microseconds=1)
_LONGEST_NAME: Final = 200


class Swept(NamedTuple):
    """What retention deleted of a run, or would delete."""

    run_id: str
    checkpoints: int
    whole: bool  # the run itself went
    refused: str = ""  # the status of a run that needs what the policy would delete, or UNFINISHED


def apply_retention(core: Core) -> int:
    """Apply the retention policies to every run now; returns how many checkpoints went.

    A run that can't be read is skipped and logged.
    """
    if not core.settings.retention:
        return 0
    return sum(_apply(core, head, whole=True) for head in all_runs(core.journals.store))


def retain(core: Core, run_id: str, *, dry_run: bool = False) -> Swept:
    """Apply the policy for one run to it now; with `dry_run`, only say what would go."""
    head = core.journals.head(check_id("run_id", run_id))
    if head is None:
        raise CheckpointNotFoundError(run_id)
    return retain_behind(core, head, dry_run=dry_run)


def retain_behind(core: Core, head: Entry, *, dry_run: bool = False) -> Swept:
    """As `retain`, for a run that had this head a moment ago."""
    run_id = head.run
    policy = policy_of(core, head)
    if policy is None:
        return Swept(run_id, 0, whole=False)
    cleared = _clear_if_idle(core, head, policy, dry_run=dry_run)
    if cleared is not None:
        return Swept(run_id, cleared, whole=True)
    if _is_idle(core, head, policy) and is_unfinished(core, head):
        return Swept(run_id, 0, whole=False, refused=UNFINISHED)
    try:
        return Swept(run_id, _thin(core, run_id, policy, whole=True, dry_run=dry_run), whole=False)
    except RunActiveError as error:
        return Swept(run_id, 0, whole=False, refused=error.status)


def sweep(core: Core) -> None:
    """Apply the retention policies to the next few runs, as part of a save."""
    heads = core.journals.store.runs(after=core.swept_to, limit=BITE)
    for head in heads:
        _apply(core, head, whole=False)
    core.swept_to = heads[-1].run if len(heads) == BITE else ""


def after_run(core: Core, run_id: str, entries: int) -> None:
    """Apply a bit of retention after an engine ended a run that it appended so many entries to."""
    core.saves_since_sweep += entries
    try:
        if any(policy.thins_runs for policy in core.settings.retention):
            thin(core, run_id)
        if core.saves_since_sweep >= SWEEP_EVERY:
            core.saves_since_sweep = 0
            sweep(core)
    except (HoldfastError, OSError) as error:  # the run itself is durable
        log.warning("retention could not be applied: %s", error, extra=about(run_id))


def thin(core: Core, run_id: str) -> int:
    """Delete what its policy does not keep among the newest checkpoints of a run."""
    head = core.journals.head(run_id)
    policy = None if head is None else policy_of(core, head)
    return 0 if policy is None else _thin_if_over(core, run_id, policy, whole=False)


def policy_of(core: Core, head: Entry) -> Retention | None:
    """The policy for a run: the first that matches it, or the run that it belongs to."""
    policies = core.settings.retention
    if policies and not policies[0].matches_all:
        run = head.run
        while (above := parent_run(core, run)) is not None:
            run = above
        if run != head.run:
            head = core.journals.head(run) or head
    return next((policy for policy in policies if policy.matches(head)), None)


def _thin_if_over(core: Core, run_id: str, policy: Retention, *, whole: bool) -> int:
    try:
        return _thin(core, run_id, policy, whole=whole)
    except RunActiveError:
        return 0


def _thin(core: Core, run_id: str, policy: Retention, *, whole: bool, dry_run: bool = False) -> int:
    """Delete single checkpoints of one run: of its newest entries, or of the whole of it.

    Raises `RunActiveError` for a run that needs what would go.
    """
    if not policy.thins_runs:
        return 0
    before = None if policy.max_age is None else _ago(core, policy.max_age)
    keep = policy.keep_latest or 1
    unloadable: set[int] = set()

    def beyond_policy(live: list[Entry], branch: list[int]) -> list[int]:
        chosen = choose(live, branch, before=before, keep_latest=keep)
        gone = [seq for seq in chosen if seq not in unloadable]
        return gone if whole else gone[-BITE:]

    while True:
        try:
            newest = None if whole else keep + 2 * BITE
            return drop(
                core, run_id, beyond_policy, force=False, newest=newest, dry_run=dry_run,
                before=partial(_archive, core, policy),
            )  # fmt: skip
        except CheckpointNotFoundError:
            return 0
        except _NotArchivedError as error:
            log.warning(
                "retention keeps what can't be archived of run %s: %s",
                run_id,
                error.why,
                extra=about(run_id),
            )
            unloadable |= error.seqs


def _apply(core: Core, head: Entry, *, whole: bool) -> int:
    try:
        policy = policy_of(core, head)
        if policy is None:
            return 0
        cleared = _clear_if_idle(core, head, policy)
        if cleared is not None:
            return cleared
        return _thin_if_over(core, head.run, policy, whole=whole)
    except HoldfastError as error:
        log.warning("retention skipped run %s: %s", head.run, error, extra=about(head.run))
        return 0


def _clear_if_idle(
    core: Core, head: Entry, policy: Retention, *, dry_run: bool = False
) -> int | None:
    """Clear a run that nothing was saved to for long, nor to its child runs; else return None.

    A child run goes with its parent, never before it. A thread of LangGraph's that waits for an
    answer, or has nodes to execute, stays.
    """
    if policy.run_ttl is None:
        return None
    outermost = head.run

    def idle(head: Entry) -> bool:
        if head.run == outermost and policy_of(core, head) is not policy:
            return False  # it was resumed meanwhile, and ended otherwise
        return _is_idle(core, head, policy) and not is_unfinished(core, head)

    if not idle(head) or parent_run(core, head.run) is not None:
        return None
    if dry_run:
        heads = family(core, head.run)
        counts = (core.journals.store.stats(found.run).checkpoints for found in heads)
        return sum(counts) if all(map(idle, heads)) else None
    written: dict[str, list[Path]] = {}

    def archive(heads: list[Entry]) -> None:
        if policy.archive is None:
            return
        directory = _archive_directory(policy.archive)
        for found in heads:
            path = directory / f"{Path(archive_name(found.run)).stem}@{found.seq}.jsonl"
            written.setdefault(found.run, []).append(path)
            export_run(core, found.run, path)
        _make_durable(directory)

    cleared = clear_family(core, head.run, idle, archive)
    for run, paths in written.items():
        left = core.journals.head(run)
        is_gone = left is None or left.status == Status.DELETED
        for path in paths[:-1] if is_gone else paths:
            path.unlink(missing_ok=True)  # someone saved to it meanwhile
    if cleared:
        return cleared
    left = core.journals.head(outermost)
    return 0 if left is None or left.status == Status.DELETED else None


def _is_idle(core: Core, head: Entry, policy: Retention) -> bool:
    """Whether nothing was saved to a run for so long that the policy deletes it."""
    if policy.run_ttl is None:
        return False
    return not is_active(head) and head.at < _ago(core, policy.run_ttl)


def _ago(core: Core, age: timedelta) -> int:
    return core.journals.clock.now() - age // _MICROSECOND


class _NotArchivedError(Exception):
    """Some checkpoints can't be loaded; nothing was added to the archive."""

    def __init__(self, seqs: set[int], why: CheckpointCorruptedError) -> None:
        super().__init__(seqs, why)
        self.seqs, self.why = seqs, why


def _archive(core: Core, policy: Retention, entries: list[Entry]) -> None:
    """Write single checkpoints to the archive, durably, before they are deleted.

    All of them, or none: then it raises `_NotArchivedError`.
    """
    if policy.archive is None or not entries:
        return
    directory = _archive_directory(policy.archive)
    path = directory / archive_name(entries[0].run)
    with open_to_append(path) as file:
        if file.tell() and not path.read_bytes().endswith(b"\n"):
            file.write(b"\n")  # a crash cut the last line; it must not swallow this one
        begins = file.tell()
        lost: set[int] = set()
        why = None
        for entry in entries:
            try:
                encoding = core.journals.chain(entry.run, entry.seq).encoding
            except CheckpointCorruptedError as error:
                lost.add(entry.seq)
                why = why or error
                continue
            document = Checkpoint(entry, encoding, core.journals.decode_data).to_dict()
            file.write(json.dumps(document).encode() + b"\n")
        if why is not None:
            file.truncate(begins)
            raise _NotArchivedError(lost, why)
        file.flush()
        os.fsync(file.fileno())
    _make_durable(directory)


def _archive_directory(where: str | os.PathLike[str]) -> Path:
    directory = Path(where)
    make_directories(directory)
    return directory


def _make_durable(directory: Path) -> None:
    for place in (directory, directory.absolute().parent):
        opened = os.open(place, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def archive_name(run: str) -> str:
    """The file in the archive that a run's checkpoints go to."""
    name = quote(run, safe="")
    if len(name) > _LONGEST_NAME:
        name = f"{name[:100]}~{hashlib.sha256(run.encode()).hexdigest()}"
    return f"{name}.jsonl"
