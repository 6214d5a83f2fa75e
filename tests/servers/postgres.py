"""PostgreSQL for tests."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import psycopg

from holdfast.seams import new_id
from tests.servers.server import HOST, Server

_QUIT_SECONDS: Final = 10.0


class Postgres(Server):
    """A private PostgreSQL with its default settings, but for where it listens and its size."""

    package = "postgresql"

    def prepare(self) -> None:
        options = ["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"]
        self.run(self.program("initdb"), "-U", "postgres", *options, "-D", f"{self.directory}/data")

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": HOST,
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 250,
            "shared_buffers": "32MB",
            "max_wal_size": "256MB",
            "dynamic_shared_memory_type": "mmap",  # in its directory, which is removed
            "recovery_init_sync_method": "syncfs",  # not a thousand files, after each kill
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [self.program("postgres"), "-D", f"{self.directory}/data", *options]

    def ping(self) -> None:
        with psycopg.connect(self.url, connect_timeout=5) as db:
            db.execute("SELECT 1")

    def stop(self) -> None:
        """Let it end by itself if it can: who is killed leaves shared memory behind."""
        if self._process is not None and os.getpid() == self._owner:
            self._process.send_signal(signal.SIGQUIT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_QUIT_SECONDS)
        super().stop()

    @property
    def url(self) -> str:
        return f"postgresql://postgres:secret@{HOST}:{self.port}/postgres"


def server_url() -> str:
    """The server that tests use: ours, unless $HOLDFAST_TEST_POSTGRES names another."""
    return os.environ.get("HOLDFAST_TEST_POSTGRES") or Postgres.shared().url


def new_url(server: str | None = None) -> str:
    """An empty schema, which is also where a user's own tables of no other schema are."""
    server = server or server_url()
    name = f"t_{new_id()}"
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(f"CREATE SCHEMA {name}".encode())
    return f"{server}?schema={name}&options=-csearch_path%3D{name}"


def cut_connections(url: str) -> int:
    """Hang up on everyone but us; how many that were."""
    with psycopg.connect(url.partition("?")[0], autocommit=True) as db:
        found = db.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' "
            "AND application_name = 'holdfast'"
        ).fetchall()
    return len(found)


def new_database(encoding: str | None = None) -> str:
    """An empty database."""
    name = f"t_{new_id()}"
    more = f" TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'" if encoding else ""
    with psycopg.connect(server_url(), autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}{more}".encode())
    return urlsplit(server_url())._replace(path=f"/{name}").geturl()
