"""Stores and writers that make the mistakes others have made. The checker must catch every one."""

from __future__ import annotations

import random
import stat
import threading
import time
from collections.abc import Callable, Sequence
from os import fstat
from typing import Any
from urllib.parse import urlsplit

import holdfast as hf
from holdfast.errors import ConflictError, OutcomeUnknownError, StoreUnavailableError
from holdfast.kernel import writer
from holdfast.kernel.ticket import Line, Ticket
from holdfast.model import Entry
from holdfast.seams import SYSTEM_CLOCK, Clock, SystemClock
from holdfast.store import ANY_HEAD, Behind, Work
from holdfast.stores._shared import disk
from holdfast.stores.files import root
from holdfast.stores.files import run as run_module
from holdfast.stores.files import store as file
from holdfast.stores.sqlite.store import SQLiteStore


class AcknowledgesBeforeCommit(SQLiteStore):
    held: Sequence[Entry] = ()
    held_behind: Behind = ANY_HEAD

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if self.held:
            super().append(self.held, self.held_behind)
        self.held, self.held_behind = list(entries), behind
        return [True] * len(entries)


class FiresAndForgets(SQLiteStore):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        def later() -> None:
            time.sleep(0.002)
            super(FiresAndForgets, self).append(entries, behind)

        threading.Thread(target=later, daemon=True).start()
        return [True] * len(entries)


class WorksOutsideTheTransaction(SQLiteStore):
    def append_with(
        self, entries: Sequence[Entry], work: Work, behind: Behind = ANY_HEAD
    ) -> list[bool]:
        super().append_with([], work)
        return self.append(entries, behind)


class Unreliable(SQLiteStore):
    """Not a mistake: the disk is full now and then."""

    attempts = 0

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        self.attempts += 1
        if self.attempts % 4 == 0:
            raise StoreUnavailableError("the disk is full")
        return super().append(entries, behind)


class SwallowsErrors(Unreliable):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        try:
            return super().append(entries, behind)
        except StoreUnavailableError:
            return [True] * len(entries)


class TakesTheHighestSeqPlusOne(SQLiteStore):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        for entry in entries:
            head = self.last(entry.run)
            time.sleep(0.0002)  # the window that every SELECT before an INSERT has
            seq = 0 if head is None else head.seq + 1
            with self._db.transaction(entry.run) as db:
                marks = ", ".join("?" * len(entry))
                db.execute(
                    f"INSERT OR REPLACE INTO holdfast_entries VALUES ({marks})",
                    entry._replace(seq=seq),
                )
        return [True] * len(entries)


class ReplacesByStepName(SQLiteStore):
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        outcomes = super().append(entries, behind)
        with self._db.transaction("") as db:
            for entry in entries:
                db.execute(
                    "DELETE FROM holdfast_entries WHERE run = ? AND step = ? AND seq < ?",
                    (entry.run, entry.step, entry.seq),
                )
        return outcomes


class LatestByTime(SQLiteStore):
    def read(self, run: str, **options: Any) -> list[Entry]:
        found = super().read(run, **options)
        if options.get("newest_first") and options.get("after") is None and found:
            everything = super().read(run, bodies=options.get("bodies", True))
            found[0] = max(everything, key=lambda entry: entry.at)
        return found


class FreesSeqsWhenCleared(SQLiteStore):
    def erase(self, tombstone: Entry) -> bool:
        done = super().erase(tombstone)
        with self._db.transaction(tombstone.run) as db:
            db.execute("DELETE FROM holdfast_entries WHERE run = ?", (tombstone.run,))
        return done


class LosesReplies(SQLiteStore):
    """Not a mistake: the connection breaks after a commit now and then."""

    attempts = 0

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        self.attempts += 1
        outcomes = super().append(entries, behind)
        if self.attempts % 3 == 0:
            raise OutcomeUnknownError(entries[0].run, "the connection broke")
        return outcomes


class RetriesWithoutLooking(LosesReplies):
    """Its writer takes a lost reply for a failure and saves again."""


class GoesOnAfterAConflict(SQLiteStore):
    """Its writer does not stop: what was queued behind the loser is written all the same."""

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        return super().append(entries)  # or it would lose by what it claims to be behind


class ClockThatStepsBack(SQLiteStore):
    """Not a mistake: NTP, or an operator."""


class NoSync(file.FileStore):
    pass


class NoDirectorySync(file.FileStore):
    pass


_STORES: dict[str, Callable[..., hf.Store]] = {
    store.__name__: store
    for store in (
        AcknowledgesBeforeCommit, FiresAndForgets, WorksOutsideTheTransaction, Unreliable, SwallowsErrors,
        TakesTheHighestSeqPlusOne, ReplacesByStepName, LatestByTime, FreesSeqsWhenCleared,
        LosesReplies, RetriesWithoutLooking, GoesOnAfterAConflict, ClockThatStepsBack, NoSync,
        NoDirectorySync,
    )
}  # fmt: skip


def open_store(url: str, mutant: str = "", **options: Any) -> hf.Store:
    """The store a URL names, or the mutant in its place."""
    if not mutant:
        return hf.open_store(url, **options)
    path = urlsplit(url).path
    return _STORES[mutant](path.replace("//", "/") if url.startswith("sqlite") else path)


def clock(mutant: str) -> Clock:
    """The worker's clock."""
    return _SteppingClock() if mutant in ("LatestByTime", "ClockThatStepsBack") else SYSTEM_CLOCK


def break_process(mutant: str) -> None:
    """Bring the mistakes of a writer, or of a disk, into this process. For workers only."""
    broken: Any = writer
    if mutant == "RetriesWithoutLooking":
        broken.look_for = _take_for_lost
    elif mutant == "GoesOnAfterAConflict":
        line: Any = Line
        line.broken = property(lambda self: False, lambda self, value: None)
        writer.MAX_BATCH_ENTRIES = 1  # type: ignore[misc]
    elif mutant in ("NoSync", "NoDirectorySync"):
        really = disk.sync

        def sync(fd: int) -> None:
            if mutant == "NoDirectorySync" and not stat.S_ISDIR(fstat(fd).st_mode):
                really(fd)

        for module in (disk, root, run_module, file):
            module.sync = sync  # type: ignore[attr-defined]


class _SteppingClock(SystemClock):
    def now(self) -> int:
        return super().now() + random.randrange(-10_000_000, 10_000_000)


def _take_for_lost(store: hf.Store, tickets: Sequence[Ticket], *, refused: bool = False) -> None:
    for ticket in tickets:
        ticket.resolve(ConflictError(ticket.entries[0].run, ticket.entries[0].seq))
