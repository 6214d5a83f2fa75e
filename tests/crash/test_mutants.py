"""The checker is checked: whoever makes a known mistake is caught, whoever has bad luck is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Survived
from tests.crash.harness import first_seed, fork_server, kill_cycles
from tests.crash.power import lose_power

CYCLES = 400  # at the most; the rarest mistake takes 40 on average
ONE_RUN: dict[str, Any] = {"runs": ["run-a"], "lanes": 4, "only": ["save"]}
RIVALS: dict[str, Any] = ONE_RUN | {"workers": 2, "mode": "async"}


@pytest.mark.parametrize(
    ("mutant", "job", "caught"),
    [
        ("AcknowledgesBeforeCommit", ONE_RUN, {"I1"}),
        ("FiresAndForgets", ONE_RUN, {"I1"}),
        ("SwallowsErrors", ONE_RUN, {"I1", "I3"}),
        ("TakesTheHighestSeqPlusOne", RIVALS, {"I1", "I2", "I3"}),
        ("ReplacesByStepName", ONE_RUN, {"I1", "I3"}),
        ("LatestByTime", ONE_RUN, {"I1", "I2", "I3"}),
        ("FreesSeqsWhenCleared", {"only": ["save", "save", "clear"]}, {"I2", "I3"}),
        ("RetriesWithoutLooking", ONE_RUN, {"I4"}),
        ("GoesOnAfterAConflict", RIVALS, {"I3"}),
    ],
)
def test_a_kill_brings_the_mistake_to_light(
    mutant: str, job: dict[str, Any], caught: set[str], tmp_path: Path, survived: Survived
) -> None:
    server = fork_server()
    outcome = kill_cycles(
        server, "sqlite", tmp_path / "store", cycles=CYCLES, seed=first_seed(), mutant=mutant,
        **job,
    )  # fmt: skip
    found = {violation.invariant for violation in outcome.violations}
    assert found & caught, f"seed {outcome.seed}: {list(map(str, outcome.violations))}"
    survived("mistakes", 1)


@pytest.mark.parametrize("unlucky", ["Unreliable", "LosesReplies", "ClockThatStepsBack"])
def test_bad_luck_is_no_mistake(unlucky: str, tmp_path: Path) -> None:
    server = fork_server()
    outcome = kill_cycles(
        server, "sqlite", tmp_path / "store", cycles=10, seed=first_seed(), mutant=unlucky
    )
    assert not outcome.violations, f"seed {outcome.seed}: {list(map(str, outcome.violations))}"


@pytest.mark.parametrize("mutant", ["NoSync", "NoDirectorySync"])
def test_a_power_loss_brings_the_missing_sync_to_light(
    mutant: str, tmp_path: Path, survived: Survived
) -> None:
    found = lose_power(
        "file", tmp_path, seed=first_seed(), states=60, in_order=True, only=["save"], mutant=mutant
    )
    assert "I1" in {violation.invariant for violation in found}
    survived("mistakes", 1)
