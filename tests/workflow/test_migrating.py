"""Workflows whose steps or inputs changed since their runs were started."""

from __future__ import annotations

import asyncio
import os
import textwrap
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.events import StepStarted
from holdfast.workflow import Workflow, ask, step, workflow
from tests import forks
from tests.workflow.support import Calls, Flow, stop_at


def flow_of(calls: Calls, *names: str, migrate: hf.Migrations | None = None) -> Workflow[..., Any]:
    @workflow("flow", migrate=migrate)
    def flow(data: str = "") -> Flow:
        values = {}
        for name in names:
            values[name] = yield step(name).python(calls, args=(name, f"{name}{data}"))
        return values

    return flow


def upper(results: dict[str, Any]) -> dict[str, Any]:
    return {name.upper(): value for name, value in results.items()}


def joined(results: dict[str, Any]) -> dict[str, Any]:
    return {"all": "+".join(results.values())}


def test_results_of_several_versions_go_through_the_versions_in_between(store: hf.Store) -> None:
    """The second version goes on from the first one's results; the third is given both's."""
    calls = Calls()
    engine = hf.Engine(store)

    async def main() -> None:
        await stop_at(engine.stream(flow_of(calls, "a", "b")(), run_id="r"), StepStarted, "b")
        second = flow_of(calls, "A", "B", "C", migrate=hf.Migrations(2, {1: upper}))
        await stop_at(engine.resume_stream("r", flow=second), StepStarted, "C")
        third = flow_of(calls, "all", "d", migrate=hf.Migrations(3, {1: upper, 2: joined}))
        assert await engine.resume("r", flow=third) == {"all": "a+B", "d": "d"}
        assert calls.order == ["a", "B", "d"]

    asyncio.run(main())


def test_inputs_are_migrated_by_name_and_compared_as_migrated(store: hf.Store) -> None:
    changes = hf.Migrations(version=2)

    @changes.inputs(from_version=1)
    def split(inputs: dict[str, Any]) -> dict[str, Any]:
        first, last = inputs["name"].split()
        return {"first": first, "last": last}

    @workflow("greet")
    async def old(name: str) -> str:
        return f"{await ask('Well?', returns=str)} {name}"

    @workflow("greet", migrate=changes)
    async def new(first: str, last: str, mark: str = "!") -> str:
        return f"{await ask('Well?', returns=str)} {last}, {first}{mark}"

    with hf.Engine(store) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(old("Ann Lee"), run_id="r")
        engine.answer_sync("r", "Dear")
        (looked,) = engine.dry_run_sync(new)
        assert looked.keys == ["- inputs.name", "+ inputs.first", "+ inputs.last"]
        with pytest.raises(hf.InputMismatchError, match="first was 'Ann' and is 'Bob'"):
            engine.run_sync(new("Bob", "Lee"), run_id="r", resume=True)
        assert engine.run_sync(new("Ann", "Lee"), run_id="r", resume=True) == "Dear Lee, Ann!"


@step
def load(n: int) -> dict[str, int]:
    return {"n": n}


@workflow("typed")
async def typed_1() -> int:
    return int(await step("fetch").python(lambda: 7)) + int(await ask("Well?", returns=int))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda results: {"load": 7}, r"r@1 .*does not have its type: result of load"),
        (lambda results: [], "not a dict of results by step"),
        (lambda results: {"lod": {}}, "returned a result for 'lod'"),
        (lambda results: {"load": results["no"]}, "raised KeyError"),
    ],
)
@pytest.mark.parametrize("answered", [False, True])
def test_results_that_can_not_be_used_stop_the_resume_before_it_is_claimed(
    store: hf.Store, change: Any, why: str, answered: bool
) -> None:
    @workflow("typed", migrate=hf.Migrations(2, {1: change}))
    async def new() -> int:
        return (await load(7))["n"] + int(await ask("Well?", returns=int))

    with hf.Engine(store) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(typed_1(), run_id="r")
        if answered:
            engine.answer_sync("r", 1)
        before = [entry.digest for entry in store.read("r")]
        (looked,) = engine.dry_run_sync(new)
        assert not looked.ok
        with pytest.raises(hf.FlowChangedError, match=why):
            engine.resume_sync("r", flow=new)
        assert [entry.digest for entry in store.read("r")] == before


def test_a_dry_run_finds_what_a_resume_would_raise_without_migrations(store: hf.Store) -> None:
    calls = Calls()

    async def main() -> list[hf.DryRun]:
        engine = hf.Engine(store)
        await stop_at(engine.stream(flow_of(calls, "a", "b")(), run_id="r"), StepStarted, "b")
        same = [one async for one in engine.dry_run(flow_of(calls, "a", "b", "c"))]
        other = [one async for one in engine.dry_run(flow_of(calls, "x", "b"))]
        return same + other

    same, other = asyncio.run(main())
    assert same.ok
    assert same.changes == ()
    assert "recorded next is 'a', the flow asks for 'x'" in str(other.error)
    assert calls.order == ["a"]


