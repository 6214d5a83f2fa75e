"""The private servers themselves: what they keep over a kill, and that they go away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest

from tests.processes import state_of
from tests.servers.directories import new_directory, remove_abandoned
from tests.servers.mariadb import MariaDB, connect
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis
from tests.servers.server import Server, wait_for_death
from tests.waiting import bounded, wait_until

ROOT = Path(__file__).parents[2]


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
print(server._process.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT) as run:
        assert run.stdout is not None
        with bounded(run):
            pid = int(run.stdout.readline())
        run.send_signal(signal.SIGKILL)
    wait_for_death(pid)


def test_a_directory_is_removed_once_the_tests_that_made_it_were_killed() -> None:
    program = """
import time
from tests.servers.directories import new_directory
print(new_directory(), flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT) as run:
        assert run.stdout is not None
        with bounded(run):
            directory = Path(run.stdout.readline().decode().strip())
        remove_abandoned(directory.parent)
        assert directory.exists(), "its process lives"
        run.send_signal(signal.SIGKILL)
    own = new_directory()
    assert not directory.exists()
    remove_abandoned(own.parent)
    assert own.exists()
    own.joinpath("owner").unlink()
    own.rmdir()


def test_a_mariadb_that_starts_leaves_the_temporary_tables_of_others_alone() -> None:
    """It removes all that it finds where it keeps its own, and who misses one crashes."""
    server = MariaDB.shared()
    others = Path(tempfile.gettempdir()) / f"#sql-temptable-{os.getpid()}-0.MAI"
    server.run("touch", str(others))
    try:
        server.kill()
        server.start()
        assert others.exists()
    finally:
        others.unlink(missing_ok=True)


def test_a_postgresql_that_ends_keeps_no_shared_memory() -> None:
    server = Postgres()
    key, number = (server.directory / "data" / "postmaster.pid").read_text().splitlines()[6].split()
    assert [key, number] in _segments()
    server.stop()
    assert [key, number] not in _segments()


def _segments() -> list[list[str]]:
    """Key and number of all shared memory, as System V counts it."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return [line.split()[:2] for line in lines]


def test_a_shared_server_that_was_killed_is_started_and_one_that_crashed_is_reported() -> None:
    class Own(Redis):
        """Not the one of other tests."""

    server = Own.shared()
    server.kill()
    assert Own.shared() is server
    server.ping()
    assert server._process is not None
    os.kill(server._process.pid, signal.SIGSEGV)
    wait_for_death(server._process.pid)
    with pytest.raises(RuntimeError, match=r"(?s)redis-server ended by itself.*REDIS BUG REPORT"):
        Own.shared()
    server.stop()


def test_a_process_whose_first_thread_ended_is_not_dead_as_long_as_another_acts() -> None:
    program = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""
    run = subprocess.Popen([sys.executable, "-c", program])
    try:
        first = Path(f"/proc/{run.pid}/task/{run.pid}/stat")
        wait_until(lambda: ") Z " in first.read_text())
        assert state_of(run.pid) in ("R", "S")  # it may not have come to its sleep yet
    finally:
        run.kill()
        wait_for_death(run.pid)
        assert run.poll() == -signal.SIGKILL
