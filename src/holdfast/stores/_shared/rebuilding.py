"""How the heads index of an SQL database is compared with the journals, and made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from holdfast.heads import NOW, RunHead, Tally, fold
from holdfast.model import Entry
from holdfast.scanning import summed, tallied
from holdfast.stores._shared.index import HEAD_COLUMNS, as_head
from holdfast.stores._shared.table import NO_BODY, Row

_PAGE: Final = 500
NOW_COLUMNS: Final = "hour, flow, what, bucket, n, total"


class Journals(NamedTuple):
    """The entries and the index in one snapshot of a database, or in a transaction of it."""

    ask: Callable[[str, Any], list[Row]]  # what runs a query
    entries: str = "entries"
    prefix: str = ""  # of the tables of the index
    mark: str = "?"
    empty: str = "x''"

    def runs(self) -> Iterator[str]:
        """The runs that have entries."""
        return self._names(self.entries)

    def row(self, run: str) -> RunHead | None:
        """The row that the index has of a run."""
        found = self.ask(
            f"SELECT {HEAD_COLUMNS} FROM {self.prefix}run_heads WHERE run = {self.mark}",  # noqa: S608
            (run,),
        )
        return as_head(found[0]) if found else None

    def journal(self, run: str) -> list[Entry]:
        """The entries of a run, without bodies."""
        query = (
            f"SELECT {NO_BODY}, {self.empty} FROM {self.entries} AS e "  # noqa: S608
            f"WHERE e.run = {self.mark} ORDER BY e.seq"
        )
        return list(map(Entry._make, self.ask(query, (run,))))

    def right(self, run: str) -> RunHead | None:
        """The row that the journal gives."""
        return _folded(self.journal(run))

    def wrong(self) -> list[str]:
        """The runs whose rows are not what their journals say."""
        return [run for run in self._suspects() if self.row(run) != self.right(run)]

    def _suspects(self) -> Iterator[str]:
        """The runs that may have a wrong row: others may write while this reads, page by page."""
        rows = self._rows()
        row = next(rows, None)
        for run, entries in groupby(self._all_entries(), key=attrgetter("run")):
            while row is not None and row.run < run:
                yield row.run
                row = next(rows, None)
            own = row if row is not None and row.run == run else None
            if own is not None:
                row = next(rows, None)
            if own != _folded(entries):
                yield run
        while row is not None:
            yield row.run
            row = next(rows, None)

    def _rows(self) -> Iterator[RunHead]:
        """The rows, by run."""
        query = (
            f"SELECT {HEAD_COLUMNS} FROM {self.prefix}run_heads WHERE run > {self.mark} "  # noqa: S608
            f"ORDER BY run LIMIT {_PAGE}"
        )
        after = ""
        while page := self.ask(query, (after,)):
            yield from map(as_head, page)
            after = page[-1][0]

    def _all_entries(self) -> Iterator[Entry]:
        """The entries of all runs, by run and seq."""
        select = f"SELECT {NO_BODY}, {self.empty} FROM {self.entries} AS e WHERE"  # noqa: S608
        order = f"ORDER BY e.run, e.seq LIMIT {_PAGE}"
        behind = f"{select} e.run > {self.mark} AND e.run >= ' ' {order}"
        rest = f"{select} e.run = {self.mark} AND e.seq > {self.mark} {order}"
        after = ""
        while page := self.ask(behind, (after,)):
            while page:
                yield from map(Entry._make, page)
                after, seq = page[-1][:2]
                page = self.ask(rest, (after, seq))  # of the last run, which may be cut

    def wrong_counts(self) -> int:
        """How many numbers of runs by flow and status are not what the rows say."""
        query = f"SELECT flow, what, n FROM {self.prefix}run_tally WHERE hour = {NOW} AND n <> 0"  # noqa: S608
        said = {(flow, what, int(n)) for flow, what, n in self.ask(query, ())}
        counted = {(flow, what, n) for _, flow, what, _, n, _ in self.ask(self.now, ())}
        return len(said ^ counted)

    @property
    def now(self) -> str:
        """A query for the numbers of runs by flow and status, as the rows say."""
        return (
            f"SELECT {NOW} AS hour, coalesce(flow, '') AS flow, status AS what, 0 AS bucket, "  # noqa: S608
            "count(*) AS n, 0 AS total "
            f"FROM {self.prefix}run_heads GROUP BY coalesce(flow, ''), status"
        )

    def built(self, put: Callable[[RunHead], object]) -> list[Tally]:
        """Give every row of a new index to `put`; return the statistics, but for those of now."""
        counted: list[Tally] = []
        for run in self.runs():
            journal = self.journal(run)
            row = _folded(journal)
            if row is not None:
                put(row)
            counted += tallied(journal)
            if len(counted) > _PAGE:
                counted = summed(counted)
        return [each for each in summed(counted) if each.hour != NOW]

    def _names(self, table: str) -> Iterator[str]:
        query = (
            f"SELECT DISTINCT run FROM {table} WHERE run > {self.mark} AND run >= ' ' "  # noqa: S608
            f"ORDER BY run LIMIT {_PAGE}"
        )
        after = ""
        while page := self.ask(query, (after,)):
            yield from chain.from_iterable(page)
            (after,) = page[-1]


def _folded(journal: Iterable[Entry]) -> RunHead | None:
    """The row that a journal gives, but for entries of other types than these: those are damaged."""
    return fold(
        entry
        for entry in journal
        if type(entry.seq) is int and type(entry.run) is str and type(entry.meta) is str
    )
