"""Commands whose standard streams are closed, as some cron jobs and daemons start them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from tests.cli.conftest import Cli
from tests.waiting import run_process

CLOSED = [">&-", ">&- 2>&- <&-"]


def closed(streams: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, without these streams."""
    command = [sys.executable, "-m", "holdfast", *arguments]
    script = f'"$@" {streams}'
    return run_process(["bash", "-c", script, "bash", *command], capture_output=True, check=False)


@pytest.mark.parametrize("streams", CLOSED)
def test_commands_that_only_look_work_without_standard_output(
    plain: hf.SyncCheckpointer, streams: str
) -> None:
    for arguments in (
        ["runs"],
        ["runs", "--json"],
        ["show", "plain-run"],
        ["show", "plain-run", "--json"],
        ["doctor"],
        ["verify", "plain-run"],
        ["stats"],
        ["questions"],
        ["--help"],
    ):
        done = closed(streams, *arguments)
        assert (done.returncode, done.stderr) == (0, ""), arguments


@pytest.mark.parametrize("streams", CLOSED)
def test_what_is_recorded_without_standard_output_is_there(
    cli: Cli, cp: hf.SyncCheckpointer, streams: str
) -> None:
    assert closed(streams, "submit", "jobs:review", "-i", "what=x", "--run-id", "r").returncode == 0
    assert cp.run("r").status == "submitted"  # type: ignore[union-attr]
    worked = closed(streams, "worker", "--flow", "jobs:review", "--until-idle")
    assert worked.returncode == 0, worked.stderr
    answer = '{"approved": true, "amount": 1}'
    done = closed(streams, "answer", "r", "--with", answer, "--by", "ann")
    assert done.returncode == 0, done.stderr
    assert closed(streams, "resume", "r", "--flow", "jobs:review").returncode == 0
    assert cp.run("r").status == "completed"  # type: ignore[union-attr]
    assert closed(streams, "export", "r", "--to", "r.jsonl").returncode == 0
    imported = cli("import", "r.jsonl", "--store", "other.db")
    assert imported.code == 0, imported.err


def test_an_error_is_told_though_standard_output_is_closed(cli: Cli) -> None:
    done = closed(">&-", "show", "nobody")
    assert done.returncode == Exit.NOT_FOUND
    assert done.stderr.startswith("Error: ")
