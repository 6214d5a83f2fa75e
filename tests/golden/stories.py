"""What must be true of a golden store, whatever it is kept in."""

from __future__ import annotations

import holdfast as hf
from tests.golden import flows, lived
from tests.strategies import same


def every_value_ever_stored_comes_back(cp: hf.SyncCheckpointer) -> None:
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


def every_state_of_a_lived_run_comes_back(cp: hf.SyncCheckpointer) -> None:
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


def it_is_proved_and_can_be_gone_on_with(cp: hf.SyncCheckpointer) -> None:
    for run in ("values", "run", "fork", "paused"):
        assert cp.verify(run).ok
        saved = cp.save(run, {"onward": 1})
        assert cp.load(run) == saved
        assert cp.verify(run).ok


def flows_go_on_where_they_were_left(cp: hf.SyncCheckpointer) -> None:
    flows.executed.clear()
    with hf.Engine(cp) as engine:
        done = engine.run_sync(flows.doubling(4), run_id="doubling", resume=True)
        assert done == {"once": 8, "twice": 16}
        counted = engine.run_sync(flows.counting(flows.Count()), run_id="counting", resume=True)
        assert counted == flows.Count(3, [0, 1, 2])
        assert flows.executed == []
        assert [run.labels for run in cp.runs(asking=True)] == [{"team": "gold"}]
        engine.answer_sync("approved", "yes", by="golden")  # signed by the key of that name
        result = engine.run_sync(flows.approved(4), run_id="approved", resume=True)
        assert result == ["yes", 16]
        assert flows.executed == ["double 8"]
    for run in ("doubling", "counting", "approved"):
        assert cp.verify(run).ok


STORIES = (
    every_value_ever_stored_comes_back,
    every_state_of_a_lived_run_comes_back,
    it_is_proved_and_can_be_gone_on_with,
    flows_go_on_where_they_were_left,
)
