"""Whatever happens to processes that share a store, one living process executes a run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.schedule import failures_in, many, simulate

SCHEDULES = int(os.environ.get("HOLDFAST_SCHEDULES", "300"))
PARTS = 4  # which run side by side


@pytest.mark.parametrize("part", range(PARTS))
def test_no_step_is_executed_by_two_and_every_run_ends(part: int) -> None:
    failures = failures_in(range(part, SCHEDULES, PARTS))
    assert not failures, f"{len(failures)} schedules fail, the first with\n{failures[0]}"


def test_a_schedule_follows_from_its_seed_alone() -> None:
    """So that a failure can be looked at again, also in a process with other hashes."""
    with many():
        traces = ["\n".join(simulate(11, trace=True).trace) for _ in range(2)]
    again = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "11", "--trace"],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert traces[0] == traces[1]
    assert again.stdout.startswith(traces[0])
