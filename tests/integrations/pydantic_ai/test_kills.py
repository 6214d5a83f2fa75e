"""Agents in real processes, really killed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.testing._processes import in_a_process
from tests.effort import EFFORT
from tests.integrations.pydantic_ai import program
from tests.integrations.pydantic_ai.scripted import Log
from tests.waiting import ENOUGH

EVERY_CALL = [
    "model 1", "weather Brest", "weather Oslo", "tide Brest", "model 2", "weather Rome", "model 3",
]  # fmt: skip


class Ended(NamedTuple):
    """How a process ended, and what it said."""

    code: int
    output: str


def run(directory: Path, *deadly: str) -> Ended:
    """The program in a process of its own, made by fork(): it imports nothing anew."""
    output = directory / "output"
    output.unlink(missing_ok=True)
    given = (f"sqlite:///{directory}/runs.db", str(directory / "log"), *deadly)
    return Ended(in_a_process(lambda: program.main(*given), output, ENOUGH), output.read_text())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("undisturbed")
    done = run(directory)
    assert done.code == 0, done.output
    assert sorted(Log(directory / "log").take()) == sorted(EVERY_CALL)
    return done.output.partition("\n")[0]


@pytest.mark.parametrize("deadly", ["tide Brest", "model 2"] if EFFORT > 1 else ["tide Brest"])
def test_a_killed_agent_continues_without_repeating_a_finished_call(
    tmp_path: Path, undisturbed: str, deadly: str
) -> None:
    """Killed in its second model request; and among tool calls that are made at once."""
    killed = run(tmp_path, deadly)
    assert killed.code == -9, killed.output
    log = Log(tmp_path / "log")
    before = log.take()
    assert sorted(before) == sorted(EVERY_CALL[: EVERY_CALL.index(deadly)])
    resumed = run(tmp_path)
    assert resumed.code == 0, resumed.output
    assert log.take() == EVERY_CALL[EVERY_CALL.index(deadly) :]
    assert resumed.output.partition("\n")[0] == undisturbed
