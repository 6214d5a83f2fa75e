from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast as hf
from tests.golden import lived
from tests.strategies import same

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.glob("v*"))


@pytest.fixture(params=[(v, form) for v in VERSIONS for form in ("sqlite", "files", "export")])
def cp(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hf.SyncCheckpointer]:
    version, form = request.param
    copy = tmp_path / "golden"
    shutil.copytree(HERE / version, copy)
    where = {"sqlite": f"{copy}/store.db", "files": f"{copy}/files/", "export": "memory://"}[form]
    with hf.SyncCheckpointer(where) as cp:
        if form == "export":
            for file in sorted(copy.glob("*.jsonl")):
                cp.import_run(file)
        yield cp


def test_there_are_golden_files() -> None:
    assert VERSIONS


def test_every_value_ever_stored_comes_back(cp: hf.SyncCheckpointer) -> None:
    checkpoint = cp.load("values")
    assert checkpoint is not None
    expected = lived.EVERYTHING | {"enum": "red", "dataclass": {"x": 1, "y": 2.0}}
    assert checkpoint.state.keys() == expected.keys()
    for name, value in expected.items():
        assert same(checkpoint.state[name], value), name
    assert (checkpoint.step, checkpoint.step_index) == ("all", 3)
    assert (checkpoint.step_name, checkpoint.next_steps) == ("All of them", ("none",))
    assert (checkpoint.type, checkpoint.duration, checkpoint.iteration) == (
        "manual_checkpoint",
        1.25,
        2,
    )
    assert checkpoint.metadata == {"when": (1, 2)}
    assert (checkpoint.flow, checkpoint.flow_version, checkpoint.schema_version) == (
        "golden",
        "1",
        4,
    )
    assert (checkpoint.thread_id, checkpoint.owner) == ("thread", "ann")
    assert checkpoint.created_at.isoformat() == "2026-01-01T00:00:00+00:00"


def test_every_state_of_a_lived_run_comes_back(cp: hf.SyncCheckpointer) -> None:
    for seq in range(1, 11):
        checkpoint = cp.load("run", seq=seq)
        assert (checkpoint is None) == (seq == 6)
        assert checkpoint is None or checkpoint.state == lived.growing(seq - 1)
    current, fork, paused = cp.load("run"), cp.load("fork"), cp.load("paused")
    assert current is not None
    assert (current.state, current.parent_id, current.status) == (
        lived.growing(20),
        "run@4",
        "failed",
    )
    assert fork is not None
    assert fork.state == lived.growing(1)
    assert paused is not None
    assert paused.status == "paused"
    assert cp.load("gone") is None


def test_it_is_proved_and_can_be_gone_on_with(cp: hf.SyncCheckpointer) -> None:
    for run in ("values", "run", "fork", "paused"):
        assert cp.verify(run).ok
        saved = cp.save(run, {"onward": 1})
        assert cp.load(run) == saved
        assert cp.verify(run).ok
