"""An older schema becomes a newer one while others use it, and whoever does it may be killed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

import holdfast as hf
from holdfast.stores.mysql.schema import Migration
from holdfast.stores.mysql.store import MySQLStore
from holdfast.testing.contract import check_store, entry
from tests import faults
from tests.servers import children, mariadb, postgres

SAVES = 8
OLD, NEW = range(2), range(2, 5)  # processes


class Kind(NamedTuple):
    """A store, and made-up migrations of it."""

    module: str
    new_url: Callable[[Path], str]
    adds: Any  # a column, which can't be done twice; older statements go on
    renames: Any  # a column that older statements name


KINDS = {
    "sqlite": Kind(
        "sqlite.schema",
        lambda directory: f"sqlite:///{directory}/runs.db",
        "CREATE TABLE added (x); ALTER TABLE holdfast_entries ADD COLUMN extra TEXT",
        "ALTER TABLE holdfast_entries RENAME COLUMN meta TO facts",
    ),
    "postgres": Kind(
        "postgres.schema",
        lambda _: postgres.new_url(),
        "ALTER TABLE {schema}.entries ADD COLUMN extra text",
        "ALTER TABLE {schema}.entries RENAME COLUMN meta TO facts",
    ),
    "mysql": Kind(
        "mysql.schema",
        lambda _: mariadb.new_url(),
        Migration(
            ("CREATE TABLE IF NOT EXISTS added (x INT)", "DO SLEEP(0.2)"),  # all come meanwhile
            ("ADD COLUMN extra TEXT",),
        ),
        Migration(alter=("CHANGE meta facts LONGBLOB NOT NULL",)),
    ),
    "duckdb": Kind(
        "duckdb.file",
        lambda directory: f"duckdb:///{directory}/runs.duckdb",
        "ALTER TABLE entries ADD COLUMN extra VARCHAR",
        None,  # an older program can't have the file open
    ),
}
SHARED = ("sqlite", "postgres", "mysql")


@pytest.fixture
def url(kind: str, tmp_path: Path) -> str:
    return KINDS[kind].new_url(tmp_path)


def upgrade(kind: str, patch: pytest.MonkeyPatch, migration: str = "adds") -> None:
    """Let this process be a newer holdfast."""
    made_up = getattr(KINDS[kind], migration)
    children.upgrade(KINDS[kind].module, made_up, patch.setattr)


@pytest.mark.parametrize("kind", SHARED)
def test_processes_old_and_new_save_while_one_of_them_migrates(kind: str, url: str) -> None:
    ready = children.processes.Barrier(len(OLD) + len(NEW))
    newer = (KINDS[kind].module, KINDS[kind].adds)
    work = (children.save_many_times, url)
    old = [(*work, number, SAVES, ready) for number in OLD]
    new = [(*work, number, SAVES, ready, newer) for number in NEW]
    assert children.run(*old, *new) == [0] * len(old + new)
    with pytest.raises(hf.SchemaError, match="upgrade"):  # a second time would have failed
        open_and_read(url)
    with pytest.MonkeyPatch.context() as patch:
        upgrade(kind, patch)
        with hf.SyncCheckpointer(url) as cp:
            for number in (*OLD, *NEW):
                assert states(cp, f"run-{number}") == list(range(SAVES))
            assert sorted(states(cp, "shared-0")) == [
                [number, n] for number in (*OLD, *NEW) for n in range(SAVES)
            ]
            assert check_store(cp.store) == []


def open_and_read(url: str, **options: Any) -> None:
    with closing(hf.open_store(url, **options)) as store:
        store.last("run")


def states(cp: hf.SyncCheckpointer, run: str) -> list[Any]:
    """All that was saved to a run, oldest first."""
    assert cp.verify(run).ok
    found = []
    for info in cp.list_checkpoints(run, oldest_first=True, limit=500):
        checkpoint = cp.load(run, seq=info.seq)
        assert checkpoint is not None
        found.append(checkpoint.state)
    return found


@pytest.mark.parametrize("kind", SHARED)
def test_an_older_program_that_can_not_go_on_says_why_and_writes_nothing(
    kind: str, url: str
) -> None:
    with hf.SyncCheckpointer(url) as cp, closing(hf.open_store(url)) as store:
        cp.save("run", 0)
        store.append([entry("other", 0)])
        with pytest.MonkeyPatch.context() as patch:
            upgrade(kind, patch, "renames")
            with pytest.raises(hf.HoldfastError):
                open_and_read(url)  # with today's statements
        calls: list[Callable[[], object]] = [
            lambda: store.append([entry("other", 1)]),
            lambda: store.append([entry("other", seq) for seq in (1, 2)]),
            lambda: store.trim(entry("other", 1), {}),
            lambda: store.read("other"),
            lambda: store.runs(),
            lambda: cp.load("run", seq=1),
            lambda: cp.save("run", 1),
            lambda: open_and_read(url),
        ]
        for call in calls:
            with pytest.raises(hf.HoldfastError, match=r"newer than this holdfast.*upgrade"):
                call()
    with pytest.MonkeyPatch.context() as patch:
        upgrade(kind, patch, "renames")
        with closing(hf.open_store(url)) as newer:
            assert newer.stats().checkpoints == 1


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_migration_killed_anywhere_leaves_one_schema_or_the_other(
    kind: str, existing: bool, tmp_path: Path
) -> None:
    """Older programs go on until it is done; whoever comes next does it."""
    for point in range(1, 40):
        (place := tmp_path / str(point)).mkdir()
        url = KINDS[kind].new_url(place)
        if existing:
            save(url, "before")
        newer = (KINDS[kind].module, KINDS[kind].adds)
        (ended,) = children.run((children.migrate_and_die, *newer, url, point))
        if ended == 0:
            assert point > 1
            break
        assert ended == -signal.SIGKILL
        try:
            save(url, "between")
        except hf.HoldfastError as error:
            assert "newer than this holdfast" in str(error)  # it was through already
        with pytest.MonkeyPatch.context() as patch:
            upgrade(kind, patch)
            save(url, "after")
            with hf.SyncCheckpointer(url) as cp:
                assert (cp.load("before") is not None) == existing
                assert check_store(cp.store) == []
    else:
        pytest.fail("it never ends")


def save(url: str, run: str) -> None:
    with hf.SyncCheckpointer(url) as cp:
        cp.save(run, 1)
        assert states(cp, run) == [1]


SERVERS = pytest.mark.parametrize("kind", ["postgres", "mysql"])
SLOW = {"postgres": "SELECT pg_sleep(2)", "mysql": Migration(("SELECT SLEEP(2)",))}


@SERVERS
def test_a_migration_takes_its_time_however_soon_answers_are_expected(
    kind: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    children.upgrade(KINDS[kind].module, SLOW[kind], monkeypatch.setattr)
    open_and_read(url, answer_seconds=1)


@SERVERS
def test_a_migration_takes_its_time_whatever_limit_its_user_has(
    kind: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect() -> Any:
        db = mariadb.connect(url)
        db.query("SET @x = 0 /*M!, max_statement_time = 1 */")  # MySQL knows no such limit
        return db

    children.upgrade(KINDS[kind].module, SLOW[kind], monkeypatch.setattr)
    if kind == "postgres":
        open_and_read(url.replace("options=", "options=-cstatement_timeout=1s%20"))
        return
    with closing(MySQLStore(connect)) as store:
        store.last("run")
        limits: list[Any] = []
        store.append_with(
            [], lambda cursor: limits.extend(cursor.execute("SHOW VARIABLES LIKE 'max_stat%'"))
        )
        assert [float(value) for _, value in limits] in ([1], []), "it is as it was"


def test_a_migration_waits_for_a_table_whatever_limit_its_user_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = postgres.new_url()
    save(url, "before")
    upgrade("postgres", monkeypatch)
    asked = url.replace("options=", "options=-clock_timeout=10%20")
    server, _, options = url.partition("?schema=")
    table = f"{options.partition('&')[0]}.entries"
    with psycopg.connect(server) as other, ThreadPoolExecutor(1) as pool:
        other.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE".encode())
        waiting = pool.submit(open_and_read, asked)
        with pytest.raises(TimeoutError):
            waiting.result(0.5)
        other.rollback()
        waiting.result()


@SERVERS
def test_who_comes_during_a_migration_waits_for_it(kind: str, url: str) -> None:
    pause = faults.Pause()
    with ThreadPoolExecutor(2) as pool:
        with faults.at("schema.migrate", pause):
            first = pool.submit(open_and_read, url)
            pause.wait_until_reached()
            second = pool.submit(open_and_read, url, answer_seconds=1)
            with pytest.raises(TimeoutError):
                second.result(2)
            pause.go_on()
        first.result()
        second.result()


@SERVERS
def test_who_waits_for_a_migration_for_too_long_is_told(
    kind: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"holdfast.stores.{KINDS[kind].module}.LOCK_SECONDS", 2)
    pause = faults.Pause()
    with ThreadPoolExecutor(1) as pool:
        with faults.at("schema.migrate", pause):
            first = pool.submit(open_and_read, url)
            pause.wait_until_reached()
            try:
                with pytest.raises(hf.StoreUnavailableError, match="migrating its schema"):
                    open_and_read(url, answer_seconds=1)
            finally:
                pause.go_on()
        first.result()
    open_and_read(url)
