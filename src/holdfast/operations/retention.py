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

log = logger()

BITE: Final = 500  # how many checkpoints or runs are taken at once
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
    """Apply the retention policy to every run now; returns how many checkpoints went.

    A run that can't be read is skipped and logged.
    """
    if core.settings.retention is None:
        return 0
    return sum(_apply(core, head, whole=True) for head in all_runs(core.journals.store))


def retain(core: Core, run_id: str, *, dry_run: bool = False) -> Swept:
    """Apply the retention policy to one run now; with `dry_run`, only say what would go."""
    head = core.journals.head(check_id("run_id", run_id))
    if head is None:
        raise CheckpointNotFoundError(run_id)
    cleared = _clear_if_idle(core, head, dry_run=dry_run)
    if cleared:
        return Swept(run_id, cleared, whole=True)
    if _is_idle(core, head) and is_unfinished(core, head):
        return Swept(run_id, 0, whole=False, refused=UNFINISHED)
    try:
        return Swept(run_id, _thin(core, run_id, whole=True, dry_run=dry_run), whole=False)
    except RunActiveError as error:
        return Swept(run_id, 0, whole=False, refused=error.status)


def sweep(core: Core) -> None:
    """Apply the retention policy to the next few runs, as part of a save."""
    heads = core.journals.store.runs(after=core.swept_to, limit=BITE)
    for head in heads:
        _apply(core, head, whole=False)
    core.swept_to = heads[-1].run if len(heads) == BITE else ""


def thin(core: Core, run_id: str, *, whole: bool = False) -> int:
    """Apply the retention policy to one run: to its newest entries, or to the whole of it."""
    try:
        return _thin(core, run_id, whole=whole)
    except RunActiveError:
        return 0


def _thin(core: Core, run_id: str, *, whole: bool, dry_run: bool = False) -> int:
    """As `thin`. Raises `RunActiveError` for a run that needs what would go."""
    policy = core.settings.retention
    if policy is None or not policy.thins_runs:
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
                before=partial(_archive, core),
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
        return _clear_if_idle(core, head) or thin(core, head.run, whole=whole)
    except HoldfastError as error:
        log.warning("retention skipped run %s: %s", head.run, error, extra=about(head.run))
        return 0


def _clear_if_idle(core: Core, head: Entry, *, dry_run: bool = False) -> int:
    """Clear a run that nothing was saved to for long, nor to its child runs; else return 0.

    A child run goes with its parent, never before it. A thread of LangGraph's that waits for an
    answer, or has nodes to execute, stays.
    """
    policy = core.settings.retention
    if policy is None or policy.run_ttl is None:
        return 0

    def idle(head: Entry) -> bool:
        return _is_idle(core, head) and not is_unfinished(core, head)

    if not idle(head) or parent_run(core, head.run) is not None:
        return 0
    if dry_run:
        heads = family(core, head.run)
        counts = (core.journals.store.stats(found.run).checkpoints for found in heads)
        return sum(counts) if all(map(idle, heads)) else 0
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
    return cleared


def _is_idle(core: Core, head: Entry) -> bool:
    """Whether nothing was saved to a run for so long that the policy deletes it."""
    policy = core.settings.retention
    if policy is None or policy.run_ttl is None:
        return False
    return not is_active(head) and head.at < _ago(core, policy.run_ttl)


def _ago(core: Core, age: timedelta) -> int:
    return core.journals.clock.now() - age // _MICROSECOND


class _NotArchivedError(Exception):
    """Some checkpoints can't be loaded; nothing was added to the archive."""

    def __init__(self, seqs: set[int], why: CheckpointCorruptedError) -> None:
        super().__init__(seqs, why)
        self.seqs, self.why = seqs, why


def _archive(core: Core, entries: list[Entry]) -> None:
    """Write single checkpoints to the archive, durably, before they are deleted.

    All of them, or none: then it raises `_NotArchivedError`.
    """
    policy = core.settings.retention
    if policy is None or policy.archive is None or not entries:
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
