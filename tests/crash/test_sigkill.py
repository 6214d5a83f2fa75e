"""kill -9 at random times: nothing acknowledged is lost, nothing is torn, nothing comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Survived
from tests.crash.harness import CYCLES, first_seed, fork_server, kill_cycles

ROUND = 10  # cycles on one store


@pytest.mark.parametrize(("kind", "share"), [("sqlite", 2 / 3), ("file", 1 / 3)])
def test_no_kill_loses_an_acknowledged_save(
    kind: str, share: float, tmp_path: Path, survived: Survived
) -> None:
    cycles = round(CYCLES * share)
    seed = first_seed()
    done = acks = 0
    server = fork_server()
    while done < cycles or acks <= 2 * cycles:  # kills of what did nothing prove little
        outcome = kill_cycles(
            server,
            kind,
            tmp_path / str(seed),
            cycles=max(1, min(ROUND, cycles - done)),
            seed=seed,
        )
        listed = "\n".join(map(str, outcome.violations))
        assert not outcome.violations, f"HOLDFAST_SEED={seed}, cycle {outcome.cycles}:\n{listed}"
        done += outcome.cycles
        acks += outcome.acks
        seed += 1
    survived("kills", done)
