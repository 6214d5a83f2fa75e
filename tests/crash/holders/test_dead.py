"""A dead process's runs are taken over; one that only stood still finds out that it lost them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.crash.holders.flows import comes_to
from tests.crash.holders.hosts import DEAD_AFTER, Worker, World
from tests.crash.holders.journals import journals, statuses
from tests.crash.holders.oracle import executions
from tests.waiting import PATIENCE, in_time

NEVER = 10 * PATIENCE
FOREIGN = ["there", "container"]


def begin(world: World, flow: str = "chain", step: str = "two", **job: Any) -> Worker:
    """A worker that hangs in a step of run `r`."""
    args = {"flow": flow, "runs": {"r": [1]}}
    worker = world.start("execute", hang=[step], args=args, **job)
    world.notes.wait_for("begin", step=step)
    return worker


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("host", ["here", "there", "container"])
def test_on_its_host_a_killed_process_is_known_to_be_dead_at_once(world: World, host: str) -> None:
    begin(world, host=host, dead_after=NEVER).kill()
    args = {"flow": "chain", "runs": {"r": [1]}, "resume": True}
    with in_time():
        world.start("execute", host, dead_after=NEVER, args=args).done()
    assert [line["how"] for line in world.notes.find("outcome")] == ["completed"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("entrance", ["execute", "recover"])
@pytest.mark.parametrize("host", FOREIGN)
def test_from_a_foreign_host_a_killed_process_is_taken_over_within_twice_dead_after(
    world: World, host: str, entrance: str
) -> None:
    holder = begin(world, dead_after=2 * DEAD_AFTER)
    if entrance == "execute":  # it waits already when the holder dies
        args = {"flow": "chain", "runs": {"r": [1]}, "resume": True}
        other = world.start("execute", host, dead_after=2 * DEAD_AFTER, args=args)
        world.notes.wait_for("calling", who=other.name)
        holder.kill()
    else:
        holder.kill()
        other = world.start("recover", host, dead_after=2 * DEAD_AFTER)
    (killed,) = world.notes.find("killing")
    other.done()
    again = world.notes.find("begin", step="two")[1]
    assert again["at"] - killed["at"] < 2 * (2 * DEAD_AFTER)
    assert statuses(world.url) == {"r": "completed"}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("flow", ["chain", "family"])
def test_a_process_that_stood_still_past_dead_after_has_lost_its_runs(
    world: World, flow: str
) -> None:
    """When it goes on, it ends the step that it is in, begins no other, and writes nothing."""
    args: dict[str, Any] = {"flow": flow, "runs": {"r": [1]}}
    old = world.start("execute", slow={"two": 1.0}, args=args)
    world.notes.wait_for("begin", step="two")
    old.stop_between_writes()
    new = world.start("execute", "there", args={**args, "resume": True})
    new.done()
    (outcome,) = world.notes.find("outcome", who=new.name)
    assert (outcome["how"], outcome["value"]) == ("completed", comes_to(flow, 1))
    before = journals(world.url)
    old.go_on()
    old.done()
    (outcome,) = world.notes.find("outcome", who=old.name)
    assert outcome["how"] == "LeaseLostError"
    continued = world.notes.find("continued")[0]["at"]
    begun = [line for line in world.notes.find("begin", who=old.name) if line["at"] > continued]
    assert begun == []
    assert journals(world.url) == before
    found = executions(world.notes.read(), DEAD_AFTER)
    assert found.violations == []
    assert len(found.repeated) == 1, "the step that it stood still in"


def test_a_process_that_stood_still_for_less_goes_on(world: World) -> None:
    args: dict[str, Any] = {"flow": "chain", "runs": {"r": [1]}}
    old = world.start("execute", slow={"two": 1.0}, dead_after=NEVER, args=args)
    world.notes.wait_for("begin", step="two")
    old.stop_between_writes()
    world.start("resume", "there", args={"runs": ["r"]}).done()
    assert world.notes.find("outcome")[0]["how"] == "RunActiveError"
    old.go_on()
    old.done()
    (outcome,) = world.notes.find("outcome", who=old.name)
    assert outcome["how"] == "completed"
    found = executions(world.notes.read(), DEAD_AFTER)
    assert (found.violations, found.repeated) == ([], {})


def test_on_its_own_host_a_process_that_stands_still_is_alive(world: World) -> None:
    """Whoever wants its runs all the same says so."""
    args: dict[str, Any] = {"flow": "chain", "runs": {"r": [1]}}
    old = world.start("execute", slow={"two": 0.2}, args=args)
    world.notes.wait_for("begin", step="two")
    old.stop_between_writes()
    world.start("recover").done()
    assert world.notes.find("recovered")[0]["runs"] == []
    world.start("resume", args={"runs": ["r"]}).done()
    assert world.notes.outcomes()["r"][0]["how"] == "RunActiveError"
    world.start("resume", args={"runs": ["r"], "take_over": True}).done()
    assert world.notes.outcomes()["r"][1]["how"] == "completed"
    old.go_on()
    old.done()
    assert world.notes.outcomes(old.name)["r"][0]["how"] == "LeaseLostError"


def test_figures_of_dead_after_are_those_of_the_holder(world: World) -> None:
    """One who is more impatient than the holder does not bury it."""
    begin(world, dead_after=NEVER)
    args = {"runs": ["r"], "wait": True, "timeout": 2.0}
    world.start("resume", "there", dead_after=1.0, args=args).done()
    assert [line["how"] for line in world.notes.find("outcome")] != ["completed"]
    assert len(world.notes.find("begin", step="two")) == 1
