"""An agent that was killed continues where it was, in another process."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.testing._processes import in_a_process
from tests.effort import EFFORT
from tests.integrations.langgraph import killed
from tests.waiting import ENOUGH


@pytest.mark.parametrize("where", ["plan", "slow", "end"] if EFFORT > 1 else ["slow"])
def test_a_killed_agent_repeats_only_the_node_that_it_was_killed_in(
    where: str, tmp_path: Path
) -> None:
    url, log = f"sqlite:///{tmp_path}/agents.db", tmp_path / "log"
    output = tmp_path / "output"

    def run(where: str) -> int:
        """In a process of its own, made by fork(): it imports nothing anew."""
        return in_a_process(lambda: killed.main(url, str(log), where), output, ENOUGH)

    assert run(where) == -signal.SIGKILL
    assert run("nowhere") == 0, output.read_text()
    assert output.read_text().strip() == "plan,quick,slow,end"
    executed = log.read_text().split()
    assert sorted(executed) == sorted(["plan", "quick", "slow", "end", where])
    with hf.SyncCheckpointer(url) as cp:
        assert cp.verify("t").ok
