"""An older schema becomes a newer one while others use it, and whoever does it may be killed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import holdfast as hf
from holdfast.stores._mysql_schema import Migration
from holdfast.testing.contract import check_store, entry
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
        Migration(
            ("CREATE TABLE IF NOT EXISTS added (x INT)", "DO SLEEP(0.2)"),  # all come meanwhile
            ("ADD COLUMN extra TEXT",),
        ),
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
            upgrade(kind, patch, "renames")
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
        newer = (KINDS[kind].module, KINDS[kind].adds)
        (ended,) = children.run((children.migrate_and_die, *newer, url, point))
        if ended == 0:
            assert begun
            break
        assert ended == -signal.SIGKILL
        begun = True
        try:
            save(url, "between")
        except hf.HoldfastError as error:
            assert "newer than this holdfast" in str(error)  # it was through already
        with pytest.MonkeyPatch.context() as patch:
            upgrade(kind, patch)
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
    children.upgrade(KINDS[kind].module, slow, monkeypatch.setattr)
    with closing(hf.open_store(url, answer_seconds=0.3)) as store:
        assert store.append([entry("run", 0)]) == [True]
