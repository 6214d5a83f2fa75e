"""Journals in one DuckDB file, for one process that wants to ask many questions of them.

DuckDB lets one process have a file, with any number of threads and stores, which take turns. Others
are told so. Each commit costs milliseconds and is worth sharing: many savers at once fill batches.
To analyse what another store holds, export it (`export_checkpoints`) rather than saving here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, Final

from holdfast.errors import StoreClosedError
from holdfast.model import Entry, stub
from holdfast.store import PAGE, RunFilter, Store, StoreStats, Survives
from holdfast.stores._shared.disk import volatile_file_system
from holdfast.stores._shared.server import missing_extra
from holdfast.stores._shared.sql import bounds, outcomes_of

try:
    from holdfast.stores.duckdb.file import COLUMNS, NO_BODY, File, connect, shared
except ModuleNotFoundError as error:
    raise missing_extra("duckdb", error) from error

__all__ = ["DuckDBStore", "connect"]

_EMPTY: Final = ", ''::BLOB"
_HEADS: Final = (
    "SELECT run, max(seq) FROM entries WHERE run IN (SELECT unnest(?::VARCHAR[])) GROUP BY run"
)
_RUNS: Final = f"""
    SELECT {NO_BODY}{_EMPTY} FROM entries AS e WHERE (run, seq) IN (
        SELECT (run, max(seq)) FROM entries
        WHERE run > $after AND run >= $low AND run < $high GROUP BY run
    )
    AND (CASE WHEN $status IS NULL THEN status <> 'deleted' ELSE status = $status END)
    AND ($flow IS NULL OR flow = $flow) AND ($thread IS NULL OR thread = $thread)
    AND ($owner IS NULL OR owner = $owner) AND ($type IS NULL OR type = $type)
    ORDER BY run LIMIT $limit
"""  # noqa: S608 - constants only
_STATS: Final = """
    SELECT count(DISTINCT run), count(*), coalesce(sum(size), 0),
        coalesce(sum(octet_length(body)), 0), min("at"), max("at")
    FROM entries WHERE size > 0 AND kind IN ('checkpoint', 'result') AND
"""


class DuckDBStore(Store):
    """Journals in one DuckDB file that this process has for itself.

    Raises `StoreUnavailableError` while another process has the file open. A child of fork() does
    not share it: whichever of the two asks first has it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self.url = f"duckdb:///{self.path}"
        self._file: File | None = shared(self.path)
        self._file.join()

    def append(self, entries: Sequence[Entry]) -> list[bool]:
        file = self._opened()
        if not entries:
            return []
        with file.using() as db:
            outcomes = self._outcomes(file, db, entries)
            winners = list(compress(entries, outcomes))
            if winners:
                with file.committing(winners[0].run):
                    file.insert(winners)
        return outcomes

    def _outcomes(self, file: File, db: Any, entries: Sequence[Entry]) -> list[bool]:
        """Which entries win their place; the heads are theirs from now on."""
        heads = file.heads
        unknown = sorted({entry.run for entry in entries} - heads.keys())
        if unknown:
            found = db.execute(_HEADS, [unknown]).fetchall()
            heads.update(dict.fromkeys(unknown, -1) | dict(found))
        return outcomes_of(entries, heads)

    def _insert(self, file: File, db: Any, entry: Entry) -> bool:
        """Insert one entry, inside of a transaction, if it wins its place."""
        (won,) = self._outcomes(file, db, [entry])
        if won:
            file.insert([entry])
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
        beyond, order = ("<", "DESC") if newest_first else (">", "ASC")
        if after is None:
            after = 1 << 62 if newest_first else -1
        return self._entries(
            f"SELECT {COLUMNS if bodies else NO_BODY + _EMPTY} FROM entries "  # noqa: S608
            f"WHERE run = ? AND seq {beyond} ? ORDER BY seq {order} LIMIT ?",
            [run, after, limit],
        )

    def last(self, run: str) -> Entry | None:
        found = self.read(run, newest_first=True, limit=1)
        return found[0] if found else None

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        wanted = where._asdict() | bounds(where, after) | {"limit": limit}
        del wanted["prefix"]
        return self._entries(_RUNS, wanted)

    def trim(
        self,
        marker: Entry,
        *,
        rewrite: Mapping[int, bytes] | None = None,
        drop: Collection[int] = (),
    ) -> bool:
        file = self._opened()
        run = marker.run
        with file.transaction(run) as db:
            if not self._insert(file, db, marker):
                return False
            changes = dict(rewrite or {})
            seqs = sorted(seq for seq in {*changes, *drop} if seq < marker.seq)
            found = db.execute(
                f"DELETE FROM entries WHERE run = ? AND seq IN (SELECT unnest(?::BIGINT[])) "  # noqa: S608
                f"RETURNING {COLUMNS}",
                [run, seqs],
            ).fetchall()
            changed = [
                stub(entry) if entry.seq in drop else entry._replace(body=changes[entry.seq])
                for entry in map(Entry._make, found)
            ]
            if changed:
                file.insert(changed)
        return True

    def erase(self, tombstone: Entry) -> bool:
        file = self._opened()
        with file.transaction(tombstone.run) as db:
            if not self._insert(file, db, tombstone):
                return False
            db.execute(
                "DELETE FROM entries WHERE run = ? AND seq < ?", [tombstone.run, tombstone.seq]
            )
        return True

    def stats(self, run: str | None = None) -> StoreStats:
        which = "run >= ' '" if run is None else "run = ?"
        (row,) = self._opened().query(_STATS + which, [] if run is None else [run])
        return StoreStats(*row)

    def survives(self) -> Survives:
        self._opened()
        return "process-crash" if volatile_file_system(self.path) else "power-loss"

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.leave()

    def _entries(self, query: str, parameters: object) -> list[Entry]:
        return list(map(Entry._make, self._opened().query(query, parameters)))

    def _opened(self) -> File:
        if self._file is None:
            raise StoreClosedError(self.url)
        return self._file
