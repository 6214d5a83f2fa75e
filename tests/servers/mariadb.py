"""MariaDB for tests, or MySQL."""

from __future__ import annotations

import os
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pymysql.connections

from holdfast.seams import new_id
from tests.servers.server import HOST, Server
from tests.waiting import ENOUGH, wait_until

_new_context: Final = pymysql.connections.Connection._create_ssl_ctx  # type: ignore[attr-defined]
_contexts: list[Any] = []


def _context(db: Any, options: Any) -> Any:
    """What PyMySQL makes, but only once where no options are given.

    It reads all authorities of the system for each connection, although it will not ask them:
    that takes longer than most tests.
    """
    if options:
        return _new_context(db, options)
    if not _contexts:
        _contexts.append(_new_context(db, options))
    return _contexts[0]


pymysql.connections.Connection._create_ssl_ctx = _context  # type: ignore[attr-defined]


def make_context() -> None:
    """Before processes are forked: each would make its own."""
    _context(None, {})


class MariaDB(Server):
    """A private MariaDB, with its default settings but for where it listens."""

    package = "mariadb-server"

    def prepare(self) -> None:
        self.run(
            self.program("mariadb-install-db"),
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            f"--datadir={self.directory}/data",
        )

    def command(self) -> list[str]:
        return [
            self.program("mariadbd"),
            "--no-defaults",
            f"--datadir={self.directory}/data",
            f"--socket={self.directory}/socket",
            f"--pid-file={self.directory}/pid",
            f"--tmpdir={self.directory}",  # it empties it: in /tmp, others would crash
            f"--port={self.port}",
            f"--bind-address={HOST}",
            "--max-connections=250",
        ]

    def ping(self) -> None:
        connect(self.url).close()

    @property
    def url(self) -> str:
        return f"mysql://root@{HOST}:{self.port}/mysql"


class MySQL(MariaDB):
    """A private MySQL, likewise, of the program that $HOLDFAST_TEST_MYSQLD names."""

    package = "mysql-server"

    def prepare(self) -> None:
        self.run(*self.command(), "--initialize-insecure")

    def command(self) -> list[str]:
        program = os.environ["HOLDFAST_TEST_MYSQLD"]
        own = ["--mysqlx=OFF", "--secure-file-priv=NULL"]
        return [self.program(program), *super().command()[1:], *own]


PRIVATE: Final = MySQL if os.environ.get("HOLDFAST_TEST_MYSQLD") else MariaDB
"""What is started where tests need a server of their own."""


def connect(url: str) -> pymysql.Connection[pymysql.cursors.Cursor]:
    """The plain driver's connection."""
    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname or HOST,
        port=parts.port or 3306,
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        database=unquote(parts.path[1:]) or None,
        autocommit=True,
        read_timeout=round(ENOUGH),
        write_timeout=round(ENOUGH),
    )


def sql(url: str, statement: str) -> list[Any]:
    """The rows of one statement."""
    with connect(url) as db, db.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def server_url() -> str:
    """The server that tests use: ours, unless $HOLDFAST_TEST_MYSQL names another."""
    return os.environ.get("HOLDFAST_TEST_MYSQL") or PRIVATE.shared().url


def new_url(server: str | None = None) -> str:
    """An empty database."""
    server = server or server_url()
    name = f"t_{new_id()}"
    with connect(server) as db:
        db.cursor().execute(f"CREATE DATABASE {name}")
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def cut_connections(url: str) -> int:
    """Hang up on everyone but us; how many that were."""
    others = (
        "SELECT id FROM information_schema.processlist "
        "WHERE id <> connection_id() AND db = database()"
    )
    with connect(url) as db, db.cursor() as cursor:
        cursor.execute(others)
        found = cursor.fetchall()
        for (each,) in found:
            cursor.execute("KILL %s", (each,))
        wait_until(lambda: not cursor.execute(others))
        return len(found)
