"""PgBouncer for tests, in transaction mode."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg

from tests.servers import postgres
from tests.servers.server import HOST, Server

_SETTINGS = """
[databases]
* = host={server.hostname} port={server.port}
[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {directory}/users
pool_mode = transaction
default_pool_size = 4
"""


class PgBouncer(Server):
    """A private one before the server that tests use: each transaction may meet another session."""

    package = "pgbouncer"

    def prepare(self) -> None:
        server = urlsplit(postgres.server_url())
        text = _SETTINGS.format(server=server, host=HOST, port=self.port, directory=self.directory)
        (self.directory / "settings").write_text(text)
        user = f'"{server.username}" "{server.password}"\n'
        (self.directory / "users").write_text(user)

    def command(self) -> list[str]:
        return [self.program("pgbouncer"), f"{self.directory}/settings"]

    def ping(self) -> None:
        psycopg.connect(self.through(postgres.server_url()), connect_timeout=5).close()

    def through(self, url: str) -> str:
        """The same database by way of it."""
        parts = urlsplit(url)
        return url.replace(f"@{parts.hostname}:{parts.port}/", f"@{HOST}:{self.port}/")
