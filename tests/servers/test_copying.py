"""Runs go from any store to any other, whole, whatever happens to either meanwhile."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import mongomock
import pytest

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack
from holdfast.manager import CheckpointManager
from holdfast.model import Entry, verdict_journal
from holdfast.store import Store
from holdfast.stores.dynamodb import DynamoDBStore
from holdfast.stores.memory import MemoryStore
from holdfast.stores.mongodb import MongoDBStore
from holdfast.testing.contract import check_store
from tests.effort import examples
from tests.servers import children, dynamodb, mariadb, postgres, redis

PAGES = 130  # entries, of which a hundred are copied at a time

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: hf.open_store("memory://"),
    "file": lambda place: hf.open_store(f"file://{place}/runs"),
    "sqlite": lambda place: hf.open_store(f"sqlite:///{place}/runs.db"),
    "duckdb": lambda place: hf.open_store(f"duckdb:///{place}/runs.duckdb"),
    "postgres": lambda _: hf.open_store(postgres.new_url()),
    "mysql": lambda _: hf.open_store(mariadb.new_url()),
    "redis": lambda _: hf.open_store(redis.new_url()),
    "mongodb": lambda _: MongoDBStore(mongomock.MongoClient()),
    "dynamodb": lambda _: DynamoDBStore(dynamodb.new_table(), client=dynamodb.DirectClient()),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Deltas, a branch left behind, a stub, a thread, evidence, its verdicts, and a name of its own."""
    work = tmp_path_factory.mktemp("work")
    (work / "made").touch()
    claim = Evidence("artifact_exists", "made", {"path": str(work / "made")})
    with (
        closing(MemoryStore()) as store,
        hf.SyncCheckpointer(store) as cp,
        CheckpointManager(store, base_path=work) as manager,
    ):
        log = [f"line {n:04}" for n in range(300)]
        saved = [cp.save("run", {"n": n, "log": log[: 250 + n]}, step=f"s{n}") for n in range(5)]
        cp.rollback("run", seq=saved[2].seq)
        cp.save("run", {"n": 9, "log": log}, metadata={"why": (1, b"\x00")})
        cp.delete("run", saved[1].checkpoint_id)
        for name in ("talk-2", "talk-1"):
            cp.save(name, {"hello": name}, thread_id="talk", owner="ann")
        begun = manager.begin_step("task", "iteration_end", {"n": 1})
        manager.commit_step(begun, EvidencePack([claim]), checkpoint_id="mine")
        assert manager.verify_checkpoint("mine")
        yield store


def save_long(cp: hf.SyncCheckpointer, run: str) -> None:
    """So much that it is copied in parts, as changes to one another."""
    states = ({"n": n, "log": list(range(n + 99))} for n in range(PAGES))
    cp.save_many({"run_id": run, "state": state} for state in states)


def everything(store: Store) -> dict[str, Any]:
    """What a user sees of a store, in any form."""
    seen: dict[str, Any] = {}
    with hf.SyncCheckpointer(store) as cp, CheckpointManager(store) as manager:
        for run in (run.run_id for run in cp.runs(limit=500)):
            assert cp.verify(run).ok
            states = []
            for info in cp.list_checkpoints(run, limit=500, oldest_first=True):
                checkpoint = cp.load(run, seq=info.seq)
                assert checkpoint is not None
                states.append((info.seq, checkpoint.state, checkpoint.digest, checkpoint.metadata))
            verdicts = [entry.digest for entry in store.read(verdict_journal(run))]
            seen[run] = states, verdicts
        seen["thread"] = [run.run_id for run in cp.thread("talk")]
        mine = manager.get_checkpoint("mine")
        seen["alias"] = mine and (mine.task_id, mine.seq, mine.verified)
    assert check_store(store) == []
    return seen


@pytest.mark.parametrize("kind", STORES)
def test_everything_goes_from_each_store_to_each_other(
    kind: str, original: Store, tmp_path: Path
) -> None:
    """To the next two of them; `make crash` has every pair."""
    kinds = [*STORES, *STORES]
    others = kinds[kinds.index(kind) + 1 :][: min(examples(2), len(STORES))]
    wanted = everything(original)
    assert (len(wanted["run"][0]), wanted["thread"]) == (5, ["talk-1", "talk-2"])
    assert wanted["task"][1]
    assert wanted["alias"]
    with closing(STORES[kind](tmp_path)) as source, hf.SyncCheckpointer(original) as cp:
        assert cp.copy_to(source) == 4
        for other in others:
            (place := tmp_path / other).mkdir()
            with closing(STORES[other](place)) as target, hf.SyncCheckpointer(source) as here:
                assert here.copy_to(target) == 4
                assert everything(target) == wanted, other
                assert here.copy_to(target) == 4, "what is there is left alone"


