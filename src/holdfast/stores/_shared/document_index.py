"""The heads index of a `DocumentStore`: each document holds its run's row (see `holdfast.heads`).

The database finds documents by copies of the row's fields beside them, so both change at once. What
is counted in an hour is added after that, and may be missing after a crash.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from holdfast.errors import CheckpointCorruptedError
from holdfast.heads import Position, RunHead, Tally, hours
from holdfast.model import Entry
from holdfast.scanning import of_hours
from holdfast.store import PAGE, RunFilter
from holdfast.stores._shared.document_store import DocumentStore
from holdfast.stores._shared.documents import TRIES, new_version

Row = tuple[RunHead, bytes]
"""A row, and the `top` of its document."""


class IndexedDocumentStore(DocumentStore):
    """A `DocumentStore` whose database finds rows. They may be a moment behind the documents."""

    def __init__(self) -> None:
        super().__init__()
        self._complete = False  # whether every document is known to have its row

    @abstractmethod
    def _page(self, where: RunFilter, before: Position | None, limit: int) -> list[Row]:
        """The matching rows before a position, the newest first; `where.type` does not count."""

    @abstractmethod
    def _due(self, now: int, flows: Collection[str] | None, limit: int) -> list[RunHead]:
        """As `due`."""

    @abstractmethod
    def _row(self, run: str) -> RunHead | None:
        """The row that is found for a run."""

    @abstractmethod
    def _hours(self, first: int, end: int) -> Iterable[tuple[int, str, Mapping[str, int]]]:
        """What was added for the hours between these: hour, flow and numbers."""

    @abstractmethod
    def _is_complete(self) -> bool:
        """Whether the store says that every document has its row; prepare the database for it."""

    @abstractmethod
    def _say_complete(self) -> None:
        """Let the store say so."""

    def listed(
        self,
        where: RunFilter = RunFilter(),
        *,
        before: Position | None = None,
        limit: int = PAGE,
    ) -> list[tuple[RunHead, Entry]]:
        if not self._ready():
            return super().listed(where, before=before, limit=limit)
        found: list[tuple[RunHead, Entry]] = []
        while len(found) < limit:
            page = self._page(where, before, limit)
            for row, top in page:
                head = self._head(row.run, top)
                if where.lists(row, head):
                    found.append((row, head))
            if len(page) < limit:
                break
            before = page[-1][0].position
        return found[:limit]

    def row(self, run: str) -> RunHead | None:
        return self._row(run) if self._ready() else super().row(run)

    def due(
        self, now: int, *, flows: Collection[str] | None = None, limit: int = PAGE
    ) -> list[RunHead]:
        if not self._ready():
            return super().due(now, flows=flows, limit=limit)
        return self._due(now, flows, limit) if limit > 0 else []

    def holders(self) -> dict[str, int]:
        if not self._ready():
            return super().holders()
        found = (row.holder for row in self._rows(RunFilter()))
        return dict(Counter(holder for holder in found if holder is not None))

    def counts(self, where: RunFilter = RunFilter()) -> dict[str, int]:
        if not self._ready():
            return super().counts(where)
        return dict(Counter(row.status for row in self._rows(where)))

    def tally(self, since: int, until: int, *, flow: str | None = None) -> list[Tally]:
        self._check_open()
        first, end = hours(since, until)
        found: list[Tally] = []
        for hour, its, numbers in self._hours(first, end):
            for name, n in numbers.items():
                kind, what, bucket = name.split("_")
                if kind == "n":
                    total = numbers.get(f"t_{what}_{bucket}", 0)
                    found.append(Tally(hour, its, what, int(bucket), n, total))
        return of_hours(found, first, end, flow)

    def rebuild(self, *, write: bool = True) -> int:
        self._check_open()
        return sum(self._repair(run, write) for run, _ in self._all("", ""))

    def _repair(self, run: str, write: bool) -> bool:
        """Compare the run's row with its journal, and replace it; return whether it was wrong."""
        for _ in range(TRIES):
            try:
                document = self._document(run)
                row, found = self._folded(run), self._row(run)
            except CheckpointCorruptedError:
                return False
            if self._document(run).version != document.version:
                continue
            if document.indexed and document.row == row == found:
                return False
            right = replace(document, version=new_version(), row=row, indexed=True)
            if not write or self._replace(run, replace(document, indexed=False), right):
                return True
        return True  # others write to it all the time, and to its row

    def _ready(self) -> bool:
        """Make what is missing of the index, the first time that it is asked.

        Returns whether the database can find rows; else journals are read.
        """
        self._check_open()
        if not self._can_find():
            return False
        if not self._complete:
            if not self._is_complete():
                self.rebuild()
                self._say_complete()
            self._complete = True
        return True

    def _can_find(self) -> bool:
        return True

    def _rows(self, where: RunFilter) -> Iterator[RunHead]:
        before: Position | None = None
        if where.type is not None:
            while page := self.listed(where, before=before):
                yield from (row for row, _ in page)
                before = page[-1][0].position
            return
        while rows := self._page(where, before, PAGE):
            yield from (row for row, _ in rows)
            before = rows[-1][0].position
