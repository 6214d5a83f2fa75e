"""An agent that was killed continues where it was, in another process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast as hf
from tests.effort import EFFORT
from tests.integrations.langgraph import killed
from tests.waiting import run_process


def run(url: str, log: Path, where: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", killed.__name__, url, str(log), where]
    return run_process(command, check=False, capture_output=True)


@pytest.mark.parametrize("where", ["plan", "slow", "end"] if EFFORT > 1 else ["slow"])
def test_a_killed_agent_repeats_only_the_node_that_it_was_killed_in(
    where: str, tmp_path: Path
) -> None:
    url, log = f"sqlite:///{tmp_path}/agents.db", tmp_path / "log"
    assert run(url, log, where).returncode == -signal.SIGKILL
    done = run(url, log, "nowhere")
    assert done.stdout.strip() == "plan,quick,slow,end"
    executed = log.read_text().split()
    assert sorted(executed) == sorted(["plan", "quick", "slow", "end", where])
    with hf.SyncCheckpointer(url) as cp:
        assert cp.verify("t").ok
