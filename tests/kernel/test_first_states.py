"""The first state of a flow is stored as a change to its inputs, where it is much like them."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec import envelope
from holdfast.graph import END, Graph
from holdfast.model import Entry, Kind
from holdfast.stores import MemoryStore
from holdfast.workflow import step, workflow

INPUTS: dict[str, Any] = {
    "rows": [{"n": n, "text": f"the text of row {n}"} for n in range(2000)],
    "n": 0,
}


def count(state: dict[str, Any]) -> dict[str, Any]:
    return {"n": state["n"] + 1}


def counting(nodes: int, node: Any = count) -> Any:
    graph = Graph(dict)
    for number in range(nodes):
        graph.add_node(f"node-{number}", node)
        graph.add_edge(f"node-{number}", END if number == nodes - 1 else f"node-{number + 1}")
    return graph.set_entry("node-0").compile()


def run(store: Any, nodes: int = 3, **options: Any) -> list[Entry]:
    with hf.SyncCheckpointer(store, **options) as cp:
        counting(nodes).run_sync(INPUTS, store=cp, run_id="r")
        return cp.store.read("r")


@pytest.mark.parametrize("options", [{}, {"key": hf.Keyring({"k": bytes(32)})}])
def test_a_state_like_the_inputs_takes_hardly_any_space(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    path = tmp_path / "runs.db"
    entries = run(path, **options)
    states = [entry for entry in entries if entry.kind == Kind.CHECKPOINT]
    assert len(entries[0].body) > 5000
    assert [len(entry.body) < 300 for entry in states] == [True] * 3
    assert envelope.base(states[0]) == entries[0].seq
    with hf.SyncCheckpointer(path, **options) as cp:
        for number, entry in enumerate(states, 1):
            loaded = cp.load("r", seq=entry.seq)
            assert loaded is not None
            assert loaded.state == {**INPUTS, "n": number}
        assert cp.verify("r").ok


def test_it_outlives_the_checkpoints_that_are_deleted() -> None:
    store = MemoryStore()
    run(store, 6)
    with hf.SyncCheckpointer(store) as cp:
        cp.prune("r", keep_latest=1)
        assert len(cp.list_checkpoints("r")) == 1
    with hf.SyncCheckpointer(store) as cp:
        loaded = cp.load("r")
        assert loaded is not None
        assert loaded.state == {**INPUTS, "n": 6}
        assert cp.verify("r").ok


def test_another_process_continues_behind_it(tmp_path: Path) -> None:
    broken = [True]

    def node(state: dict[str, Any]) -> dict[str, Any]:
        if state["n"] == 2 and broken[0]:
            raise OSError("no disk")
        return count(state)

    path, app = tmp_path / "runs.db", counting(5, node)
    with pytest.raises(hf.StepFailedError), hf.SyncCheckpointer(path) as cp:
        app.run_sync(INPUTS, store=cp, run_id="r")
    broken[0] = False
    with hf.SyncCheckpointer(path) as cp:
        assert app.resume_sync("r", store=cp) == {**INPUTS, "n": 5}


def test_damaged_inputs_do_not_pass_for_a_state(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    body = run(path)[0].body
    altered = body[:-9] + bytes([body[-9] ^ 1]) + body[-8:]
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE holdfast_entries SET body = ? WHERE seq = 0", (altered,))
    with hf.SyncCheckpointer(path) as cp, pytest.raises(hf.CheckpointCorruptedError):
        cp.load("r")


@step
def same(rows: list[Any]) -> list[Any]:
    return rows


@workflow
def passes_on(rows: list[Any]) -> Generator[Any, Any, Any]:
    return (yield same(rows))


def test_the_result_of_a_step_does_not_depend_on_the_inputs() -> None:
    store = MemoryStore()
    with hf.Engine(store) as engine:
        engine.run_sync(passes_on(rows=INPUTS["rows"]), run_id="w")
    results = [entry for entry in store.read("w") if entry.kind == Kind.RESULT]
    assert [envelope.base(entry) for entry in results] == [entry.seq for entry in results]
