"""Journals in a PostgreSQL database, for any number of machines."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Final

from holdfast.extras import missing_extra

try:
    import psycopg
except ImportError as error:  # also if psycopg finds no libpq
    raise missing_extra("postgres", error, "this store") from error
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from holdfast.changes import Notifying, Watch
from holdfast.errors import HoldfastError
from holdfast.model import HIDDEN, Entry
from holdfast.seams import fault
from holdfast.store import ANY_HEAD, PAGE, Behind, RunFilter, Survives, Work
from holdfast.stores._shared.connections import Lender
from holdfast.stores._shared.index import IndexedTableStore
from holdfast.stores._shared.pool import ANSWER_SECONDS, CONNECTIONS, POOL_SECONDS, Limits
from holdfast.stores._shared.sql import WORK_SECONDS, BeatenError, SQLStore, conditions
from holdfast.stores._shared.table import NO_BODY, Parameters, Row, bounds
from holdfast.stores._shared.work import Rules, WorkCursor, run_work
from holdfast.stores.postgres import index
from holdfast.stores.postgres.arrays import ARRAYS, arrays_of, takes_arrays
from holdfast.stores.postgres.connections import Connection, Connections, Cursor, patient
from holdfast.stores.postgres.schema import prepare, version_of
from holdfast.stores.postgres.watch import PostgresWatch

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_OURS: Final = r'"?{schema}"?\s*\.\s*"?(?:entries|watchers|checkpoints|run_\w+)"?'
_APPEND: Final = f"SELECT {{schema}}.append_entries({ARRAYS})"
_INDEX: Final = f"SELECT {{schema}}.append_and_index({ARRAYS}, %s::text)"
# A loose index scan: two look-ups a run, however many entries it has. It goes from run to run in
# order, and stops at the limit; ORDER BY would have it go to the end first.
_RUNS: Final = f"""
    WITH RECURSIVE found(run) AS (
        SELECT min(run) FROM {{schema}}.entries
        WHERE run > %(after)s AND run >= %(low)s AND run < %(high)s
        UNION ALL
        SELECT (SELECT min(run) FROM {{schema}}.entries WHERE run > found.run AND run < %(high)s)
        FROM found WHERE found.run IS NOT NULL
    )
    SELECT {NO_BODY}, ''::bytea
    FROM found CROSS JOIN LATERAL (
        SELECT own.* FROM {{schema}}.entries AS own
        WHERE own.run = found.run ORDER BY own.seq DESC LIMIT 1
    ) AS e WHERE {{conditions}} LIMIT %(limit)s
"""  # noqa: S608 - constants

# From holder to holder in the index: of a million runs, few are held.
_HOLDERS: Final = """
    WITH RECURSIVE found(holder) AS (
        SELECT min(holder) FROM {schema}.run_heads WHERE holder IS NOT NULL
        UNION ALL
        SELECT (SELECT min(h.holder) FROM {schema}.run_heads AS h WHERE h.holder > found.holder)
        FROM found WHERE found.holder IS NOT NULL
    )
    SELECT holder, (SELECT count(*) FROM {schema}.run_heads AS h WHERE h.holder = found.holder)
    FROM found WHERE holder IS NOT NULL
