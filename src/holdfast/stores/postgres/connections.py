"""The connections of a PostgreSQL store, and what their errors mean."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    OutcomeUnknownError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.seams import fault
from holdfast.store import WorkFailedError
from holdfast.stores._shared.pool import ANSWER_SECONDS, Pool
from holdfast.stores._shared.server import check_user_part, has_secret_options
from holdfast.stores._shared.sql import BeatenError, ContendedError

T = TypeVar("T")
Connection = psycopg.Connection[Any]
Cursor = psycopg.Cursor[tuple[Any, ...]]

_DEFAULTS: Final = {
    "connect_timeout": 10,
    "application_name": "holdfast",
    # A server that is gone without a word is noticed, not waited for.
    "keepalives_idle": 30, "keepalives_interval": 5, "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}  # fmt: skip
_CONTENDED: Final = ("40001", "40P01", "55P03")  # serialisation, deadlock, lock timeout
_PASSING: Final = ("08", "53", "57", "58", "25")  # connection, resources, operator, system, standby
_GRACE: Final = 5.0
_LOST: Final = (psycopg.OperationalError, psycopg.InterfaceError)
# A server that lets nobody in gives no code for it to a client that is not in yet, only words.
_REFUSED: Final = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|permission denied"
    r"|not permitted to log in|(role|database|user) .*does not exist|no such (user|database)"
)
_DAMAGED: Final = ("XX001", "XX002")
_NO_RIGHT: Final = "42501"
_RIGHTS: Final = (
    "let an administrator open the store once, which makes its schema, and grant this role USAGE on "
    "that, SELECT, INSERT, UPDATE, DELETE on its tables and EXECUTE on its functions: see Rights in "
    "the guide on PostgreSQL"
)


class UsersPool(Protocol):
    """What is used of a pool that the user made, such as psycopg_pool's ConnectionPool."""

    def connection(self) -> AbstractContextManager[Connection]:
        """A connection, for as long as it takes."""


class Connections:
    """Cursors for reading and writing, on our own connections or on those of a user's pool."""

    def __init__(
        self,
        where: str | UsersPool,
        schema: str,
        prepare: Callable[[Cursor], None],
        recheck: Callable[[Cursor], object],
        *,
        size: int,
        pool_seconds: float,
        answer_seconds: float,
    ) -> None:
        self._prepare: Callable[[Cursor], None] | None = prepare
        self._recheck = recheck  # raises `SchemaError` if a newer holdfast changed the schema
        self._closed = False
        self._own: Pool[Connection] | None = None
        if isinstance(where, str):
            settings = _settings(where)
            self.url = _url(settings, schema)
            self._settings = settings | {"autocommit": True, "prepare_threshold": None}
            self._answer_seconds = answer_seconds
            self._own = Pool(
                self.url,
                self._connect,
                fileno=Connection.fileno,
                rests=_rests,
                size=size,
                seconds=pool_seconds,
            )
            self._lend: Callable[[], AbstractContextManager[Connection]] = self._own.connection
        else:
            self.url = _url(conninfo_to_dict(getattr(where, "conninfo", "") or ""), schema)
            self._lend = where.connection

    def check_open(self) -> None:
        """Raise `StoreClosedError` once it is closed."""
        if self._closed:
            raise StoreClosedError(self.url)

    def close(self) -> None:
        """Close our own connections; a user's pool is the user's to close."""
        self._closed = True
        if self._own is not None:
            self._own.close()

    @contextmanager
    def cursor(self, *, pooled: bool = True, prepared: bool = True) -> Iterator[Cursor]:
        """A cursor whose every statement is its own transaction; the first makes what is missing."""
        self.check_open()
        lend = self._lend if pooled or self._own is None else self._connect_alone
        with self.translated(), lend() as db:
            before = db.autocommit
            db.autocommit = True
            try:
                cursor = psycopg.Cursor(db, row_factory=tuple_row)
                # Another thread may be through with it any moment.
                prepare = self._prepare if prepared else None
                if prepare is not None:
                    prepare(cursor)
                    self._prepare = None
                with self._rechecked(cursor):
                    yield cursor
            finally:
                if _rests(db):
                    db.autocommit = before
                else:
                    db.close()  # Ctrl-C may have struck inside of a transaction

    @contextmanager
    def _rechecked(self, cursor: Cursor) -> Iterator[None]:
        """What a statement names may be gone because a newer holdfast changed it: then say so."""
        try:
            yield
        except psycopg.Error as error:
            if type(_translate(error, self.url)) is StoreError and _rests(cursor.connection):
                self._recheck(cursor)
            raise

    def _connect(self) -> Connection:
        db = _Impatient.connect(**self._settings)
        db.answer_seconds = self._answer_seconds
        return db

    def _connect_alone(self) -> AbstractContextManager[Connection]:
        return closing(psycopg.connect(**self._settings))

    @contextmanager
    def transaction(self, run: str) -> Iterator[Cursor]:
        """A cursor in a transaction, committed at the end or undone."""
        with self.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
            try:
                yield cursor
                fault("postgres.commit.before")
            except BaseException as error:
                with suppress(psycopg.Error):
                    if isinstance(error, Exception):
                        cursor.execute("ROLLBACK")
                raise
            with self.committing(cursor, run):
                try:
                    cursor.execute("COMMIT")
                except psycopg.IntegrityError as error:  # of a table that is not ours
                    raise WorkFailedError(error) from error
                if cursor.statusmessage != "COMMIT":  # it can't be, but must never go unseen
                    raise StoreError(f"{self.url}: the server undid the transaction")
            fault("postgres.commit.after")

    @contextmanager
    def committing(self, cursor: Cursor, run: str) -> Iterator[None]:
        """Around a statement that commits: if its connection breaks, nobody knows."""
        try:
            yield
        except psycopg.Error as error:
            if cursor.connection.closed:
                raise OutcomeUnknownError(run, _said(error)) from error
            raise

    @contextmanager
    def translated(self) -> Iterator[None]:
        """No driver's exception escapes."""
        try:
            yield
        except (HoldfastError, BeatenError):
            raise
        except psycopg.Error as error:
            raise _translate(error, self.url) from error
        except OSError as error:
            raise StoreUnavailableError(f"{self.url}: {error}") from error
        except (OverflowError, UnicodeError, struct.error) as error:  # a value no column can hold
            raise StoreError(f"{self.url}: {error}") from error


