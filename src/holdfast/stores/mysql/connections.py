"""The connections of a MySQL or MariaDB store and its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pymysql
from pymysql.constants import CR, ER, SERVER_STATUS

from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.stores._shared.address import check_user_part, shown
from holdfast.stores._shared.connections import Connections as ServerConnections
from holdfast.stores._shared.pool import Limits, Pool
from holdfast.stores._shared.sql import BeatenError, ContendedError
from holdfast.stores._shared.table import Parameters, Row

if TYPE_CHECKING:
    Connection = pymysql.Connection[pymysql.cursors.Cursor]
else:
    Connection = pymysql.Connection

_SESSION: Final = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",  # else texts are cut
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION innodb_lock_wait_timeout = 5",
)
_DRIVERS_OWN: Final = frozenset(["unix_socket", "ssl_ca", "ssl_cert", "ssl_key"])
_TEXTS: Final = frozenset(
    [
        "run",
        "kind",
        "step",
        "type",
        "status",
        "flow",
        "thread",
        "owner",
        "meta",
        "parent",
        "holder",
        "labels",
        "what",
    ]
)
_LONG: Final = 64  # bytes; as hexadecimal digits they would be twice as many

_CONTENDED: Final = (ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT)
_PASSING: Final = frozenset([
    ER.CON_COUNT_ERROR, ER.SERVER_SHUTDOWN, ER.DISK_FULL, ER.RECORD_FILE_FULL, ER.NEW_ABORTING_CONNECTION,
    ER.OUT_OF_RESOURCES, ER.OPTION_PREVENTS_STATEMENT, ER.QUERY_INTERRUPTED, ER.CANT_LOCK,
    CR.CR_CONN_HOST_ERROR, CR.CR_CONNECTION_ERROR, CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST,
    CR.CR_UNKNOWN_HOST, 1792, 1836, 1927, 1969, 3024,  # read-only, killed, took too long
])  # fmt: skip
_NO_RIGHT: Final = (
    ER.DBACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR,
)  # fmt: skip
_RIGHTS: Final = (
    "have an administrator open the store once, which creates its tables, and grant this user SELECT, "
    "INSERT, UPDATE and DELETE on the database: see Rights in the MySQL guide"
)
_DAMAGED: Final = (ER.NOT_KEYFILE, ER.CRASHED_ON_USAGE, 1712)


class Connections(ServerConnections[Connection, "Session"]):
    """Sessions on our own connections, made by a URL or by the user's function."""

    name = "mysql"
    begin = "START TRANSACTION READ WRITE"
    driver_error = pymysql.Error

    def __init__(
        self,
        where: str | Callable[[], Connection],
        prepare: Callable[[Session], None],
        recheck: Callable[[Session], object],
        limits: Limits,
    ) -> None:
        if isinstance(where, str):
            settings = _settings(where, limits.answer_seconds)
            place = f"{settings['host']}:{settings['port']}/{quote(settings['database'])}"
            url = shown("mysql", settings["user"], settings["password"], place)
            self._make: Callable[[], Connection] = lambda: pymysql.connect(**settings)
        else:
            url, self._make = "mysql://", where
        pool = Pool(url, self._connect, fileno=_fileno, rests=self._rests, limits=limits)
        super().__init__(url, pool, prepare, recheck)

    def _connect(self) -> Connection:
        try:
            db = self._make()
        except RuntimeError as error:
            if "cryptography" not in str(error):
                raise
            hint = "install it with: pip install 'PyMySQL[rsa]', or use TLS"
            raise StoreError(f"{self.url}: {error}; {hint}") from error
        try:
            db.autocommit(True)
            # In others, such as GBK, a quote or backslash may be half of a character, and a body
            # could break out of what `literal` escapes.
            db.set_character_set("utf8mb4")
            for statement in _SESSION:
                db.query(statement)
        except BaseException:
            db.close()
            raise
        return db

    def _on(self, db: Connection) -> AbstractContextManager[Session]:
        return nullcontext(Session(db))

    def _rests(self, db: Connection) -> bool:
        return db.open and not in_transaction(db)

    def _is_lost(self, session: Session) -> bool:
        return not session.db.open

    def _translate(self, error: pymysql.Error) -> HoldfastError:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        said = str(error.args[-1]) if error.args else repr(error)
        text = f"{self.url}: {said}"
        if code == ER.DUP_ENTRY:
            return BeatenError()
        if code in _CONTENDED:
            return ContendedError(text)
        if code in _DAMAGED:
            return CheckpointCorruptedError(self.url, None, f"the server says: {said}")
        if code in _NO_RIGHT:
            return StoreError(f"{text}; {_RIGHTS}")
        if code in _PASSING or isinstance(error, pymysql.InterfaceError):
            return StoreUnavailableError(text)
        return StoreError(text)


