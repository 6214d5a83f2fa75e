"""Stores on SQL servers: how entries are appended, trimmed and erased."""

from __future__ import annotations

import random
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import compress
from operator import itemgetter
from typing import Final, Generic, TypeVar

from holdfast.errors import HoldfastError, StoreUnavailableError
from holdfast.model import Entry
from holdfast.store import (
    ANY_HEAD,
    PAGE,
    Behind,
    Head,
    RunFilter,
    Transactional,
    Work,
)
from holdfast.stores._shared.outcomes import outcomes_by_heads
from holdfast.stores._shared.table import Row, Statement, TableStore

WORK_SECONDS: Final = 30.0
_TRIES: Final = 20
_FIRST_PAUSE: Final = 0.002
_LONGEST_PAUSE: Final = 0.2

Cursor = TypeVar("Cursor")
T = TypeVar("T")
_position = itemgetter(0, 1)  # run and seq


class BeatenError(HoldfastError):
    """Another writer was first; roll back. Never leaves a store."""


class ContendedError(StoreUnavailableError):
    """The server rolled back in favour of another transaction; nothing was written."""


class SQLStore(TableStore, Transactional, Generic[Cursor]):
    """Journals in a table on a server. Subclasses know the dialect.

    An append inserts all its entries, or none: if one of them loses, the heads are read, the losers
    are dropped, and the rest is tried again. Entries are sorted, so that transactions wait for each
    other in one order.
    """

    _mark = "%s"

    @abstractmethod
    def _transaction(self, run: str) -> AbstractContextManager[Cursor]:
        """A cursor in a READ COMMITTED transaction, committed at the end or rolled back.

        Errors are translated: `OutcomeUnknownError` with the run if the commit may have happened.
        """

    @abstractmethod
    def _insert(self, cursor: Cursor, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> None:
        """Insert all the entries. Raises `BeatenError` if one does not follow its run's head.

        Or if that has another digest than `behind` says. That includes a head that another writer committed while we waited.
        """

    @abstractmethod
    def _change(self, cursor: Cursor, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Execute the statement once for each row of parameters."""

    @abstractmethod
    def _do_work(self, cursor: Cursor, work: Work) -> None:
        """Call `work` in the transaction; raise `WorkFailedError` with what it raises."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raise `StoreClosedError` once it is closed."""

    def _written(self, entries: Iterable[Entry]) -> None:
        """Called after each commit with its entries, in order, to notify watchers."""

    def _insert_alone(self, entries: Sequence[Entry], behind: Behind) -> None:
        """`_insert` in a transaction of its own."""
        with self._transaction(entries[0].run) as cursor:
            self._insert(cursor, entries, behind)

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        self._check_open()
        outcomes = [True] * len(entries)
        for _ in range(_TRIES):
            winners = sorted(compress(entries, outcomes), key=_position)
            if not winners:
                return outcomes
            try:
                patiently(lambda winners=winners: self._insert_alone(winners, behind))  # type: ignore[misc]
            except BeatenError:
                heads = self._heads({entry.run for entry in entries})
                outcomes = outcomes_by_heads(entries, heads, behind)
            else:
                self._written(winners)
                return outcomes
        raise StoreUnavailableError(
            f"{self.url}: other writers kept getting ahead on the same runs"
        )

    def append_with(
        self, entries: Sequence[Entry], work: Work, behind: Behind = ANY_HEAD
    ) -> list[bool]:
        ordered = sorted(entries, key=_position)

        def attempt() -> None:
            with self._transaction(entries[0].run if entries else "") as cursor:
                if entries:
                    self._insert(cursor, ordered, behind)
                self._do_work(cursor, work)

        return [self._done(ordered, attempt)] * len(entries)

    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        return self._mark_and(marker, list(self._trimming(marker, changes)))

    def erase(self, tombstone: Entry) -> bool:
        return self._mark_and(tombstone, [self._erasing(tombstone)])

    def _mark_and(self, marker: Entry, changes: Sequence[Statement]) -> bool:
        def attempt() -> None:
            with self._transaction(marker.run) as cursor:
                self._insert(cursor, [marker])
                for statement, rows in changes:
                    self._change(cursor, statement, rows)

        return self._done([marker], attempt)

    def _done(self, entries: Sequence[Entry], attempt: Callable[[], None]) -> bool:
        """Run a transaction; return False if another writer was first."""
        try:
            patiently(attempt)
        except BeatenError:
            return False
        self._written(entries)
        return True

    def _heads(self, runs: Iterable[str]) -> dict[str, Head]:
        """Each run's head, as committed by now."""
        names = sorted(runs)
        found: list[Row] = []
        for at in range(0, len(names), PAGE):
            page = names[at : at + PAGE]
            found += self._rows(
                f"SELECT e.run, e.seq, e.digest FROM {self._entries} AS e JOIN ("  # noqa: S608
                f"SELECT run, max(seq) AS seq FROM {self._entries} "
                f"WHERE run IN ({', '.join(['%s'] * len(page))}) GROUP BY run"
                ") AS head ON e.run = head.run AND e.seq = head.seq",
                page,
            )
        return {run: (seq, digest) for run, seq, digest in found}


def conditions(where: RunFilter) -> tuple[str, dict[str, str]]:
    """A filter as an SQL condition on a head `e`, and its parameters."""
    wanted = {
        name: value
        for name in ("status", "flow", "thread", "owner", "type")
        if (value := getattr(where, name)) is not None
    }
    parts = [f"e.{name} = %({name})s" for name in wanted]
    if where.status is None:
        parts.append("e.status <> 'deleted'")
    return " AND ".join(parts), wanted


def patiently(action: Callable[[], T]) -> T:
    """Call it again while the server rolls it back in favour of others, a few times."""
    pause = _FIRST_PAUSE
    for _ in range(_TRIES - 1):
        try:
            return action()
        except ContendedError:
            time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - so that two get out of step
            pause = min(pause * 2, _LONGEST_PAUSE)
    return action()
