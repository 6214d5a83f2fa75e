"""What is promised to be flat reads as few entries of a long run as of a short one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec.meta import IN_FORCE, Meta
from holdfast.evidence import Evidence, EvidencePack, EvidenceType
from holdfast.graph import END, Graph
from holdfast.kernel import unclaimed
from holdfast.kernel.tip import SAYS_EVERY
from holdfast.manager import CheckpointManager
from holdfast.model import Entry
from holdfast.stores import MemoryStore
from holdfast.workflow import step, workflow

LONG = 40 * SAYS_EVERY


class Counting(MemoryStore):
    """Counts the entries that are read."""

    entries = 0

    def read(self, run: str, **how: Any) -> list[Entry]:
        found = super().read(run, **how)
        self.entries += len(found)
        return found


def small(n: int) -> Any:
    return {"n": n}


def large(n: int) -> Any:
    return {"n": n, "history": [f"{number} of a long history" for number in range(400 + n)]}


def filled(saves: int, state: Callable[[int], Any] = small, per_process: int = LONG) -> Counting:
    """A store with a run of so many checkpoints, of which each process saved only a few."""
    store = Counting()
    for first in range(0, saves, per_process):
        with hf.SyncCheckpointer(store) as cp:
            for n in range(first, min(first + per_process, saves)):
                cp.save("run", state(n))
    return store


def entries_read(store: Counting, call: Callable[[hf.SyncCheckpointer], Any]) -> int:
    with hf.SyncCheckpointer(store) as cp:
        store.entries = 0
        assert call(cp)
        return store.entries


READS: dict[str, Callable[[hf.SyncCheckpointer], Any]] = {
    "load": lambda cp: cp.load("run"),
    "load by seq": lambda cp: cp.load("run", seq=7),
    "load by id": lambda cp: cp.load(checkpoint_id="run@7"),
    "list": lambda cp: cp.list_checkpoints("run", limit=10),
    "fork": lambda cp: cp.fork("run"),
    "fork of an early one": lambda cp: cp.fork("run", seq=7),
    "rollback": lambda cp: cp.rollback("run", seq=7),
}


@pytest.mark.parametrize("what", READS)
@pytest.mark.parametrize("state", [small, large])
def test_a_long_run_costs_as_few_reads_as_a_short_one(what: str, state: Any) -> None:
    few = entries_read(filled(SAYS_EVERY + 5, state), READS[what])
    many = entries_read(filled(LONG if state is small else 6 * SAYS_EVERY, state), READS[what])
    slack = 4 * SAYS_EVERY if state is small else 300  # links and spans of a delta's chain
    assert many <= few + slack
    assert many < 500


@pytest.mark.parametrize("per_process", [1, 7, SAYS_EVERY - 1, SAYS_EVERY])
def test_a_run_that_many_short_processes_saved_to_is_forked_with_few_reads(
    per_process: int,
) -> None:
    store = filled(10 * SAYS_EVERY, per_process=per_process)
    assert entries_read(store, READS["fork"]) < 4 * SAYS_EVERY


@pytest.mark.parametrize("resumed", [False, True])
def test_a_run_of_a_flow_is_forked_with_few_reads(resumed: bool) -> None:
    def count(state: dict[str, int]) -> dict[str, int]:
        if resumed and state["n"] == 5 and failures.pop():
            raise ValueError("once")
        return {"n": state["n"] + 1}

    failures = [False, True]
    graph = Graph(dict).add_node("count", count).set_entry("count")
    graph.add_conditional_edge("count", lambda state: "count" if state["n"] < LONG else END)
    app = graph.compile(max_steps=2 * LONG)
    store = Counting()

    async def work() -> None:
        with suppress(hf.StepFailedError):
            await app.run({"n": 0}, run_id="run", store=store)
        if resumed:
            await app.resume("run", store=store)

    asyncio.run(work())
    assert entries_read(store, READS["fork"]) < 4 * SAYS_EVERY


def claimed(store: MemoryStore) -> None:
    """A run whose first checkpoint says something about a file, and no later one does."""
    with CheckpointManager(store, auto_verify=False) as manager:
        step = manager.begin_step("run", "iteration_end", {"n": -1})
        claim = Evidence(EvidenceType.FILE_SHA256, "it", {"path": "report.txt", "sha256": "0" * 64})
        manager.commit_step(step, EvidencePack([claim]))


def inherits(cp: hf.SyncCheckpointer) -> bool:
    return "report.txt" in cp.fork("run").entry.meta


@pytest.mark.parametrize("per_process", [1, SAYS_EVERY - 1, LONG])
def test_what_was_claimed_long_ago_is_inherited_by_a_fork(per_process: int) -> None:
    store = MemoryStore()
    claimed(store)
    for first in range(0, 5 * SAYS_EVERY, per_process):
        with hf.SyncCheckpointer(store) as cp:
            for n in range(first, min(first + per_process, 5 * SAYS_EVERY)):
                cp.save("run", small(n))
    with hf.SyncCheckpointer(store) as cp:
        assert not any(Meta(entry).in_force == "" for entry in store.read("run")[3:])
        assert inherits(cp)


def test_what_is_claimed_in_a_long_run_is_inherited_by_a_fork() -> None:
    store = filled(2 * SAYS_EVERY + 3)
    claimed(store)
    with hf.SyncCheckpointer(store) as cp:
        for n in range(3 * SAYS_EVERY):
            cp.save("run", small(n))
        assert inherits(cp)
        assert "report.txt" not in cp.fork("run", seq=2 * SAYS_EVERY).entry.meta


def test_a_fork_of_a_fork_inherits_what_the_first_origin_claimed() -> None:
    store = MemoryStore()
    claimed(store)
    with hf.SyncCheckpointer(store) as cp:
        cp.fork("run", run_id="first")
        for n in range(3 * SAYS_EVERY):
            cp.save("first", small(n))
        assert "report.txt" in cp.fork("first").entry.meta


def test_a_run_of_an_older_version_that_never_says_it_is_read_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as older:
        older.setattr("holdfast.kernel.journal.saying", lambda tip, draft: draft)
        store = filled(5 * SAYS_EVERY)
    assert not any(IN_FORCE in entry.meta for entry in store.read("run", limit=1000))
    assert entries_read(store, READS["fork"]) > 5 * SAYS_EVERY
    with hf.SyncCheckpointer(store) as cp:
        for n in range(3 * SAYS_EVERY):
            cp.save("run", small(n))
    assert not any(IN_FORCE in entry.meta for entry in store.read("run", limit=1000))


def test_an_entry_that_was_altered_to_say_it_is_not_believed() -> None:
    store = MemoryStore()
    claimed(store)
    with hf.SyncCheckpointer(store) as cp:
        for n in range(5):
            cp.save("run", small(n))
        seq = store.read("run")[-2].seq
        altered = store.read("run", after=seq - 1, limit=1)[0]._replace(meta=f'{{"{IN_FORCE}":""}}')
        store._journals["run"][seq] = altered
        with pytest.raises(hf.CheckpointCorruptedError):
            inherits(cp)


def test_a_retained_run_says_it_only_while_nothing_was_deleted_behind_it() -> None:
    """What a deleted checkpoint claimed is not in its place any more."""
    store = filled(SAYS_EVERY + 3)
    with hf.SyncCheckpointer(store) as cp:
        for info in cp.list_checkpoints("run")[1:3]:
            cp.delete("run", seq=info.seq)
    with hf.SyncCheckpointer(store) as cp:
        tip = cp.core.journals.fetch_tip("run", with_state=False)
        unclaimed.look_back(cp.core.journals, tip)
        assert tip.quiet is False
        assert cp.fork("run").state == small(SAYS_EVERY + 2)


@pytest.mark.parametrize(
    "error", [hf.KeyMissingError("run", 3), hf.CheckpointCorruptedError("run", 3, "damaged")]
)
def test_earlier_entries_that_cannot_be_read_do_not_keep_anybody_from_saving(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise error

    store = filled(SAYS_EVERY - 3)
    with hf.SyncCheckpointer(store) as cp:
        monkeypatch.setattr(cp.core.journals, "entries", refuse)
        for n in range(2 * SAYS_EVERY):
            cp.save("run", small(n))
    assert not any(IN_FORCE in entry.meta for entry in store.read("run", limit=1000))


def test_behind_a_head_that_is_damaged_nothing_is_said_of_what_was_claimed_before() -> None:
    store = MemoryStore()
    claimed(store)
    with hf.SyncCheckpointer(store) as cp:
        newest = cp.load("run")
        assert newest is not None
        claim, head = newest.seq, cp.save("run", small(0)).seq
    damaged = store.read("run")[head]._replace(kind="tombstone", status="deleted", parent=None)
    store._journals["run"][head] = damaged
    with hf.SyncCheckpointer(store) as cp:
        for n in range(2 * SAYS_EVERY):
            cp.save("run", small(n))
    with hf.SyncCheckpointer(store) as cp:
        cp.rollback("run", seq=claim)
        for n in range(2 * SAYS_EVERY):
            cp.save("run", small(n))
        assert inherits(cp)


@pytest.mark.parametrize("steps", [40, 400])
def test_the_results_of_a_workflow_are_read_once_to_load_them(steps: int) -> None:
    @step
    async def double(n: int) -> int:
        return 2 * n

    @workflow
    async def doubles() -> None:
        for n in range(steps):
            await double(n)

    store = Counting()
    hf.Engine(store).run_sync(doubles(), run_id="run")
    assert entries_read(store, READS["load"]) < steps + 40
