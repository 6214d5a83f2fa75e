"""Parents and their child runs: killed, taken over, asked, cancelled, undone."""

from __future__ import annotations

import random
from typing import Any

import pytest

from holdfast.model import Kind
from tests.crash.harness import first_seed
from tests.crash.history import Line
from tests.crash.holders.flows import comes_to
from tests.crash.holders.hosts import DEAD_AFTER, Worker, World
from tests.crash.holders.journals import failures, journals, statuses
from tests.crash.holders.oracle import executions
from tests.effort import examples, some
from tests.waiting import PATIENCE, in_time

NEVER = 10 * PATIENCE


def check(world: World, *ends: str) -> None:
    found = executions(world.notes.read(), DEAD_AFTER)
    assert found.violations == [], world.report()
    assert set(statuses(world.url).values()) == set(ends)


@pytest.mark.parametrize("entrance", ["recover", "execute"])
@pytest.mark.parametrize("step", ["before", "one", "three", "after"])
def test_a_parent_killed_with_its_child_is_completed_by_the_next(
    world: World, step: str, entrance: str
) -> None:
    args: dict[str, Any] = {"flow": "family", "runs": {"r": [1]}}
    worker = world.start("execute", hang=[step], dead_after=NEVER, args=args)
    world.notes.wait_for("begin", step=step)
    worker.kill()
    with in_time():
        again = {**args, "resume": True} if entrance == "execute" else {}
        world.start(entrance, dead_after=NEVER, args=again).done()
    assert world.notes.outcomes()["r"][0]["value"] == comes_to("family", 1)
    check(world, "completed")


@pytest.mark.parametrize("host", ["here", "there"])
@pytest.mark.parametrize("how", ["answered", "overdue"])
def test_a_question_in_a_child_is_answered_or_overdue_and_recover_continues_the_parent(
    world: World, how: str, host: str
) -> None:
    seconds = 3600.0 if how == "answered" else 0.01
    world.start("execute", args={"flow": "asking_family", "runs": {"r": [5, seconds]}}).done()
    assert world.notes.outcomes()["r"][0]["how"] == "RunPausedError"
    if how == "answered":
        world.start("answer", host, args={"run": "r//kid", "value": 5}).done()
    world.start("recover", host).done()
    assert world.notes.find("recovered")[0]["runs"] == ["r"]
    assert world.notes.find("outcome", run="r")[1]["value"] == comes_to("asking_family", 5)
    check(world, "completed")


def test_a_child_asked_and_answered_while_its_parents_process_is_dead_is_continued(
    world: World,
) -> None:
    args = {"flow": "asking_family", "runs": {"r": [5, 3600.0]}}
    worker = world.start("execute_then_hang", args=args)
    world.notes.wait_for("outcome", run="r")
    worker.kill()
    world.start("answer", args={"run": "r//kid", "value": 5}).done()
    with in_time():
        world.start("recover", dead_after=NEVER).done()
    assert world.notes.find("recovered")[0]["runs"] == ["r"]
    check(world, "completed")


@pytest.mark.parametrize("host", ["here", "there"])
def test_cancelling_a_parent_stops_its_child_at_the_next_step(world: World, host: str) -> None:
    args = {"flow": "patient", "runs": {"r": [60]}}
    worker = world.start("execute", slow={"walk": 0.05}, args=args)
    world.notes.wait_for("begin", 3, run="r//kid")
    world.start("cancel", host, args={"run": "r"}).done()
    worker.done()
    assert world.notes.outcomes()["r"][0]["how"] == "RunCancelledError"
    cancelled = world.notes.find("cancelled")[0]["at"]
    late = [line for line in world.notes.find("begin", run="r//kid") if line["at"] > cancelled]
    assert len(late) <= 1, "it walks on"
    undone = world.notes.find("begin", step="undo/book")
    assert len(undone) == 1
    check(world, "cancelled")


def test_a_parent_cancelled_while_its_process_is_dead_is_undone_once(world: World) -> None:
    args: dict[str, Any] = {"flow": "patient", "runs": {"r": [60]}}
    worker = world.start("execute", hang=["walk"], dead_after=NEVER, args=args)
    world.notes.wait_for("begin", step="walk")
    worker.kill()
    world.start("cancel", "there", args={"run": "r"}).done()
    world.at_once("recover", ("here", "here", "there"))
    assert len(world.notes.find("begin", step="undo/book")) == 1
    assert len(world.notes.find("begin", run="r//kid")) == 1
    check(world, "cancelled")


