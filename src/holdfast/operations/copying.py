"""Copying runs to another store. Everything here blocks.

A run keeps its ids, seqs and digests in every store. Where its states had to be encoded anew,
`verify` says "rewritten" for them. What was copied is read back and checked, and so is what was
there already. An interrupted copy is finished by starting it again. The source may be in use
meanwhile: what is deleted there while it is copied is deleted in the copy.

A journal is read in order, and read anew from every marker by which the target was trimmed. So
what is added was read after the target was trimmed, and builds on nothing that is gone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from operator import attrgetter
from typing import Final

from holdfast.codec import envelope
from holdfast.codec.meta import Meta
from holdfast.errors import (
    CheckpointCorruptedError,
    CheckpointNotFoundError,
    CopyRefusedError,
    RunExistsError,
)
from holdfast.kernel.appending import alias_of, append, thread_member
from holdfast.kernel.core import Core
from holdfast.kernel.journal import Journals, Tip
from holdfast.kernel.playback import Playback
from holdfast.kernel.reader import all_runs, is_stub, rewrites, state_seq
from holdfast.kernel.writer import writer_for
from holdfast.model import (
    Entry,
    Kind,
    Status,
    alias_journal,
    check_id,
    checkpoint_id,
    follows,
    thread_journal,
    verdict_journal,
)
from holdfast.store import Store
from holdfast.urls import open_store

_PAGE: Final = 100  # entries to read or add at once
_PAGE_BYTES: Final = 16 << 20  # and of bodies, about
_FEW: Final = 8  # entries to read before it is known what they weigh
_LARGEST_STATE: Final = 1 << 30

Progress = Callable[[str], object]
_TRIMS: Final = (Kind.TRIM.value, Kind.TOMBSTONE.value)
_name = attrgetter("seq", "entry_id", "digest")


def unseen(run_id: str) -> None:
    """The default for `progress`: does nothing."""


def copy_to(
    core: Core,
    target: Store | str | os.PathLike[str],
    run_ids: Iterable[str] | None = None,
    *,
    progress: Progress = unseen,
) -> int:
    """Copy runs, or all there are, into another store; returns the number of runs.

    `progress` is called with the id of each run that was copied. Every entry is checked when it
    is read and again in the target. What was deleted from a run is deleted in the target. Where a
    run was cleared and begun anew, its old copy is deleted if it is known to be that very run: it
    was complete, or has been deleted there. The target's own verdicts on evidence stay.

    Raises `CheckpointNotFoundError` for a named run that is not there or was deleted, and
    `CheckpointCorruptedError` rather than copy damage or leave it in the target. A run of the
    target that is another one by the same id, or may have continued there, is not changed: once
    all other runs are copied, `CopyRefusedError` names these.
    """
    if isinstance(run_ids, str) or not isinstance(target, Store | str | os.PathLike):
        raise TypeError("copy_to needs a store or URL, and a list of run ids if not all are meant")
    names = named_runs(core, run_ids)
    store = target if isinstance(target, Store) else open_store(target)
    try:
        source = core.journals
        largest = max(core.settings.max_state_bytes, _LARGEST_STATE)
        copies = Journals(
            store, writer_for(store), source.clock, source.entropy, largest_state=largest
        )
        there = Core(copies, core.settings)
        copied, refused = [], []
        for name in names:
            try:
                _Copy(source, copies, name).make()
            except RunExistsError:
                refused.append(name)
                continue
            with suppress(RunExistsError):  # what was found about the copy itself stays
                _Copy(source, copies, verdict_journal(name)).make()
            keep_aliases(there, name)
            copied.append(name)
            progress(name)
        for name in _in_thread_order(source, copied):
            join_thread(there, name)
        if refused:
            raise CopyRefusedError(tuple(refused), store.url)
        return len(copied)
    finally:
        if store is not target:
            store.close()


def named_runs(core: Core, run_ids: Iterable[str] | None) -> Iterator[str]:
    """The runs of these ids, or all there are.

    Raises `CheckpointNotFoundError` at once for one that is not there or was deleted.
    """
    if run_ids is None:
        return (head.run for head in all_runs(core.journals.store))
    names = [check_id("run_id", run_id) for run_id in run_ids]
    for name in names:
        head = core.journals.head(name)
        if head is None or head.status == Status.DELETED:
            raise CheckpointNotFoundError(name)
    return iter(names)


def add(store: Store, entries: list[Entry], states: set[int]) -> None:
    """Append what the store lacks of part of a journal, and check that all of it is there, intact.

    `states` are the seqs of the states that were found there before it; its own are put in. Raises
    `RunExistsError` where something else stands, `CheckpointCorruptedError` for damage.
    """
    run, known = entries[0].run, -1
    while True:
        found = store.read(run, after=entries[0].seq - 1, limit=len(entries))
        with _blaming(store):
            for ours, wanted in zip(found, entries, strict=False):
                _check(ours, states)
                if _name(ours) != _name(wanted):
                    raise RunExistsError(run)
        if len(found) == len(entries):
            return
        if len(found) == known:  # there is no room for the next one
            raise RunExistsError(run)
        known = len(found)
        store.append(entries[known:])


def pieces(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """The entries in batches of what may be added at once."""
    piece: list[Entry] = []
    weight = 0
    for entry in entries:
        if piece and (len(piece) == _PAGE or weight + len(entry.body) > _PAGE_BYTES):
            yield piece
            piece, weight = [], 0
        piece.append(entry)
        weight += len(entry.body)
    if piece:
        yield piece


def join_thread(core: Core, run_id: str) -> None:
    """Add a run that was copied or imported to its thread."""
    head = core.journals.head(run_id)
    if head is None or head.thread is None:
        return
    member = thread_member(run_id)
    name = thread_journal(head.thread)
    if all(entry.meta != member.meta for entry in core.journals.entries(name)):
        core.drive(append(core, name, member))


def keep_aliases(core: Core, run_id: str) -> None:
    """Add the aliases of a copied run's checkpoints, unless they are taken here."""
    begun: dict[str, int] = {}
    for entry in core.journals.entries(run_id):
        if entry.kind == Kind.BEGIN:
            begun[entry.entry_id.hex()] = entry.seq
        elif entry.kind == Kind.CHECKPOINT and '"alias":' in entry.meta:
            meta = Meta(entry)
            step = begun.get(meta.begun or "")
            if meta.alias is None or step is None:
                continue
            name = alias_journal(check_id("alias", meta.alias))
            if core.journals.head(name) is None:
                core.drive(append(core, name, alias_of(checkpoint_id(run_id, step))))