"""


class PostgresStore(SQLStore[Cursor], IndexedTableStore, Notifying):
    """Journals in a schema of their own in a PostgreSQL database.

    `where` is a URL or connection string for libpq, or a psycopg connection pool, which stays yours to
    close. The first call connects, and creates the schema if it is missing. Users may write to their
    own tables in the transaction of an append (`append_with`), for at most `work_seconds`.
    """

    lasting = "turn the server's `fsync`, `full_page_writes` and `synchronous_commit` on"
    _empty = "''::bytea"
    _find = "strpos"

    def __init__(
        self,
        where: str | Lender[Connection],
        *,
        schema: str = "holdfast",
        connections: int = CONNECTIONS,
        pool_seconds: float = POOL_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        work_seconds: float = WORK_SECONDS,
    ) -> None:
        if not _SCHEMA.fullmatch(schema):
            raise ValueError(f"schema must match {_SCHEMA.pattern}, not {schema!r}")
        quoted = f'"{schema}"'
        self._name = schema
        self._quoted = quoted
        self._entries = f"{quoted}.entries"
        self._index = f"{quoted}."
        self._append_sql = _APPEND.format(schema=quoted)
        self._index_sql = _INDEX.format(schema=quoted)
        self._changed = 0  # rows of the index, since statistics were added up
        self._runs_sql = partial(_RUNS.format, schema=quoted)
        self._work_seconds = work_seconds
        self._rules = Rules(_OURS.format(schema=schema), "listen", "unlisten")
        self._alone = True  # whether a statement by itself sees what others commit meanwhile
        self._watched = threading.local()  # `yes` is what the last append of a thread was told
        self._db = Connections(
            where,
            schema,
            self._first_use,
            lambda cursor: version_of(cursor, schema, self.url),
            Limits(connections, pool_seconds, answer_seconds),
        )
        self.url = self._db.url

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        text, wanted = conditions(where)
        parameters = wanted | bounds(where, after) | {"limit": limit}
        return self._found(self._runs_sql(conditions=text), parameters)

    def holders(self) -> dict[str, int]:
        return dict(self._rows(_HOLDERS.format(schema=self._quoted), ()))

    def rebuild(self, *, write: bool = True) -> int:
        with self._db.session() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")  # one snapshot
            own = index.journals(cursor, self._quoted)
            wrong, counts = own.wrong(), own.wrong_counts()
            cursor.execute("COMMIT")
        if write and (wrong or counts):
            for at in range(0, max(1, len(wrong)), PAGE):
                with self._db.transaction("") as cursor:
                    index.correct(cursor, self._quoted, wrong[at : at + PAGE])
        return len(wrong) + counts

    def survives(self) -> Survives:
        settings = ("fsync", "full_page_writes", "synchronous_commit")
        (row,) = self._rows(
            "SELECT " + ", ".join(f"current_setting('{name}')" for name in settings), ()
        )
        return "process-crash" if "off" in row else "power-loss"

    def exists(self) -> bool:
        with self._db.session(prepared=False) as cursor:
            return version_of(cursor, self._name, self.url) > 0

    def watch(self) -> Watch | None:
        """Watch all runs. Opens a connection of its own.

        None if notifications do not reach it: PgBouncer does not forward them.
        """
        watch = PostgresWatch(self._db, self._name, self._channel)
        try:
            self._rows("SELECT pg_notify(%s, '')", (self._channel,))
            if watch.hears():
                return watch
        except BaseException:
            watch.close()
            raise
        watch.close()
        return None

    def close(self) -> None:
        self._db.close()

    @property
    def _channel(self) -> str:
        return f"holdfast_{self._name}"

    def _check_open(self) -> None:
        self._db.check_open()

    def _first_use(self, cursor: Cursor) -> None:
        prepare(cursor, self._name, self.url)
        cursor.execute("SHOW default_transaction_isolation")
        self._alone = cursor.fetchone() == ("read committed",)

    def _transaction(self, run: str) -> AbstractContextManager[Cursor]:
        return self._db.transaction(run)

    def _insert_alone(self, entries: Sequence[Entry], behind: Behind) -> None:
        """As one statement that is its own transaction: one round trip."""
        with self._db.session() as cursor:
            if self._alone:
                fault("postgres.commit.before")
                with self._db.committing(cursor, entries[0].run):
                    self._insert(cursor, entries, behind)
                fault("postgres.commit.after")
                return
        super()._insert_alone(entries, behind)

    def _insert(self, cursor: Cursor, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> None:
        try:
            takes_arrays(cursor)
            arrays = arrays_of(entries, behind)
            changes = index.changes_text(entries)
            if changes is None:
                cursor.execute(self._append_sql, arrays)
            else:
                cursor.execute(self._index_sql, [*arrays, changes])
                self._changed += len(entries)
        except psycopg.errors.UniqueViolation as error:
            raise BeatenError from error
        (self._watched.yes,) = cursor.fetchone() or (False,)

    def _change(self, cursor: Cursor, statement: str, rows: Sequence[Sequence[object]]) -> None:
        cursor.executemany(statement, rows)

    def _rows(self, query: str, parameters: Parameters) -> list[Row]:
        with self._db.session() as cursor:
            return cursor.execute(query, parameters, binary=True).fetchall()

    def _do_work(self, cursor: Cursor, work: Work) -> None:
        limit = f"{self._work_seconds}s"
        cursor.execute(
            "SELECT set_config('statement_timeout', %s, true), "
            "set_config('idle_in_transaction_session_timeout', %s, true)",
            (limit, limit),
        )
        info = cursor.connection.info
        own = psycopg.Cursor(cursor.connection, row_factory=tuple_row)
        in_transaction = lambda: info.transaction_status == TransactionStatus.INTRANS  # noqa: E731
        with patient(cursor.connection, self._work_seconds):
            run_work(WorkCursor(own, self._rules, in_transaction, self._work_seconds), work)

    def _written(self, entries: Iterable[Entry]) -> None:
        """Notify after the commit: a commit that notifies makes all other commits wait."""
        if getattr(self._watched, "yes", False):
            self._notify(entries)
        if self._changed >= index.FOLD_EVERY:
            self._changed = 0
            with suppress(HoldfastError), self._db.session() as cursor:
                index.fold_tally(cursor, self._quoted)

    def _notify(self, entries: Iterable[Entry]) -> None:
        newest = {entry.run: entry for entry in entries if not entry.run.startswith(HIDDEN)}
        if newest:
            texts = [f"{entry.seq} {entry.status} {run}" for run, entry in newest.items()]
            with suppress(HoldfastError):
                notify = "SELECT pg_notify(%s, text) FROM unnest(%s::text[]) AS text"
                self._rows(notify, (self._channel, texts))
