"""Journals in this process's memory, for tests and for work that may be lost."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from operator import attrgetter
from threading import Lock
from typing import ClassVar

from holdfast.changes import Notifying, Watch
from holdfast.errors import StoreClosedError
from holdfast.heads import Position, RunHead, Tally, change_by, changes, fold
from holdfast.model import HIDDEN, Entry, follows
from holdfast.seams import on_fork
from holdfast.store import (
    ANY_HEAD,
    PAGE,
    Behind,
    RunFilter,
    Store,
    StoreStats,
    Survives,
    outcomes,
    runs_beaten,
    trimmed,
)
from holdfast.stores._shared.journals import page_of, totals
from holdfast.stores._shared.local_watch import LocalWatches
from holdfast.stores._shared.rows import Rows

_seq = attrgetter("seq")


class MemoryStore(Store, Notifying):
    """Survives nothing. Closing it forgets everything.

    Entries are immutable, so they are kept as they come; lists are never shared with callers.
    """

    inline: ClassVar[bool] = True
    shared: ClassVar[bool] = False
    url = "memory://"

    def __init__(self) -> None:
        self._watches = LocalWatches()
        self._renew_lock()
        on_fork(self._renew_lock)  # another thread may have held it at the fork
        self._closed = False
        # An append below the head loses, so each list is in seq order and its end is the head.
        self._journals: dict[str, list[Entry]] = {}
        self._names: list[str] = []  # the keys, sorted: a page of runs is found by bisection
        self._rows = Rows()

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        with self._lock:
            if self._closed:
                raise StoreClosedError(self.url)
            if len(entries) == 1:  # as nearly always
                (entry,) = entries
                digest = self._digest(entry.run) if entry.run in behind else None
                won = [behind.get(entry.run) == digest and self._append(entry)]
            else:
                won = outcomes(entries, self._append, runs_beaten(behind, self._digest))
        if self._watches.queues:
            self._watches.tell(compress(entries, won))
        return won

    def read(
        self,
        run: str,
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> list[Entry]:
        with self._lock:
            self._check_open()
            page = page_of(self._journals.get(run, []), _seq, after, limit, newest_first)
        return page if bodies else [entry._replace(body=b"") for entry in page]

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        found: list[Entry] = []
        with self._lock:
            self._check_open()
            for place in range(bisect_right(self._names, after), len(self._names)):
                if len(found) >= limit:
                    break
                head = self._journals[self._names[place]][-1]
                if where.matches(head):
                    found.append(head._replace(body=b""))
        return found

    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        with self._lock:
            self._check_open()
            if not self._append(marker):
                return False
            journal = self._journals[marker.run]
            for place, entry in enumerate(journal[:-1]):
                if entry.seq in changes:
                    journal[place] = trimmed(entry, changes[entry.seq])
        self._watches.tell([marker])
        return True

    def erase(self, tombstone: Entry) -> bool:
        with self._lock:
            self._check_open()
            if not self._append(tombstone):
                return False
            self._journals[tombstone.run] = [tombstone]
        self._watches.tell([tombstone])
        return True

    def stats(self, run: str | None = None) -> StoreStats:
        with self._lock:
            self._check_open()
            if run is None:
                found = [j for name, j in self._journals.items() if not name.startswith(HIDDEN)]
            else:
                found = [self._journals.get(run, [])]
            return totals(((entry, len(entry.body)) for entry in journal) for journal in found)

    def listed(
        self,
        where: RunFilter = RunFilter(),
        *,
        before: Position | None = None,
        limit: int = PAGE,
    ) -> list[tuple[RunHead, Entry]]:
        with self._lock:
            self._check_open()
            return self._rows.listed(where, before, limit, self._head)

    def row(self, run: str) -> RunHead | None:
        with self._lock:
            self._check_open()
            return self._rows.get(run)

    def due(
        self, now: int, *, flows: Collection[str] | None = None, limit: int = PAGE
    ) -> list[RunHead]:
        with self._lock:
            self._check_open()
            return self._rows.due(now, flows, limit)

    def holders(self) -> dict[str, int]:
        with self._lock:
            self._check_open()
            return self._rows.holders()

    def counts(self, where: RunFilter = RunFilter()) -> dict[str, int]:
        with self._lock:
            self._check_open()
            return self._rows.counts(where, self._head)

    def tally(self, since: int, until: int, *, flow: str | None = None) -> list[Tally]:
        with self._lock:
            self._check_open()
            return self._rows.tally(since, until, flow=flow)

    def rebuild(self, *, write: bool = True) -> int:
        wrong = 0
        with self._lock:
            self._check_open()
            for run in self._rows.runs().union(self._journals):
                row = None if run.startswith(HIDDEN) else fold(self._journals.get(run, ()))
                if row != self._rows.get(run):
                    wrong += 1
                    if write:
                        self._rows.put(run, row)
        return wrong

    def survives(self) -> Survives:
        self._check_open()
        return "nothing"

    def watch(self) -> Watch:
        """Watch all runs."""
        self._check_open()
        return self._watches.open()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._journals.clear()
            self._names.clear()
            self._rows = Rows()

    def _renew_lock(self) -> None:
        self._lock = Lock()

    def _append(self, entry: Entry) -> bool:
        run = entry.run
        journal = self._journals.get(run)
        if not follows(entry, journal[-1].seq if journal else -1):
            return False
        if journal is None:
            self._journals[run] = [entry]
            insort(self._names, run)
        else:
            journal.append(entry)
        if changes(entry):
            self._rows.change(change_by(entry))
        return True

    def _head(self, run: str) -> Entry:
        return self._journals[run][-1]

    def _digest(self, run: str) -> bytes:
        journal = self._journals.get(run)
        return journal[-1].digest if journal else b""

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(self.url)
