from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import holdfast as hf

Grow = Callable[[str, int], list[hf.Checkpoint]]

STATES = [
    {"n": 1, "text": "it's \u00e9\u2028"},
    [1, 2],
    None,
    "text",
    float("nan"),
    {"bytes": b"\xff", "set": {1}},
]


def rows_of(path: Path, columns: str) -> list[tuple[Any, ...]]:
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [tuple(line[name.strip()] for name in columns.split(",")) for line in lines]
    with duckdb.connect(str(path) if path.suffix == ".duckdb" else ":memory:") as db:
        table = "checkpoints" if path.suffix == ".duckdb" else f"'{path}'"
        return db.execute(f"SELECT {columns} FROM {table} ORDER BY run_id, sequence").fetchall()


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".duckdb"])
def test_every_checkpoint_is_a_row_with_its_state(
    cp: hf.SyncCheckpointer, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"out{suffix}"
    path.write_text("an older one is replaced")
    saved = [
        cp.save("run", state, step=f"s{n}", duration=n / 2, metadata={"k": n})
        for n, state in enumerate(STATES)
    ]
    cp.save("other", 1)
    assert cp.export_checkpoints(path) == len(STATES) + 1
    found = rows_of(path, "checkpoint_id, step_id, duration, metadata, state_bytes, state")
    assert found[0][0] == "other@1"
    for ck, row in zip(saved, found[1:], strict=True):
        info = cp.list_checkpoints("run", step=str(ck.step))[0]
        assert row[:3] == (ck.checkpoint_id, ck.step, ck.duration)
        metadata, state = row[3], row[5]
        if suffix != ".jsonl":
            metadata, state = json.loads(metadata), json.loads(state)
        assert metadata == ck.metadata
        assert row[4] == info.to_dict()["size"]
        assert state == ck.to_dict()["state"]
    assert [file.name for file in tmp_path.glob(".*")] == []


@pytest.mark.parametrize("suffix", [".parquet", ".duckdb"])
def test_some_runs_may_be_chosen_and_states_left_out(
    cp: hf.SyncCheckpointer, grow: Grow, tmp_path: Path, suffix: str
) -> None:
    grow("a", 3)
    grow("b", 2)
    path = tmp_path / f"it's{suffix}"
    assert cp.export_checkpoints(path, run_ids=["b"], states=False) == 2
    renamed = path.rename(tmp_path / f"out{suffix}")
    rows = rows_of(renamed, "run_id, state, stored_bytes")
    assert [row[:2] for row in rows] == [("b", None)] * 2
    assert all(row[2] > 0 for row in rows)


def test_deleted_checkpoints_and_runs_are_left_out(
    cp: hf.SyncCheckpointer, grow: Grow, tmp_path: Path
) -> None:
    saved = grow("run", 3)
    cp.delete("run", saved[1].checkpoint_id)
    grow("gone", 1)
    cp.clear("gone")
    assert cp.export_checkpoints(tmp_path / "out.jsonl") == 2


def test_what_can_not_be_exported_is_refused_and_leaves_no_file(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    cp.save("run", 1)
    with pytest.raises(hf.CheckpointNotFoundError):
        cp.export_checkpoints(tmp_path / "out.jsonl", run_ids=["missing"])
    with pytest.raises(ValueError, match=r"\.parquet"):
        cp.export_checkpoints(tmp_path / "out.csv")
    with pytest.raises(TypeError, match="list of one"):
        cp.export_checkpoints(tmp_path / "out.jsonl", run_ids="run")
    assert not list(tmp_path.glob("*out*"))