class _Impatient(psycopg.Connection[Any]):
    """Gives up on a server that does not answer, though its connection seems to be alive."""

    answer_seconds = ANSWER_SECONDS

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        return super().wait(self._limited(gen), *args, **options)

    def _limited(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        until = time.monotonic() + self.answer_seconds
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > until:
                    break
                wanted = gen.send(ready)
        except StopIteration as ended:
            result: T = ended.value
            return result
        gen.close()
        with suppress(psycopg.Error):
            self.cancel_safe(timeout=1)
        self.close()
        raise psycopg.OperationalError(f"no answer within {self.answer_seconds:g} seconds")


@contextmanager
def patient(db: Connection, seconds: float) -> Iterator[None]:
    """Wait for answers that long meanwhile, and until the server itself gives up."""
    if not isinstance(db, _Impatient):
        yield
        return
    before = db.answer_seconds
    db.answer_seconds = max(before, seconds + _GRACE)
    try:
        yield
    finally:
        db.answer_seconds = before


def _translate(error: psycopg.Error, url: str) -> Exception:
    code = error.sqlstate or ""
    text = f"{url}: {_said(error)}"
    if code in _CONTENDED:
        return ContendedError(text)
    if code in _DAMAGED:
        return CheckpointCorruptedError(url, None, f"PostgreSQL says: {error}")
    if code == _NO_RIGHT:
        return StoreError(f"{url}: {error.diag.message_primary}; {_RIGHTS}")
    lost = not code and isinstance(error, _LOST) and not _REFUSED.search(text)
    if lost or code[:2] in _PASSING:
        return StoreUnavailableError(text)
    return StoreError(text)


def _said(error: psycopg.Error) -> str:
    """On one line, for logs."""
    return " ".join(str(error).split())


def _rests(db: Connection) -> bool:
    return db.info.transaction_status == TransactionStatus.IDLE


def _settings(where: str) -> dict[str, Any]:
    if "://" in where:
        check_user_part(where)
    try:
        return _DEFAULTS | conninfo_to_dict(where)
    except psycopg.Error as error:
        # What libpq could not read it repeats, and that may be half a password.
        if "://" not in where or has_secret_options(where):
            raise ValueError("libpq can't read it; encode what is special in its values") from None
        raise ValueError(_said(error)) from None


def _url(settings: dict[str, Any], schema: str) -> str:
    """Where it is, without the password and what else is nobody's business."""
    user = quote(str(settings.get("user", "")), safe="")
    secret = ":***" if settings.get("password") else ""
    host = settings.get("host") or settings.get("hostaddr") or ""
    port = f":{settings['port']}" if "port" in settings else ""
    at = "@" if user or secret else ""
    return (
        f"postgresql://{user}{secret}{at}{host}{port}/{settings.get('dbname', '')}?schema={schema}"
    )
