"""Many processes start, resume and recover the same runs at the same instant."""

from __future__ import annotations

from typing import Any

import pytest

from tests.crash.holders.flows import comes_to
from tests.crash.holders.hosts import DEAD_AFTER, World
from tests.crash.holders.journals import statuses
from tests.crash.holders.oracle import executions
from tests.effort import EFFORT
from tests.waiting import PATIENCE

NEVER = 10 * PATIENCE  # for those that nobody kills, on a machine that may not let them beat
CLAIMANTS = ("here", "there") * (2 if EFFORT == 1 else 4)
EVERY_STEP = ("one", "two", "three")
RUNS = 20 if EFFORT == 1 else 50
MANY = [pytest.param("sqlite", RUNS, id="sqlite"), pytest.param("postgres", RUNS, id="postgres")]
FEW = [pytest.param("mysql", 10, id="mysql"), pytest.param("redis", 10, id="redis")]
on_every_store = pytest.mark.parametrize(("kind", "count"), [*MANY, *FEW], indirect=["kind"])
on_two_stores = pytest.mark.parametrize(("kind", "count"), MANY, indirect=["kind"])


def orphan(world: World, runs: list[str], flow: str = "chain") -> None:
    """Have a process begin these runs, and kill it in step two of each."""
    inputs = {run: [7] for run in runs}
    worker = world.start("execute", hang=["two"], args={"flow": flow, "runs": inputs})
    world.notes.wait_for("begin", len(runs), step="two")
    worker.kill()


def check_each_step_was_executed_once(world: World, count: int) -> None:
    """Step two began a second time, for the process that was killed in it. Nothing else did."""
    found = executions(world.notes.read(), DEAD_AFTER)
    assert found.violations == [], world.report()
    times = found.times()
    assert len(times) == count * len(EVERY_STEP)
    wrong = {key: n for key, n in times.items() if n != (2 if key[1] == "two" else 1)}
    assert wrong == {}
    assert set(statuses(world.url).values()) == {"completed"}


def outcomes(world: World) -> dict[str, list[Any]]:
    """How the calls for each run ended; those of the killed process did not."""
    return {
        run: sorted(line["how"] for line in lines) for run, lines in world.notes.outcomes().items()
    }


@on_every_store
def test_processes_that_recover_at_once_execute_every_orphan_once(world: World, count: int) -> None:
    runs = [f"r{i}" for i in range(count)]
    orphan(world, runs)
    world.at_once("recover", CLAIMANTS, dead_after=NEVER)
    assert outcomes(world) == {run: ["completed"] for run in runs}
    check_each_step_was_executed_once(world, count)


@on_every_store
def test_processes_that_run_the_same_ids_at_once_all_return_the_one_result(
    world: World, count: int
) -> None:
    runs = [f"r{i}" for i in range(count)]
    orphan(world, runs)
    args = {"flow": "chain", "runs": {run: [7] for run in runs}, "resume": True}
    world.at_once("execute", CLAIMANTS, dead_after=NEVER, args=args)
    assert outcomes(world) == {run: ["completed"] * len(CLAIMANTS) for run in runs}
    results = {line["value"] for line in world.notes.find("outcome")}
    assert results == {comes_to("chain", 7)}
    check_each_step_was_executed_once(world, count)


@on_two_stores
def test_of_processes_that_resume_the_same_ids_at_once_one_executes_each(
    world: World, count: int
) -> None:
    """The others are told that it is being executed, or is over."""
    runs = [f"r{i}" for i in range(count)]
    orphan(world, runs)
    world.at_once("resume", CLAIMANTS, dead_after=NEVER, args={"runs": runs})
    came = outcomes(world)
    assert sorted(came) == sorted(runs)
    assert all(how.count("completed") == 1 for how in came.values()), came
    others = {how for each in came.values() for how in each} - {"completed"}
    assert others <= {"RunActiveError", "RunFinishedError"}
    check_each_step_was_executed_once(world, count)


@on_two_stores
def test_pipeline_threads_that_many_resume_at_once_are_executed_once(
    world: World, count: int
) -> None:
    ids = [f"t{i}" for i in range(count)]
    worker = world.start("threads", hang=["two"], args={"ids": ids, "value": 7})
    world.notes.wait_for("begin", count, step="two")
    worker.kill()
    world.at_once("threads", CLAIMANTS, dead_after=NEVER, args={"ids": ids, "value": 7})
    assert outcomes(world) == {one: ["completed"] * len(CLAIMANTS) for one in ids}
    check_each_step_was_executed_once(world, count)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
def test_pipeline_threads_that_many_start_at_once_have_one_run_each(world: World) -> None:
    ids = [f"t{i}" for i in range(20)]
    world.at_once("threads", CLAIMANTS, dead_after=NEVER, args={"ids": ids, "value": 7})
    assert outcomes(world) == {one: ["completed"] * len(CLAIMANTS) for one in ids}
    found = executions(world.notes.read(), NEVER)
    assert found.violations == []
    assert len(found.times()) == 20 * len(EVERY_STEP)
    assert found.repeated == {}
    assert len(statuses(world.url)) == 20


@pytest.mark.parametrize(
    ("kind", "flow"),
    [
        ("sqlite", "chain"),
        ("sqlite", "graph"),
        ("sqlite", "pipe"),
        ("sqlite", "family"),
        ("postgres", "family"),
    ],
    indirect=["kind"],
)
def test_processes_that_start_the_same_new_runs_at_once_execute_each_once(
    world: World, flow: str
) -> None:
    args = {"flow": flow, "runs": {f"r{i}": [i] for i in range(10)}, "resume": True}
    world.at_once("execute", CLAIMANTS, dead_after=NEVER, args=args)
    assert outcomes(world) == {f"r{i}": ["completed"] * len(CLAIMANTS) for i in range(10)}
    found = executions(world.notes.read(), NEVER)
    assert found.violations == []
    assert found.repeated == {}
    assert set(statuses(world.url).values()) == {"completed"}


@pytest.mark.parametrize("entrance", ["recover", "execute"])
def test_processes_of_foreign_hosts_wait_until_the_holder_is_dead_and_one_continues(
    world: World, entrance: str
) -> None:
    """None of them can ask the holder's host: only its beats tell."""
    runs = [f"r{i}" for i in range(20)]
    orphan(world, runs)
    args: dict[str, Any] = {}
    if entrance == "execute":
        args = {"flow": "chain", "runs": {run: [7] for run in runs}, "resume": True}
    world.at_once(entrance, ("there", "yonder", "container", "there"), args=args)
    check_each_step_was_executed_once(world, len(runs))
