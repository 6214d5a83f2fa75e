"""A step that a crash cut off before it recorded anything: what a page calls it, and offers."""

from __future__ import annotations

import shlex
import signal
import sys
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from holdfast.cli.main import holdfast
from tests.waiting import run_process

DIES = """
import os, signal, sys
import holdfast as hf
from holdfast.workflow import step, workflow

@step
def measure() -> int:
    return 1

@step
def write() -> None:
    os.kill(os.getpid(), signal.SIGKILL)

@workflow
async def report(measures: bool) -> None:
    if measures:
        await measure()
    await write()

hf.Engine("runs.db").run_sync(report(sys.argv[1] == "measured"), run_id="brest-1")
"""


@pytest.mark.parametrize(
    ("what", "name"), [("measured", "step after measure"), ("nothing", "first step")]
)
def test_a_step_that_was_cut_off_is_named_by_the_one_before_it(
    client: TestClient, tmp_path: Path, what: str, name: str
) -> None:
    command = [sys.executable, "-c", DIES, what]
    done = run_process(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert name in client.get("/runs/brest-1").text
    found = client.get("/runs/brest-1/problem", follow_redirects=True)
    panel = found.text.partition('id="drawer"')[2]
    assert f'<b class="m">{name}</b>' in panel
    assert "Cut off: it had recorded nothing yet." in panel
    shown = unescape(panel.rpartition('data-copy="')[2].partition('"')[0])
    assert shown.startswith("holdfast show brest-1 --store=")
    said = CliRunner().invoke(holdfast, shlex.split(shown)[1:])
    assert said.exit_code == 0
    assert "orphaned" in said.output
