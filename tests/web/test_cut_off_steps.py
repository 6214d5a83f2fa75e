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
import asyncio, os, signal, sqlite3, sys
import holdfast as hf
from holdfast.workflow import parallel, step, workflow

@step
def measure() -> int:
    return 1

@step
async def slow() -> None:
    while not recorded():
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

def recorded() -> bool:
    with sqlite3.connect("file:runs.db?mode=ro", uri=True) as db:
        return "measure" in "".join(db.iterdump())

@step
def write() -> None:
    os.kill(os.getpid(), signal.SIGKILL)

@workflow
async def report(what: str) -> None:
    if what == "both":
        await parallel(slow(), measure())
    if what == "measured":
        await measure()
    await write()

hf.Engine("runs.db").run_sync(report(sys.argv[1]), run_id="brest-1")
"""


@pytest.mark.parametrize(
    ("what", "before"),
    [
        ("measured", "the last step recorded before that is measure"),
        ("both", "the last step recorded before that is measure"),
        ("nothing", "no step was recorded before that"),
    ],
)
def test_a_step_that_was_cut_off_is_told_by_what_was_recorded_before(
    client: TestClient, tmp_path: Path, what: str, before: str
) -> None:
    name = "a step that had recorded nothing yet"
    command = [sys.executable, "-c", DIES, what]
    done = run_process(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert name in client.get("/runs/brest-1").text
    found = client.get("/runs/brest-1/problem", follow_redirects=True)
    panel = found.text.partition('id="drawer"')[2]
    assert f'<b class="m">{name}</b>' in panel
    assert f"Cut off: {before}." in panel
    shown = unescape(panel.rpartition('data-copy="')[2].partition('"')[0])
    assert shown.startswith("holdfast show brest-1 --store=")
    said = CliRunner().invoke(holdfast, shlex.split(shown)[1:])
    assert said.exit_code == 0
    assert "orphaned" in said.output
    assert f"cut off  {name}\n" in said.output
