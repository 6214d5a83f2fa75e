"""The newest checkpoints of a thread are found with few reads, and are those of all that match."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import holdfast as hf
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.model import Entry
from holdfast.stores import MemoryStore
from tests.effort import some
from tests.integrations.langgraph.calls import checkpoint, got, put, thread


class Counting(MemoryStore):
    """Counts the entries that are read."""

    entries = 0

    def read(self, run: str, **how: Any) -> list[Entry]:
        found = super().read(run, **how)
        self.entries += len(found)
        return found


def conversation(store: MemoryStore, length: int) -> list[str]:
    """A thread of so many checkpoints, each with writes; returns their ids."""
    saver = HoldfastSaver(hf.SyncCheckpointer(store))
    config = thread()
    ids = []
    for number in range(length):
        config = put(saver, config, number, text=f"{number}" * 50)
        saver.put_writes(config, [("text", number)], f"task-{number}")
        ids.append(config["configurable"]["checkpoint_id"])
    return ids


def fresh(store: MemoryStore) -> HoldfastSaver:
    """A saver that has read nothing yet."""
    return HoldfastSaver(hf.SyncCheckpointer(store))


def entries_read(store: Counting, length: int) -> list[int]:
    ids = conversation(store, length)
    counts = []
    reads: tuple[Callable[[], object], ...] = (
        lambda: list(fresh(store).list(thread(), limit=20)),
        lambda: [got(fresh(store).get_tuple(thread()))],
        lambda: [got(fresh(store).get_tuple(thread(at=ids[-3])))],
    )
    for read in reads:
        store.entries = 0
        assert read()
        counts.append(store.entries)
    return counts


def test_the_newest_of_a_long_thread_cost_as_few_reads_as_of_a_short_one() -> None:
    assert entries_read(Counting(), 600) == entries_read(Counting(), 60)


def listed(saver: HoldfastSaver, limit: int | None = None) -> Any:
    return [
        (found.config, found.checkpoint, found.metadata, found.parent_config, found.pending_writes)
        for found in saver.list(thread(), limit=limit)
    ]


@pytest.mark.parametrize("seed", some(range(25), one_in=3, seed=1))
def test_the_newest_are_the_first_of_all(seed: int) -> None:
    """Whatever came in which order: early writes, rollbacks, deletions, checkpoints put again."""
    rng = random.Random(seed)
    cp = hf.SyncCheckpointer(MemoryStore())
    saver = HoldfastSaver(cp)
    config = thread()
    for number in range(rng.randrange(4, 90)):
        early = checkpoint(number)["id"]
        if rng.random() < 0.3:
            saver.put_writes(thread(at=early), [("text", "early")], "early")
        config = put(saver, config, number, text=number)
        for task in range(rng.randrange(4)):
            saver.put_writes(config, [("text", task)], f"task-{task}")
        if rng.random() < 0.05:
            put(saver, config, rng.randrange(number + 1), text="again")
        states = [info.seq for info in cp.list_checkpoints("t") if info.metadata]
        if rng.random() < 0.04 and len(states) > 2:
            cp.rollback("t", seq=rng.choice(states))
        if rng.random() < 0.04 and len(states) > 2:
            cp.delete("t", seq=rng.choice(states[1:]))
    whole = HoldfastSaver(cp)
    whole._threads.index("t")
    for limit in (1, 2, 3, 10):
        assert listed(HoldfastSaver(cp), limit) == listed(whole, limit) == listed(whole)[:limit]
    for found in whole.list(thread()):
        assert HoldfastSaver(cp).get_tuple(found.config) == found
