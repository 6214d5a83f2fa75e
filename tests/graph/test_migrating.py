"""Graphs whose state changed since their runs were started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.graph import END, CompiledGraph, Graph
from tests.graph.flows import Calls, State, join, run
from tests.graph.test_resuming import crash_after
from tests.waiting import wait_until


@dataclass
class Counted:
    """The state of version 2 and 3; `unit` is new in version 3."""

    total: int
    unit: str = ""
    seen: list[str] = field(default_factory=list)


def total(state: dict[str, Any]) -> dict[str, Any]:
    return {"total": state["n"], "seen": state["log"]}


def unit(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "unit": "m"}


def counted(calls: Calls, migrations: hf.Migrations, names: str = "abc") -> CompiledGraph[Counted]:
    graph = Graph(Counted)

    def node(name: str) -> Any:
        def fn(state: Counted) -> Counted:
            calls[name] += 1
            if name in calls.failing:
                raise RuntimeError(f"{name} is broken")
            return Counted(state.total + 1, state.unit, [*state.seen, name])

        return fn

    for name, after in zip(names, [*names[1:], END], strict=True):
        graph.add_node(name, node(name)).add_edge(name, after)
    return graph.set_entry(names[0]).compile(migrate=migrations)


TO_3 = hf.Migrations(3, {1: total, 2: unit})


def entries(cp: hf.SyncCheckpointer) -> list[Any]:
    return [entry.digest for entry in cp.store.read("run")]


def test_a_state_goes_through_every_version(cp: hf.SyncCheckpointer) -> None:
    run(crash_after(Calls().line("abc").compile(), 1, State(), store=cp, run_id="run"))
    later = Calls()
    done = run(counted(later, TO_3).resume("run", store=cp))
    assert done == Counted(3, "m", ["a", "b", "c"])
    assert later == {"b": 1, "c": 1}
    versions = [c.flow_version for c in cp.list_checkpoints("run", oldest_first=True)]
    assert versions == ["1", "3", "3"]
    first = cp.load("run", step="a")
    assert first is not None
    assert first.state == {"n": 1, "log": ["a"]}, "what is recorded stays as it is"


def test_a_run_that_was_migrated_before_is_not_migrated_again(cp: hf.SyncCheckpointer) -> None:
    run(crash_after(Calls().line("abc").compile(), 1, State(), store=cp, run_id="run"))
    second, third = Calls(), Calls()
    second.failing.add("c")
    with pytest.raises(hf.StepFailedError):
        run(counted(second, hf.Migrations(2, {1: total})).resume("run", store=cp))
    done = run(counted(third, TO_3).resume("run", store=cp))
    assert done == Counted(3, "m", ["a", "b", "c"])
    assert third == {"c": 1}


def broken(state: dict[str, Any]) -> dict[str, Any]:
    return {"total": state["no such key"]}


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ({1: total}, "no migration from version 2 to 3"),
        ({1: broken, 2: unit}, r"broken\(\) raised KeyError: 'no such key'"),
        ({1: total, 2: lambda state: {"total": "many"}}, "no state of this graph: .*total"),
        ({1: total, 2: lambda state: {**state, "unit": object()}}, "can't be stored"),
    ],
)
def test_a_state_that_can_not_be_migrated_stops_the_resume_before_it_is_claimed(
    cp: hf.SyncCheckpointer, steps: dict[int, Any], why: str
) -> None:
    run(crash_after(Calls().line("abc").compile(), 1, State(), store=cp, run_id="run"))
    if cp.store.shared:  # who left the run says so, a moment later
        wait_until(lambda: cp.store.read("run")[-1].kind == "release")
    before, later = entries(cp), Calls()
    app = counted(later, hf.Migrations(3, steps))
    calls: list[Callable[[], Any]] = [
        lambda: app.resume("run", store=cp),
        lambda: app.resume("run", store=cp, from_node="b"),
        lambda: app.run(Counted(0, "m"), store=cp, run_id="run", resume=True),
    ]
    for call in calls:
        with pytest.raises(hf.MigrationError, match=why) as told:
            run(call())
        assert told.value.checkpoint_id.startswith("run@")
    assert entries(cp) == before
    assert later == {}
    assert run(counted(later, TO_3).resume("run", store=cp)).total == 3


def test_older_code_refuses_a_run_of_a_newer_version(cp: hf.SyncCheckpointer) -> None:
    run(crash_after(Calls().line("abc").compile(), 1, State(), store=cp, run_id="run"))
    failing = Calls()
    failing.failing.add("c")
    with pytest.raises(hf.StepFailedError):
        run(counted(failing, TO_3).resume("run", store=cp))
    older = counted(Calls(), hf.Migrations(2, {1: total}))
    with pytest.raises(hf.MigrationError, match=r"of version 3, .* up to 2"):
        run(older.resume("run", store=cp))
    with hf.Engine(cp, flows=[older]) as engine, pytest.raises(hf.MigrationError, match="newer"):
        engine.resume_sync("run")


def test_inputs_are_compared_as_the_new_version_has_them(cp: hf.SyncCheckpointer) -> None:
    run(crash_after(Calls().line("abc").compile(), 1, State(4), store=cp, run_id="run"))
    app = counted(Calls(), TO_3)
    with pytest.raises(hf.InputMismatchError, match="total was 4 and is 5"):
        run(app.run(Counted(5, "m"), store=cp, run_id="run", resume=True))
    assert run(app.run(Counted(4, "m"), store=cp, run_id="run", resume=True)).total == 7


def test_a_migration_admits_the_other_version_and_no_other_change(cp: hf.SyncCheckpointer) -> None:
    """A changed structure under one version is refused, with migrations or without."""
    run(crash_after(counted(Calls(), TO_3), 1, Counted(0), store=cp, run_id="run"))
    with pytest.raises(hf.FlowChangedError, match="node 'c' is gone"):
        run(counted(Calls(), TO_3, "ab").resume("run", store=cp))


def test_the_final_state_of_an_older_version_is_returned_as_the_new_one_has_it(
    cp: hf.SyncCheckpointer,
) -> None:
    run(Calls().line("abc").compile().run(State(), store=cp, run_id="run"))
    later = Calls()
    again = counted(later, TO_3).run(Counted(0, "m"), store=cp, run_id="run", resume=True)
    assert run(again) == Counted(3, "m", ["a", "b", "c"])
    assert later == {}


def test_forks_and_rollbacks_reach_over_a_migration(cp: hf.SyncCheckpointer) -> None:
    run(Calls().line("abc").compile().run(State(), store=cp, run_id="run"))
    app = counted(Calls(), TO_3)
    cp.fork("run", seq=1, run_id="fork")
    assert run(app.resume("fork", store=cp)) == Counted(3, "m", ["a", "b", "c"])
    assert run(app.resume("run", store=cp, from_node="c")) == Counted(3, "m", ["a", "b", "c"])
    cp.rollback("run", seq=1)
    assert run(app.resume("run", store=cp)) == Counted(3, "m", ["a", "b", "c"])
    cp.rollback("run", seq=1)
    plain = Calls().line("abc").compile()
    assert run(plain.resume("run", store=cp)).n == 3, "with the old code, too"


def test_names_of_the_new_version_are_not_renamed(cp: hf.SyncCheckpointer) -> None:
    """Version 2 calls `b` what version 1 called `a`, and has a new `a`."""
    old, new = Calls(), Calls()
    old.failing.add("a")
    with pytest.raises(hf.StepFailedError):
        run(old.line("a").compile().run(State(), store=cp, run_id="run"))
    new.failing.add("a")
    migrate, rename = hf.Migrations(2, {1: None}), {"a": "b"}
    app = new.line("ba").compile(migrate=migrate, rename=rename)
    with pytest.raises(hf.StepFailedError, match="a is broken"):
        run(app.resume("run", store=cp))
    new.failing.clear()
    assert run(app.resume("run", store=cp)).log == ["b", "a"]
    assert new == {"b": 1, "a": 2}


def test_branches_that_were_under_way_are_migrated(cp: hf.SyncCheckpointer) -> None:
    def forks(calls: Calls, **options: Any) -> CompiledGraph[State]:
        made = Graph(State, merge=join)
        for name in "abcd":
            made.add_node(name, calls.node(name))
        made.add_edge("a", "b").add_edge("a", "c").add_edge("b", "d").add_edge("c", "d")
        return made.add_edge("d", END).set_entry("a").compile(**options)

    calls, later = Calls(), Calls()
    calls.failing.add("c")
    with pytest.raises(hf.StepFailedError):
        run(forks(calls).run(State(), store=cp, run_id="run"))

    def loud(state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "log": [name.upper() for name in state["log"]]}

    done = run(forks(later, migrate=hf.Migrations(2, {1: loud})).resume("run", store=cp))
    assert done.log == ["A", "B", "c", "d"]
    assert later == {"c": 1, "d": 1}


def test_a_run_that_goes_back_because_of_evidence_is_not_claimed_either(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    """The state that it would go back to is the one that can't be migrated."""
    made = tmp_path / "made"

    def graph(calls: Calls, **options: Any) -> CompiledGraph[State]:
        return (
            Graph(State)
            .add_node("a", calls.node("a"))
            .add_node("b", lambda state: made.write_text("b") and state, outputs=made)
            .add_node("c", calls.node("c"))
            .add_edge("a", "b")
            .add_edge("b", "c")
            .add_edge("c", END)
            .set_entry("a")
            .compile(verifier=hf.EvidenceVerifier(tmp_path), **options)
        )

    calls = Calls()
    calls.failing.add("c")
    with pytest.raises(hf.StepFailedError):
        run(graph(calls).run(State(), store=cp, run_id="run"))
    made.unlink()
    before = entries(cp)

    def picky(state: dict[str, Any]) -> dict[str, Any]:
        assert made.exists()
        return state

    with pytest.raises(hf.MigrationError, match="AssertionError"):
        run(graph(Calls(), migrate=hf.Migrations(2, {1: picky})).resume("run", store=cp))
    assert entries(cp) == before
    assert run(graph(Calls(), migrate=hf.Migrations(2, {1: None})).resume("run", store=cp)).n == 2


