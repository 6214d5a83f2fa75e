"""kill -9 at random times, through workflows and graphs: no finished step runs again, none is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Survived
from tests.crash.engine_harness import STOPS, carry_out
from tests.crash.harness import CYCLES, ForkServer, first_seed, fork_server


@pytest.fixture
def server() -> ForkServer:
    return fork_server("tests.crash.engine_worker")


@pytest.mark.parametrize(
    ("flow", "kind", "share", "end"),
    [
        ("everything", "sqlite", 0.3, "completed"),
        ("everything", "file", 0.1, "completed"),
        ("doomed", "sqlite", 0.25, "failed"),
        ("doomed", "file", 0.1, "failed"),
        ("crowd", "sqlite", 0.25, "completed"),
        ("crowd", "file", 0.1, "completed"),
        ("trip", "sqlite", 0.15, "completed"),
        ("trip", "file", 0.1, "completed"),
    ],
)
def test_no_kill_repeats_or_loses_a_finished_step(
    flow: str,
    kind: str,
    share: float,
    end: str,
    tmp_path: Path,
    server: ForkServer,
    survived: Survived,
) -> None:
    seed, kills, runs = first_seed(), 0, 0
    errors = (*STOPS, "StepFailedError") if end == "failed" else STOPS
    while kills < CYCLES * share or kills <= runs:  # more than one on average, before it ends
        outcome = carry_out(
            server, kind, tmp_path / str(seed), flow, seed=seed, ends=(end,), errors=errors
        )
        assert not outcome.violations, f"HOLDFAST_SEED={seed}\n{outcome}"
        kills, runs, seed = kills + outcome.kills, runs + 1, seed + 1
    survived("kills", kills)
