"""The user's own SQL in `commit=`, inside our transaction: how it is called, and what it may do.

`Rules` and `WorkCursor` are for servers that can't guard a transaction themselves. They look at
the words of a statement, to catch mistakes: whoever writes `commit=` has the rights of the program.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, Protocol, Self

from holdfast.store import Work, WorkFailedError

_NOT_CODE: Final = re.compile(
    r"""--[^\n]*|/\*(?!!).*?\*/|'(?:[^']|'')*'|\$(\w*)\$.*?\$\1\$""", re.DOTALL
)
MYSQLS_NOT_CODE: Final = re.compile(
    r"""--(?=\s|$)[^\n]*|\#[^\n]*|/\*(?!!).*?\*/|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\"""",
    re.DOTALL,
)
"""There, double quotes hold texts, a backslash escapes, and `--` needs a blank to be a comment."""
_FIRST_WORDS: Final = re.compile(r"[(\s]*(\w+)(?:\s+(\w+))?")
_FORBIDDEN: Final = frozenset([
    "begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "prepare",
    "set", "reset", "discard",
])  # fmt: skip
_RESULTS: Final = ("fetchone", "fetchmany", "fetchall", "rowcount", "description")
_ALLOWED: Final = frozenset([("set", "local"), ("set", "constraints")])


class Rules:
    """Which statements `commit=` may not run: some by their first words, changes of our tables."""

    def __init__(self, table: str, *words: str, not_code: re.Pattern[str] = _NOT_CODE) -> None:
        self._not_code = not_code
        self._words = _FORBIDDEN.union(words)
        self._table = re.compile(rf"(?<![\w$]){table}(?![\w$])", re.IGNORECASE)

    def check(self, statement: object) -> None:
        """Raise `PermissionError` for a statement that is not allowed."""
        code = self._not_code.sub(
            lambda part: " " if part[0][0] in "-/#" else "''", _text(statement)
        )
        for part in filter(None, map(str.strip, code.split(";"))):
            found = _FIRST_WORDS.match(part)
            first = found[1].lower() if found else ""
            words = (first, (found[2] or "").lower()) if found else ()
            if not first or "/*!" in part or (first in self._words and words not in _ALLOWED):
                raise PermissionError(
                    "commit= runs inside holdfast's own transaction: it can't begin or end one, "
                    f"run a statement that commits implicitly, or change the session: {part!r}"
                )
            if first != "select" and self._table.search(part):
                raise PermissionError(
                    f"commit= can read holdfast's own tables, not change them: {part!r}"
                )


def _text(statement: Any) -> str:
    if isinstance(statement, bytes):
        return statement.decode()
    if hasattr(statement, "as_string"):  # composed by psycopg
        return str(statement.as_string(None))
    return str(statement)


class WorkCursor:
    """A DB-API cursor that does nothing outside the transaction it was made for."""

    def __init__(
        self, cursor: Any, rules: Rules, in_transaction: Callable[[], bool], seconds: float
    ) -> None:
        self._cursor: Any = cursor
        self._rules = rules
        self._in_transaction = in_transaction
        self._failed = False
        self._until = time.monotonic() + seconds

    def execute(self, query: Any, parameters: Any = None) -> Self:
        """As any cursor does, inside the transaction."""
        arguments = (query,) if parameters is None else (query, parameters)
        self._do(query, lambda cursor: cursor.execute(*arguments))
        return self

    def executemany(self, query: Any, parameters: Any) -> Self:
        """As any cursor does, inside the transaction."""
        self._do(query, lambda cursor: cursor.executemany(query, parameters))
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchone, None)

    def __getattr__(self, name: str) -> Any:
        if name in _RESULTS:
            return getattr(self._open(), name)
        raise AttributeError(f"the cursor of commit= has no {name}")

    @property
    def connection(self) -> NoReturn:
        """Not available: it is shared."""
        raise AttributeError("the cursor of commit= gives no connection; use its execute()")

    def close(self) -> None:
        """Take no more statements."""
        self._cursor = None

    def check(self) -> None:
        """Raise if the time is over or the transaction gone."""
        if self._late:
            raise too_long()
        if self._failed or not self._in_transaction():
            raise RuntimeError(
                "a statement of commit= failed, and with it the transaction; nothing was written"
            )

    @property
    def _late(self) -> bool:
        return time.monotonic() > self._until

    def _open(self) -> Any:
        if self._cursor is None:
            raise RuntimeError("the cursor of commit= is closed once commit= is over")
        return self._cursor

    def _do(self, query: object, action: Callable[[Any], object]) -> None:
        cursor = self._open()
        self.check()
        self._rules.check(query)
        try:
            action(cursor)
        except BaseException as error:
            # The server may have rolled back, and would commit what comes next by itself.
            self._failed = True
            if isinstance(error, Exception) and self._late:  # it was stopped
                raise too_long() from error
            raise


class Guarded(Protocol):
    """A cursor of `commit=`."""

    def check(self) -> None:
        """Raise if the time is over or the transaction gone."""

    def close(self) -> None:
        """Take no more statements."""


def run_work(cursor: Guarded, work: Work) -> None:
    """Call `work` with the cursor. Raises `WorkFailedError` with what it raises, except Ctrl-C."""
    try:
        try:
            work(cursor)
            cursor.check()
        finally:
            cursor.close()
    except KeyboardInterrupt as error:
        if threading.current_thread() is threading.main_thread():
            raise
        raise WorkFailedError(error) from error
    except BaseException as error:
        raise WorkFailedError(error) from error


def too_long() -> TimeoutError:
    """What to raise when the time of `commit=` is over."""
    return TimeoutError(
        "commit= took too long, and others had to wait; "
        "do the long work in the step's body and keep commit= short"
    )
