"""Journals in one DuckDB file, for one process that analyses them.

DuckDB lets only one process open a file; its threads and stores take turns. A commit takes
milliseconds, so it pays to save from many threads at once. To analyse what another store
holds, export it (`export_checkpoints`) rather than saving here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress, islice
from pathlib import Path
from typing import Any, ClassVar, Final

from holdfast.changes import Notifying, Watch
from holdfast.errors import StoreClosedError
from holdfast.extras import missing_extra
from holdfast.heads import Position, RunHead, Tally
from holdfast.model import Entry
from holdfast.store import (
    ANY_HEAD,
    NO_HEAD,
    PAGE,
    Behind,
    RunFilter,
    Survives,
    trimmed,
)
from holdfast.stores._shared.disk import volatile_file_system
from holdfast.stores._shared.outcomes import outcomes_by_heads
from holdfast.stores._shared.rows import Rows
from holdfast.stores._shared.table import (
    NO_BODY,
    Parameters,
    Row,
    TableStore,
    bounds,
    fields_of,
)

try:
    from holdfast.stores.duckdb.file import COLUMNS, File, connect, shared
    from holdfast.stores.duckdb.index import heads_of
except ModuleNotFoundError as error:
    raise missing_extra("duckdb", error, "this store") from error

__all__ = ["DuckDBStore", "connect"]

_HEADS: Final = """
    SELECT run, max(seq), arg_max(digest, seq) FROM entries
    WHERE run IN (SELECT unnest(?::VARCHAR[])) GROUP BY run
"""
_RUNS: Final = f"""
    SELECT {NO_BODY}, ''::BLOB FROM entries AS e WHERE (run, seq) IN (
        SELECT (run, max(seq)) FROM entries
        WHERE run > $after AND run >= $low AND run < $high GROUP BY run
    )
    AND (CASE WHEN $status IS NULL THEN status <> 'deleted' ELSE status = $status END)
    AND ($flow IS NULL OR flow = $flow) AND ($thread IS NULL OR thread = $thread)
    AND ($owner IS NULL OR owner = $owner) AND ($type IS NULL OR type = $type)
    ORDER BY run LIMIT $limit
"""  # noqa: S608 - constants only


class DuckDBStore(TableStore, Notifying):
    """Journals in one DuckDB file that this process has for itself.

    Raises `StoreUnavailableError` while another process has the file open. After fork(), the
    first of the two processes to use the store gets the file. What other processes do to the file,
    while this one does not have it, can't be watched.
    """

    shared: ClassVar[bool] = False
    _empty = "''::BLOB"
    _scans = False

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self.url = f"duckdb:///{self.path}"
        self._file: File | None = shared(self.path)
        self._file.join()

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        file = self._opened()
        if not entries:
            return []
        with file.using() as db:
            outcomes = self._outcomes(file, db, entries, behind)
            winners = list(compress(entries, outcomes))
            if winners:
                file.index.note(winners)
                with file.committing(winners[0].run):
                    file.insert(winners)
        file.watches.tell(winners)
        return outcomes

    def _outcomes(
        self, file: File, db: Any, entries: Sequence[Entry], behind: Behind = ANY_HEAD
    ) -> list[bool]:
        """The outcome of each entry; the winners become the heads."""
        heads = file.heads
        unknown = sorted({entry.run for entry in entries} - heads.keys())
        if unknown:
            found = db.execute(_HEADS, [unknown]).fetchall()
            heads.update(dict.fromkeys(unknown, NO_HEAD))
            heads.update({run: (seq, digest) for run, seq, digest in found})
        return outcomes_by_heads(entries, heads, behind)

    def _insert(self, file: File, db: Any, entry: Entry) -> bool:
        """Insert one entry, inside a transaction, if it follows the head."""
        (won,) = self._outcomes(file, db, [entry])
        if won:
            file.index.note_trim(entry.run)
            file.insert([entry])
        return won

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        wanted = fields_of(where) | bounds(where, after) | {"limit": limit}
        return self._found(_RUNS, wanted)

    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        file = self._opened()
        run = marker.run
        with file.transaction(run) as db:
            if not self._insert(file, db, marker):
                return False
            seqs = sorted(seq for seq in changes if seq < marker.seq)
            found = db.execute(
                f"DELETE FROM entries WHERE run = ? AND seq IN (SELECT unnest(?::BIGINT[])) "  # noqa: S608
                f"RETURNING {COLUMNS}",
                [run, seqs],
            ).fetchall()
            if found:
                file.insert([trimmed(e, changes[e.seq]) for e in map(Entry._make, found)])
        file.watches.tell([marker])
        return True

    def erase(self, tombstone: Entry) -> bool:
        file = self._opened()
        with file.transaction(tombstone.run) as db:
            if not self._insert(file, db, tombstone):
                return False
            statement, rows = self._erasing(tombstone)
            db.executemany(statement, rows)
        file.watches.tell([tombstone])
        return True

    def scrub(self) -> None:
        """Write the file anew: DuckDB leaves what was deleted in its free blocks."""
        self._opened().rewrite()

    def listed(
        self,
        where: RunFilter = RunFilter(),
        *,
        before: Position | None = None,
        limit: int = PAGE,
    ) -> list[tuple[RunHead, Entry]]:
        file = self._opened()
        found: list[tuple[RunHead, Entry]] = []
        with file.using() as db:
            rows = file.index.refresh(db).newest(where, before)
            while len(found) < limit and (page := list(islice(rows, limit))):
                heads = heads_of(db, [row.run for row in page])
                pairs = [(row, heads[row.run]) for row in page if row.run in heads]
                found += [pair for pair in pairs if where.lists(*pair)]
        return found[:limit]

    def row(self, run: str) -> RunHead | None:
        with self._indexed() as rows:
            return rows.get(run)

    def due(
        self, now: int, *, flows: Collection[str] | None = None, limit: int = PAGE
    ) -> list[RunHead]:
        with self._indexed() as rows:
            return rows.due(now, flows, limit)

    def holders(self) -> dict[str, int]:
        with self._indexed() as rows:
            return rows.holders()

    def counts(self, where: RunFilter = RunFilter()) -> dict[str, int]:
        file = self._opened()
        with file.using() as db:
            rows = file.index.refresh(db)
            wanted = [row.run for row in rows.newest(where, None)] if where.type else []
            return rows.counts(where, heads_of(db, wanted).get)

    def tally(self, since: int, until: int, *, flow: str | None = None) -> list[Tally]:
        with self._indexed() as rows:
            return rows.tally(since, until, flow=flow)

    def rebuild(self, *, write: bool = True) -> int:
        file = self._opened()
        with file.using() as db:
            return file.index.repair(db, write=write)

    @contextmanager
    def _indexed(self) -> Iterator[Rows]:
        file = self._opened()
        with file.using() as db:
            yield file.index.refresh(db)

    def watch(self) -> Watch:
        """Watch all runs for what this process does: no other can use the file meanwhile."""
        return self._opened().watches.open()

    def survives(self) -> Survives:
        self._opened()
        return "process-crash" if volatile_file_system(self.path) else "power-loss"

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.leave()

    def _rows(self, query: str, parameters: Parameters) -> list[Row]:
        return self._opened().query(query, parameters)

    def _opened(self) -> File:
        if self._file is None:
            raise StoreClosedError(self.url)
        return self._file
