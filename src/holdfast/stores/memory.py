"""Journals in this process's memory, for tests and for work that may be lost."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from operator import attrgetter
from threading import Lock
from typing import ClassVar

from holdfast.errors import StoreClosedError
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

_seq = attrgetter("seq")


class MemoryStore(Store):
    """Survives nothing. Closing it forgets everything.

    Entries are immutable, so they are kept as they come; lists are never shared with callers.
    """

    inline: ClassVar[bool] = True
    shared: ClassVar[bool] = False
    url = "memory://"

    def __init__(self) -> None:
        self._renew_lock()
        on_fork(self._renew_lock)  # another thread may have held it at the fork
        self._closed = False
        # An append below the head loses, so each list is in seq order and its end is the head.
        self._journals: dict[str, list[Entry]] = {}
        self._names: list[str] = []  # the keys, sorted: a page of runs is found by bisection

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        with self._lock:
            self._check_open()
            return outcomes(entries, self._append, runs_beaten(behind, self._digest))

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
            return True

    def erase(self, tombstone: Entry) -> bool:
        with self._lock:
            self._check_open()
            if not self._append(tombstone):
                return False
            self._journals[tombstone.run] = [tombstone]
            return True

    def stats(self, run: str | None = None) -> StoreStats:
        with self._lock:
            self._check_open()
            if run is None:
                found = [j for name, j in self._journals.items() if not name.startswith(HIDDEN)]
            else:
                found = [self._journals.get(run, [])]
            return totals(((entry, len(entry.body)) for entry in journal) for journal in found)

    def survives(self) -> Survives:
        self._check_open()
        return "nothing"

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._journals.clear()
            self._names.clear()

    def _renew_lock(self) -> None:
        self._lock = Lock()

    def _append(self, entry: Entry) -> bool:
        journal = self._journals.get(entry.run)
        if not follows(entry, journal[-1].seq if journal else -1):
            return False
        if journal is None:
            self._journals[entry.run] = [entry]
            insort(self._names, entry.run)
        else:
            journal.append(entry)
        return True

    def _digest(self, run: str) -> bytes:
        journal = self._journals.get(run)
        return journal[-1].digest if journal else b""

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(self.url)
