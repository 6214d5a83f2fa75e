"""What a block of writes reads (`Store.together`): each short journal once, however it is asked for."""

from __future__ import annotations

import sqlite3
from typing import Final

from holdfast.model import Entry
from holdfast.stores._shared.table import NO_BODY, Row
from holdfast.stores.sqlite.index import ENTRIES

_ENTRIES: Final = 32  # of a journal that is read at once, and
_BODY: Final = 16 << 10  # bytes of each of them, at most
_READ: Final = (
    f"SELECT {NO_BODY}, iif(length(e.body) <= {_BODY}, e.body, NULL) FROM {ENTRIES} AS e "  # noqa: S608
    f"WHERE e.run = ? ORDER BY e.seq LIMIT {_ENTRIES + 1}"
)
_BEYOND: Final = 1 << 62


class ReadAhead:
    """Short journals as they are in an open transaction. Whoever writes in it forgets them."""

    def __init__(self) -> None:
        self._journals: dict[str, list[Row] | None] = {}

    def forget(self) -> None:
        """Forget everything: something is written, or the transaction ends."""
        self._journals.clear()

    def read(
        self,
        db: sqlite3.Connection,
        run: str,
        after: int | None,
        limit: int,
        newest_first: bool,
        bodies: bool,
    ) -> list[Entry] | None:
        """As `Store.read`; None for a journal that is long, large or damaged: read it from there."""
        if run not in self._journals:
            self._journals[run] = _short(db, run)
        rows = self._journals[run]
        if rows is None:
            return None
        if newest_first:
            top = _BEYOND if after is None else after
            rows = [row for row in reversed(rows) if row[1] < top]
        elif after is not None:
            rows = [row for row in rows if row[1] > after]
        if bodies:
            return list(map(Entry._make, rows[:limit]))
        return [Entry._make((*row[:-1], b"")) for row in rows[:limit]]


def _short(db: sqlite3.Connection, run: str) -> list[Row] | None:
    """All rows of a run, if they are few and small, and where an intact file has them."""
    try:
        rows = db.execute(_READ, (run,)).fetchall()
    except sqlite3.Error:
        return None
    seqs = [row[1] for row in rows]
    in_order = all(type(seq) is int for seq in seqs) and seqs == sorted(set(seqs))
    small = len(rows) <= _ENTRIES and all(row[-1] is not None for row in rows)
    return rows if in_order and small else None
