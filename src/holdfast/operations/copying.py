"""Copying runs to another store. Everything here blocks.

A run keeps its ids, seqs, digests and contents in every store, byte for byte. What was copied is
read back and checked, and so is what was there already. Of a damaged entry, its place is copied:
it is damaged in the copy, too, and all the rest is proved there. Damaged entries with nothing
intact behind them are not copied: the copy ends before them. An interrupted copy is finished by
starting it again. The source may be in use meanwhile: what is deleted there while it is copied is
deleted in the copy.

A journal is read in order, and read anew from every marker by which the target was trimmed. So
what is added was read after the target was trimmed, and builds on nothing that is gone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice, takewhile
from operator import attrgetter
from typing import Final

from holdfast.codec import envelope, wrapping
from holdfast.codec.meta import Meta
from holdfast.errors import (
    CheckpointCorruptedError,
    CheckpointNotFoundError,
    CopyRefusedError,
    RunExistsError,
    RunTakenError,
)
from holdfast.kernel import keyed
from holdfast.kernel.core import Core
from holdfast.kernel.entries import is_stub, state_seq
from holdfast.kernel.journal import Journals
from holdfast.kernel.owner_view import bind
from holdfast.kernel.pages import Damage, entries_of, pass_by
from holdfast.kernel.playback import Playback
from holdfast.kernel.proving import MARKERS, Prover
from holdfast.kernel.reader import all_runs
from holdfast.kernel.writer import writer_for
from holdfast.model import (
    Entry,
    Status,
    check_id,
    checkpoint_id,
    erases,
    lost,
    stub,
    verdict_journal,
)
from holdfast.operations.adding import PAGE, PAGE_BYTES, add, blaming, identity, pieces
from holdfast.operations.blocks import in_blocks
from holdfast.operations.joining import in_thread_order, join_thread, keep_aliases
from holdfast.store import Store
from holdfast.urls import store_of

_FEW: Final = 8  # entries to read before it is known what they weigh
_LARGEST_STATE: Final = 1 << 30

Progress = Callable[[str], object]


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

    Raises `CheckpointNotFoundError` for a named run that is not there or was deleted. A run of the
    target that is another one by the same id, or may have continued there, is not changed: once
    all other runs are copied, `CopyRefusedError` names these. Once all is copied that can be,
    `CheckpointCorruptedError` names an entry that is damaged in the source. In the target it is
    missing, and `verify` says so there; if it is the run's newest, the copy ends before it. Damage
    in the target itself is raised at once.
    """
    if isinstance(run_ids, str) or not isinstance(target, Store | str | os.PathLike):
        raise TypeError("copy_to needs a store or URL, and a list of run ids if not all are meant")
    names = named_runs(core, run_ids)
    source = core.journals
    opened = store_of(target)
    try:
        store = bind(opened, source.owner)
        largest = max(core.settings.max_state_bytes, _LARGEST_STATE)
        copies = keyed.elsewhere(source, store, writer_for(store), largest)
        copies.prepare(None)
        there = Core(copies, core.settings)
        copied, refused = [], []
        damaged: list[CheckpointCorruptedError] = []

        def copy(name: str) -> str | None:
            try:
                copy_run(source, copies, name, damaged.append)
            except (RunExistsError, RunTakenError):
                refused.append(name)
                return None
            return None if copies.head_seq(name) is None else name  # nothing of it is intact

        keyed_copies = source.sealer is not None or copies.sealer is not None
        for done in in_blocks(copies.store, names, copy, alone=keyed_copies):
            if done is not None:
                keep_aliases(there, done)
                copied.append(done)
                progress(done)
        for name in in_thread_order(source, copied):
            join_thread(there, name)
        if refused:
            raise CopyRefusedError(tuple(refused), opened.url)
        raise_first(damaged)
        return len(copied)
    finally:
        if opened is not target:
            opened.close()