@pytest.mark.parametrize("nth", [1, 2, 4, 6, 8])
def test_a_copy_that_was_killed_is_finished_by_starting_it_again(
    nth: int, original: Store, tmp_path: Path
) -> None:
    """Inside of a long run, between runs, and before the last of them is in its thread."""
    source, target = f"sqlite:///{tmp_path}/source.db", f"sqlite:///{tmp_path}/target.db"
    with hf.SyncCheckpointer(original) as cp:
        cp.copy_to(source)
    with hf.SyncCheckpointer(source) as cp:
        save_long(cp, "long")
        work = (children.copy_and_die, source, target, "sqlite.commit.after", nth)
        assert children.run(work) == [-signal.SIGKILL]
        with closing(hf.open_store(target)) as store:
            assert store.runs()
            assert cp.copy_to(store) == 5
            assert everything(store) == everything(cp.store)


class Busy(MemoryStore):
    """Somebody else does something between two pages."""

    between: Callable[[], object] | None = None

    def read(self, run: str, **options: Any) -> list[Entry]:
        if run == "run" and (options.get("after") or 0) > 50 and self.between is not None:
            act, self.between = self.between, None
            act()
        return super().read(run, **options)


@pytest.fixture(params=["memory", "file"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with closing(STORES[request.param](tmp_path)) as store:
        yield store


@pytest.mark.parametrize("what", ["save", "prune", "delete", "clear"])
def test_a_source_may_be_used_while_it_is_copied(what: str, target: Store) -> None:
    with closing(Busy()) as source, hf.SyncCheckpointer(source) as cp:
        save_long(cp, "run")
        source.between = {
            "save": lambda: cp.save("run", "more"),
            "prune": lambda: (cp.prune("run", keep_latest=3), cp.save("run", "more")),
            "delete": lambda: cp.delete("run", seq=PAGES),  # the current one
            "clear": lambda: (cp.clear("run"), cp.save("run", "anew")),
        }[what]
        cp.copy_to(target, ["run"])
        assert source.between is None
        assert everything(target) == everything(source)


def test_what_is_deleted_after_a_copy_is_deleted_by_the_next(target: Store) -> None:
    with closing(MemoryStore()) as source, hf.SyncCheckpointer(source) as cp:
        for run in ("pruned", "cleared"):
            save_long(cp, run)
        cp.copy_to(target)
        for keep in (9, 3):
            cp.prune("pruned", keep_latest=keep)
            cp.save("pruned", f"since {keep}")
        cp.clear("cleared")
        cp.save("cleared", "anew")
        cp.copy_to(target)
        assert everything(target) == everything(source)
        assert everything(target)["cleared"] == everything(source)["cleared"]


def test_another_run_of_that_name_is_not_erased_with_it() -> None:
    with closing(MemoryStore()) as source, closing(MemoryStore()) as target:
        with hf.SyncCheckpointer(target) as there:
            there.save("run", "theirs")
        with hf.SyncCheckpointer(source) as cp:
            for n in range(5):
                cp.save("run", n)
            cp.clear("run")
            with pytest.raises(hf.RunExistsError):
                cp.copy_to(target, ["run"])
        with hf.SyncCheckpointer(target) as there:
            loaded = there.load("run")
            assert loaded is not None
            assert loaded.state == "theirs"


@pytest.mark.parametrize(
    "damage", ["body = zeroblob(20)", "step = 'forged'", "digest = zeroblob(32)"]
)
def test_a_target_that_was_altered_underneath_is_found_by_the_next_copy(
    damage: str, tmp_path: Path
) -> None:
    path = tmp_path / "copy.db"
    with hf.SyncCheckpointer("memory://") as cp:
        for n in range(3):
            cp.save("run", {"n": n})
        cp.copy_to(path)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(f"UPDATE entries SET {damage} WHERE seq = 2")
        with pytest.raises(hf.CheckpointCorruptedError, match=r"run@2.*copy\.db"):
            cp.copy_to(path)
