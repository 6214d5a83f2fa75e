"""Deleting everything of an owner, a thread or a run, with a receipt. Everything here blocks."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.codec.meta import Meta
from holdfast.errors import (
    CheckpointCorruptedError,
    CheckpointSaveError,
    HoldfastError,
    RunActiveError,
)
from holdfast.kernel.core import Core
from holdfast.kernel.reader import all_runs
from holdfast.model import Entry, Kind, Status, alias_journal, check_id, thread_journal
from holdfast.operations import reading
from holdfast.operations.children import family, runs_of_thread
from holdfast.operations.deleting import FORCE, clear_if, is_active
from holdfast.operations.transfer import export_runs
from holdfast.store import RunFilter


class Forgotten(NamedTuple):
    """A run that was deleted, or would be."""

    run_id: str
    status: str  # what it was doing
    checkpoints: int
    entries: int
    digest: str  # of its last entry: whoever holds an export of the run can prove that it is meant
    tombstone: str  # the digest of its tombstone; empty in a dry run


class Receipt(NamedTuple):
    """What was deleted, and proof of it.

    The ids of the runs stay, in tombstones that keep old workers from writing there again.
    """

    owner: str | None
    thread_id: str | None
    run_id: str | None
    store: str
    at: datetime
    runs: tuple[Forgotten, ...]
    dry_run: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with a digest of all of it."""
        fields = self._asdict() | {
            "at": self.at.isoformat(),
            "runs": [run._asdict() for run in self.runs],
        }
        text = json.dumps(fields, sort_keys=True).encode()
        return fields | {"sha256": hashlib.sha256(text).hexdigest()}


def forget(
    core: Core,
    *,
    owner: str | None = None,
    thread_id: str | None = None,
    run_id: str | None = None,
    archive: str | os.PathLike[str] | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> Receipt:
    """Delete every run of an owner or a thread, or one run, with child runs, verdicts and aliases.

    The namespaces of a LangGraph thread, which its subgraphs have, go with its main run, and both
    with the thread of that id. With `archive`, they are first exported to that file, as `export_runs` does it. Raises
    `RunActiveError` before anything is deleted if one of them is live or paused, unless forced,
    and `CheckpointSaveError` if others write to them or begin more meanwhile: nothing is deleted
    that is not in the receipt and the archive. What stops it halfway carries as `receipt` what
    was deleted by then; the rest goes when it is called again, with another archive.
    """
    given = {"owner": owner, "thread_id": thread_id, "run_id": run_id}
    named = [check_id(what, value) for what, value in given.items() if value is not None]
    if len(named) != 1:
        raise ValueError("forget needs one of these: an owner, a thread_id or a run_id")
    heads = _heads(core, owner, thread_id, run_id)
    for head in heads:
        if is_active(head) and not force:
            raise RunActiveError(head.run, head.status, advice=FORCE)
    forgotten = [_looked_at(core, head) for head in heads]
    if archive is not None and heads:
        export_runs(core, sorted(head.run for head in heads), archive)

    def receipt(of: Sequence[Forgotten]) -> Receipt:
        url, now = core.journals.store.url, to_datetime(core.journals.clock.now())
        return Receipt(owner, thread_id, run_id, url, now, tuple(sorted(of)), dry_run)

    if dry_run:
        return receipt(forgotten)
    gone: list[Forgotten] = []
    try:
        for found in forgotten:
            _forget(core, found, gone)
        if thread_id is not None:
            clear_if(core, thread_journal(thread_id), lambda head: True)
        if _heads(core, owner, thread_id, run_id):
            raise CheckpointSaveError(named[0], "others began runs meanwhile; forget it again")
    except HoldfastError as error:
        error.receipt = receipt(gone)  # type: ignore[attr-defined]
        raise
    return receipt(gone)


def _heads(core: Core, owner: str | None, thread_id: str | None, run_id: str | None) -> list[Entry]:
    """The heads of all runs that are meant, every child run before its parent."""
    with reading.outages_named(run_id):
        if run_id is not None:
            return family(core, run_id)
        found: dict[str, Entry] = {}
        if thread_id is not None:
            runs = runs_of_thread(core, thread_id)
        else:
            runs = [head.run for head in all_runs(core.journals.store, RunFilter(owner=owner))]
        for run in runs:
            for head in family(core, run):
                found.setdefault(head.run, head)
        return list(found.values())


def _looked_at(core: Core, head: Entry) -> Forgotten:
    """What will be deleted of a run, as far as it can be read."""
    run = head.run
    checkpoints = entries = 0
    try:
        checkpoints = core.journals.store.stats(run).checkpoints
        for entry in core.journals.entries(run):
            entries += entry.seq <= head.seq
    except CheckpointCorruptedError:
        return Forgotten(run, "damaged", checkpoints, entries, "", "")
    return Forgotten(run, head.status, checkpoints, entries, head.digest.hex(), "")


def _forget(core: Core, found: Forgotten, gone: list[Forgotten]) -> None:
    """Delete a run if it is still as it was looked at, and its aliases; add it to `gone`."""
    run = found.run_id
    aliases = _aliases(core, run)
    clear_if(core, run, lambda head: found.digest in ("", head.digest.hex()))
    left = core.journals.store.read(run, bodies=False)
    if [entry.status for entry in left] != [Status.DELETED]:
        raise CheckpointSaveError(run, "someone wrote to it meanwhile; it was not deleted")
    gone.append(found._replace(tombstone=left[0].digest.hex()))
    for alias in aliases:
        clear_if(core, alias, lambda head: (Meta(head).step or "").startswith(f"{run}@"))


def _aliases(core: Core, run: str) -> list[str]:
    """The journals of the aliases of a run's checkpoints, given for its owner or for none."""
    try:
        return [
            journal
            for entry in core.journals.entries(run)
            if entry.kind == Kind.CHECKPOINT and '"alias":' in entry.meta
            for journal in (
                alias_journal(str(Meta(entry).alias)),
                alias_journal(str(Meta(entry).alias), entry.owner),
            )
        ]
    except CheckpointCorruptedError:
        return []
