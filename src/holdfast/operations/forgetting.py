"""Deleting everything of an owner, a thread or a run, with a receipt. Everything here blocks."""

from __future__ import annotations

import os

from holdfast.checkpoint import to_datetime
from holdfast.errors import (
    CheckpointCorruptedError,
    CheckpointSaveError,
    HoldfastError,
    RunActiveError,
)
from holdfast.kernel import keyed
from holdfast.kernel.core import Core
from holdfast.kernel.reader import all_runs
from holdfast.kernel.store_id import known_store_id
from holdfast.kernel.store_view import real_store
from holdfast.model import Entry, Status
from holdfast.operations.deleting import FORCE, clear_empty_thread, clear_if, is_active
from holdfast.operations.forget_record import Record, unfinished
from holdfast.operations.receipts import Forgotten, Receipt, hashed
from holdfast.operations.saving import said_by
from holdfast.operations.subjects import Of, heads_of, subject
from holdfast.operations.takeout import export_data
from holdfast.store import RunFilter


def forget(
    core: Core,
    *,
    owner: str | None = None,
    thread_id: str | None = None,
    run_id: str | None = None,
    archive: str | os.PathLike[str] | None = None,
    by: str | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> Receipt:
    """Delete every run of an owner or a thread, or one run, with child runs, verdicts and aliases.

    The namespaces of a LangGraph thread, which its subgraphs have, go with its main run, and both
    with the thread of that id. With `archive`, they are first exported to that file, as
    `export_data` does it. `by` says who did it, in the receipt. Raises `RunActiveError` before
    anything is deleted if one of them is live or paused, unless forced, and `CheckpointSaveError`
    if others write to them or begin more meanwhile: nothing is deleted that is not in the receipt
    and the archive. What stops it halfway carries as `receipt` what was deleted by then. Called
    again, also after a crash, it deletes the rest, with another archive, and the receipt covers
    all of it. `verify_receipt` proves later that what was deleted still is.
    """
    of, value = subject(owner, thread_id, run_id)
    core.journals.check_given(owner)
    said_by(by)
    heads = heads_of(core, of, value)
    for head in heads:
        if is_active(head) and not force:
            raise RunActiveError(head.run, head.status, advice=FORCE)
    looked_at = [_looked_at(core, head) for head in heads]
    if dry_run:
        return _nothing(core, of, value, by)._replace(
            runs=tuple(sorted(looked_at)), complete=False, dry_run=True
        )
    if archive is not None and heads:
        export_data(core, archive, owner=owner, thread_id=thread_id, run_id=run_id)
    record = unfinished(core, of, value)
    if record is None:
        if not heads and not _has_keys(core, of, value):
            return _nothing(core, of, value, by)
        record = Record.begin(core, of, value, by)
    doomed = [found._replace(name=record.name(found.run_id)) for found in looked_at]
    earlier = _tombstones(core, record, {found.name for found in doomed})
    record.doom(doomed)
    gone: list[Forgotten] = []
    try:
        for found in doomed:
            gone.append(_forget(core, found))  # noqa: PERF401 - these count if the next fails
        for thread in {head.thread for head in heads if head.thread is not None}:
            clear_empty_thread(core, thread)
        began = not clear_empty_thread(core, value) if of == "thread" else heads_of(core, of, value)
        if began:
            raise CheckpointSaveError(value, "others began runs meanwhile; forget it again")
        destroyed = _destroyed(core, of, value)
        real_store(core.journals.store).scrub()  # the keys, too
    except HoldfastError as error:
        now = core.journals.clock.now()
        error.receipt = record.receipt(earlier + gone, now, complete=False)  # type: ignore[attr-defined]
        raise
    return record.finish(earlier + gone, destroyed)


def _has_keys(core: Core, of: Of, value: str) -> bool:
    """Whether backups may hold runs of an owner that a data key of this store still opens."""
    return of == "owner" and bool(keyed.data_keys(core.journals).row(value).wrapped)


def _destroyed(core: Core, of: Of, value: str) -> tuple[str, ...]:
    """Destroy the data keys of an owner, if there are any; their ids."""
    return keyed.destroy(core.journals, value) if of == "owner" else ()


def _nothing(core: Core, of: Of, value: str, by: str | None) -> Receipt:
    """A receipt for nothing at all."""
    salt = core.journals.entropy(16).hex()
    now = to_datetime(core.journals.clock.now())
    name = known_store_id(core.journals) or ""
    return Receipt("", name, of, hashed(salt, of, value), salt, now, now, by, ())


def _tombstones(core: Core, record: Record, still_there: set[str]) -> list[Forgotten]:
    """The runs that an earlier attempt has deleted, with their tombstones."""
    wanted = record.doomed.keys() - still_there
    if not wanted:
        return []
    found = []
    store = real_store(core.journals.store)  # what is deleted is no owner's any more
    for head in all_runs(store, RunFilter(status=Status.DELETED.value)):
        name = record.name(head.run)
        if name in wanted:
            gone = record.doomed[name]
            found.append(gone._replace(run_id=head.run, seq=head.seq, tombstone=head.digest.hex()))
    return found


def _looked_at(core: Core, head: Entry) -> Forgotten:
    """What will be deleted of a run, as far as it can be read."""
    run = head.run
    checkpoints = entries = 0
    try:
        checkpoints = core.journals.store.stats(run).checkpoints
        for entry in core.journals.entries(run):
            entries += entry.seq <= head.seq
    except CheckpointCorruptedError:
        return Forgotten(run, "", "damaged", checkpoints, entries, "")
    return Forgotten(run, "", head.status, checkpoints, entries, head.digest.hex())


def _forget(core: Core, found: Forgotten) -> Forgotten:
    """Delete a run if it is still as it was looked at; returns it with its tombstone."""
    run = found.run_id
    clear_if(core, run, lambda head: found.digest in ("", head.digest.hex()))
    left = core.journals.store.read(run, bodies=False)
    if [entry.status for entry in left] != [Status.DELETED]:
        raise CheckpointSaveError(run, "someone wrote to it meanwhile; it was not deleted")
    return found._replace(seq=left[0].seq, tombstone=left[0].digest.hex())
