"""Journals in a MySQL or MariaDB database, for any number of machines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import groupby, pairwise
from operator import attrgetter
from typing import ClassVar, Final

from holdfast.extras import missing_extra

try:
    import pymysql  # noqa: F401 - first, so that the error names the extra
except ModuleNotFoundError as error:
    raise missing_extra("mysql", error, "this store") from error

from holdfast.errors import HoldfastError, StoreError
from holdfast.heads import changes_of
from holdfast.model import Entry, follows
from holdfast.store import ANY_HEAD, PAGE, Behind, RunFilter, Survives, Work
from holdfast.stores._shared.index import IndexedTableStore
from holdfast.stores._shared.pool import ANSWER_SECONDS, CONNECTIONS, POOL_SECONDS, Limits
from holdfast.stores._shared.sql import WORK_SECONDS, BeatenError, SQLStore
from holdfast.stores._shared.table import COLUMNS, NO_BODY, Parameters, Row, bounds
from holdfast.stores._shared.work import MYSQLS_NOT_CODE, Rules, WorkCursor, run_work
from holdfast.stores.mysql import index
from holdfast.stores.mysql.connections import (
    Connection,
    Connections,
    Session,
    in_transaction,
    literal,
    patient,
)
from holdfast.stores.mysql.schema import prepare, version_of

_PREFIX: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}|")
_ENDS_A_TRANSACTION: Final = (
    "alter", "analyze", "cache", "call", "change", "check", "create", "deallocate", "drop",
    "execute", "flush", "grant", "install", "load", "lock", "optimize", "rename", "repair",
    "revoke", "stop", "truncate", "uninstall", "unlock", "use", "xa",
)  # fmt: skip
_SPARE: Final = 4096  # bytes of a statement that are not its rows
_VOLATILE: Final = (0, "0", "OFF", "DETECT_ONLY")
_run = attrgetter("run")


class MySQLStore(SQLStore[Session], IndexedTableStore):
    """Journals in a table of a MySQL (8.0 or newer) or MariaDB (10.5 or newer) database.

    `where` is a URL, or a function that returns a new PyMySQL connection. The first call connects, and
    creates the tables, named with `prefix`, if they are missing. Users may write to their own
    tables in the transaction of an append (`append_with`), but not change schemas, which would
    commit it.
    """

    lasting: ClassVar[str] = (
        "set the server's `innodb_flush_log_at_trx_commit = 1`, `innodb_doublewrite = ON` and, "
        "with a binary log, `sync_binlog = 1`"
    )

    _stored = "e.`stored`"  # a generated column; `stored` is a reserved word

    def __init__(
        self,
        where: str | Callable[[], Connection],
        *,
        prefix: str = "holdfast_",
        connections: int = CONNECTIONS,
        pool_seconds: float = POOL_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        work_seconds: float = WORK_SECONDS,
    ) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise ValueError(f"prefix must match {_PREFIX.pattern}, not {prefix!r}")
        self._prefix = prefix
        self._entries = f"`{prefix}entries`"
        self._index = prefix
        self._uncounted = 0  # changes of rows since statistics were added up
        self._packet = 0  # the longest statement that the server takes
        self._work_seconds = work_seconds
        self._rules = Rules(
            f"`?{prefix}(?:entries|checkpoints|run_heads|run_labels|run_tally\\w*)`?",
            *_ENDS_A_TRANSACTION,
            not_code=MYSQLS_NOT_CODE,
        )
        self._db = Connections(
            where,
            self._first_use,
            lambda session: version_of(session, prefix, self.url),
            Limits(connections, pool_seconds, answer_seconds),
        )
        self.url = self._db.url

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        found: list[Entry] = []
        size = min(limit, PAGE)
        while len(found) < limit:
            heads = self._some_heads(where, after, size)
            found += [head for head in heads if where.matches(head)]
            if len(heads) < size:
                break
            after = heads[-1].run
            size = PAGE  # few of them match
        return found[:limit]

    def _some_heads(self, where: RunFilter, after: str, size: int) -> list[Entry]:
        """A page of heads, not filtered. For the inner query, servers skip from run to run."""
        return self._found(
            f"SELECT {NO_BODY}, {self._empty} FROM (SELECT run, max(seq) AS seq FROM {self._entries} "  # noqa: S608
            "WHERE run > %(after)s AND run >= %(low)s AND run < %(high)s "
            f"GROUP BY run ORDER BY run LIMIT {size}) AS head "
            f"JOIN {self._entries} AS e ON e.run = head.run AND e.seq = head.seq ORDER BY e.run",
            bounds(where, after),
        )

    def rebuild(self, *, write: bool = True) -> int:
        with self._db.session() as session:
            own = index.journals(session, self._prefix)
            wrong, counts = own.wrong(), own.wrong_counts()
        if write and (wrong or counts):
            for at in range(0, max(1, len(wrong)), PAGE):
                with self._transaction("") as session:
                    index.correct(session, self._prefix, wrong[at : at + PAGE])
        return len(wrong) + counts

    def survives(self) -> Survives:
        ((flush, doublewrite, logged, synced),) = self._rows(
            "SELECT @@innodb_flush_log_at_trx_commit, @@innodb_doublewrite, @@log_bin, @@sync_binlog",
            (),
        )
        kept = flush == 1 and doublewrite not in _VOLATILE and (not logged or synced == 1)
        return "power-loss" if kept else "process-crash"

    def exists(self) -> bool:
        with self._db.session(prepared=False) as session:
            return version_of(session, self._prefix, self.url) is not None

    def close(self) -> None:
        self._db.close()

    def _check_open(self) -> None:
        self._db.check_open()

    def _first_use(self, session: Session) -> None:
        prepare(session, self._prefix, self.url)
        ((self._packet,),) = session.execute("SELECT @@max_allowed_packet")

    def _transaction(self, run: str) -> AbstractContextManager[Session]:
        return self._db.transaction(run)

    def _insert(self, cursor: Session, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> None:
        for rows in self._statements(entries):
            cursor.execute(
                b"INSERT INTO %s (%s) VALUES %s" % (self._entries.encode(), COLUMNS.encode(), rows)
            )
        # If we waited for the run to be erased, we inserted below its tombstone. If the server has
        # lost entries, the one before ours is missing, or has another digest.
        groups = [list(group) for _, group in groupby(entries, _run)]
        own = b" UNION ALL ".join(
            b"SELECT %s AS run, %d AS first, %d AS n, %d AS begins, %s AS behind"
            % (
                literal(group[0].run),
                group[0].seq,
                len(group),
                follows(group[0], -1),
                literal(behind.get(group[0].run)),
            )
            for group in groups
        )
        beaten = cursor.execute(
            b"SELECT 1 FROM (%s) AS own WHERE n <> (SELECT count(*) FROM %s AS e "
            b"WHERE e.run = own.run AND e.seq >= own.first) OR NOT (begins OR EXISTS ("
            b"SELECT 1 FROM %s AS e WHERE e.run = own.run AND e.seq = own.first - 1)) "
            b"OR behind <> coalesce((SELECT e.digest FROM %s AS e "
            b"WHERE e.run = own.run AND e.seq < own.first ORDER BY e.seq DESC LIMIT 1), '') LIMIT 1"
            % (own, *[self._entries.encode()] * 3)
        )
        if beaten or not all(follows(b, a.seq) for group in groups for a, b in pairwise(group)):
            raise BeatenError
        changes = changes_of(entries)
        if changes:
            index.change(cursor, self._prefix, changes)
            self._uncounted += len(changes)

    def _written(self, entries: Iterable[Entry]) -> None:
        if self._uncounted >= index.FOLD_EVERY:
            self._uncounted = 0
            with suppress(HoldfastError), self._transaction("") as cursor:
                index.fold(cursor, self._prefix)

    def _statements(self, entries: Sequence[Entry]) -> Iterator[bytes]:
        """The entries as rows of SQL, as many at a time as the server accepts."""
        rows: list[bytes] = []
        size = _SPARE
        for entry in entries:
            row = b"(%s)" % b", ".join(map(literal, entry))
            self._check_fits(len(row))
            if rows and size + len(row) > self._packet:
                yield b", ".join(rows)
                rows, size = [], _SPARE
            rows.append(row)
            size += len(row) + 2
        yield b", ".join(rows)

    def _check_fits(self, size: int) -> None:
        if size + _SPARE > self._packet:
            raise StoreError(
                f"{self.url}: an entry of {size:,} bytes is more than the server accepts; set "
                f"its max_allowed_packet (now {self._packet:,}) to at least {size + _SPARE:,}"
            )

    def _change(self, cursor: Session, statement: str, rows: Sequence[Sequence[object]]) -> None:
        for row in rows:
            text = statement.encode() % tuple(map(literal, row))
            self._check_fits(len(text))
            cursor.execute(text)

    def _rows(self, query: str, parameters: Parameters) -> list[Row]:
        with self._db.session() as session:
            return session.execute(query, parameters)

    def _do_work(self, cursor: Session, work: Work) -> None:
        inside = partial(in_transaction, cursor.db)
        with cursor.db.cursor() as own, patient(cursor.db, self._work_seconds):
            run_work(WorkCursor(own, self._rules, inside, self._work_seconds), work)
