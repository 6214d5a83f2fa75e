"""What the user's own SQL in `commit=` may do in SQLite, and for how long."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, Self

from holdfast.store import Work, WorkFailedError
from holdfast.stores._shared.work import run_work, too_long
from holdfast.stores.sqlite.connections import lift_guard
from holdfast.stores.sqlite.errors import code_of
from holdfast.stores.sqlite.schema import NAMES

WORK_SECONDS: Final = 5.0
_STEPS: Final = 10_000  # of SQLite's machine between two looks at the clock: about a millisecond

_RULES: Final = (
    "commit= runs inside holdfast's own transaction: it can't begin or end one, attach databases, "
    "set pragmas, make temporary tables, or change holdfast's own: " + ", ".join(NAMES)
)
_NEVER: Final = frozenset({
    sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT,
    sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH,
    # What is temporary stays with the connection, and hides what is ours by taking its name.
    sqlite3.SQLITE_CREATE_TEMP_INDEX, sqlite3.SQLITE_CREATE_TEMP_TABLE,
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER, sqlite3.SQLITE_CREATE_TEMP_VIEW,
})  # fmt: skip
_READS: Final = frozenset({
    sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
})  # fmt: skip
_NAMED_SECOND: Final = frozenset({  # the others name what they change first
    sqlite3.SQLITE_ALTER_TABLE,
    sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_CREATE_TRIGGER,
    sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_DROP_TRIGGER,
})  # fmt: skip
_PRAGMAS: Final = frozenset({
    "data_version", "defer_foreign_keys", "foreign_key_check", "foreign_key_list", "index_info",
    "index_list", "index_xinfo", "table_info", "table_list", "table_xinfo",
})  # fmt: skip


def run_guarded(db: sqlite3.Connection, work: Work, seconds: float) -> None:
    """Call `work` with a cursor in the open transaction, which it can neither end nor leave."""
    until = time.monotonic() + seconds
    guard = _Guard()
    cursor = _Cursor(db, guard, until)
    try:
        db.set_authorizer(guard)
        # No line of Python in it: Ctrl-C would be raised there, and SQLite would swallow it.
        is_late = map(until.__lt__, iter(time.monotonic, None)).__next__
        db.set_progress_handler(is_late, _STEPS)
        run_work(cursor, work)
    except WorkFailedError as failed:
        error = failed.error
        stopped = isinstance(error, sqlite3.Error) and code_of(error) == sqlite3.SQLITE_INTERRUPT
        if stopped and time.monotonic() > until:
            raise WorkFailedError(too_long()) from error
        raise
    finally:
        lift_guard(db)


class _Guard:
    """SQLite calls it for everything that a statement would do."""

    def __init__(self) -> None:
        self.denied = False

    def __call__(
        self, action: int, first: str | None, second: str | None, *where: str | None
    ) -> int:
        if action in _READS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA:
            allowed = (first or "").lower() in _PRAGMAS
        else:
            name = second if action in _NAMED_SECOND else first
            allowed = action not in _NEVER and (name or "").lower() not in NAMES
        if allowed:
            return sqlite3.SQLITE_OK
        self.denied = True
        return sqlite3.SQLITE_DENY


class _Cursor(sqlite3.Cursor):
    """A cursor that does nothing outside the transaction it was made for.

    A statement may end that though none can ask for it: `INSERT OR ROLLBACK`, a full disk, an
    interrupt. Whatever came after would be committed at once, by itself.
    """

    def __init__(self, db: sqlite3.Connection, guard: _Guard, until: float) -> None:
        super().__init__(db)
        self._db = db
        self._guard = guard
        self._until = until

    @property
    def connection(self) -> NoReturn:
        """Not available: it is the one writing connection of this process."""
        raise AttributeError("the cursor of commit= gives no connection; use its execute()")

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        """As any cursor does, inside the transaction."""
        with self._guarded():
            super().execute(sql, parameters)
        return self

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Self:
        """As any cursor does, inside the transaction."""
        with self._guarded():
            super().executemany(sql, parameters)
        return self

    def executescript(self, sql_script: str, /) -> NoReturn:
        """Not available: it begins with a commit."""
        raise sqlite3.ProgrammingError(
            "executescript() would commit first; in commit=, execute() one statement at a time"
        )

    def check(self) -> None:
        """Raise if the time is over or the transaction gone."""
        if time.monotonic() > self._until:
            raise too_long()
        if not self._db.in_transaction:
            raise sqlite3.OperationalError(
                "the transaction was rolled back by a statement that failed; nothing was written"
            )

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        self.check()
        self._guard.denied = False
        try:
            yield
        except sqlite3.DatabaseError as error:
            if code_of(error) == sqlite3.SQLITE_AUTH:
                if not self._guard.denied:  # Ctrl-C struck there, and SQLite took it for a no
                    raise KeyboardInterrupt from None
                error.add_note(_RULES)
            raise
