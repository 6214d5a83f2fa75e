"""Whether what a receipt says was deleted is still deleted in this store. Reads only; blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from holdfast.checkpoint import to_micros
from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointCorruptedError, HoldfastError
from holdfast.kernel import keyed
from holdfast.kernel.core import Core
from holdfast.kernel.reader import all_runs
from holdfast.kernel.store_id import known_store_id
from holdfast.kernel.store_view import real_store
from holdfast.model import (
    ALIASES,
    HIDDEN,
    THREADS,
    VERDICTS,
    Entry,
    Status,
    erases,
    thread_journal,
)
from holdfast.operations.forget_record import find_record
from holdfast.operations.receipts import Forgotten, Receipt, hashed, read_receipt
from holdfast.store import RunFilter


class ReceiptCheck(NamedTuple):
    """What a store has to say to a receipt."""

    receipt: Receipt
    gone: int  # runs of the receipt whose tombstones are here
    came_back: tuple[
        str, ...
    ]  # runs that were deleted, or are the subject's from before, and are here
    missing: int  # runs of the receipt that are not here, and neither are their tombstones
    leftovers: tuple[str, ...]  # what is still kept beside a deleted run
    since: tuple[str, ...]  # runs that the subject began after the receipt; not its concern
    recorded: bool  # the store has recorded this very receipt
    same_store: bool

    @property
    def ok(self) -> bool:
        """Whether all that was deleted is still deleted, in the store that it was deleted from."""
        return not self.problems

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, for people."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[str]:
        if not self.receipt.complete:
            yield "the receipt is of a forgetting that was not finished; forget it again"
        for run in self.came_back:
            yield f"run {run!r} is back: it was restored, imported or copied; forget it again"
        for what in self.leftovers:
            yield f"{what} is still there; forget it again"
        if not self.same_store:
            yield "this is another store than the one that gave the receipt"
        elif self.receipt.id and not self.recorded:
            yield "the store has no record of this receipt: it was restored from an older backup"
        if self.missing:
            runs = "1 run has" if self.missing == 1 else f"{self.missing} runs have"
            yield f"{runs} no tombstone of this receipt here"


def verify_receipt(
    core: Core, receipt: Receipt | Mapping[str, Any] | str | os.PathLike[str]
) -> ReceiptCheck:
    """Check that what was forgotten is still deleted; looks at every run, and changes nothing.

    Takes the receipt, what its `to_dict` made, or a file. Raises `ValueError` for one that was
    changed. Runs that came back, for example with a restored backup, are named, and so are runs
    of the same owner or thread from before it was forgotten.
    """
    known = read_receipt(receipt)
    look = _Look(core, known)
    look.at_runs()
    look.beside_runs()
    look.at_keys()
    record = find_record(core, known.id)
    return ReceiptCheck(
        known,
        len(look.gone),
        tuple(sorted(look.came_back)),
        len(look.listed.keys() - look.gone - look.here),
        tuple(look.leftovers),
        tuple(sorted(look.since)),
        recorded=record is not None and record.digest == known.to_dict()["sha256"],
        same_store=known.store == (known_store_id(core.journals) or ""),
    )


class _Look:
    """One look at all journals of a store."""

    def __init__(self, core: Core, receipt: Receipt) -> None:
        self._core = core
        self._store = core.journals.store
        self._all = real_store(core.journals.store)  # what is deleted is no owner's any more
        self._receipt = receipt
        self._before = to_micros(receipt.at)
        self._subjects: dict[str, bool] = {}  # by owner or thread: whether it is the subject
        self.listed: dict[str, Forgotten] = {run.name: run for run in receipt.runs}
        self.gone: set[str] = set()  # the names of runs that are deleted, as the receipt says
        self.here: set[str] = set()  # of those that are there again
        self.came_back: set[str] = set()
        self.since: set[str] = set()
        self.leftovers: list[str] = []

    def at_runs(self) -> None:
        """Look at every run, and at every tombstone."""
        for head in all_runs(self._all, RunFilter(status=Status.DELETED.value)):
            run = self._listed(head.run)
            if run is not None and _is_deleted(head, run):
                self.gone.add(run.name)
        for head in all_runs(self._store):
            run = self._listed(head.run)
            if run is None and not self._is_subjects(head):
                continue
            if run is not None:
                self.here.add(run.name)
            (self.since if self._began_later(head, run) else self.came_back).add(head.run)

    def beside_runs(self) -> None:
        """Look at the journals beside runs."""
        for head in all_runs(self._all, RunFilter(prefix=VERDICTS)):
            run_id = head.run.removeprefix(VERDICTS)
            if self._is_left_by(run_id):
                self.leftovers.append(f"the verdicts of run {run_id!r}")
        for head in all_runs(self._all, RunFilter(prefix=ALIASES)):
            if self._is_left_by(self._aliased(head.run)):
                self.leftovers.append(f"the name {head.run.rpartition(HIDDEN)[2]!r}")
        if self._receipt.of == "thread":
            for head in all_runs(self._all, RunFilter(prefix=THREADS)):
                thread = head.run.removeprefix(THREADS)
                if self._is_subject(thread) and self._is_old_thread(thread):
                    self.leftovers.append(f"the list of runs of thread {thread!r}")

    def at_keys(self) -> None:
        """Look for data keys that were destroyed, and are back."""
        if not self._receipt.keys:
            return
        for row in keyed.data_keys(self._core.journals).rows():
            if row.owner is not None and self._is_subject(row.owner):
                back = {key for key, *_ in row.wrapped} & set(self._receipt.keys)
                self.leftovers += [f"the data key {key} of the owner" for key in sorted(back)]

    def _is_old_thread(self, thread: str) -> bool:
        """Whether a thread is still listed, without any run."""
        first = self._all.read(thread_journal(thread), limit=1, bodies=False)
        is_old = bool(first) and not erases(first[0]) and first[0].at <= self._before
        return is_old and not self._all.runs(RunFilter(thread=thread), limit=1)

    def _listed(self, run_id: str) -> Forgotten | None:
        return self.listed.get(hashed(self._receipt.salt, "run", run_id))

    def _is_left_by(self, run_id: str) -> bool:
        run = self._listed(run_id)
        return run is not None and run.name not in self.here

    def _aliased(self, journal: str) -> str:
        """The run that an alias leads to; empty if that can't be read."""
        try:
            head = self._core.journals.head(journal)
            return "" if head is None else (Meta(head).step or "").rpartition("@")[0]
        except HoldfastError:  # it is damaged, or its key was destroyed
            return ""

    def _is_subjects(self, head: Entry) -> bool:
        value = {"owner": head.owner, "thread": head.thread}.get(self._receipt.of)
        return value is not None and self._is_subject(value)

    def _is_subject(self, value: str) -> bool:
        found = self._subjects.get(value)
        if found is None:
            name = hashed(self._receipt.salt, self._receipt.of, value)
            found = self._subjects[value] = name == self._receipt.subject
        return found

    def _began_later(self, head: Entry, run: Forgotten | None) -> bool:
        """Whether a run began after the receipt: behind its tombstone, or by its time."""
        try:
            first, *rest = self._core.journals.store.read(head.run, limit=2, bodies=False)
        except (CheckpointCorruptedError, ValueError):
            return False
        if run is not None:
            return erases(first) and run.seq is not None and first.seq >= run.seq
        opening = rest[0] if erases(first) and rest else first
        return opening.at > self._before


def _is_deleted(tombstone: Entry, run: Forgotten) -> bool:
    """Whether this is the tombstone of the receipt, or a later one: it was deleted once more."""
    if run.seq is None or tombstone.seq < run.seq:
        return False
    return tombstone.seq > run.seq or tombstone.digest.hex() == run.tombstone