def copy_run(
    source: Journals, target: Journals, name: str, damage: Damage = pass_by
) -> CheckpointCorruptedError | None:
    """Copy one run and its verdicts, to which no thread or alias leads yet.

    Returns what is wrong with the entry that the copy ends before, if it is not all of the run.
    """
    keyed.take_keys(source, target, name)
    copy = _Copy(source, target, name, damage)
    copy.make()
    with suppress(RunExistsError):  # what was found about the copy itself stays
        _Copy(source, target, verdict_journal(name), damage).make()
    return copy.lost[copy.held[0].seq] if copy.held else None


def raise_first(damaged: list[CheckpointCorruptedError]) -> None:
    """Raise the first of these errors, if there is one; it names the entries of all of them."""
    if damaged:
        damaged[0].lost = tuple(
            dict.fromkeys(checkpoint_id(error.run_id, error.seq or 0) for error in damaged)
        )
        raise damaged[0]


def named_runs(core: Core, run_ids: Iterable[str] | None) -> Iterator[str]:
    """The runs of these ids, or all there are.

    Raises `CheckpointNotFoundError` at once for one that is not there or was deleted.
    """
    if run_ids is None:
        return (head.run for head in all_runs(core.journals.store))
    names = [check_id("run_id", run_id) for run_id in run_ids]
    for name in names:
        head = _head(core.journals, name)
        if head is None or erases(head):
            raise CheckpointNotFoundError(name)
    return iter(names)