class Session:
    """A connection that takes whole statements as bytes: the driver escapes slowly."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def execute(self, statement: str | bytes, parameters: Parameters = ()) -> list[Row]:
        """Run one statement and return its rows, with the text columns of our table as str."""
        text = statement.encode() if isinstance(statement, str) else statement
        if isinstance(parameters, Mapping):
            text %= {name.encode(): literal(value) for name, value in parameters.items()}
        elif parameters:
            text %= tuple(map(literal, parameters))
        with self.db.cursor(pymysql.cursors.Cursor) as cursor:
            cursor.execute(text)  # type: ignore[call-overload]  # it takes bytes, too
            names = [column[0] for column in cursor.description or ()]
            rows: list[Row] = list(cursor.fetchall()) if names else []
        texts = [place for place, name in enumerate(names) if name in _TEXTS]
        return [_decoded(row, texts) for row in rows] if texts else rows


def literal(value: object) -> bytes:
    """A value as SQL. Text is hexadecimal, so nothing in it has a meaning."""
    if value is None:
        return b"NULL"
    if isinstance(value, str):
        return b"x'%s'" % value.encode().hex().encode()
    if isinstance(value, bytes):
        if len(value) <= _LONG:
            return b"x'%s'" % value.hex().encode()
        return b"_binary'%s'" % value.replace(b"\\", b"\\\\").replace(b"'", b"''")
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float) and value - value == 0:  # neither infinite nor not a number
        return repr(value).encode()
    raise StoreError(f"MySQL can't hold {value!r}")


def _decoded(row: Row, texts: Sequence[int]) -> Row:
    values = list(row)
    for place in texts:
        if isinstance(values[place], bytes):
            values[place] = values[place].decode()
    return tuple(values)


@contextmanager
def patient(db: Connection, seconds: float) -> Iterator[None]:
    """Wait longer for answers inside the block."""
    before = db._read_timeout  # type: ignore[attr-defined]  # noqa: SLF001 - not offered
    if before is not None:
        db._read_timeout = max(before, seconds)  # type: ignore[attr-defined]  # noqa: SLF001
    try:
        yield
    finally:
        db._read_timeout = before  # type: ignore[attr-defined]  # noqa: SLF001


def _fileno(db: Connection) -> int:
    sock = db._sock  # type: ignore[attr-defined]  # noqa: SLF001 - the driver does not offer it
    return sock.fileno() if sock is not None else -1


def in_transaction(db: Connection) -> bool:
    """Whether it is in a transaction, as of the server's last successful answer."""
    status: int = db.server_status  # type: ignore[attr-defined]  # missing in its stubs
    return bool(status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)


def _settings(url: str, answer_seconds: float) -> dict[str, Any]:
    check_user_part(url)
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    database = unquote(parts.path[1:])
    if not database or "/" in database:
        raise ValueError("name a database: mysql://user:password@host/database")
    unknown = sorted(options.keys() - _DRIVERS_OWN)
    if unknown:
        raise ValueError(f"no option of this store: {', '.join(unknown)}")
    return {
        "host": parts.hostname or "localhost",
        "port": parts.port or 3306,
        "user": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password or ""),
        "database": database,
        "charset": "utf8mb4",
        "connect_timeout": 10,
        "read_timeout": answer_seconds,
        "write_timeout": answer_seconds,
        **options,
    }
