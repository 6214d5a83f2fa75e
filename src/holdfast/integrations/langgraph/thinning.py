"""Deleting, pruning and copying LangGraph's threads. Everything here blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from holdfast.errors import CheckpointNotFoundError, RunExistsError
from holdfast.integrations.langgraph.index import Index
from holdfast.integrations.langgraph.layout import (
    CheckpointNote,
    WritesNote,
    note_of,
    run_id,
)
from holdfast.integrations.langgraph.listing import Namespace, bereft, namespaces, needed
from holdfast.integrations.langgraph.threads import Threads, check_flow
from holdfast.integrations.langgraph.writing import checkpoint_draft, opening_draft, writes_draft
from holdfast.kernel.appending import append, append_if, is_durable, submit
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.kernel.playback import Playback
from holdfast.kernel.ticket import Ticket
from holdfast.model import Entry, Status
from holdfast.operations import deleting

_QUEUED: Final = 64  # entries of a copy that are on their way to the store at once


def delete_thread(threads: Threads, thread: str) -> None:
    """Delete all namespaces of a thread, the main one last.

    Raises `RunMismatchError`, before anything is deleted, for a run that is no thread.
    """
    spaces = namespaces(threads, thread)
    threads.head(spaces[0].run)
    for space in reversed(spaces):
        deleting.clear_family(threads.core, space.run, partial(_is_of_thread, space.run))


def _is_of_thread(run: str, head: Entry) -> bool:
    if head.run == run:
        check_flow(head)
    return True


def delete_for_runs(threads: Threads, run_ids: Sequence[str]) -> None:
    """Delete the checkpoints, with their writes, whose metadata names one of these runs.

    Raises `ValueError`, before anything is deleted, if checkpoints that stay need them; and when
    all others were deleted, `CheckpointCorruptedError` if some could not be read.
    """
    gone = set(run_ids)
    found: list[tuple[str, Index]] = []
    for space in namespaces(threads) if gone else ():
        index = threads.reading(space.run, partial(threads.index, space.run))
        threads.reading(space.run, partial(_of_runs, threads, space.run, index, gone))
        found.append((space.run, index))
    for run, index in found:
        if threads.reading(run, partial(_of_runs, threads, run, index, gone)):
            _drop(threads, run, partial(_of_runs, threads, run, gone=gone))
    for _, index in found:
        index.check()


def _of_runs(threads: Threads, run: str, index: Index, gone: set[str]) -> set[str]:
    """The checkpoints that these runs of LangGraph's wrote. Raises `ValueError` if others need them."""
    named = {p.id for p in index.all_places() if p.metadata.get("run_id") in gone}
    found = bereft(threads, run, index, named) if named else None
    if found is not None:
        raise ValueError(
            f"nothing was deleted: channels of checkpoint {found[0]} in {run!r} are rebuilt from "
            f"checkpoint {found[1]}; delete the runs that came later, too, or the thread"
        )
    return named


def prune(threads: Threads, thread_ids: Sequence[str], strategy: str) -> None:
    """Keep the newest checkpoint of each namespace, and what it needs; or delete all of them.

    Raises `CheckpointCorruptedError` where an entry is damaged, and deletes nothing there.
    """
    if strategy not in ("keep_latest", "delete"):
        raise ValueError(f"strategy must be keep_latest or delete, not {strategy!r}")
    for thread in map(str, thread_ids):
        if strategy == "delete":
            delete_thread(threads, thread)
            continue
        for space in namespaces(threads, thread):
            _drop(threads, space.run, partial(_not_needed, threads, space.run))


def _not_needed(threads: Threads, run: str, index: Index) -> set[str]:
    """All checkpoints but the newest one, and those that it needs."""
    index.check()
    newest = index.newest()
    if newest is None:
        return set()
    kept = needed(threads, run, index, newest)
    return {place.id for place in index.all_places()} - kept


