"""The private servers themselves: what they keep over a kill, and that they go away."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.servers.mariadb import MariaDB, connect
from tests.servers.postgres import Postgres
from tests.servers.server import Server, wait_for_death
from tests.waiting import bounded, run_process


def test_what_postgresql_acknowledged_is_there_after_a_kill() -> None:
    server = Postgres.shared()
    with psycopg.connect(server.url, autocommit=True) as db:
        db.execute("CREATE TABLE kept AS SELECT 1 AS n")
    server.kill()
    server.start()
    with psycopg.connect(server.url, autocommit=True) as db:
        assert db.execute("SELECT n FROM kept").fetchall() == [(1,)]
        db.execute("DROP TABLE kept")


def test_what_mariadb_acknowledged_is_there_after_a_kill() -> None:
    server = MariaDB.shared()
    with connect(server.url) as db:
        db.cursor().execute("CREATE TABLE kept AS SELECT 1 AS n")
    server.kill()
    server.start()
    with connect(server.url) as db, db.cursor() as cursor:
        cursor.execute("SELECT n FROM kept")
        assert cursor.fetchall() == ((1,),)
        cursor.execute("DROP TABLE kept")


@pytest.mark.parametrize("kind", [Postgres, MariaDB])
def test_a_server_does_not_outlive_tests_that_are_killed(kind: type[Server]) -> None:
    program = f"""
import time
from {kind.__module__} import {kind.__name__}
server = {kind.__name__}()
print(server._process.pid, server.directory, flush=True)
time.sleep(600)
"""
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=root) as run:
        assert run.stdout is not None
        with bounded(run):
            pid, directory = run.stdout.readline().decode().split()
        run.send_signal(signal.SIGKILL)
    wait_for_death(int(pid))
    run_process(["rm", "-rf", directory], check=True)