class _Copy:
    """Copies one journal: how far it got, and which states are in the target."""

    def __init__(self, source: Journals, target: Journals, name: str) -> None:
        self.source = source
        self.target = target
        self.name = name
        self.tip = Tip(name, None)
        self.playback = Playback(source)
        self.last: Entry | None = None
        self.states: set[int] = set()
        self.trimmed = 0

    def make(self) -> None:
        """Copy all there is."""
        begun, there = self.source.head(self.name), self.target.head(self.name)
        if begun is None:
            return
        # Markers up to here are of trims before anything was read; later ones are to be done.
        self.trimmed = begun.seq if there is None else there.seq
        limit = _FEW
        while page := self._read(after := self.last and self.last.seq, limit):
            weight = sum(len(entry.body) for entry in page) // len(page) + 1
            limit = max(1, min(_PAGE, _PAGE_BYTES // weight))
            plain = list(takewhile(lambda entry: not self._thins_out(entry), page))
            try:
                self._add(plain)
            except CheckpointCorruptedError:
                if self._read(after, len(page)) == page:
                    raise
                self.tip = Tip(self.name, None)  # it was deleted meanwhile
                continue
            if len(plain) < len(page):
                self._follow(page[len(plain)])
        copied = self.target.head(self.name)
        if self.last is None or copied is None or _name(copied) != _name(self.last):
            raise RunExistsError(self.name)
        current = state_seq(copied)
        if current is not None:
            with _blaming(self.target.store):
                self.target.chain(self.name, current)
        self.target.forget(self.name)

    def _read(self, after: int | None, limit: int) -> list[Entry]:
        page = self.source.store.read(self.name, after=after, limit=limit)
        with _blaming(self.source.store):
            for entry, before in zip(page, [after, *(e.seq for e in page)], strict=False):
                if not follows(entry, -1 if before is None else before):
                    reason = "the entry before it is gone"
                    raise CheckpointCorruptedError(self.name, entry.seq, reason)
                if not is_stub(entry):
                    envelope.check(entry)
        return page

    def _add(self, entries: list[Entry]) -> None:
        for piece in pieces(map(self._recoded, entries)):
            add(self.target.store, piece, self.states)
            self.last = piece[-1]

    def _recoded(self, entry: Entry) -> Entry:
        source, target = self.source, self.target
        if source.store.form == target.store.form or is_stub(entry):
            return entry
        encoding = None
        if entry.size:
            found = self.playback.encoding(entry)
            if found is None:
                raise CheckpointCorruptedError(entry.run, entry.seq, "it was deleted meanwhile")
            encoding = target.encode(source.decode(found))
        return target.recode(self.tip, entry, encoding)

    def _thins_out(self, entry: Entry) -> bool:
        """Whether this marker says to delete something in the target."""
        return _erases(entry) or (entry.kind in _TRIMS and entry.seq > self.trimmed)

    def _follow(self, marker: Entry) -> None:
        """Delete in the target what is deleted in the source."""
        if _erases(marker):
            self._erase(self._recoded(marker))
        else:
            self._trim(self._recoded(marker))
        self.tip = Tip(self.name, None)
        self._add([marker])

    def _erase(self, tombstone: Entry) -> None:
        """Erase the run in the target, if it is known to be what was erased in the source."""
        head = self.target.head(self.name)
        if head is not None and head.seq < tombstone.seq:
            after = Meta(tombstone).digest_before
            known = head.seq == (self.last and self.last.seq) or head.digest == after
            if not known and not _erases(head):
                raise RunExistsError(self.name)
            for beside in self.source.store.read(verdict_journal(self.name), limit=1):
                if _erases(beside):
                    self.target.store.erase(beside)
        self.target.store.erase(tombstone)
        self.states.clear()

    def _trim(self, marker: Entry) -> None:
        """Delete from the target what is deleted in the source by now."""
        self.trimmed = max(marker.seq, self.source.head_seq(self.name) or 0)
        entries = list(self.target.entries(self.name))
        gone = {e.seq for e in self.source.entries(self.name) if e.status == Status.DELETED}
        gone &= {e.seq for e in entries if e.status != Status.DELETED}
        self.target.store.trim(marker, rewrites(self.target, entries, gone) | dict.fromkeys(gone))
        self.states -= gone


def _erases(entry: Entry) -> bool:
    return entry.kind == Kind.TOMBSTONE and entry.status == Status.DELETED


def _check(entry: Entry, states: set[int]) -> None:
    """Raise unless the entry is whole, and the state that its own is a change to is there."""
    if is_stub(entry):
        return
    base = envelope.base(entry)
    if base != entry.seq and base not in states:
        reason = f"the state it builds on, {entry.run}@{base}, is gone"
        raise CheckpointCorruptedError(entry.run, entry.seq, reason)
    if entry.size:
        states.add(entry.seq)


@contextmanager
def _blaming(store: Store) -> Iterator[None]:
    """Name the store in errors about damage found here."""
    try:
        yield
    except CheckpointCorruptedError as error:
        reason = f"{error.reason} (in {store.url})"
        raise CheckpointCorruptedError(error.run_id, error.seq, reason) from None


def _in_thread_order(source: Journals, runs: list[str]) -> Iterator[str]:
    """Those of the runs that belong to a thread, each thread's in the order they were opened."""
    wanted = set(runs)
    threads = {head.thread for run in runs if (head := source.head(run)) and head.thread}
    for thread in sorted(threads):
        for entry in source.entries(thread_journal(thread)):
            run = Meta(entry).run
            if run in wanted:
                yield run