def _drop(threads: Threads, run: str, which: Callable[[Index], set[str]]) -> None:
    """Delete the checkpoints that are to go, with their writes.

    They are chosen anew if somebody saves meanwhile.
    """

    def chosen(live: list[Entry], branch: list[int]) -> list[int]:
        goes = which(threads.index(run))
        found = []
        for entry in live:
            note = note_of(entry, metadata=False)
            name = note.of if isinstance(note, WritesNote) else note.id if note else None
            if name in goes:
                found.append(entry.seq)
        return found

    with suppress(CheckpointNotFoundError):  # there is no such run, or somebody else deleted it
        deleting.drop(threads.core, run, chosen, force=True)


def copy_thread(
    threads: Threads, source: str, target: str, *, until: str | None = None, origin: str = ""
) -> None:
    """Copy what the namespaces of a thread hold, without what rollbacks left behind.

    With `until`, all as it was when that checkpoint was saved: what its tasks wrote came later.
    The copy says that it is a fork of `origin`: raises `RunExistsError` if there is such a thread.
    """
    for space in namespaces(threads, source):
        copied = Namespace(run_id(target, space.ns), target, space.ns)
        threads.core.drive(_copied(threads, space.run, copied, until, origin))


def _copied(
    threads: Threads, source: str, target: Namespace, until: str | None, origin: str
) -> Op[None]:
    core = threads.core
    index = threads.index(source)
    playback = Playback(core.journals)
    moved: dict[int, int] = {}  # where each entry of the origin is now
    queued: deque[tuple[int, Draft, Ticket]] = deque()
    if index.head is None:
        return
    for entry in core.journals.entries(source, bodies=True):
        if entry.seq > index.head[0]:
            break
        note = None if entry.seq in index.left_behind else note_of(entry)
        encoding = None if note is None else playback.encoding(entry)
        if note is None or encoding is None or _is_later(index, entry, note, until):
            continue
        draft = _moved(note, encoding, moved)
        if not moved:
            first = yield from append_if(core, target.run, partial(_behind, target, origin, draft))
            moved[entry.seq] = first.seq
            continue
        ticket = yield from submit(core, target.run, draft)
        moved[entry.seq] = ticket.entries[-1].seq
        queued.append((entry.seq, draft, ticket))
        if len(queued) > _QUEUED:
            yield from _settled(core, target.run, moved, *queued.popleft())
    while queued:
        yield from _settled(core, target.run, moved, *queued.popleft())


def _is_later(
    index: Index, entry: Entry, note: CheckpointNote | WritesNote, until: str | None
) -> bool:
    """Whether an entry came after this checkpoint, or is of the writes of it or of a later one.

    Clocks may go back, so their order in the run counts. In other namespaces, which don't have
    the checkpoint, only LangGraph's ids tell: they grow with time.
    """
    if until is None:
        return False
    end = index.places.get(until)
    if end is None:
        return note.id > until if isinstance(note, CheckpointNote) else note.of >= until
    if isinstance(note, CheckpointNote):
        return entry.seq > end.seq
    place = index.places.get(note.of)
    return place is None or place.seq >= end.seq


def _behind(target: Namespace, origin: str, draft: Draft, head: Entry | None) -> list[Draft]:
    if head is not None and head.status != Status.DELETED:
        if origin:
            raise RunExistsError(target.run)
        return [draft]
    return [opening_draft(target.thread, target.ns, origin), draft]


def _settled(
    core: Core, run: str, moved: dict[int, int], seq: int, draft: Draft, ticket: Ticket
) -> Op[None]:
    if not (yield from is_durable(ticket)):  # somebody else writes to the copy already
        entry = yield from append(core, run, draft)
        moved[seq] = entry.seq


def _moved(note: CheckpointNote | WritesNote, encoding: bytes, moved: dict[int, int]) -> Draft:
    """The same entry for the copy, where other entries have other seqs."""
    if isinstance(note, CheckpointNote):
        early = tuple(moved[seq] for seq in note.early if seq in moved)
        return checkpoint_draft(note._replace(early=early), encoding)
    also = tuple(moved[seq] for seq in note.also if seq in moved)
    return writes_draft(note._replace(also=also), encoding)
