"""Pipelines whose state changed since their runs were started."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast as hf
from holdfast.pipeline import Pipeline
from tests.pipeline.flows import Calls, path, run


def renamed(state: dict[str, Any]) -> dict[str, Any]:
    """Step `b` is called `x` in version 2."""
    steps = {"x" if name == "b" else name: output for name, output in state["steps"].items()}
    return {**state, "steps": steps}


def marked(state: dict[str, Any]) -> dict[str, Any]:
    """In version 3, outputs say by whom they are in capitals."""
    steps = {name: {**out, "by": out["by"].upper()} for name, out in state["steps"].items()}
    return {**state, "steps": steps}


def test_a_pipeline_continues_with_the_migrated_outputs(cp: hf.SyncCheckpointer) -> None:
    calls, later = Calls(), Calls()
    calls.failing = {"c"}
    with pytest.raises(hf.StepFailedError):
        run(calls.line("a", "b", "c", checkpointer=cp).run(1, "t"))
    migrate = hf.Migrations(3, {1: renamed, 2: marked})
    new = later.line("a", "x", "c", checkpointer=cp, migrate=migrate, rename={"b": "x"})
    done = run(new.resume("t"))
    assert list(done) == ["a", "x", "c"]
    assert later.given["c"] == {"by": "B", "call": 1}
    assert later == {"c": 1}


def side_by_side(calls: Calls, left: str, **options: Any) -> Pipeline:
    steps = [calls.step(name) for name in ("a", left, "c", "d")]
    paths = [path("a", [left, "c"]), path(left, "d"), path("c", "d"), path("d", "end")]
    return Pipeline(steps, {"start_at": "a", "paths": paths}, **options)


def test_outputs_of_branches_are_migrated_as_parts_of_the_state(cp: hf.SyncCheckpointer) -> None:
    calls, later = Calls(), Calls()
    calls.failing = {"c"}
    with pytest.raises(hf.StepFailedError):
        run(side_by_side(calls, "b", checkpointer=cp).run(1, "t"))
    migrate = hf.Migrations(3, {1: renamed, 2: marked})
    again = Calls()
    again.failing = {"c"}
    for made in (again, later):
        new = side_by_side(made, "x", checkpointer=cp, migrate=migrate, rename={"b": "x"})
        if made is again:
            with pytest.raises(hf.StepFailedError):
                run(new.resume("t"))
    assert later.given == {}
    done = run(new.resume("t"))
    assert done["x"] == {"by": "B", "call": 1}
    assert later.given["d"] == {"x": {"by": "B", "call": 1}, "c": {"by": "c", "call": 1}}
    assert later == {"c": 1, "d": 1}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda state: state["steps"], "must be a dict with pipeline_input and steps"),
        (lambda state: {**state, "steps": {}}, "no output of 'b', which a branch has finished"),
    ],
)
def test_what_is_no_state_of_a_pipeline_is_refused(
    cp: hf.SyncCheckpointer, change: Any, why: str
) -> None:
    calls = Calls()
    calls.failing = {"c"}
    with pytest.raises(hf.StepFailedError):
        run(side_by_side(calls, "b", checkpointer=cp).run(1, "t", run_id="run"))
    before = [entry.digest for entry in cp.store.read("run")]
    new = side_by_side(Calls(), "b", checkpointer=cp, migrate=hf.Migrations(2, {1: change}))
    with pytest.raises(hf.MigrationError, match=why):
        run(new.resume("t"))
    (looked,) = new_dry_run(cp, new)
    assert not looked.ok
    assert [entry.digest for entry in cp.store.read("run")] == before


def new_dry_run(cp: hf.SyncCheckpointer, pipeline: Pipeline) -> list[hf.DryRun]:
    return list(hf.Engine(cp).dry_run_sync(pipeline))


def test_the_version_of_a_definition_must_be_that_of_its_migrations() -> None:
    with pytest.raises(hf.InvalidFlowError, match="not the version 2 of its migrations"):
        Calls().line("a", version=3, migrate=hf.Migrations(2))
    assert Calls().line("a", migrate=hf.Migrations(2)).version == "2"
    assert Calls().line("a").version == "1"
