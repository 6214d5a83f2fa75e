"""A run that a living process executes is not taken without `take_over`, however long it takes."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.graph import END, CompiledGraph, Graph
from tests.crash.history import read_history
from tests.crash.holders import flows, oracle
from tests.crash.holders.hosts import DEAD_AFTER, World, stand_by
from tests.crash.holders.journals import slots, statuses
from tests.crash.holders.oracle import executions
from tests.waiting import ENOUGH, PATIENCE, in_time

EVERYWHERE = ("here", "there", "container")
NEVER = 10 * PATIENCE  # a `dead_after` that no test waits for


def check_executed_once(world: World) -> None:
    found = executions(world.notes.read(), DEAD_AFTER)
    assert found.violations == [], world.report()
    assert found.repeated == {}
    assert set(statuses(world.url).values()) == {"completed"}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("flow", ["chain", "family"])
def test_a_step_three_times_as_long_as_dead_after_is_not_executed_elsewhere(
    world: World, tmp_path: Path, flow: str
) -> None:
    """By nobody: of its host, of another one, of a container; whatever they call. The parent of a
    child that takes as long is not, either."""
    args: dict[str, Any] = {"flow": flow, "runs": {"r": [1]}}
    over = tmp_path / "over"
    holder = world.start("execute", until={"two": str(over)}, args=args)
    begun = world.notes.wait_for("begin", step="two")
    waiting = [world.start("execute", host, args={**args, "resume": True}) for host in EVERYWHERE]
    refused = [world.start("resume", host, args={"runs": ["r"]}) for host in EVERYWHERE]
    hurried = {**args, "resume": True, "wait": False}
    refused += [world.start("execute", host, args=hurried) for host in EVERYWHERE]
    recovering = [world.start("recover", host) for host in EVERYWHERE]
    for worker in (*refused, *recovering):
        worker.done()
    stand_by(begun, 3 * DEAD_AFTER)
    over.touch()
    for worker in (holder, *waiting):
        worker.done()
    for worker in refused:
        assert [line["how"] for line in world.notes.outcomes(worker.name)["r"]] == [
            "RunActiveError"
        ]
    assert [line["runs"] for line in world.notes.find("recovered")] == [[]] * len(recovering)
    for worker in (holder, *waiting):
        (outcome,) = world.notes.outcomes(worker.name)["r"]
        assert (outcome["how"], outcome["value"]) == ("completed", flows.comes_to(flow, 1))
    check_executed_once(world)


def test_what_the_holder_begins_while_its_run_is_taken_over_may_be_begun_again(
    world: World, tmp_path: Path
) -> None:
    """Also after another task of the process that takes it over was refused."""
    one, claim = tmp_path / "one", tmp_path / "claim"
    args = {"flow": "chain", "runs": {"r": [1]}}
    world.start("execute", dead_after=NEVER, until={"one": str(one)}, hang=["two"], args=args)
    world.notes.wait_for("begin", step="one")
    taker = world.start("take_over_beside", "there", args={"run": "r", "until": str(claim)})
    world.notes.wait_for("outcome", how="RunActiveError", who=taker.name)
    one.touch()
    world.notes.wait_for("begin", step="two")
    claim.touch()
    taker.done()
    found = executions(world.notes.read(), NEVER)
    assert found.violations == [], world.report()
    assert found.times("two") == {("r", "two"): 2}


def test_recover_of_a_foreign_host_that_does_not_wait_takes_nothing(world: World) -> None:
    args = {"flow": "chain", "runs": {"r": [1]}}
    holder = world.start("execute", hang=["two"], dead_after=NEVER, args=args)
    world.notes.wait_for("begin", step="two")
    for kill in (False, True):  # even a dead one: nobody there can know that yet
        if kill:
            holder.kill()
        with in_time():
            world.start("recover", "there", dead_after=NEVER, args={"wait": False}).done()
    assert [line["runs"] for line in world.notes.find("recovered")] == [[], []]


def test_other_engines_of_the_same_process_do_not_take_a_live_run(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    oracle.write_to(tmp_path / "notes", "test")

    async def main() -> None:
        released = asyncio.Event()
        entered = asyncio.Event()

        async def wait_in_two(state: flows.State) -> flows.State:
            if hf.current_step().step == "two":
                entered.set()
                await released.wait()
            return await flows.visit(state)

        app = make_app(wait_in_two)
        async with (
            hf.Engine(url, flows=[app], dead_after=NEVER) as first,
            hf.Engine(url, flows=[app], dead_after=NEVER) as second,
        ):
            run = await first.start(app(flows.State(1)), run_id="r")
            await entered.wait()
            with pytest.raises(hf.RunActiveError):
                await second.resume("r")
            with pytest.raises(hf.RunActiveError):
                await asyncio.to_thread(second.resume_sync, "r")
            with pytest.raises(hf.RunActiveError):
                await app.resume("r", store=url)
            with pytest.raises(hf.RunActiveError):
                await app.run(flows.State(1), store=url, run_id="r", resume=True, wait=False)
            with pytest.raises(hf.RunActiveError):
                await second.run(app(flows.State(1)), run_id="r", resume=True, wait=False)
            assert await second.recover() == {}
            assert await app.recover(store=url) == {}
            waits = asyncio.create_task(
                second.run(app(flows.State(1)), run_id="r", resume=True), name="waits"
            )
            await asyncio.sleep(0)
            released.set()
            assert await waits == await run
        assert len(slots(url)) == 1, "a process has one slot in a store"

    with in_time():
        asyncio.run(main())
    found = executions(read_history(tmp_path / "notes"), DEAD_AFTER)
    assert found.repeated == {}


def make_app(visit: Any) -> CompiledGraph[flows.State]:
    graph = Graph(flows.State, name="app").add_node("one", visit).add_node("two", visit)
    return graph.add_edge("one", "two").add_edge("two", END).set_entry("one").compile()


def test_a_live_run_of_more_than_ten_thousand_entries_is_not_taken(world: World) -> None:
    args: dict[str, Any] = {"flow": "endless", "runs": {"r": [10_100]}}
    holder = world.start(
        "execute", hang=["last"], dead_after=NEVER, args={**args, "durability": "async"}
    )
    world.notes.wait_for("begin", step="last")
    for host in ("here", "there"):
        with in_time(ENOUGH):  # it reads all of them
            world.start("resume", host, dead_after=NEVER, args={"runs": ["r"]}).done()
    assert [line["how"] for line in world.notes.find("outcome")] == ["RunActiveError"] * 2
    holder.kill()
    with in_time(ENOUGH):  # it reads all of them
        world.start("recover", dead_after=NEVER).done()
    assert world.notes.find("recovered")[0]["runs"] == ["r"]


def test_a_run_is_not_confused_with_the_run_of_that_name_in_another_store(
    world: World, tmp_path: Path
) -> None:
    """A process that executes run `r` of one store may take over the orphan `r` of another."""
    other = f"sqlite:///{tmp_path}/other.db"
    args: dict[str, Any] = {"flow": "chain", "runs": {"r": [1]}}
    dead = world.start("execute", hang=["two"], url=other, args=args)
    world.notes.wait_for("begin", step="two")
    dead.kill()
    job = {"flow": "family", "runs": {"r": [1]}, "other": other}
    both = world.start("execute_and_recover", hang=["before"], dead_after=NEVER, args=job)
    with in_time():
        line = world.notes.wait_for("recovered", who=both.name)
    assert line["runs"] == ["r"]
    assert statuses(other) == {"r": "completed"}
    assert statuses(world.url) == {"r": "running"}


@pytest.mark.parametrize("how", ["fork", "multiprocessing"])
def test_a_forked_child_of_the_holder_neither_continues_nor_blocks_its_run(
    world: World, how: str
) -> None:
    args = {"run": "r", "how": how}
    holder = world.start("fork_in_step", hang=["two"], dead_after=NEVER, args=args)
    in_fork = world.notes.wait_for("in fork")
    assert (in_fork["resumed"], in_fork["recovered"]) == ("RunActiveError", [])
    world.start("resume", dead_after=NEVER, args={"runs": ["r"]}).done()
    assert world.notes.outcomes()["r"][0]["how"] == "RunActiveError", "its holder is alive"
    holder.kill()  # the child stays
    with in_time():
        world.start("resume", dead_after=NEVER, args={"runs": ["r"]}).done()
    assert world.notes.outcomes()["r"][1]["how"] == "completed"
    os.kill(in_fork["pid"], signal.SIGKILL)
    found = executions(world.notes.read(), NEVER)
    assert found.violations == [], world.report()
