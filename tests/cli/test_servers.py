"""The commands on a store that is a server."""

from __future__ import annotations

import re
import threading
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest
from redis import Redis

import holdfast as hf
from holdfast.cli._exits import Exit
from holdfast.seams import new_id
from tests.cli.conftest import Cli
from tests.servers import mariadb, postgres, redis
from tests.servers.dynamodb import new_url as new_dynamodb
from tests.waiting import join


@pytest.fixture(params=["postgres", "redis"])
def server(request: pytest.FixtureRequest) -> str:
    return postgres.new_url() if request.param == "postgres" else redis.new_url()


def test_runs_are_listed_executed_and_copied(
    cli: Cli, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", server)
    assert cli("run", "jobs:etl", "-i", "day=x", "--run-id", "etl", "--owner", "ann").code == 0
    assert cli("run", "jobs:review", "-i", "what=x", "--run-id", "review").code == Exit.PAUSED
    assert cli("show", "etl", "--json").json["state"]["total"] == 6
    assert len(cli("questions", "--json").lines) == 1
    assert cli("verify").code == 0
    done = cli("doctor")
    assert done.code == 0
    assert "secret" not in done.out
    assert cli("copy", server, "local.db").out == "3 runs copied to local.db: 3 new\n"
    assert cli("forget", "--owner", "ann", "--yes", "--json").code == 0
    assert [run["run_id"] for run in cli("runs", "--json").lines] == ["review"]


def test_a_command_that_is_offered_shows_no_secret_and_can_be_pasted(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.new_url()
    asked = cli("run", "jobs:anything", "--run-id", "a", "--store", url).err
    assert re.search(r"holdfast answer a '--store=postgresql://[^ ]*\*\*\*@[^ ]*'\n", asked)
    monkeypatch.setenv("HOLDFAST_STORE", url)
    again = cli("run", "jobs:anything", "--run-id", "b", "--store", url).err
    assert "holdfast answer b\n" in again
    assert "secret" not in asked + again


def test_workers_execute_what_is_submitted(
    cli: Cli, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", server)
    again = ["submit", "jobs:etl", "-i", "day=x", "--run-id", "etl"]
    assert cli(*again).out == "etl submitted\n"
    assert "nothing was changed" in cli(*again).out
    assert cli("submit", "jobs:nap", "-i", "seconds=3600", "--run-id", "nap").code == 0
    done = cli(
        "worker", "--flow", "jobs:etl", "--flow", "jobs:nap", "--per-flow", "etl=1", "--until-idle"
    )
    assert done.code == 0
    assert "secret" not in done.out
    assert (done.lines[-1]["completed"], done.lines[-1]["paused"]) == (1, 1)
    assert "paused, continues " in cli("show", "nap").out
    assert cli("workers", "--json").lines == []


def test_watching_is_told_of_what_happens(cli: Cli, server: str) -> None:
    with hf.SyncCheckpointer(server) as cp:
        cp.save("job", 0, step="first")

        def work() -> None:
            for n in range(3):
                cp.save("job", n, step=f"later-{n}")
            cp.complete("job")

        timer = threading.Timer(0.3, work)
        timer.start()
        done = cli("watch", "job", "--interval", "3600", "--json", "--store", server)
        join(timer)
    assert [moment["seq"] for moment in done.lines] == list(range(6))


def test_a_server_that_keeps_nothing_is_warned_of(cli: Cli) -> None:
    url = redis.new_url(redis.VolatileRedis.shared().url)
    with hf.SyncCheckpointer(url) as cp:
        cp.save("job", 0)
    done = cli("doctor", "--json", "--store", url)
    (finding,) = [found for found in done.json["findings"] if found["what"] == "durability"]
    assert finding["status"] == "warning"
    assert "survives nothing" in finding["found"]
    assert "`appendonly yes`" in finding["advice"]
    assert "`appendfsync always`" in finding["advice"]


NEW = {
    "postgres": postgres.new_database,
    "mysql": mariadb.new_url,
    "redis": lambda: redis.new_url() + "-new",
    "dynamodb": new_dynamodb,
}


def contents(kind: str, url: str) -> object:
    """What is to be seen of a store by those who know nothing of holdfast."""
    if kind == "postgres":
        with psycopg.connect(url) as db:
            return db.execute("SELECT nspname FROM pg_namespace ORDER BY 1").fetchall()
    if kind == "mysql":
        with mariadb.connect(url) as own, own.cursor() as cursor:
            cursor.execute("SHOW TABLES")
            return cursor.fetchall()
    if kind == "redis":
        with Redis.from_url(url.partition("?")[0]) as client:
            return list(client.scan_iter(f"{url.rpartition('=')[2]}:*"))
    with closing(hf.open_store(url)) as store:
        return store.exists()


@pytest.mark.parametrize("kind", NEW)
def test_looking_at_a_server_makes_no_store_there(cli: Cli, kind: str) -> None:
    url = NEW[kind]()
    before = contents(kind, url)
    for command in (("runs",), ("show", "x"), ("stats",), ("doctor",), ("questions",), ("verify",)):
        done = cli(*command, "--store", url)
        assert done.code == Exit.NOT_FOUND, (command, done)
        assert "there is no store at" in done.err
    assert contents(kind, url) == before
    with hf.SyncCheckpointer(url) as cp:
        cp.save("x", 1)
    assert cli("show", "x", "--store", url).code == 0


def test_a_role_that_may_make_nothing_sees_that_there_is_no_store(cli: Cli) -> None:
    url = postgres.new_database()
    with psycopg.connect(url, autocommit=True) as db:
        name = f"r_{new_id()}".encode()
        db.execute(b"CREATE ROLE %s LOGIN" % name)
        db.execute(b"REVOKE CREATE ON DATABASE %s FROM PUBLIC" % urlsplit(url).path[1:].encode())
    theirs = url.replace("postgres:secret@", f"{name.decode()}@")
    assert cli("runs", "--store", theirs).code == Exit.NOT_FOUND
    done = cli("run", "jobs:etl", "-i", "day=x", "--store", theirs)
    assert done.code == Exit.UNAVAILABLE
    assert "have an administrator open the store once" in done.err
    assert "SELECT, INSERT, UPDATE and DELETE" in done.err
    with hf.SyncCheckpointer(url) as cp:
        cp.save("x", 1)
    done = cli("runs", "--store", theirs)
    assert done.code == Exit.UNAVAILABLE
    assert "permission denied for schema holdfast" in done.err
    assert "PostgreSQL guide" in done.err
    assert "WITH RECURSIVE" not in done.err


def test_a_mysql_user_without_rights_is_told_which_are_needed(cli: Cli) -> None:
    url = mariadb.new_url()
    user = f"u_{new_id()}"
    with mariadb.connect(url) as db, db.cursor() as cursor:
        cursor.execute(f"CREATE USER {user}")
        cursor.execute(f"GRANT SELECT ON {urlsplit(url).path[1:]}.* TO {user}")
    theirs = url.replace("root@", f"{user}@")
    assert cli("runs", "--store", theirs).code == Exit.NOT_FOUND
    done = cli("run", "jobs:etl", "-i", "day=x", "--store", theirs)
    assert done.code == Exit.UNAVAILABLE
    assert "have an administrator open the store once" in done.err
    assert "MySQL guide" in done.err


def test_a_run_on_a_server_that_keeps_nothing_says_so(
    cli: Cli, caplog: pytest.LogCaptureFixture
) -> None:
    url = redis.new_url(redis.VolatileRedis.shared().url)
    assert cli("run", "jobs:etl", "-i", "day=x", "--store", url).code == 0
    (told,) = [
        record for record in caplog.records if "is lost when the server restarts" in record.message
    ]
    assert told.levelname == "WARNING"
    assert told.name == "holdfast"
    assert "appendfsync always" in told.message
    with pytest.raises(hf.DurabilityError, match="appendonly yes"):
        hf.SyncCheckpointer(f"{url}&survives=process-crash")


def test_a_redis_store_is_shown_with_its_prefix_and_its_ttl(cli: Cli) -> None:
    url = f"{redis.new_url()}&ttl=90"
    with hf.SyncCheckpointer(url) as cp:
        cp.save("x", 1)
    assert cli("stats", "--json", "--store", url).json["store"] == url
    assert url in cli("doctor", "--quick", "--store", url).out


def test_a_server_that_is_away_is_said_so(cli: Cli) -> None:
    done = cli("runs", "--store", "postgresql://ann:s3cret@127.0.0.1:1/runs?connect_timeout=1")
    assert done.code == Exit.UNAVAILABLE
    assert "s3cret" not in done.err
    assert "Traceback" not in done.err
    assert "\\n" not in done.err
    assert "\\t" not in done.err
    assert "run '*'" not in done.err


@pytest.mark.parametrize("password", ["s3cret/1", "s3cret@", "s3cret%", "s3cret[", "s3cret\u2100"])
def test_a_password_that_was_not_encoded_is_never_shown(cli: Cli, password: str) -> None:
    url = f"postgresql://ann:{password}@127.0.0.1:1/runs"
    for command in (["runs", "--store", url], ["copy", "a.db", url], ["config", "--store", url]):
        done = cli(*command)
        assert "s3cret" not in done.out + done.err
        assert "Traceback" not in done.err
    assert cli("runs", "--store", url).code == Exit.USAGE


def test_a_list_that_could_not_be_read_is_of_no_run() -> None:
    with hf.SyncCheckpointer("postgresql://127.0.0.1:1/runs?connect_timeout=1") as cp:
        for ask in (cp.runs, cp.stats):
            with pytest.raises(
                hf.CheckpointLoadError, match=r"^the store could not be read: postgresql:"
            ):
                ask()
        with pytest.raises(hf.CheckpointLoadError, match=r"^run 'x' could not be read"):
            cp.load("x")
