"""LangGraph's databases become runs, with all of their history. Everything here blocks.

A thread keeps its ids, parents, namespaces, pending writes and metadata, and its values keep their
bytes. What a store has of a thread already is compared: an import that was interrupted is finished
by starting it again, one that is repeated changes nothing, and what a database has more since then
is added.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple

from holdfast.errors import HoldfastError, SerializeError
from holdfast.integrations.langgraph.databases.rows import Place, Saved, Source, Write, refused
from holdfast.integrations.langgraph.databases.values import put_together
from holdfast.integrations.langgraph.known import DiffersError, Known
from holdfast.integrations.langgraph.layout import (
    CheckpointNote,
    WritesNote,
    dump_checkpoint,
    dump_writes,
    other_keys,
    run_id,
    stored,
    stored_writes,
)
from holdfast.integrations.langgraph.writing import checkpoint_draft, opening_draft, writes_draft
from holdfast.kernel.appending import append_at, is_durable, submit
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.kernel.ticket import Ticket
from holdfast.model import Entry, erases

_QUEUED: Final = 64  # entries on their way to the store

Note = CheckpointNote | WritesNote


class Imported(NamedTuple):
    """One namespace of a thread, and the run that it is now."""

    thread_id: str
    checkpoint_ns: str
    run_id: str
    checkpoints: int  # in the database
    new: int  # entries that the store did not have
    new_checkpoints: int  # how many of these are checkpoints


class Record(NamedTuple):
    """What becomes one entry."""

    note: Note
    value: Any


def check_threads(
    source: Source, threads: tuple[str, ...] = (), *, progress: Callable[[], None] = lambda: None
) -> None:
    """Read the threads of a database, all or those named, without writing anything.

    Raises ValueError, with its place, for what can't be taken over.
    """
    source.check_types(threads)
    for saved in source.checkpoints(threads):
        try:
            for record in _records(saved):
                _dump(record.note)
        except SerializeError as error:
            raise refused(Place(*saved[:3]), error) from error
        progress()


def import_threads(
    core: Core,
    source: Source,
    threads: tuple[str, ...] = (),
    *,
    progress: Callable[[], None] = lambda: None,
) -> Iterator[Imported]:
    """Add the threads of a database, all or those named; `progress` is called after a checkpoint.

    Raises ValueError for a thread that the store has already and that differs. Call
    `check_threads` first: it finds what can't be read before anything is written.
    """
    journals = groupby(source.checkpoints(threads), key=lambda saved: saved[:2])
    for (thread, ns), saved in journals:
        yield _journal(core, thread, ns, saved, progress)


def _journal(
    core: Core, thread: str, ns: str, saved: Iterable[Saved], progress: Callable[[], None]
) -> Imported:
    """One namespace of a thread, oldest checkpoint first."""
    run = run_id(thread, ns)
    head = core.journals.checked_head(run)  # first: what is compared below must not move on
    queued: deque[Ticket] = deque()
    count = new = new_checkpoints = 0
    try:
        for record in _new(Known(core, run), saved, progress):
            if record is None:
                count += 1
                continue
            draft = _draft(core, record)
            if new:
                _send(core, run, draft, queued)
            else:
                _begin(core, run, head, opening_draft(thread, ns), draft)
            new += 1
            new_checkpoints += isinstance(record.note, CheckpointNote)
    except DiffersError:
        raise ValueError(
            f"the store has a thread {thread!r} that differs from the one to import"
            f"{f' in the namespace {ns!r}' if ns else ''}; import it into another store, "
            "or delete that one first"
        ) from None
    while queued:
        _settle(core, queued)
    return Imported(thread, ns, run, count, new, new_checkpoints)


def _new(
    known: Known, saved: Iterable[Saved], progress: Callable[[], None]
) -> Iterator[Record | None]:
    """What the store does not have yet; after each checkpoint of the database, None.

    Nothing before all that the store has was compared: both may have gone on.
    """
    waiting: list[Record] = []
    compared = False
    for each in saved:
        first, *_ = records = list(_records(each))
        assert isinstance(first.note, CheckpointNote)
        if not compared and known.check(first.note, first.value):
            rows = known.without(each.checkpoint_id, list(each.writes))
            waiting += _written(each.checkpoint_id, rows)
        else:
            if not compared and known.has_more():
                raise DiffersError
            compared = True
            yield from waiting
            yield from records
            waiting = []
        yield None
        progress()
    if waiting and known.has_more():
        raise DiffersError
    yield from waiting


def _begin(core: Core, run: str, head: Entry | None, opening: Draft, draft: Draft) -> None:
    """Append the first entry behind the head that was compared, and an opening if there is no run.

    Raises if others have added to it since.
    """
    is_new = head is None or erases(head)
    seq = -1 if head is None else head.seq
    if core.drive(append_at(core, run, seq, [opening, draft] if is_new else [draft])) is None:
        raise _changed(run)


def _changed(run: str) -> HoldfastError:
    return HoldfastError(f"run {run!r} was changed by others during the import")


def _records(saved: Saved) -> Iterator[Record]:
    """A checkpoint, then the writes of each of its tasks."""
    other = other_keys(saved.fields)
    note = CheckpointNote(saved.checkpoint_id, saved.parent_id, saved.metadata)
    kept = put_together("msgpack", other) if other else None
    yield Record(note, stored(saved.fields, saved.channels, kept))
    yield from _written(saved.checkpoint_id, saved.writes)


def _written(checkpoint: str, writes: Iterable[Write]) -> Iterator[Record]:
    """The writes of each task of a checkpoint."""
    for (task, path), its in groupby(writes, key=_task):
        rows = [(write.idx, write.channel, write.value) for write in its]
        yield Record(WritesNote(checkpoint, task, path), stored_writes(rows))


def _dump(note: Note) -> str:
    return dump_writes(note) if isinstance(note, WritesNote) else dump_checkpoint(note)


def _task(write: Write) -> tuple[str, str]:
    return write.task_id, write.task_path


def _draft(core: Core, record: Record) -> Draft:
    encoding = core.journals.encode(record.value)
    if isinstance(record.note, WritesNote):
        return writes_draft(record.note, encoding)
    return checkpoint_draft(record.note, encoding)


def _send(core: Core, run: str, draft: Draft, queued: deque[Ticket]) -> None:
    queued.append(core.drive(submit(core, run, draft)))
    if len(queued) > _QUEUED:
        _settle(core, queued)


def _settle(core: Core, queued: deque[Ticket]) -> None:
    """Wait for the oldest entry on its way. Raises if it was not saved."""
    ticket = queued.popleft()
    if not core.drive(is_durable(ticket)):
        raise _changed(ticket.entries[0].run)
