"""A worker whose store is replaced by an older one: a replica that lagged, a restored backup."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.kernel.appending import append
from holdfast.kernel.draft import Draft
from holdfast.model import Kind, Status
from holdfast.store import Store
from holdfast.stores import FileStore, MemoryStore, SQLiteStore
from holdfast.workflow import step, workflow


class InMemory:
    """What a failover to a lagging replica does to a store."""

    def __init__(self, tmp_path: Path) -> None:
        self.store: Store = MemoryStore()
        self.replica: Store = MemoryStore()

    def replicate(self) -> None:
        self.replica.append(self.store.read("run"))

    def fail_over(self) -> None:
        assert isinstance(self.store, MemoryStore)
        assert isinstance(self.replica, MemoryStore)
        self.store._journals = self.replica._journals


class InSQLite:
    def __init__(self, tmp_path: Path) -> None:
        self.here, self.there = tmp_path / "runs.db", tmp_path / "replica.db"
        self.store: Store = SQLiteStore(self.here)
        self.replica: Store

    def replicate(self) -> None:
        _copy(self.here, self.there)
        self.replica = SQLiteStore(self.there)

    def fail_over(self) -> None:
        self.replica.close()
        _copy(self.there, self.here)


class InFiles:
    def __init__(self, tmp_path: Path) -> None:
        self.here, self.there = tmp_path / "runs", tmp_path / "replica"
        self.store: Store = FileStore(self.here)
        self.replica: Store

    def replicate(self) -> None:
        shutil.copytree(self.here / "run", self.there / "run")
        self.replica = FileStore(self.there)

    def fail_over(self) -> None:
        self.replica.close()
        shutil.rmtree(self.here / "run")
        shutil.copytree(self.there / "run", self.here / "run")


Place = InMemory | InSQLite | InFiles


def _copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


@pytest.fixture(params=[InMemory, InSQLite, InFiles])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Place]:
    place: Place = request.param(tmp_path)
    yield place
    place.store.close()


def _taken_over(store: Store) -> None:
    """Another process claims the run there."""
    core = hf.SyncCheckpointer(store).core
    core.drive(append(core, "run", Draft(Kind.CLAIM.value, Status.RUNNING.value)))


def _worker(place: Place, done: list[str]) -> Callable[[], Any]:
    """Runs a flow; the store fails over during its second step to a replica that lags by one entry.

    There, another process has claimed the run: the head has the seq that the worker knows.
    """

    def first() -> None:
        place.replicate()
        done.append("first")

    def second() -> None:
        _taken_over(place.replica)
        assert place.replica.last("run").seq == place.store.last("run").seq  # type: ignore[union-attr]
        place.fail_over()
        done.append("second")

    @workflow
    def flow() -> Generator[Any, Any, None]:
        yield step("first").python(first)
        yield step("second").python(second)
        yield step("third").python(done.append, ("third",))

    engine = hf.Engine(hf.Checkpointer(place.store, deadline=5))
    return lambda: asyncio.run(engine.run(flow(), run_id="run"))


def test_a_fenced_worker_does_not_go_on_after_a_failover_to_a_lagging_replica(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []
    with pytest.raises((hf.EntriesLostError, hf.LeaseLostError)):
        _worker(place, done)()
    assert done == ["first", "second"]
    assert [entry.kind for entry in place.store.read("run")] == [Kind.OPEN, Kind.CLAIM]


def test_it_does_not_go_on_either_where_the_process_has_read_the_new_head(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Then this process knows a head at the very seq of the worker's last entry."""
    done: list[str] = []
    fail_over = place.fail_over

    def and_look() -> None:
        fail_over()
        for engine in engines:
            engine.checkpointer.core.journals.forget("run")
            engine.checkpointer.core.journals.fetch_tip("run", with_state=False)

    engines: list[hf.Engine] = []
    place.fail_over = and_look  # type: ignore[method-assign]
    made = hf.Engine

    def remembered(*arguments: Any, **options: Any) -> hf.Engine:
        engines.append(made(*arguments, **options))
        return engines[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hf, "Engine", remembered)
        worker = _worker(place, done)
    with pytest.raises((hf.EntriesLostError, hf.LeaseLostError)):
        worker()
    assert done == ["first", "second"]


def test_a_save_by_hand_goes_behind_the_new_head_and_says_what_was_lost(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with hf.SyncCheckpointer(place.store) as cp:
        cp.save("run", {"n": 1})
        place.replicate()
        cp.save("run", {"n": 2})
        with hf.SyncCheckpointer(place.replica) as other:
            other.save("run", {"n": "theirs"})
        place.fail_over()
        cp.save("run", {"n": 3})
        assert [found.state["n"] for found in cp.iter_states("run")] == [1, "theirs", 3]
        assert cp.verify("run").ok
    assert "there is another entry at seq 2 now" in caplog.text


def test_a_save_that_expects_a_checkpoint_is_refused_where_another_has_its_seq(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with hf.SyncCheckpointer(place.store) as cp:
        cp.save("run", {"n": 1})
        place.replicate()
        mine = cp.save("run", {"n": 2})
        with hf.SyncCheckpointer(place.replica) as other:
            other.save("run", {"n": "theirs"})
        place.fail_over()
        with pytest.raises(hf.EntriesLostError):
            cp.save("run", {"n": 3}, expect=mine)
        theirs = cp.load("run")
        assert theirs is not None
        cp.save("run", {"n": 4}, expect=theirs)
        assert [found.state["n"] for found in cp.iter_states("run")] == [1, "theirs", 4]
