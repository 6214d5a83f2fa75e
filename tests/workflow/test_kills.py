"""Real processes, really killed. `tests/crash` does it a thousand times over."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import textwrap
from pathlib import Path

import pytest

import holdfast as hf
from tests import forks

_FLOW = """
    import os, signal
    from pathlib import Path
    import holdfast as hf
    from holdfast.workflow import for_each, step, workflow

    log, deadly = Path(os.environ["LOG"]), os.environ.get("DEADLY")

    def note(line):
        with log.open("a") as file:
            file.write(line + "\\n")

    def work(name):
        if name == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        note(name)
        return name

    def undo(name):
        work("undo " + name)

    @workflow("flow")
    def flow():
        yield step("a").python(work, args=("a",)).with_rollback(undo)
        yield for_each(["i0", "i1", "i2"], work, concurrency=1)
        yield step("b").python(work, args=("b",)).with_rollback(undo)
        if os.environ.get("FAIL"):
            yield step("fail").python(int, args=("x",))
        return "done"

    def go():
        return hf.Engine(os.environ["URL"]).run_sync(flow(), run_id="r", resume=True)
"""


def run(tmp_path: Path, url: str, **env: str) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "flow.py"
    program.write_text(textwrap.dedent(_FLOW) + "\nprint(go())\n")
    return forks.run(
        *("-W", "error", str(program)),
        env={**os.environ, "LOG": str(tmp_path / "log"), "URL": url, **env},
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("deadly", ["a", "i1", "b"])
def test_a_killed_process_is_resumed_by_the_next(
    tmp_path: Path, kept_url: str, deadly: str
) -> None:
    killed = run(tmp_path, kept_url, DEADLY=deadly)
    assert killed.returncode == -signal.SIGKILL
    done = run(tmp_path, kept_url)
    assert done.stdout.strip() == "done", done.stderr
    assert (tmp_path / "log").read_text().split() == ["a", "i0", "i1", "i2", "b"]


def test_a_process_killed_while_undoing_is_resumed_by_the_next(
    tmp_path: Path, kept_url: str
) -> None:
    killed = run(tmp_path, kept_url, FAIL="1", DEADLY="undo a")
    assert killed.returncode == -signal.SIGKILL
    failed = run(tmp_path, kept_url, FAIL="1")
    assert "StepFailedError: step 'fail' failed" in failed.stderr
    assert (tmp_path / "log").read_text().splitlines()[-2:] == ["undo b", "undo a"]
    again = run(tmp_path, kept_url, FAIL="1")
    assert "RunFinishedError" in again.stderr

    async def status() -> hf.Status:
        async with hf.Engine(kept_url) as engine:
            return await engine.status("r")

    assert asyncio.run(status()) == hf.Status.FAILED