@pytest.mark.parametrize("host", ["here", "there"])
def test_a_rollback_whose_process_is_killed_is_finished_by_one_other(
    world: World, host: str
) -> None:
    args = {"flow": "doomed", "runs": {"r": [1]}}
    worker = world.start("execute", hang=["pay"], args=args)
    world.notes.wait_for("begin", step="pay")
    worker.kill()
    worker = world.start("execute", hang=["book"], args={**args, "resume": True})
    world.notes.wait_for("begin", step="undo/book")  # what is named after it hangs, too
    worker.kill()
    world.at_once("recover", (host, host, host))
    times = executions(world.notes.read(), DEAD_AFTER).times()
    assert (times["r", "undo/pay"], times["r", "undo/book"]) == (1, 2)
    assert (times["r", "doom"], times["r//kid", "one"]) == (1, 1)
    assert statuses(world.url) == {"r": "failed", "r//kid": "completed"}


COMMITS = range(2, 14)
"""Those of `family`; at some of them the old worker is about to open a child or to end it."""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
def test_taking_over_while_the_old_worker_is_about_to_open_a_child_fails_nothing(
    world: World, kind: str
) -> None:
    """The old one stands still before each of its commits; then it finds that it lost the run."""
    taken, late = 0, list[Line]()
    chosen = some(COMMITS, 3, first_seed())
    for nth in chosen:
        run = f"r{nth}"
        args: dict[str, Any] = {"flow": "family", "run": run, "inputs": [1]}
        old = world.start("execute_to_commit", dead_after=NEVER, args={**args, "nth": nth})
        world.notes.wait_for("stopping", who=old.name)
        old.wait_until_stopped()
        again = {"flow": "family", "runs": {run: [1]}, "resume": True, "take_over": True}
        new = world.start("execute", "there", dead_after=NEVER, args=again)
        new.done()
        assert world.notes.outcomes(new.name)[run][0]["value"] == comes_to("family", 1)
        old.go_on()
        old.done()
        how = world.notes.outcomes(old.name)[run][0]["how"]
        assert how in ("LeaseLostError", "completed"), f"{how} at commit {nth}"
        taken += how == "LeaseLostError"
        # A child that was open beside may begin one step: nothing tells it before it records that.
        since = _steps_since(world, old)
        assert len([line for line in since if line["what"] == "begin"]) <= 1, f"at commit {nth}"
        late += since
    # How many commits there are depends on what is saved together: the last may be the run's end.
    assert taken >= len(chosen) - 1
    assert failures(world.url) == {}
    judged = [line for line in world.notes.read() if line not in late]
    assert executions(judged, DEAD_AFTER).violations == []
    assert set(statuses(world.url).values()) == {"completed"}


def _steps_since(world: World, old: Worker) -> list[Line]:
    """What steps noted since it goes on."""
    continued = world.notes.find("continued", who=old.name)[0]["at"]
    noted = [line for what in ("begin", "end", "raised") for line in world.notes.find(what)]
    return [line for line in noted if line["who"] == old.name and line["at"] > continued]


def test_taking_over_while_a_child_ends_with_a_failure_does_not_change_the_failure(
    world: World,
) -> None:
    """Whoever finds the child over at the last moment learns what it failed with, or tries again."""
    for n in range(examples(8)):
        args: dict[str, Any] = {"flow": "tolerant", "runs": {f"r{n}": [1]}}
        gate = world.gate()
        slow = {"book": random.uniform(0, 0.1)}
        old = world.start("execute", slow=slow, dead_after=NEVER, args=args)
        taking = {**args, "resume": True, "take_over": True}
        new = world.start("execute", gate=str(gate.path), dead_after=NEVER, args=taking)
        world.notes.wait_for("ready", who=new.name)
        world.notes.wait_for("begin", run=f"r{n}//kid", step="undo/book")
        gate.open()
        for worker in (old, new):
            worker.done()
    ends = world.notes.find("outcome")
    assert {line["how"] for line in ends} <= {"completed", "LeaseLostError"}
    told = {line["value"] for line in ends if line["how"] == "completed"}
    assert len(told) == 1, told
    assert "as planned" in told.pop()


def test_two_who_take_a_parent_over_at_once_open_each_child_once(world: World) -> None:
    runs = {f"r{i}": [i] for i in range(5)}
    args: dict[str, Any] = {"flow": "family", "runs": runs}
    worker = world.start("execute", hang=["before"], dead_after=NEVER, args=args)
    world.notes.wait_for("begin", 5, step="before")
    again = {**args, "resume": True, "take_over": True}
    world.at_once("execute", ("here", "there", "here"), args=again)
    worker.kill()
    ends = {line["how"] for line in world.notes.find("outcome")}
    assert ends <= {"completed", "LeaseLostError", "RunActiveError"}
    world.start("recover").done()  # where the last one lost to one that lost
    found = journals(world.url)
    assert {journal.status for journal in found.values()} == {"completed"}
    for run in runs:
        assert len(found[f"{run}//kid"].of(Kind.OPEN)) == 1
    assert failures(world.url) == {}