def test_migrations_of_inputs_are_for_workflows() -> None:
    changes = hf.Migrations(2)
    changes.inputs(from_version=1)(dict)
    with pytest.raises(ValueError, match="begins with a state"):
        Calls().line("a").compile(migrate=changes)
    with pytest.raises(ValueError, match=r"version='3' is not the version 2"):
        Calls().line("a").compile(version="3", migrate=hf.Migrations(2))


def test_a_dry_run_tells_which_runs_would_resume_and_writes_nothing(
    cp: hf.SyncCheckpointer,
) -> None:
    old = Calls().line("abc").compile()
    for name, n in (("good", 0), ("bad", 7)):
        run(crash_after(old, 1, State(n), store=cp, run_id=name))
    run(old.run(State(), store=cp, run_id="done"))

    def picky(state: dict[str, Any]) -> dict[str, Any]:
        if state["n"] > 5:
            raise ValueError("too many")
        return total(state)

    later = Calls()
    with hf.Engine(cp) as engine:
        before = cp.stats()
        looked = engine.dry_run_sync(counted(later, hf.Migrations(3, {1: picky, 2: unit})))
        found = {one.run_id: one for one in looked}
        (gone,) = engine.dry_run_sync(counted(later, TO_3, "axy"), run_id="good")
        (over,) = engine.dry_run_sync(old, run_id="done")
        with pytest.raises(hf.CheckpointNotFoundError):
            list(engine.dry_run_sync(old, run_id="nobody"))
        assert cp.stats() == before
    assert later == {}
    assert set(found) == {"good", "bad"}
    good, bad = found["good"], found["bad"]
    assert (good.ok, good.from_version, good.to_version) == (True, "1", "3")
    assert good.keys == ["- n", "- log", "+ total", "+ seen", "+ unit"]
    assert "picky() raised ValueError: too many" in str(bad.error)
    assert "node 'b', which is next, is gone" in str(gone.error)
    assert "is completed" in str(over.error)