class _Copy:
    """Copies one journal: how far it got, and which states are in the target."""

    def __init__(self, source: Journals, target: Journals, name: str, damage: Damage) -> None:
        self.source = source
        self.target = target
        self.name = name
        self.damage = damage
        self.prover = Prover(source.vouch, source.admit, every_byte=True)
        self.playback = Playback(source)
        self.last: Entry | None = None
        self.states: set[int] = set()
        self.lost: dict[int, CheckpointCorruptedError] = {}  # damaged in the source, by seq
        self.held: list[Entry] = []  # their places, with nothing intact behind them yet
        self.trimmed = 0

    def make(self) -> None:
        """Copy all there is."""
        begun, there = _head(self.source, self.name), _head(self.target, self.name)
        if begun is None:
            return
        # Markers up to here are of trims before anything was read; later ones are to be done.
        self.trimmed = begun.seq if there is None else there.seq
        limit = _FEW
        while page := self._read(after := self._reached(), limit):
            weight = sum(len(entry.body) for entry in page) // len(page) + 1
            limit = max(1, min(PAGE, PAGE_BYTES // weight))
            plain = list(takewhile(lambda entry: not self._thins_out(entry), page))
            ready, held = self._split([*self.held, *plain], intact_behind=len(plain) < len(page))
            try:
                self._add(ready)
            except CheckpointCorruptedError:
                if self._read(after, len(page)) == page:
                    raise
                continue  # it was deleted meanwhile
            self.held = held
            if len(plain) < len(page):
                self._follow(page[len(plain)])
        copied = _head(self.target, self.name)
        if self.last is None and copied is None:
            return  # nothing of it is intact
        known = [identity(entry) for entry in (self.last, *self.held) if entry is not None]
        if copied is None or identity(copied) not in known:
            raise RunExistsError(self.name)
        current = state_seq(copied)
        if current is not None:
            try:
                with blaming(self.target.store):
                    self.target.chain(self.name, current)
            except CheckpointCorruptedError:
                if self._has_state(current):
                    raise
        self.target.forget(self.name)

    def _reached(self) -> int | None:
        """The seq of the last entry that was added or held back."""
        last = max(filter(None, (self.last, *self.held[-1:])), key=attrgetter("seq"), default=None)
        return None if last is None else last.seq

    def _split(
        self, entries: list[Entry], *, intact_behind: bool
    ) -> tuple[list[Entry], list[Entry]]:
        """What can be added now, and the lost entries at the end that must not become the head."""
        reached = -1 if self.last is None else self.last.seq
        entries = [entry for entry in entries if entry.seq > reached]
        end = len(entries)
        while end and not intact_behind and entries[end - 1].seq in self.lost:
            end -= 1
        return entries[:end], entries[end:]

    def _has_state(self, seq: int) -> bool:
        """Whether the source has the state that is current there."""
        try:
            self.source.chain(self.name, seq)
        except CheckpointCorruptedError:
            return False
        return True

    def _read(self, after: int | None, limit: int) -> list[Entry]:
        """The next entries, proved; stubs in place of damaged ones."""
        page: list[Entry] = []
        with blaming(self.source.store):
            found = entries_of(self.source.store, self.name, False, after, limit, bodies=True)
            for entry in islice(found, limit):
                if isinstance(entry, CheckpointCorruptedError):
                    page.append(self._lost(entry))
                    self.prover.pass_over(page[-1].seq, entry.digest)
                    continue
                try:
                    if is_stub(entry):
                        self.prover.pass_over(entry.seq, entry.digest)
                        self.source.check_stub(entry)
                    else:
                        self.prover.prove(entry)
                except CheckpointCorruptedError as error:
                    self._lost(error)
                    entry = stub(entry)
                page.append(entry)
        return page

    def _lost(self, error: CheckpointCorruptedError) -> Entry:
        if error.seq is None:
            raise error
        if error.seq not in self.lost:
            self.lost[error.seq] = error
            self.damage(error)
        return lost(self.name, error.seq, error.digest)

    def _add(self, entries: list[Entry]) -> None:
        for piece in pieces(map(self._in_form, entries)):
            add(self.target.store, piece, self.states, self.lost)
            self.last = piece[-1]

    def _in_form(self, entry: Entry) -> Entry:
        """The entry as the target keeps it: in readable stores, with its state for people."""
        if is_stub(entry):
            return entry
        body = wrapping.undressed(entry)
        if not self.target.is_readable or body.startswith(b"{"):
            return entry._replace(body=body)
        state = b"null"
        if entry.size:
            with suppress(CheckpointCorruptedError):  # what it builds on is: it is no less true
                found = self.playback.encoding(entry)
                if found is not None:
                    state = self.target.encode(self.source.decode_data(found))
        return entry._replace(body=wrapping.dressed(entry, state))

    def _thins_out(self, entry: Entry) -> bool:
        """Whether this marker says to delete something in the target."""
        return erases(entry) or (entry.kind in MARKERS and entry.seq > self.trimmed)

    def _follow(self, marker: Entry) -> None:
        """Delete in the target what is deleted in the source."""
        if erases(marker):
            self._erase(self._in_form(marker))
        else:
            self._trim(self._in_form(marker))
        self._add([marker])

    def _erase(self, tombstone: Entry) -> None:
        """Erase the run in the target, if it is known to be what was erased in the source."""
        head = _head(self.target, self.name)
        if head is not None and head.seq < tombstone.seq:
            after = Meta(tombstone).digest_before
            known = head.seq == (self.last and self.last.seq) or head.digest == after
            if not known and not erases(head):
                raise RunExistsError(self.name)
            for beside in self.source.store.read(verdict_journal(self.name), limit=1):
                if erases(beside):
                    self.target.store.erase(beside)
        self.target.store.erase(tombstone)
        self.states.clear()

    def _trim(self, marker: Entry) -> None:
        """Delete from the target what is deleted in the source by now."""
        self.trimmed = max(marker.seq, self.source.head_seq(self.name) or 0)
        here = {e.seq for e in self.target.entries(self.name) if e.status != Status.DELETED}
        changes: dict[int, bytes | None] = {}
        for entry in self.source.entries(self.name, bodies=True, damage=pass_by):
            if entry.seq not in here:
                continue
            if is_stub(entry):
                changes[entry.seq] = None
            elif envelope.check(entry).is_rewritten:
                changes[entry.seq] = self._in_form(entry).body
        self.target.store.trim(marker, changes)
        self.states.difference_update(seq for seq, body in changes.items() if body is None)


def _head(journals: Journals, name: str) -> Entry | None:
    """The head as it is stored; the place of one that can't be read."""
    try:
        found = journals.store.read(name, newest_first=True, limit=1, bodies=False)
    except CheckpointCorruptedError:
        seq = journals.head_seq(name)
        if seq is None:
            raise
        return lost(name, seq)
    return found[0] if found else None
