"""flowgraph's checkpointing feature and its ADR-015, translated: every named test, every example.

Where holdfast differs on purpose, a comment names the row of docs/documents/deviations.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.graph import END, CheckpointStrategy, Graph, GraphCheckpoint
from holdfast.model import Entry, Kind
from holdfast.store import ANY_HEAD, Behind
from holdfast.stores.memory import MemoryStore
from tests.faults import FakeClock


@dataclass
class State:
    progress: str = ""
    visited: list[str] = field(default_factory=list)


@dataclass
class Nested:
    label: str = "within"


@dataclass
class RichState:
    id: str = ""
    count: int = 0
    items: list[str] = field(default_factory=list)
    nested: Nested | None = None


@dataclass
class BadState:
    callback: Callable[[], None] | None = None


runs: list[str] = []
broken: set[str] = set()


@pytest.fixture(autouse=True)
def afresh() -> None:
    runs.clear()
    broken.clear()


def node(name: str) -> Callable[[State], State]:
    def visit(state: State) -> State:
        runs.append(name)
        if name in broken:
            raise RuntimeError("failed")
        return State(f"at-{name}", [*state.visited, name])

    return visit


def chain(*names: str) -> Any:
    graph = Graph(State)
    for name, following in zip(names, [*names[1:], END], strict=True):
        graph = graph.add_node(name, node(name)).add_edge(name, following)
    return graph.set_entry(names[0]).compile()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hf.Store]:
    where = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/test.db"
    opened = hf.open_store(where)
    yield opened
    opened.close()


def wait(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


# --- the feature: TestCheckpointing_*


def test_checkpointing_saves_after_each_node(store: hf.Store) -> None:
    async def scenario() -> None:
        result = await chain("a", "b", "c").run(State(), store=store, run_id="run-1")
        assert result == State("at-c", ["a", "b", "c"])
        infos = await hf.Checkpointer(store).list_checkpoints("run-1", oldest_first=True)
        assert [info.step for info in infos] == ["a", "b", "c"]  # one per node
        assert [info.seq for info in infos] == sorted(info.seq for info in infos)
        assert all(info.get_state_size() > 0 for info in infos)
        words = [GraphCheckpoint(info.entry) for info in infos]
        assert [(word.node_id, word.next_node) for word in words] == [
            ("a", "b"),
            ("b", "c"),
            ("c", END),
        ]
        assert [(word.sequence, word.timestamp) for word in words] == [
            (info.seq, info.created_at) for info in infos
        ]
        newest_first = await hf.Checkpointer(store).list_checkpoints("run-1")
        assert newest_first == infos[::-1]  # deviation: F4

    wait(scenario())


def test_checkpointing_state_preserved(store: hf.Store) -> None:
    async def scenario() -> None:
        await chain("a", "b", "c").run(State(), store=store, run_id="run-1")
        checkpoint = await hf.Checkpointer(store).load("run-1", step="b", as_type=State)
        assert checkpoint is not None
        assert checkpoint.state == State("at-b", ["a", "b"])
        assert (checkpoint.run_id, checkpoint.step) == ("run-1", "b")
        assert checkpoint.next_steps == ("c",)
        assert checkpoint.flow_version is not None
        assert abs(checkpoint.created_at - datetime.now(UTC)) < timedelta(minutes=1)

    wait(scenario())


def test_a_node_that_comes_again_keeps_its_history(store: hf.Store) -> None:
    async def scenario() -> None:
        graph = Graph(State).add_node("a", node("a")).set_entry("a")
        app = graph.add_conditional_edge(
            "a", lambda state: "a" if len(state.visited) < 3 else END
        ).compile()
        await app.run(State(), store=store, run_id="run-1")
        cp = hf.Checkpointer(store)
        infos = await cp.list_checkpoints("run-1", step="a", oldest_first=True)
        lengths = []
        for info in infos:
            checkpoint = await cp.load("run-1", seq=info.seq, as_type=State)
            assert checkpoint is not None
            lengths.append(len(checkpoint.state.visited))
        assert lengths == [1, 2, 3]  # deviation: F2
        newest = await cp.load("run-1", step="a", as_type=State)
        assert newest is not None
        assert len(newest.state.visited) == 3

    wait(scenario())


def test_checkpointing_serializable_state(store: hf.Store) -> None:
    def fill(state: RichState) -> RichState:
        return RichState("id-1", state.count + 1, ["x", "y"], Nested("deep"))

    async def scenario() -> None:
        app = Graph(RichState).add_node("a", fill).add_edge("a", END).set_entry("a").compile()
        result = await app.run(RichState(), store=store, run_id="run-1")
        assert result == RichState("id-1", 1, ["x", "y"], Nested("deep"))
        checkpoint = await hf.Checkpointer(store).load("run-1", step="a", as_type=RichState)
        assert checkpoint is not None
        assert checkpoint.state == result

    wait(scenario())


def test_checkpointing_unserializable_state_error(store: hf.Store) -> None:
    def add_callback(state: BadState) -> BadState:
        return BadState(callback=lambda: None)

    async def scenario() -> None:
        app = (
            Graph(BadState).add_node("a", add_callback).add_edge("a", END).set_entry("a").compile()
        )
        for number, fatal in enumerate((True, False)):
            with pytest.raises(hf.StepFailedError, match="callback") as caught:
                await app.run(
                    BadState(), store=store, run_id=f"run-{number}", checkpoint_failure_fatal=fatal
                )
            assert caught.value.is_a(hf.SerializeError)  # deviation: F5
            assert isinstance(caught.value.__cause__, hf.SerializeError)
            (info,) = await hf.Checkpointer(store).list_checkpoints(f"run-{number}")
            assert (info.step, info.status) == ("a", "failed")  # deviation: F6

    wait(scenario())


def test_checkpointing_requires_run_id(store: hf.Store) -> None:
    async def scenario() -> None:
        with pytest.raises(hf.RunIdRequiredError):  # deviation: D7
            await chain("a", "b").run(State(), store=store)
        assert runs == []

    wait(scenario())


def test_without_a_store_no_run_id_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)

    async def scenario() -> None:
        assert await chain("a", "b").run(State()) == State("at-b", ["a", "b"])

    wait(scenario())
    assert list(tmp_path.iterdir()) == []


def test_checkpointing_only_on_success(store: hf.Store) -> None:
    async def scenario() -> None:
        broken.add("fail")
        with pytest.raises(hf.StepFailedError, match="failed"):
            await chain("a", "fail").run(
                State(),
                store=store,
                run_id="run-1",
                checkpoint_after=CheckpointStrategy.ON_SUCCESS,
            )
        infos = await hf.Checkpointer(store).list_checkpoints("run-1")
        assert [info.step for info in infos] == ["a"]  # only successful nodes

        with pytest.raises(hf.StepFailedError):
            await chain("a", "fail").run(State(), store=store, run_id="run-2")
        before = await hf.Checkpointer(store).load("run-2", as_type=State)
        assert before is not None
        assert (before.step, before.status) == ("fail", "failed")  # deviation: F6
        assert before.state == State("at-a", ["a"])

    wait(scenario())


def test_checkpointing_only_on_error(store: hf.Store) -> None:
    async def scenario() -> None:
        strategy = CheckpointStrategy.ON_ERROR
        app = chain("a", "b", "c")
        cp = hf.Checkpointer(store)
        await app.run(State(), store=store, run_id="good", checkpoint_after=strategy)
        assert await cp.list_checkpoints("good") == []
        broken.add("c")
        with pytest.raises(hf.StepFailedError):
            await app.run(State(), store=store, run_id="bad", checkpoint_after=strategy)
        assert await cp.list_checkpoints("bad") != []
        broken.clear()
        runs.clear()
        assert await app.resume("bad", store=store) == State("at-c", ["a", "b", "c"])
        assert runs == ["c"]

    wait(scenario())


def test_the_names_of_the_strategies_are_the_documents() -> None:
    assert {"EVERY_NODE", "ON_SUCCESS", "ON_ERROR"} <= set(CheckpointStrategy.__members__)


class FullDisk(MemoryStore):
    """Takes its own id and the openings of runs, and nothing else."""

    inline = False

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if any(entry.kind not in (Kind.MEMBER, Kind.OPEN) for entry in entries):
            raise hf.StoreUnavailableError(self.url, "the disk is full")
        return super().append(entries, behind)


def test_a_save_that_fails_stops_the_run_unless_it_is_told_not_to(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        app = chain("a", "b", "c")
        cp = hf.Checkpointer(FullDisk(), deadline=0.5)
        with pytest.raises(hf.CheckpointSaveError, match="the disk is full"):  # deviation: F1
            await app.run(State(), store=cp, run_id="run-1")
        assert runs == ["a"]
        with pytest.warns(hf.UnsavedWarning):
            result = await app.run(
                State(), store=cp, run_id="run-2", checkpoint_failure_fatal=False
            )
        assert result == State("at-c", ["a", "b", "c"])
        assert "run-2 continues without its checkpoint" in caplog.text
        assert cp.degraded is not None

    wait(scenario())


# --- the feature: TestCheckpointStore_Contract


def test_checkpoint_store_contract(store: hf.Store) -> None:
    async def scenario() -> None:
        cp = hf.Checkpointer(store)
        # Save
        saved = await cp.save("run-1", {"value": 1}, step="node-a")
        # Load
        loaded = await cp.load("run-1", step="node-a")
        assert loaded is not None
        assert loaded.state == {"value": 1}
        # Not found
        assert await cp.load("run-1", step="nonexistent") is None  # deviation: F3
        with pytest.raises(hf.CheckpointNotFoundError):
            await cp.rollback("run-1", seq=99)
        # List
        await cp.save("run-1", {"value": 2}, step="node-b")
        infos = await cp.list_checkpoints("run-1", oldest_first=True)
        assert [info.step for info in infos] == ["node-a", "node-b"]
        # Delete
        await cp.delete("run-1", saved.checkpoint_id)
        assert await cp.load("run-1", step="node-a") is None
        current = await cp.load("run-1")
        assert current is not None
        assert current.state == {"value": 2}
        # DeleteRun
        assert await cp.clear("run-1") == 1
        assert await cp.list_checkpoints("run-1") == []
        assert await cp.load("run-1") is None

    wait(scenario())


# --- ADR-015: TestCheckpointStore, and its examples


def test_checkpoint_store(store: hf.Store) -> None:
    with hf.SyncCheckpointer(store) as cp:
        # Save
        saved = cp.save("run-1", b"data-a", step="node-a")  # deviation: D5
        # Load
        loaded = cp.load("run-1", step="node-a")
        assert loaded is not None
        assert loaded.state == b"data-a"
        # Not found
        assert cp.load("run-1", step="node-x") is None  # deviation: F3
        # List
        cp.save("run-1", b"data-b", step="node-b")
        infos = cp.list_checkpoints("run-1")
        assert len(infos) == 2
        # Delete
        cp.delete("run-1", saved.checkpoint_id)
        assert cp.load("run-1", step="node-a") is None
        # DeleteRun
        cp.clear("run-1")
        assert cp.list_checkpoints("run-1") == []
    with pytest.raises(hf.StoreClosedError):
        cp.load("run-1")  # Close


def test_what_a_memory_store_keeps_is_a_copy() -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        data = bytearray(b"data-a")
        cp.save("run-1", {"data": data}, step="node-a")
        data[:] = b"------"
        first = cp.load("run-1", step="node-a")
        assert first is not None
        assert first.state["data"] == b"data-a"
        first.state["data"] = None
        again = cp.load("run-1", step="node-a")
        assert again is not None
        assert again.state["data"] == b"data-a"


def test_deleting_takes_one_checkpoint_and_shows_the_one_before_it(store: hf.Store) -> None:
    with hf.SyncCheckpointer(store) as cp:
        cp.save("run-1", 1, step="loop")
        second = cp.save("run-1", 2, step="loop")
        cp.delete("run-1", second.checkpoint_id)
        left = cp.load("run-1", step="loop")
        assert left is not None
        assert left.state == 1  # deviation: D4
        cp.clear("run-1")
        assert cp.save("run-1", 3, step="loop").seq > second.seq  # deviation: D6


def test_many_writers_get_a_sequence_each(store: hf.Store) -> None:
    async def scenario() -> None:
        cp, other = hf.Checkpointer(store), hf.Checkpointer(store)
        saves = [face.save("run-1", n, step=f"n{n}") for n in range(4) for face in (cp, other)]
        saves += [cp.save(f"run-{n}", n) for n in (2, 3)]
        checkpoints = await asyncio.gather(*saves)
        taken = [ck.seq for ck in checkpoints if ck.run_id == "run-1"]
        assert sorted(taken) == list(range(1, 9))  # deviation: D1

    wait(scenario())


def test_the_example_of_basic_checkpointing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with hf.Checkpointer(f"sqlite:///{tmp_path}/checkpoints.db") as cp:
            result = await chain("a", "b").run(State(), store=cp, run_id="run-1")
            assert result.progress == "at-b"
        async with hf.Checkpointer(f"sqlite:///{tmp_path}/checkpoints.db") as again:
            assert len(await again.list_checkpoints("run-1")) == 2

    wait(scenario())


def test_the_example_of_resuming(store: hf.Store) -> None:
    async def scenario() -> None:
        app = chain("a", "b", "c")
        broken.add("b")
        with pytest.raises(hf.StepFailedError, match="failed"):
            await app.run(State(), store=store, run_id="run-1")
        broken.clear()
        runs.clear()
        result = await app.resume("run-1", store=store)  # deviation: D2
        assert result == State("at-c", ["a", "b", "c"])
        assert runs == ["b", "c"]  # after the last node that was saved

    wait(scenario())


def test_resuming_what_is_not_there_or_over_is_an_error(store: hf.Store) -> None:
    async def scenario() -> None:
        app = chain("a", "b")
        with pytest.raises(hf.CheckpointNotFoundError):  # deviation: D2
            await app.resume("run-1", store=store)
        await app.run(State(), store=store, run_id="run-1")
        with pytest.raises(hf.RunFinishedError):
            await app.resume("run-1", store=store)
        assert runs == ["a", "b"]

    wait(scenario())


def test_resuming_at_a_node_takes_the_state_of_that_point(store: hf.Store) -> None:
    async def scenario() -> None:
        app = chain("a", "b", "c")
        await app.run(State(), store=store, run_id="run-1")
        runs.clear()
        result = await app.resume("run-1", store=store, after_node="a")
        assert result == State("at-c", ["a", "b", "c"])
        assert runs == ["b", "c"]
        runs.clear()
        result = await app.resume("run-1", store=store, from_node="c")
        assert result == State("at-c", ["a", "b", "c"])
        assert runs == ["c"]

    wait(scenario())


DAY = 86_400


def test_the_example_of_cleaning_up_spares_what_still_runs(store: hf.Store) -> None:
    clock = FakeClock()
    policy = hf.Retention(run_ttl=timedelta(days=7))
    with hf.SyncCheckpointer(store, clock=clock, retention=policy) as cp:
        for run_id in ("old", "long-lived"):
            cp.save(run_id, {"n": 1}, step="a")
        cp.save("waiting", {"n": 1}, step="a", status="paused")
        clock.advance(8 * DAY)
        cp.save("long-lived", {"n": 2}, step="b")  # its first checkpoint is old, too
        cp.apply_retention()
        assert {run.run_id for run in cp.runs()} == {"long-lived", "waiting"}  # deviation: D3
        assert len(cp.list_checkpoints("long-lived")) == 2


def test_the_example_of_cleaning_up_by_hand(store: hf.Store) -> None:
    clock = FakeClock()
    with hf.SyncCheckpointer(store, clock=clock) as cp:
        cp.save("old", {"n": 1}, step="a")
        clock.advance(8 * DAY)
        cp.save("new", {"n": 1}, step="a")
        cutoff = datetime.fromtimestamp(clock.now() / 1e6 - 7 * DAY, UTC)
        for run in cp.runs():  # no longer hypothetical
            if run.updated_at < cutoff:
                cp.clear(run.run_id)
        assert [run.run_id for run in cp.runs()] == ["new"]
