"""A step that may crash so often is given up after kills, not after take-overs and releases."""

from __future__ import annotations

import pytest

from tests.crash.holders.hosts import World
from tests.crash.holders.journals import statuses
from tests.crash.holders.oracle import executions
from tests.waiting import PATIENCE, in_time

NEVER = 10 * PATIENCE
ARGS = {"flow": "fragile", "runs": {"r": [1]}, "resume": True}


def finish(world: World) -> str:
    """Execute the run to its end, on another host; returns how it ended."""
    with in_time():
        world.start("execute", dead_after=NEVER, args=ARGS).done()
    return str(world.notes.outcomes()["r"][-1]["how"])


def test_kills_count_as_crashes(world: World) -> None:
    for _ in range(3):
        begun = len(world.notes.find("begin", step="two"))
        worker = world.start("execute", hang=["two"], dead_after=NEVER, args=ARGS)
        world.notes.wait_for("begin", begun + 1, step="two")
        worker.kill()
    assert finish(world) == "StepFailedError"
    assert statuses(world.url) == {"r": "failed"}


def test_take_overs_do_not_count_as_crashes(world: World) -> None:
    workers = []
    for n in range(4):
        taking = {**ARGS, "take_over": True} if n else ARGS
        host = ("here", "there")[n % 2]
        workers.append(world.start("execute", host, hang=["two"], dead_after=NEVER, args=taking))
        world.notes.wait_for("begin", n + 1, step="two")
    world.start("execute", dead_after=NEVER, args={**ARGS, "take_over": True}).done()
    assert world.notes.outcomes()["r"][-1]["how"] == "completed"
    for worker in workers:
        worker.kill()
    assert executions(world.notes.read(), NEVER).violations == []


@pytest.mark.parametrize("how", ["task", "stream", "ctrl-c"])
def test_runs_that_were_left_do_not_count_as_crashed_and_anyone_may_continue_them(
    world: World, how: str
) -> None:
    """At once, also from a foreign host: the process says that it stopped executing the run."""
    for n in range(4):
        host = ("here", "there")[n % 2]
        job = {"hang": ["two"], "dead_after": NEVER}
        args = {"run": "r", "inputs": [1]}
        if how == "ctrl-c":
            worker = world.start("interrupted", host, args=args, **job)
            world.notes.wait_for("begin", n + 1, step="two")
            worker.interrupt()
        else:
            worker = world.start("leave", host, args={**args, "how": how}, **job)
        with in_time():
            world.notes.wait_for("left", who=worker.name)
            worker.done()
    assert finish(world) == "completed"
    assert executions(world.notes.read(), NEVER).violations == []


@pytest.mark.parametrize("how", ["task", "stream"])
def test_a_run_that_was_left_is_continued_by_others_while_its_process_lives(
    world: World, how: str
) -> None:
    args = {"run": "r", "inputs": [1], "how": how, "stay": True}
    world.start("leave", "there", hang=["two"], dead_after=NEVER, args=args)
    world.notes.wait_for("left")
    assert finish(world) == "completed"
    assert executions(world.notes.read(), NEVER).violations == []
