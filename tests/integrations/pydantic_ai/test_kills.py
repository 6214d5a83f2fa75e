"""Agents in real processes, really killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import EFFORT
from tests.integrations.pydantic_ai.scripted import Log
from tests.waiting import run_process

EVERY_CALL = [
    "model 1", "weather Brest", "weather Oslo", "tide Brest", "model 2", "weather Rome", "model 3",
]  # fmt: skip


def run(directory: Path, *deadly: str) -> subprocess.CompletedProcess[str]:
    directory.mkdir(exist_ok=True)
    program = "tests.integrations.pydantic_ai.program"
    command = [sys.executable, "-m", program, f"sqlite:///{directory}/runs.db"]
    return run_process(
        [*command, str(directory / "log"), *deadly], check=False, capture_output=True
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("undisturbed")
    done = run(directory)
    assert done.returncode == 0, done.stderr
    assert sorted(Log(directory / "log").take()) == sorted(EVERY_CALL)
    return done.stdout


@pytest.mark.parametrize("deadly", ["tide Brest", "model 2"] if EFFORT > 1 else ["tide Brest"])
def test_a_killed_agent_continues_without_repeating_a_finished_call(
    tmp_path: Path, undisturbed: str, deadly: str
) -> None:
    """Killed in its second model request; and among tool calls that are made at once."""
    killed = run(tmp_path, deadly)
    assert killed.returncode == -9, killed.stderr
    log = Log(tmp_path / "log")
    before = log.take()
    assert sorted(before) == sorted(EVERY_CALL[: EVERY_CALL.index(deadly)])
    resumed = run(tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert log.take() == EVERY_CALL[EVERY_CALL.index(deadly) :]
    assert resumed.stdout == undisturbed
