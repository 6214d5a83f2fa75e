"""With `hidepid`, a living process of another user can't be seen, and is not taken for dead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.crash.holders.hosts import DEAD_AFTER, World, stand_by
from tests.crash.holders.journals import statuses
from tests.crash.holders.oracle import executions
from tests.crash.holders.worker import NOBODY


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_living_process_of_another_user_that_hidepid_hides_keeps_its_runs(
    world: World, tmp_path: Path
) -> None:
    args: dict[str, Any] = {"flow": "chain", "runs": {"r": [1]}}
    over = tmp_path / "over"
    holder = world.start("execute", until={"two": str(over)}, args=args)
    begun = world.notes.wait_for("begin", step="two")
    refused = world.start("resume", "hiding", uid=NOBODY, args={"runs": ["r"]})
    recovers = world.start("recover", "hiding", uid=NOBODY)
    waits = world.start("execute", "hiding", uid=NOBODY, args={**args, "resume": True})
    for worker in (refused, recovers):
        worker.done()
    stand_by(begun, 1.5 * DEAD_AFTER)
    over.touch()
    for worker in (holder, waits):
        worker.done()
    assert world.notes.outcomes(refused.name)["r"][0]["how"] == "RunActiveError"
    assert world.notes.find("recovered")[0]["runs"] == []
    assert world.notes.outcomes(waits.name)["r"][0]["how"] == "completed"
    found = executions(world.notes.read(), DEAD_AFTER)
    assert (found.violations, found.repeated) == ([], {})


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_dead_process_of_another_user_is_taken_over_behind_hidepid(world: World) -> None:
    args: dict[str, Any] = {"flow": "chain", "runs": {"r": [1]}}
    holder = world.start("execute", hang=["two"], args=args)
    world.notes.wait_for("begin", step="two")
    holder.kill()
    world.start("recover", "hiding", uid=NOBODY).done()
    assert world.notes.find("recovered")[0]["runs"] == ["r"]
    assert statuses(world.url) == {"r": "completed"}
