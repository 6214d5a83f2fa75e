"""The connections of a PostgreSQL store and its errors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.store import WorkFailedError
from holdfast.stores._shared.address import check_user_part, has_secret_options, shown
from holdfast.stores._shared.connections import Connections as ServerConnections
from holdfast.stores._shared.connections import Lender
from holdfast.stores._shared.pool import ANSWER_SECONDS, Limits, Pool
from holdfast.stores._shared.sql import ContendedError

T = TypeVar("T")
Connection = psycopg.Connection[Any]
Cursor = psycopg.Cursor[tuple[Any, ...]]

_DEFAULTS: Final = {
    "connect_timeout": 10,
    "application_name": "holdfast",
    # Notice a server that disappeared without closing the connection.
    "keepalives_idle": 30, "keepalives_interval": 5, "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}  # fmt: skip
_CONTENDED: Final = ("40001", "40P01", "55P03")  # serialisation, deadlock, lock timeout
_PASSING: Final = ("08", "53", "57", "58", "25")  # connection, resources, operator, system, standby
_GRACE: Final = 5.0
_LOST: Final = (psycopg.OperationalError, psycopg.InterfaceError)
# Errors while connecting have no code, only a message.
_REFUSED: Final = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|permission denied"
    r"|not permitted to log in|(role|database|user) .*does not exist|no such (user|database)"
)
_DAMAGED: Final = ("XX001", "XX002")
_NO_RIGHT: Final = "42501"
_RIGHTS: Final = (
    "have an administrator open the store once, which creates its schema, and grant this role USAGE "
    "on the schema, SELECT, INSERT, UPDATE and DELETE on its tables and EXECUTE on its functions: see "
    "Rights in the PostgreSQL guide"
)


class Connections(ServerConnections[Connection, Cursor]):
    """Cursors on our own connections, or on those of a user's pool."""

    name = "postgres"
    begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
    driver_error = psycopg.Error

    def __init__(
        self,
        where: str | Lender[Connection],
        schema: str,
        prepare: Callable[[Cursor], None],
        recheck: Callable[[Cursor], object],
        limits: Limits,
    ) -> None:
        if isinstance(where, str):
            settings = _settings(where)
            self._settings = settings | {"autocommit": True, "prepare_threshold": None}
            self._answer_seconds = limits.answer_seconds
            pool: Lender[Connection] = Pool(
                _url(settings, schema),
                self._connect,
                fileno=Connection.fileno,
                rests=self._rests,
                limits=limits,
            )
        else:
            pool, settings = where, conninfo_to_dict(getattr(where, "conninfo", "") or "")
        super().__init__(_url(settings, schema), pool, prepare, recheck)

    def alone(self) -> AbstractContextManager[Cursor]:
        """A session on a connection of its own, which may be kept for long."""
        return self.session(pool=_Fresh(self._settings) if isinstance(self._pool, Pool) else None)

    @contextmanager
    def _on(self, db: Connection) -> Iterator[Cursor]:
        before = db.autocommit
        db.autocommit = True
        try:
            yield psycopg.Cursor(db, row_factory=tuple_row)
        finally:
            if self._rests(db):
                db.autocommit = before
            else:
                db.close()  # Ctrl-C may have interrupted a transaction

    def _rests(self, db: Connection) -> bool:
        return db.info.transaction_status == TransactionStatus.IDLE

    def _is_lost(self, session: Cursor) -> bool:
        return session.connection.closed

    def _connect(self) -> Connection:
        db = _Impatient.connect(**self._settings)
        db.answer_seconds = self._answer_seconds
        return db

    def _commit(self, session: Cursor) -> None:
        try:
            session.execute("COMMIT")
        except psycopg.IntegrityError as error:  # of the user's own tables
            raise WorkFailedError(error) from error
        if session.statusmessage != "COMMIT":  # should never happen, and must not go unseen
            raise StoreError(f"{self.url}: the server rolled the transaction back")

    def _translate(self, error: psycopg.Error) -> HoldfastError:
        code = error.sqlstate or ""
        text = f"{self.url}: {_said(error)}"
        if code in _CONTENDED:
            return ContendedError(text)
        if code in _DAMAGED:
            return CheckpointCorruptedError(self.url, None, f"PostgreSQL says: {error}")
        if code == _NO_RIGHT:
            return StoreError(f"{self.url}: {error.diag.message_primary}; {_RIGHTS}")
        lost = not code and isinstance(error, _LOST) and not _REFUSED.search(text)
        if lost or code[:2] in _PASSING:
            return StoreUnavailableError(text)
        return StoreError(text)


class _Fresh(NamedTuple):
    """Lends a new connection each time."""

    settings: dict[str, Any]

    def connection(self) -> AbstractContextManager[Connection]:
        """Connect."""
        return closing(psycopg.connect(**self.settings))


class _Impatient(psycopg.Connection[Any]):
    """Gives up on a server that does not answer, even if the connection looks alive."""

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
    """Wait longer for answers inside the block: until the server itself gives up."""
    if not isinstance(db, _Impatient):
        yield
        return
    before = db.answer_seconds
    db.answer_seconds = max(before, seconds + _GRACE)
    try:
        yield
    finally:
        db.answer_seconds = before


def _said(error: psycopg.Error) -> str:
    """The error message on one line."""
    return " ".join(str(error).split())


def _settings(where: str) -> dict[str, Any]:
    if "://" in where:
        check_user_part(where)
    try:
        return _DEFAULTS | conninfo_to_dict(where)
    except psycopg.Error as error:
        # libpq repeats what it could not read, and that may be half a password.
        if "://" not in where or has_secret_options(where):
            raise ValueError(
                "libpq can't read it; in a URL, percent-encode special characters "
                "(urllib.parse.quote(value, safe='')); elsewhere, quote values: password='a b'"
            ) from None
        raise ValueError(_said(error)) from None


def _url(settings: dict[str, Any], schema: str) -> str:
    host = settings.get("host") or settings.get("hostaddr") or ""
    port = f":{settings['port']}" if "port" in settings else ""
    place = f"{host}{port}/{settings.get('dbname', '')}?schema={schema}"
    return shown("postgresql", settings.get("user"), settings.get("password"), place)
