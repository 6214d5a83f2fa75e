"""Deleting and reading threads of which a part is gone, or is being changed."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig

import holdfast as hf
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.stores.memory import MemoryStore
from tests.integrations.langgraph.calls import checkpoint, got, put, thread, values_of


def conversation(saver: HoldfastSaver, turns: int = 4) -> list[RunnableConfig]:
    """A thread with a delta channel "log": a snapshot, then writes; each turn is a run."""
    made = [saver.put(thread(), checkpoint(0, log="seed"), told(0), {})]
    for turn in range(1, turns + 1):
        saver.put_writes(made[-1], [("log", turn)], "task")
        made.append(saver.put(made[-1], checkpoint(turn), told(turn), {}))
    return made


def told(turn: int) -> Any:
    counters = {"counters_since_delta_snapshot": {"log": (turn, turn)}} if turn else {}
    return {"source": "loop", "step": turn, "run_id": f"r{turn}", **counters}


def log(saver: HoldfastSaver, config: RunnableConfig) -> Any:
    found = saver.get_delta_channel_history(config=config, channels=["log"])["log"]
    return found.get("seed"), [value for _, _, value in found["writes"]]


class InterferingStore(MemoryStore):
    """Calls `meanwhile` once, just before something is deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Any] = []

    def trim(self, *what: Any, **how: Any) -> bool:
        if self.meanwhile:
            self.meanwhile.pop()()
        return super().trim(*what, **how)


def test_a_checkpoint_that_is_saved_while_its_thread_is_pruned_stays() -> None:
    store = InterferingStore()
    saver, other = HoldfastSaver(store), HoldfastSaver(store)
    put(saver, thread(), 0, number=0)
    first = put(saver, thread(), 1, number=1)
    store.meanwhile.append(lambda: put(other, first, 2, number=2))
    saver.prune(["t"])
    assert values_of(saver.get_tuple(thread())) == {"number": 2}
    assert len(list(saver.list(thread()))) == 1


def test_pruning_keeps_writes_whose_checkpoint_is_still_to_come() -> None:
    saver = HoldfastSaver("memory://")
    put(saver, thread(), 0, number=0)
    first = put(saver, thread(), 1, number=1)
    saver.put_writes(thread(at=checkpoint(2)["id"]), [("number", 3)], "task")
    saver.prune(["t"])
    put(saver, first, 2, number=2)
    assert got(saver.get_tuple(thread())).pending_writes == [("task", "number", 3)]


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[HoldfastSaver, list[RunnableConfig]]:
    """A thread of which the writes of the second checkpoint are gone from the database."""
    path = tmp_path / "agents.db"
    with HoldfastSaver(path) as saver:
        configs = conversation(saver)
    with sqlite3.connect(path) as db:
        assert db.execute("DELETE FROM holdfast_entries WHERE seq = 4").rowcount == 1
    db.close()
    return HoldfastSaver(path), configs


def test_a_missing_entry_is_never_taken_for_an_absence(
    damaged: tuple[HoldfastSaver, list[RunnableConfig]],
) -> None:
    saver, configs = damaged
    with saver:
        with pytest.raises(hf.CheckpointCorruptedError):
            log(saver, configs[4])
        with pytest.raises(hf.CheckpointCorruptedError):
            saver.get_tuple(configs[1])
        with pytest.raises(hf.CheckpointCorruptedError):
            saver.prune(["t"])
        with pytest.raises(hf.CheckpointCorruptedError):
            saver.delete_for_runs(["r4"])
        with pytest.raises(hf.CheckpointCorruptedError):
            list(saver.list(thread(), limit=4))
        assert got(saver.get_tuple(configs[3])).metadata["step"] == 3  # all of it came later


def test_a_delta_channel_whose_past_was_deleted_is_not_rebuilt_from_the_rest() -> None:
    cp = hf.SyncCheckpointer("memory://")
    saver = HoldfastSaver(cp)
    configs = conversation(saver)
    assert log(saver, configs[4]) == ("seed", [1, 2, 3, 4])
    cp.prune("t", keep_latest=3, force=True)
    with pytest.raises(hf.CheckpointCorruptedError, match=r"\['log'\] are rebuilt from"):
        log(saver, configs[4])


def test_a_delta_channel_that_is_new_may_begin_in_a_thread_that_was_pruned() -> None:
    saver = HoldfastSaver("memory://")
    first = put(saver, put(saver, thread(), 0, number=0), 1, number=1)
    saver.prune(["t"])
    saver.put_writes(first, [("log", 1)], "task")
    second = saver.put(first, checkpoint(2), told(1), {})
    assert log(saver, second) == (None, [1])


def test_runs_that_later_checkpoints_are_rebuilt_from_are_not_deleted() -> None:
    saver = HoldfastSaver("memory://")
    configs = conversation(saver)
    put(saver, thread("other"), 0)
    with pytest.raises(ValueError, match="delete the runs that came later, too, or the thread"):
        saver.delete_for_runs(["r1"])
    assert log(saver, configs[4]) == ("seed", [1, 2, 3, 4])
    saver.delete_for_runs(["r3", "r4"])
    assert got(saver.get_tuple(thread())).metadata["step"] == 2
    assert log(saver, configs[2]) == ("seed", [1, 2])


def test_a_run_of_ones_own_is_no_thread_and_is_not_deleted_as_one() -> None:
    cp = hf.SyncCheckpointer("memory://")
    saver = HoldfastSaver(cp)
    cp.save("mine", {"x": 1})
    calls: list[Callable[[], object]] = [
        lambda: saver.delete_thread("mine"),
        lambda: saver.prune(["mine"], strategy="delete"),
        lambda: saver.prune(["mine"]),
        lambda: saver.copy_thread("mine", "copy"),
        lambda: saver.get_tuple(thread("mine")),
        lambda: saver.get_tuple(thread("mine", at="any")),
        lambda: list(saver.list(thread("mine"))),
    ]
    for call in calls:
        with pytest.raises(hf.RunMismatchError, match="run 'mine' was opened with flow None"):
            call()
    found = cp.load("mine")
    assert found is not None
    assert found.state == {"x": 1}


def test_one_thread_may_list_what_another_one_adds_to() -> None:
    saver = HoldfastSaver("memory://")
    config = thread()
    for number in range(300):
        config = put(saver, config, number)
    over = threading.Event()

    def write() -> None:
        last = config
        for number in range(300, 900):
            last = put(saver, last, number)
            saver.get_tuple(last)
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not over.is_set():
        list(saver.list(thread(), filter={"step": -5}))
    writer.join()
