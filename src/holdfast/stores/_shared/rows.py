"""The heads index in memory."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import nsmallest

from holdfast.heads import NOW, Position, RowChange, RunHead, Tally, applied, differences, hours
from holdfast.model import Entry
from holdfast.scanning import due_among, due_order, fits, of_hours, summed
from holdfast.store import RunFilter


class Rows:
    """The rows of the runs, in the order of lists, and the statistics. Not for several threads."""

    def __init__(self) -> None:
        self._rows: dict[str, RunHead] = {}
        self._order: list[Position] = []
        self._due: set[str] = set()
        self._numbers: dict[tuple[int, str, str, int], int] = {}
        self._totals: dict[tuple[int, str, str, int], int] = {}  # those that are not 0

    def change(self, change: RowChange) -> None:
        """RowChange a row, and the statistics."""
        before = self._rows.get(change.run)
        row = applied(before, change)
        self.add(differences(before, change, row))
        self.put(change.run, row)

    def add(self, found: Iterable[Tally]) -> None:
        """Add to the statistics."""
        numbers = self._numbers
        for tally in found:
            key = tally[:4]
            numbers[key] = numbers.get(key, 0) + tally.n
            if tally.total:
                self._totals[key] = self._totals.get(key, 0) + tally.total

    def put(self, run: str, row: RunHead | None) -> None:
        """Replace a row, or remove it."""
        before = self._rows.pop(run, None)
        if before is not None and (row is None or row.position != before.position):
            del self._order[bisect_left(self._order, before.position)]
        if row is not None:
            self._rows[run] = row
            if before is None or row.position != before.position:
                insort(self._order, row.position)
        if row is not None and row.due is not None:
            self._due.add(run)
        else:
            self._due.discard(run)

    def get(self, run: str) -> RunHead | None:
        """The row of a run."""
        return self._rows.get(run)

    def runs(self) -> set[str]:
        """The runs that have a row."""
        return set(self._rows)

    def listed(
        self,
        where: RunFilter,
        before: Position | None,
        limit: int,
        head_of: Callable[[str], Entry | None],
    ) -> list[tuple[RunHead, Entry]]:
        """As `Store.listed`."""
        found: list[tuple[RunHead, Entry]] = []
        for row in self.newest(where, before):
            if len(found) >= limit:
                break
            head = head_of(row.run)
            if head is not None and where.lists(row, head):
                found.append((row, head._replace(body=b"")))
        return found

    def newest(self, where: RunFilter, before: Position | None) -> Iterator[RunHead]:
        """The rows that match, whatever type their heads have, the last opened first."""
        end = len(self._order) if before is None else bisect_left(self._order, before)
        for place in range(end - 1, -1, -1):
            opened, run = self._order[place]
            if where.since is not None and opened < where.since:
                break
            if fits(where, self._rows[run]):
                yield self._rows[run]

    def due(self, now: int, flows: Collection[str] | None, limit: int) -> list[RunHead]:
        """As `Store.due`."""
        found = due_among((self._rows[run] for run in self._due), now, flows)
        return nsmallest(limit, found, key=due_order)

    def holders(self) -> dict[str, int]:
        """As `Store.holders`."""
        found = (row.holder for row in self._rows.values())
        return dict(Counter(holder for holder in found if holder is not None))

    def counts(self, where: RunFilter, head_of: Callable[[str], Entry | None]) -> dict[str, int]:
        """As `Store.counts`."""
        found = (row for row in self._rows.values() if fits(where, row))
        if where.type is not None:
            heads = ((row, head_of(row.run)) for row in found)
            found = (row for row, head in heads if head is not None and head.type == where.type)
        return dict(Counter(row.status for row in found))

    def tally(self, since: int, until: int, *, flow: str | None = None) -> list[Tally]:
        """As `Store.tally`."""
        return of_hours(self.statistics(), *hours(since, until), flow)

    def now(self) -> list[Tally]:
        """The numbers of runs by flow and status."""
        return summed(row for row in self.statistics() if row.hour == NOW)

    def statistics(self) -> Iterable[Tally]:
        """All numbers, of hours and of now."""
        for key, n in self._numbers.items():
            yield Tally(*key, n, self._totals.get(key, 0))