def test_the_tasks_of_a_durable_coroutine_get_migrated_results_in_their_order(
    store: hf.Store,
) -> None:
    order: list[str] = []

    def flow(word: str, end: bool, **options: Any) -> Workflow[..., Any]:
        @workflow("agents", **options)
        async def agents() -> list[str]:
            async def agent(name: str) -> str:
                got = await step(f"{word}_{name}").python(lambda: f"{word} {name}")
                order.append(got)
                return got

            async def both() -> list[str]:
                return list(await asyncio.gather(agent("x"), agent("y")))

            done = await hf.durable(both())
            return [*done, str(await ask("Well?", returns=bool))] if end else done

        return agents

    def renamed(results: dict[str, Any]) -> dict[str, Any]:
        return {key.replace("think", "plan"): value for key, value in results.items()}

    with hf.Engine(store) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(flow("think", True)(), run_id="r")
        first, order[:] = list(order), []
        engine.answer_sync("r", True)
        new = flow("plan", True, migrate=hf.Migrations(2, {1: renamed}))
        assert engine.resume_sync("r", flow=new) == ["think x", "think y", "True"]
        assert order[-2:] == first


_OLD = """
    import os, signal
    import holdfast as hf
    from holdfast.workflow import step, workflow

    @workflow("order")
    def order(price: float):
        yield step("pay").python(lambda: {"paid": price})
        yield step("pack").python(os.kill, args=(os.getpid(), signal.SIGKILL))

    hf.Engine("sqlite:///runs.db").run_sync(order(1.5), run_id="r")
"""
_NEW = """
    import os, signal
    import holdfast as hf
    from holdfast.workflow import step, workflow

    orders = hf.Migrations(version=2)

    @orders.state(from_version=1)
    def in_cents(results):
        print("migrated", flush=True)
        return {"charge": {"cents": round(100 * results["pay"]["paid"])}}

    @orders.inputs(from_version=1)
    def cents(inputs):
        return {"cents": round(100 * inputs["price"])}

    def ship(cents):
        if os.environ.get("DIE"):
            os.kill(os.getpid(), signal.SIGKILL)
        return cents

    @workflow("order", migrate=orders)
    def order(cents: int):
        paid = yield step("charge").python(lambda: print("charged again", flush=True))
        yield step("label").python(lambda: print("label", flush=True))
        return (yield step("ship").python(ship, args=(paid["cents"],)))

    print(hf.Engine("sqlite:///runs.db").run_sync(order(150), run_id="r", resume=True))
"""


def test_a_killed_process_is_resumed_by_one_with_newer_code_that_is_killed_too(
    tmp_path: Path,
) -> None:
    def run(program: str, **env: str) -> tuple[int, list[str]]:
        done = forks.run(
            *("-W", "error", "-c", textwrap.dedent(program)),
            env={**os.environ, **env},
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        return done.returncode, [line for line in done.stdout.split("\n") if line]

    assert run(_OLD)[0] == -9
    killed, said = run(_NEW, DIE="1")
    assert (killed, said[-1]) == (-9, "label")
    code, said = run(_NEW)
    assert (code, set(said[:-1]), said[-1]) == (0, {"migrated"}, "150")
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        versions = [c.flow_version for c in cp.list_checkpoints("r", oldest_first=True)]
        assert versions == ["1", "2", "2"], "each result has the version that recorded it"
        assert cp.verify("r").ok


def test_a_migrated_workflow_may_await_other_things_between_its_steps(store: hf.Store) -> None:
    """What it asks for after that is not known before: no result may count as unused yet."""

    def flow(first: str, **options: Any) -> Workflow[..., Any]:
        @workflow("waits", **options)
        async def waits() -> str:
            one = await step(first).python(lambda: "one")
            await asyncio.sleep(0)
            two = await step("b").python(lambda: "two")
            return f"{one} {two} {await ask('Well?', returns=str)}"

        return waits

    with hf.Engine(store) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(flow("a")(), run_id="r")
        engine.answer_sync("r", "three")
        new = flow("A", migrate=hf.Migrations(2, {1: lambda old: {"A": old["a"], "b": old["b"]}}))
        (looked,) = engine.dry_run_sync(new)
        assert looked.ok
        assert engine.resume_sync("r", flow=new) == "one two three"


def test_a_worker_leaves_a_run_alone_that_it_can_not_migrate_and_says_why(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"

    @workflow("job")
    async def old() -> int:
        return int(await step("a").python(lambda: 1)) + int(await ask("Well?", returns=int))

    def newer(migrations: hf.Migrations) -> Workflow[..., Any]:
        @workflow("job", migrate=migrations)
        async def new() -> int:
            return int(await step("b").python(lambda: 2)) + int(await ask("Well?", returns=int))

        return new

    told: list[hf.WorkerEvent] = []
    with hf.Engine(store) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(old(), run_id="r")
        engine.answer_sync("r", 10)
    broken = hf.Migrations(2, {1: lambda results: {"b": results["x"]}})
    with hf.Engine(store, flows=[newer(broken)]) as engine:
        engine.work_sync(until_idle=True, listener=told.append)
        assert [event.event for event in told] == ["refused"]
        assert "r@1 can't be migrated" in told[0].detail
    with hf.SyncCheckpointer(store) as cp:
        assert cp.store.read("r")[-1].kind == "answer", "nothing was claimed"
    good = hf.Migrations(2, {1: lambda results: {"b": results["a"]}})
    with hf.Engine(store, flows=[newer(good)]) as engine:
        assert engine.work_sync(until_idle=True) == 1
        assert engine.outcome_sync("r") == 11
    with (
        hf.SyncCheckpointer(store) as cp,
        pytest.raises(hf.MigrationError, match="Give the migrations to the workflow"),
    ):
        cp.load("r", migrate=good)
