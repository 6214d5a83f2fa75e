"""The checkpoint store of flowgraph's feature and its ADR-015: their tests and examples, translated.

Where holdfast differs on purpose, a comment names the row of docs/documents/deviations.md. What the documents
say about runs of graphs is in test_flowgraph.py.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import random
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.documents import flowgraph
from holdfast.documents.flowgraph import (
    CheckpointStore,
    FileStore,
    MemoryStore,
    PostgresStore,
    SQLiteStore,
)
from holdfast.graph import END, CheckpointStrategy, CompiledGraph, Graph
from holdfast.testing.corpus import HOSTILE_RUN_IDS, INVALID_IDS
from tests.effort import some
from tests.faults import FakeClock
from tests.servers import postgres

Check = Callable[[CheckpointStore], Awaitable[None]]


@dataclass
class State:
    progress: str = ""
    visited: list[str] = field(default_factory=list)


broken: set[str] = set()


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    yield
    broken.clear()


def node(name: str) -> Callable[[State], State]:
    def visit(state: State) -> State:
        if name in broken:
            raise RuntimeError("failed")
        return State(f"at-{name}", [*state.visited, name])

    return visit


def graph(edges: str) -> CompiledGraph[State]:
    """A graph from words such as "ab bc c.", where "." is the end; "a" is the entry."""
    made = Graph(State, merge=merged)
    for name in dict.fromkeys(edges.replace(" ", "").replace(".", "")):
        made.add_node(name, node(name))
    for edge in edges.split():
        made.add_edge(edge[0], END if edge[1] == "." else edge[1])
    return made.set_entry("a").compile()


def merged(before: State, branches: dict[str, State]) -> State:
    return State("merged", [name for state in branches.values() for name in state.visited])


def opened(kind: str, path: Path) -> CheckpointStore:
    match kind:
        case "memory":
            return MemoryStore()
        case "sqlite":
            return SQLiteStore(path / "test.db")
        case "file":
            return FileStore(path / "checkpoints")
        case "postgres":
            return PostgresStore(postgres.new_database())
        case "sync":
            return CheckpointStore(hf.SyncCheckpointer("memory://"))
        case "async durability":
            return CheckpointStore(hf.Checkpointer("memory://", durability="async"))
    raise ValueError(kind)


KINDS = ["memory", "sqlite", "file", "sync", "async durability"]
WITH_SERVER = [*KINDS, "postgres"]


def keep(kind: str, path: Path, check: Check) -> None:
    async def scenario() -> None:
        async with opened(kind, path) as store:
            await check(store)

    asyncio.run(scenario())


# --- the documents' tests


@pytest.mark.parametrize("kind", WITH_SERVER)
def test_checkpoint_store_contract(kind: str, tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        # Save
        await store.save("run-1", "node-a", b'{"value":1}')
        # Load
        assert json.loads(await store.load("run-1", "node-a")) == {"value": 1}
        # Not found
        with pytest.raises(hf.CheckpointNotFoundError, match="no checkpoint after node 'nonex"):
            await store.load("run-1", "nonexistent")
        # List
        await store.save("run-1", "node-b", b'{"value":2}')
        infos = await store.list("run-1")
        assert len(infos) == 2
        # Delete
        await store.delete("run-1", "node-a")
        with pytest.raises(hf.CheckpointNotFoundError):
            await store.load("run-1", "node-a")
        # DeleteRun
        await store.delete_run("run-1")
        assert await store.list("run-1") == []

    keep(kind, tmp_path, check)


@pytest.mark.parametrize("made", [MemoryStore, lambda: SQLiteStore("test.db")])
def test_checkpoint_store(
    made: Callable[[], CheckpointStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with made() as store:
        # Save
        store.save_sync("run-1", "node-a", b"data-a")
        # Load
        assert store.load_sync("run-1", "node-a") == b"data-a"
        # Not found
        with pytest.raises(hf.CheckpointNotFoundError):
            store.load_sync("run-1", "node-x")
        # List
        store.save_sync("run-1", "node-b", b"data-b")
        assert len(store.list_sync("run-1")) == 2
        # Delete
        store.delete_sync("run-1", "node-a")
        with pytest.raises(hf.CheckpointNotFoundError):
            store.load_sync("run-1", "node-a")
        # DeleteRun
        store.delete_run_sync("run-1")
        assert store.list_sync("run-1") == []
    with pytest.raises(hf.StoreClosedError):
        store.load_sync("run-1", "node-a")


def test_checkpointing_saves_after_each_node() -> None:
    async def check(store: CheckpointStore) -> None:
        await graph("ab bc c.").run(State(), store=store, run_id="run-1")
        infos = await store.list("run-1")
        assert len(infos) == 3  # one per node
        assert infos[0].node_id == "a"
        assert infos[1].node_id == "b"
        assert infos[2].node_id == "c"

    keep("memory", Path(), check)


def test_checkpointing_state_preserved() -> None:
    async def check(store: CheckpointStore) -> None:
        await graph("ab bc c.").run(State(), store=store, run_id="run-1")
        # Load checkpoint
        checkpoint = await store.load_checkpoint("run-1", "b", as_type=State)  # deviation: F7
        assert checkpoint.state.progress == "at-b"
        # Its contents
        assert (checkpoint.run_id, checkpoint.node_id, checkpoint.next_node) == ("run-1", "b", "c")
        assert checkpoint.sequence == (await store.list("run-1"))[1].sequence
        assert abs(checkpoint.timestamp - datetime.now(UTC)) < timedelta(minutes=1)
        assert checkpoint.version is not None
        # As ADR-015 has it
        assert await store.load("run-1", "b", as_type=State) == State("at-b", ["a", "b"])
        assert await store.load("run-1", "b") == {"progress": "at-b", "visited": ["a", "b"]}

    keep("memory", Path(), check)


def test_checkpointing_only_on_success() -> None:
    async def check(store: CheckpointStore) -> None:
        broken.add("f")
        for strategy in (CheckpointStrategy.ON_SUCCESS, CheckpointStrategy.EVERY_NODE):
            with pytest.raises(hf.StepFailedError):
                await graph("af f.").run(
                    State(), store=store, run_id=strategy, checkpoint_after=strategy
                )
            infos = await store.list(strategy)
            assert [info.node_id for info in infos] == ["a"]  # only successful nodes
            with pytest.raises(hf.CheckpointNotFoundError):
                await store.load(strategy, "f")

    keep("memory", Path(), check)


# --- the documents' examples


def test_the_example_of_basic_checkpointing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario() -> None:
        store = SQLiteStore("./checkpoints.db")
        result = await graph("ab b.").run(State(), store=store, run_id="run-1")
        assert result.progress == "at-b"
        await store.close()
        async with SQLiteStore("./checkpoints.db") as again:
            assert [info.node_id for info in await again.list("run-1")] == ["a", "b"]

    asyncio.run(scenario())
    assert Path("checkpoints.db").exists()


def test_the_example_of_resuming() -> None:
    async def check(store: CheckpointStore) -> None:
        compiled = graph("ab bc c.")
        broken.add("b")
        with pytest.raises(hf.StepFailedError):
            await compiled.run(State(), store=store, run_id="run-1")
        broken.clear()
        # Find latest checkpoint
        checkpoints = await store.list("run-1")
        assert len(checkpoints) > 0
        latest = checkpoints[-1]
        # Load state
        state = await store.load("run-1", str(latest.node_id), as_type=State)
        assert state == State("at-a", ["a"])
        # Resume from next node
        result = await compiled.resume(
            "run-1", store=store, after_node=latest.node_id, override=state
        )
        assert result == State("at-c", ["a", "b", "c"])

    keep("memory", Path(), check)


def test_the_example_of_cleaning_up() -> None:
    async def scenario() -> None:
        clock = FakeClock()
        async with hf.Checkpointer("memory://", clock=clock) as cp:
            store = CheckpointStore(cp)
            await store.save("old", "a", {"n": 1})
            clock.advance(8 * 86_400)
            await store.save("new", "a", {"n": 1})
            # Delete checkpoints older than 7 days
            cutoff = datetime.fromtimestamp(clock.now() / 1e6, UTC) - timedelta(days=7)
            for run_id in await store.list_runs():  # no longer hypothetical
                checkpoints = await store.list(run_id)
                if checkpoints and checkpoints[0].timestamp < cutoff:
                    await store.delete_run(run_id)
            assert await store.list_runs() == ["new"]

    asyncio.run(scenario())


# --- save and load


@pytest.mark.parametrize("kind", KINDS)
def test_any_state_can_be_saved_and_belongs_to_the_caller(kind: str, tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        states: list[Any] = [b"", b"\x00\xff" * 5000, None, 0, "text", [1, {"a": (2, b"x")}]]
        for number, state in enumerate(states):
            await store.save("run", f"node-{number}", state)
        for number, state in enumerate(states):
            assert await store.load("run", f"node-{number}") == state
        given = {"list": [1]}
        await store.save("run", "node", given)
        given["list"].append(2)
        (await store.load("run", "node"))["list"].append(3)
        assert await store.load("run", "node") == {"list": [1]}
        with pytest.raises(hf.SerializeError, match="callback"):
            await store.save("run", "node", {"callback": lambda: None})

    keep(kind, tmp_path, check)


@pytest.mark.parametrize("kind", KINDS)
def test_the_newest_of_a_node_is_loaded_and_all_are_listed(kind: str, tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        for number in range(3):
            await store.save("run", "loop", number)
            await store.save("run", "other", -number)
        assert await store.load("run", "loop") == 2
        nodes = [info.node_id for info in await store.list("run")]
        assert nodes == ["loop", "other"] * 3  # deviation: F2
        await store.delete("run", "loop")  # deviation: D4
        assert [info.node_id for info in await store.list("run")] == ["other"] * 3
        with pytest.raises(hf.CheckpointNotFoundError):
            await store.load("run", "loop")
        with pytest.raises(hf.CheckpointNotFoundError):
            await store.delete("run", "loop")
        await store.save("run", "loop", 3)
        assert await store.load("run", "loop") == 3

    keep(kind, tmp_path, check)


def test_what_is_saved_is_an_ordinary_checkpoint() -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        store = CheckpointStore(cp)
        store.save_sync("run", "a", {"n": 1})
        loaded = cp.load("run")
        assert loaded is not None
        assert (loaded.step, loaded.state) == ("a", {"n": 1})
        cp.save("run", {"n": 2}, step="b", step_name="for people")
        cp.save("run", {"n": 3})
        assert store.load_sync("run", "b") == {"n": 2}
        assert [info.node_id for info in store.list_sync("run")] == ["a", "b"], "it has no node"
        assert store.checkpointer is cp


# --- list


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_list_is_complete_and_oldest_first(kind: str, tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        count = 1200
        saves = [{"run_id": "run", "state": n, "step": f"node-{n}"} for n in range(count)]
        cp = store.checkpointer
        if isinstance(cp, hf.Checkpointer):
            await cp.save_many(saves)
        else:
            cp.save_many(saves)
        infos = await store.list("run")
        assert [info.node_id for info in infos] == [f"node-{n}" for n in range(count)]
        assert [info.sequence for info in infos] == list(range(1, count + 1))
        for number in range(250):
            await store.save(f"run-{number:03}", "a", 1)
        runs = await store.list_runs()
        assert runs == ["run", *(f"run-{number:03}" for number in range(250))]

    keep(kind, tmp_path, check)


def test_a_size_is_that_of_the_whole_state_as_it_is_encoded() -> None:
    async def check(store: CheckpointStore) -> None:
        for length in (0, 6, 1000, 100_000):
            await store.save("run", "a", b"x" * length)
            size = (await store.list("run"))[-1].size
            assert length < size <= length + 8  # deviation: D8
        checkpoint = await store.load_checkpoint("run", "a")
        assert checkpoint.size == checkpoint.get_state_size() == size

    keep("memory", Path(), check)


def test_after_going_back_what_was_left_behind_is_not_listed() -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        store = CheckpointStore(cp)
        for name in "abc":
            store.save_sync("run", name, name)
        cp.rollback("run", seq=1)
        assert [info.node_id for info in store.list_sync("run")] == ["a"]
        with pytest.raises(hf.CheckpointNotFoundError):
            store.load_sync("run", "c")
        store.save_sync("run", "d", "d")
        assert [info.node_id for info in store.list_sync("run")] == ["a", "d"]
        store.delete_sync("run", "c")
        cp.rollback("run", seq=2)
        assert [info.node_id for info in store.list_sync("run")] == ["a", "b"]


def test_the_last_of_the_list_is_the_current_checkpoint_whatever_happened_before() -> None:
    chance = random.Random(15)
    with hf.SyncCheckpointer("memory://") as cp:
        store = CheckpointStore(cp)
        for number in range(300):
            infos = store.list_sync("run")
            everything = cp.list_checkpoints("run", limit=1000)
            action = chance.choice(["save", "save", "save", "rollback", "delete", "prune", "clear"])
            if action == "save" or not everything:
                store.save_sync("run", chance.choice("abcde"), number)
            elif action == "rollback":
                cp.rollback("run", seq=chance.choice(everything).seq)
            elif action == "delete":
                store.delete_sync("run", str(chance.choice(infos or everything).step))
            elif action == "prune":
                cp.prune("run", keep_latest=6)
            elif number % 5 == 0:
                store.delete_run_sync("run")
            infos, current = store.list_sync("run"), cp.load("run")
            assert [info.sequence for info in infos[-1:]] == ([current.seq] if current else [])
            newest = {info.node_id: info.sequence for info in infos}
            for name, sequence in newest.items():
                assert store.load_checkpoint_sync("run", str(name)).sequence == sequence


# --- parallel branches


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_inside_a_fork_is_found_by_its_name(kind: str, tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        compiled = graph("ab ac cd be de e.")
        await compiled.run(State(), store=store, run_id="run")
        infos = await store.list("run")
        assert sorted(str(info.node_id) for info in infos) == ["a", "a>merge", "b", "c", "d", "e"]
        assert [infos[0].node_id, infos[-1].node_id] == ["a", "e"]
        for name, visited in {"b": "ab", "c": "ac", "d": "acd"}.items():
            expected = State(f"at-{name}", list(visited))
            checkpoint = await store.load_checkpoint("run", name, as_type=State)
            assert (checkpoint.node_id, checkpoint.state) == (name, expected)
            assert await store.load("run", name, as_type=State) == expected
            assert checkpoint.step == f"a>{'c' if name == 'd' else name}/{name}"
        assert (await store.load_checkpoint("run", "c")).next_node == "d"
        await store.delete("run", "c")
        with pytest.raises(hf.CheckpointNotFoundError):
            await store.load("run", "c")
        assert await store.load("run", "d", as_type=State) == State("at-d", ["a", "c", "d"])

    keep(kind, tmp_path, check)


def test_a_path_is_not_the_name_of_a_node() -> None:
    async def check(store: CheckpointStore) -> None:
        await graph("ab ac bd cd d.").run(State(), store=store, run_id="run")
        await store.save("run", "a>b/b", "saved by hand")
        assert await store.load("run", "a>b/b") == "saved by hand"
        await store.delete("run", "a>b/b")
        assert await store.load("run", "b", as_type=State) == State("at-b", ["a", "b"])
        with pytest.raises(hf.CheckpointNotFoundError):
            await store.load("run", "a>b/b")

    keep("memory", Path(), check)


# --- delete


def test_what_a_run_still_needs_is_deleted_only_by_force() -> None:
    refused: list[str] = []

    async def check(store: CheckpointStore) -> None:
        async def delete(state: State) -> None:
            for deleting in (store.delete("run", "a"), store.delete_run("run")):
                with pytest.raises(hf.RunActiveError) as caught:
                    await deleting
                refused.append(caught.value.status)

        made = Graph(State).add_node("a", node("a")).add_node("b", delete)
        app = made.add_edge("a", "b").add_edge("b", END).set_entry("a").compile()
        await app.run(State(), store=store, run_id="run")
        assert refused == ["running", "running"]

        broken.add("c")
        with pytest.raises(hf.StepFailedError):
            await graph("ab ac bd cd d.").run(State(), store=store, run_id="failed")
        with pytest.raises(hf.RunActiveError, match="force=True"):
            await store.delete("failed", "b")
        await store.delete("failed", "b", force=True)
        with pytest.raises(hf.CheckpointNotFoundError):
            await store.load("failed", "b")
        await store.delete_run("failed")
        await store.delete_run("failed")
        assert await store.list_runs() == ["run"]

    keep("memory", Path(), check)


# --- ids, outages and the names


@pytest.mark.parametrize("kind", WITH_SERVER)
def test_ids_are_only_ids(kind: str, tmp_path: Path) -> None:
    places = range(len(HOSTILE_RUN_IDS))  # in memory all; what is beneath has tried each of them
    chosen = places if kind == "memory" else some(places, 3, WITH_SERVER.index(kind))
    ids = [HOSTILE_RUN_IDS[place] for place in chosen]

    async def check(store: CheckpointStore) -> None:
        for number, name in enumerate(ids):
            await store.save(name, "../../a", number)
            await store.save("run", name, number)
        for number, name in enumerate(ids):
            assert await store.load(name, "../../a") == number
            assert await store.load("run", name) == number
            assert [info.node_id for info in await store.list(name)] == ["../../a"]
        assert [info.node_id for info in await store.list("run")] == ids
        assert await store.list_runs() == sorted([*ids, "run"])
        for name in ids[::2]:
            await store.delete("run", name)
            await store.delete_run(name)
        assert [info.node_id for info in await store.list("run")] == ids[1::2]
        assert await store.list_runs() == sorted([*ids[1::2], "run"])

    (tmp_path / "inside").mkdir()
    keep(kind, tmp_path / "inside", check)
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]


@pytest.mark.parametrize("wrong", [*INVALID_IDS, None, 7, b"run"])
def test_ids_that_no_store_could_keep_are_refused(wrong: Any) -> None:
    async def check(store: CheckpointStore) -> None:
        for refused in (
            store.save(wrong, "a", 1),
            store.save("run", wrong, 1),
            store.load(wrong, "a"),
            store.load("run", wrong),
            store.list(wrong),
            store.delete(wrong, "a"),
            store.delete("run", wrong),
            store.delete_run(wrong),
        ):
            with pytest.raises(hf.InvalidIdError):
                await refused
        assert await store.list_runs() == []

    keep("memory", Path(), check)


def test_hostile_names_of_nodes_inside_a_fork_are_found_as_they_are() -> None:
    names = [name for name in HOSTILE_RUN_IDS if name != "start"]

    async def check(store: CheckpointStore) -> None:
        made = Graph(State, merge=merged).add_node("start", node("start")).set_entry("start")
        kept = [name for name in names if len(name.encode()) < 100]
        for name in kept:
            made.add_node(name, node(name)).add_edge("start", name).add_edge(name, END)
        await made.compile().run(State(), store=store, run_id="run")
        for name in kept:
            assert await store.load("run", name, as_type=State) == State(
                f"at-{name}", ["start", name]
            )

    keep("memory", Path(), check)


def test_an_outage_is_an_os_error_and_never_an_absence(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file stands where the directory should be")

    async def check(store: CheckpointStore) -> None:
        with pytest.raises(OSError, match="was not saved"):
            await store.save("run", "a", 1)
        for look in (store.load("run", "a"), store.list("run"), store.list_runs()):
            with pytest.raises(OSError, match="could not be read"):
                await look
        for deleting in (store.delete("run", "a"), store.delete_run("run")):
            with pytest.raises(OSError, match="name a directory"):
                await deleting

    keep("file", tmp_path, check)


def test_an_altered_checkpoint_is_refused_and_newer_ones_are_loaded(tmp_path: Path) -> None:
    async def check(store: CheckpointStore) -> None:
        for name in "abc":
            await store.save("run", name, f"data-{name}")
        with closing(sqlite3.connect(tmp_path / "test.db")) as db, db:
            db.execute("UPDATE holdfast_entries SET body = zeroblob(length(body)) WHERE seq = 2")
        assert await store.load("run", "c") == "data-c"
        with pytest.raises(hf.CheckpointCorruptedError):
            await store.load("run", "b")
        assert [info.node_id for info in await store.list("run")] == ["a", "b", "c"]

    keep("sqlite", tmp_path, check)


def test_a_dict_of_a_checkpoint_has_the_keys_of_the_documents() -> None:
    keys = {"run_id", "node_id", "sequence", "timestamp", "version", "state", "next_node"}

    async def check() -> None:
        async with flowgraph.MemoryStore() as store:
            await store.save("run", "a", {"n": 1})
            loaded = await store.load_checkpoint("run", "a")
            document = json.loads(json.dumps(loaded.to_dict()))
            assert document.keys() >= keys
            assert (document["node_id"], document["sequence"]) == ("a", loaded.sequence)
            assert flowgraph.Checkpoint.from_dict(document) == loaded
            (info,) = await store.list("run")
            assert info.to_dict().keys() >= keys - {"state"}

    asyncio.run(check())


def test_a_file_may_have_any_name(tmp_path: Path) -> None:
    for name in ("a b.db", "a?b#c.db", "100%.db", "über.db"):
        with SQLiteStore(tmp_path / name) as store:
            store.save_sync("run", "a", 1)
        assert (tmp_path / name).exists()


def test_a_postgres_store_takes_a_url_of_postgresql() -> None:
    with pytest.raises(hf.StoreURLError, match="must begin with postgresql://"):
        PostgresStore("mysql://host/db")


def test_every_method_of_the_documents_is_there_with_their_parameters() -> None:
    documents = {
        "save": ["run_id", "node_id", "data"],
        "load": ["run_id", "node_id"],
        "list": ["run_id"],
        "delete": ["run_id", "node_id"],
        "delete_run": ["run_id"],
        "close": [],
    }
    for method, parameters in documents.items():
        for name in (method, f"{method}_sync"):
            signature = inspect.signature(getattr(CheckpointStore, name))
            plain = [p.name for p in signature.parameters.values() if p.kind != p.KEYWORD_ONLY]
            assert plain == ["self", *parameters]
    fields = {"run_id", "node_id", "sequence", "timestamp", "size"}
    assert fields <= set(dir(flowgraph.CheckpointInfo))
    assert fields | {"version", "state", "next_node"} <= set(dir(flowgraph.Checkpoint))
