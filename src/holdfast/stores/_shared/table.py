"""A table of entries in any SQL database: its columns, how it is read and how it is trimmed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from holdfast.errors import CheckpointCorruptedError
from holdfast.model import CARRY_STATE, HIDDEN, MAX_ID_BYTES, Entry
from holdfast.store import PAGE, RunFilter, Store, StoreStats

Row = tuple[Any, ...]
Parameters = Sequence[object] | Mapping[str, object]
Statement = tuple[str, list[Row]]

COLUMNS: Final = ", ".join(Entry._fields)
# Qualified, because a column's name may be a reserved word: `at` is one in DuckDB.
NO_BODY: Final = ", ".join(f"e.{name}" for name in Entry._fields[:-1])
_BEYOND: Final = chr(0x10FFFF) * MAX_ID_BYTES  # greater than any id
_KINDS: Final = ", ".join(f"'{kind}'" for kind in CARRY_STATE)


class TableStore(Store):
    """A store whose entries are the rows of one table, with columns as `Entry` has fields."""

    _entries: str = "entries"
    """The table's name, quoted if it has to be."""

    _mark: ClassVar[str] = "?"
    """How the database writes a parameter."""

    _stored: ClassVar[str] = "octet_length(e.body)"
    """The size of a body, without reading it."""

    _empty: ClassVar[str] = "x''"
    """An empty body."""

    _scans: ClassVar[bool] = True
    """Whether its primary key has the entries in order, so that `scan` sorts nothing."""

    _unordered: ClassVar[str] = ""
    """What makes the database read all entries as they lie, where it would follow an index."""

    _counted: ClassVar[str] = ""
    """Which entries count, where a column may hold other types than its own."""

    @abstractmethod
    def _rows(self, query: str, parameters: Parameters) -> list[Row]:
        """The rows that one query finds, outside of any transaction. Errors are translated."""

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
        bound, place = f"AND e.seq {beyond} {self._mark} ", [after]
        if after is None and newest_first:  # no bound: a seq that is no number is found, too
            bound, place, after = "", [], 1 << 62
        elif after is None:
            place, after = [-1], -1
        query = (
            f"SELECT {NO_BODY}, {'e.body' if bodies else self._empty} FROM {self._entries} AS e "  # noqa: S608
            f"WHERE e.run = {self._mark} {bound}"
            f"ORDER BY e.seq {order} LIMIT {self._mark}"
        )
        found = self._found(query, (run, *place, limit))
        _check_order(run, after, found, newest_first)
        return found

    def scan(
        self, after: str = "", *, limit: int = PAGE, bodies: bool = True
    ) -> list[Entry] | None:
        if not self._scans:
            return None
        query = (
            f"SELECT {NO_BODY}, {'e.body' if bodies else self._empty} FROM {self._entries} AS e "  # noqa: S608
            f"WHERE e.run > {self._mark} AND e.run < {self._mark} "
            f"ORDER BY e.run, e.seq LIMIT {self._mark}"
        )
        return self._found(query, (after, _BEYOND, limit))

    def stats(self, run: str | None = None) -> StoreStats:
        which, value = (">=", " ") if run is None else ("=", run)
        table = f"{self._entries} AS e{self._unordered if run is None else ''}"
        query = (
            "SELECT count(*), coalesce(sum(e.size), 0), "  # noqa: S608
            f"coalesce(sum({self._stored}), 0), min(e.at), max(e.at) FROM {table} "
            f"WHERE e.size > 0 AND e.kind IN ({_KINDS}) AND e.run {which} {self._mark}{self._counted}"
        )
        ((checkpoints, state_bytes, stored_bytes, oldest, newest),) = self._rows(query, (value,))
        return StoreStats(checkpoints, int(state_bytes), int(stored_bytes), oldest, newest)

    def _found(self, query: str, parameters: Parameters) -> list[Entry]:
        """The entries that a query finds, if it selects all columns."""
        return list(map(Entry._make, self._rows(query, parameters)))

    def _trimming(self, marker: Entry, changes: Mapping[int, bytes | None]) -> Iterable[Statement]:
        """The statements that change the entries before the marker, with rows of parameters."""
        where = f"WHERE run = {self._mark} AND seq = {self._mark} AND seq < {self._mark}"
        bodies = [
            (body, marker.run, seq, marker.seq) for seq, body in changes.items() if body is not None
        ]
        stubs = [(marker.run, seq, marker.seq) for seq, body in changes.items() if body is None]
        if bodies:
            yield f"UPDATE {self._entries} SET body = {self._mark} {where}", bodies  # noqa: S608
        if stubs:  # as `model.stub` does
            yield (
                (
                    f"UPDATE {self._entries} SET step = NULL, step_index = NULL, type = NULL, "  # noqa: S608
                    "status = 'deleted', duration = NULL, size = 0, flow = NULL, thread = NULL, "
                    f"owner = NULL, meta = '', body = {self._empty} {where}"
                ),
                stubs,
            )

    def _erasing(self, tombstone: Entry) -> Statement:
        """The statement that removes the entries before the tombstone, with its parameters."""
        where = f"WHERE run = {self._mark} AND seq < {self._mark}"
        return f"DELETE FROM {self._entries} {where}", [(tombstone.run, tombstone.seq)]  # noqa: S608


def _check_order(run: str, after: int, found: list[Entry], newest_first: bool) -> None:
    """Raise if a damaged index returned something else: those who page by seq would never end."""
    for entry in found:
        seq: object = entry.seq
        if not isinstance(seq, int) or (seq >= after if newest_first else seq <= after):
            raise CheckpointCorruptedError(run, None, f"its entry {seq!r} is at the wrong place")
        after = seq


def fields_of(where: RunFilter) -> dict[str, str | None]:
    """What a filter wants of heads: the parameters of `runs`."""
    return {
        "status": where.status,
        "flow": where.flow,
        "thread": where.thread,
        "owner": where.owner,
        "type": where.type,
    }


def bounds(where: RunFilter, after: str) -> dict[str, str]:
    """The ids on a page of runs: greater than `after`, from `low` on and less than `high`."""
    return {
        "after": after,
        "low": where.prefix if where.prefix.startswith(HIDDEN) else max(where.prefix, " "),
        "high": where.prefix + _BEYOND,
    }
