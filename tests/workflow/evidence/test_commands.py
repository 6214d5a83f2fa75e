"""Commands as steps, whose exit code is evidence."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

import holdfast as hf
from holdfast.events import StepCompleted
from holdfast.evidence import (
    CommandResult,
)
from holdfast.workflow import command, step, workflow
from tests.engine.desk import Desk
from tests.workflow.evidence.support import (
    by_run,
)
from tests.workflow.support import Flow, stop_at


def test_a_command_is_a_step_whose_exit_code_is_evidence(engine: hf.Engine, desk: Desk) -> None:
    program = f"print('made'); open({str(desk / 'report')!r}, 'a').write('x')"

    @workflow("builds")
    def flow() -> Flow:
        result = yield command(
            [sys.executable, "-c", program], name="make", outputs=desk / "report"
        )
        return (yield step("b").python(lambda: result.stdout.strip()))

    async def main() -> CommandResult:
        event = await stop_at(engine.stream(flow(), run_id="r"), StepCompleted, "make")
        assert isinstance(event.value, CommandResult)
        return event.value

    assert asyncio.run(main()).exit_code == 0
    assert by_run(engine, flow) == "made"
    assert (desk / "report").read_text() == "x", "it was not run again"
    (desk / "report").unlink()
    assert by_run(engine, flow) == "made"
    assert (desk / "report").read_text() == "x"


def test_a_command_with_another_exit_code_fails_its_step(memory: hf.Engine) -> None:
    @workflow("builds")
    def flow(code: int, fine: list[int] | None = None) -> Flow:
        program = f"import sys; print('oh no', file=sys.stderr); sys.exit({code})"
        result = yield command([sys.executable, "-c", program], exit_codes=fine or [0])
        return result.exit_code

    with pytest.raises(hf.StepFailedError, match="oh no"):
        memory.run_sync(flow(code=3))
    call = flow(code=3, fine=[0, 3])
    assert memory.run_sync(call, run_id="r") == 3
    assert memory.run_sync(call, run_id="r", resume=True) == 3, "3 is what was expected"


def test_a_command_says_whether_all_that_it_wrote_is_kept(memory: hf.Engine) -> None:
    @workflow("says")
    def flow() -> Flow:
        says = [sys.executable, "-c", "print('first'); print('last')"]
        whole = yield command(says)
        end = yield command(says, tail=8)
        return [(found.stdout, found.truncated) for found in (whole, end)]

    assert by_run(memory, flow) == [("first\nlast\n", False), ("last\n", True)]


def test_a_command_that_failed_is_tried_again(memory: hf.Engine, desk: Desk) -> None:
    program = f"import os, sys; p = {str(desk / 'x')!r}; sys.exit(os.mkdir(p) or 1 if not os.path.exists(p) else 0)"

    @workflow("builds")
    def flow() -> Flow:
        result = yield command([sys.executable, "-c", program]).retry(2, backoff=0.001)
        return result.exit_code

    assert by_run(memory, flow) == 0


def test_a_command_that_is_not_a_list_of_strings_is_refused() -> None:
    wrong: Any
    for wrong in ("make report", [], b"make"):
        with pytest.raises(TypeError, match="list of words"):
            command(wrong)
