"""An older schema becomes a newer one while others use it, and whoever does it may be killed."""

from __future__ import annotations

import importlib
import multiprocessing
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import holdfast as hf
from holdfast.stores._mysql_schema import Migration
from holdfast.testing import faults
from holdfast.testing.contract import check_store, entry
from tests.servers import mariadb, postgres

SAVES = 8
OLD, NEW = range(2), range(2, 5)  # processes

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


class Kind(NamedTuple):
    """A store, and made-up migrations of it."""

    module: str
    new_url: Callable[[Path], str]
    adds: Any  # a column, which can't be done twice; older statements go on
    renames: Any  # a column that older statements name


KINDS = {
    "sqlite": Kind(
        "_sqlite_schema",
        lambda directory: f"sqlite:///{directory}/runs.db",
        "CREATE TABLE added (x); ALTER TABLE entries ADD COLUMN extra TEXT",
        "ALTER TABLE entries RENAME COLUMN meta TO facts",
    ),
    "postgres": Kind(
        "_postgres_schema",
        lambda _: postgres.new_url(),
        "ALTER TABLE {schema}.entries ADD COLUMN extra text",
        "ALTER TABLE {schema}.entries RENAME COLUMN meta TO facts",
    ),
    "mysql": Kind(
        "_mysql_schema",
        lambda _: mariadb.new_url(),
        Migration(("CREATE TABLE IF NOT EXISTS added (x INT)",), ("ADD COLUMN extra TEXT",)),
        Migration(alter=("CHANGE meta facts LONGBLOB NOT NULL",)),
    ),
    "duckdb": Kind(
        "_duckdb_file",
        lambda directory: f"duckdb:///{directory}/runs.duckdb",
        "ALTER TABLE entries ADD COLUMN extra VARCHAR",
        None,  # an older program can't have the file open
    ),
}
SHARED = ("sqlite", "postgres", "mysql")


@pytest.fixture
def url(kind: str, tmp_path: Path) -> str:
    return KINDS[kind].new_url(tmp_path)


def upgrade(kind: str, migration: str = "adds", patch: Callable[..., None] = setattr) -> None:
    """Let this process be a newer holdfast."""
    schema = importlib.import_module(f"holdfast.stores.{KINDS[kind].module}")
    patch(schema, "MIGRATIONS", (*schema.MIGRATIONS, getattr(KINDS[kind], migration)))


def save_some(kind: str, url: str, number: int, ready: Any) -> None:
    """As an older or a newer holdfast; the older have saved before the newer come."""
    if number in NEW:
        ready.wait(60)
        upgrade(kind)
    with hf.SyncCheckpointer(url) as cp:
        for n in range(SAVES):
            cp.save(f"run-{number}", n)
            cp.save("shared", [number, n])
            if n == 2 and number in OLD:
                ready.wait(60)


@pytest.mark.parametrize("kind", SHARED)
def test_processes_old_and_new_save_while_one_of_them_migrates(kind: str, url: str) -> None:
    ready = _processes.Barrier(len(OLD) + len(NEW))
    children = [
        _processes.Process(target=save_some, args=(kind, url, number, ready))
        for number in (*OLD, *NEW)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * len(children)
    with pytest.raises(hf.SchemaError, match="upgrade"):  # a second time would have failed
        open_and_read(url)
    with pytest.MonkeyPatch.context() as patch:
        upgrade(kind, patch=patch.setattr)
        with hf.SyncCheckpointer(url) as cp:
            for number in (*OLD, *NEW):
                assert states(cp, f"run-{number}") == list(range(SAVES))
            assert sorted(states(cp, "shared")) == [
                [number, n] for number in (*OLD, *NEW) for n in range(SAVES)
            ]
            assert check_store(cp.store) == []


def open_and_read(url: str) -> None:
    with closing(hf.open_store(url)) as store:
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
            upgrade(kind, "renames", patch.setattr)
            with pytest.raises(hf.HoldfastError):
                open_and_read(url)  # with today's statements
        calls: list[Callable[[], object]] = [
            lambda: store.append([entry("other", 1)]),
            lambda: store.append([entry("other", seq) for seq in (1, 2)]),
            lambda: store.trim(entry("other", 1)),
            lambda: store.read("other"),
            lambda: store.runs(),
            lambda: cp.load("run", seq=1),
            lambda: cp.save("run", 1),
            lambda: open_and_read(url),
        ]
        for call in calls:
            with pytest.raises(hf.HoldfastError, match=r"newer than this holdfast.*upgrade"):
                call()
        assert store.stats().checkpoints == 1


def migrate_and_die(kind: str, url: str, point: int) -> None:
    upgrade(kind)
    with faults.at("schema.migrate", faults.kill, nth=point):
        open_and_read(url)


@pytest.mark.parametrize("kind", KINDS)
def test_a_migration_killed_anywhere_leaves_one_schema_or_the_other(
    kind: str, tmp_path: Path
) -> None:
    """From nothing to the newest. Older programs go on until it is done; whoever comes next does it."""
    begun = False
    for point in range(1, 20):
        (place := tmp_path / str(point)).mkdir()
        url = KINDS[kind].new_url(place)
        if point % 2:
            save(url, "before")
        child = _processes.Process(target=migrate_and_die, args=(kind, url, point))
        child.start()
        child.join()
        if child.exitcode == 0:
            assert begun
            break
        assert child.exitcode == -signal.SIGKILL
        begun = True
        try:
            save(url, "between")
        except hf.SchemaError as error:
            assert "newer" in str(error)  # it was through already
        with pytest.MonkeyPatch.context() as patch:
            upgrade(kind, patch=patch.setattr)
            save(url, "after")
            with hf.SyncCheckpointer(url) as cp:
                assert (cp.load("before") is not None) == bool(point % 2)
                assert check_store(cp.store) == []
    else:
        pytest.fail("it never ends")


def save(url: str, run: str) -> None:
    with hf.SyncCheckpointer(url) as cp:
        cp.save(run, 1)
        assert states(cp, run) == [1]


@pytest.mark.parametrize(
    ("kind", "slow"),
    [("postgres", "SELECT pg_sleep(0.6)"), ("mysql", Migration(("DO SLEEP(0.6)",)))],
)
def test_a_migration_takes_its_time_however_soon_answers_are_expected(
    kind: str, slow: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = importlib.import_module(f"holdfast.stores.{KINDS[kind].module}")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, slow))
    with closing(hf.open_store(url, answer_seconds=0.3)) as store:
        assert store.append([entry("run", 0)]) == [True]
