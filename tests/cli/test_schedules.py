"""The recipes for cron and systemd in the guide to workers: their commands are run."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import holdfast as hf
from tests import forks
from tests.test_docs import ROOT, blocks
from tests.waiting import bounded, run_process, wait_until

PLACE = "/srv/jobs"
"""Where the guide has the jobs."""


TODAY = "2026-11-16"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the jobs, with all files of the guide, as they would be installed there.

    No day ends while a test runs.
    """
    date = tmp_path / "bin/date"
    date.parent.mkdir()
    date.write_text(f'#!/bin/sh\ntest "$1" = +%F && echo {TODAY}\n')
    date.chmod(0o755)
    monkeypatch.setenv("PATH", f"{date.parent}:{os.environ['PATH']}")
    for block in blocks((ROOT / "docs/operate/workers.md").read_text()):
        if block.mark is not None and block.mark[0] == "file":
            (tmp_path / block.mark[1]).write_text(block.text.replace(PLACE, str(tmp_path)))
    program = tmp_path / ".venv/bin/holdfast"
    program.parent.mkdir(parents=True)
    forks.program(program, "-m", "holdfast")
    return tmp_path


def runs(place: Path) -> list[hf.RunInfo]:
    with hf.SyncCheckpointer(place / "runs.db") as cp:
        return cp.runs()


def from_cron(file: Path) -> tuple[str, dict[str, str]]:
    """The command of the one line with a schedule, as cron gives it to a shell, and its variables."""
    *settings, line = file.read_text().splitlines()
    _, command = line.split(" jobs ", 1)
    assert not re.search(r"(?<!\\)%", command), "a newline, to cron"
    return command.replace(r"\%", "%"), dict(one.split("=", 1) for one in settings)


def from_unit(file: Path) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """The command of a service, as systemd executes it, its environment, and all its settings."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[method-assign, assignment]
    unit.read_string(file.read_text())
    service = dict(unit["Service"])
    command = service["ExecStart"]
    assert not re.search(r"(?<!%)%(?!%)", command), "a specifier, to systemd"
    words = shlex.split(command.replace("%%", "%"))
    name, _, value = service["Environment"].partition("=")
    return [word.replace("$$", "$") for word in words], {name: value}, service


def test_a_cron_line_that_is_run_twice_makes_one_run(place: Path) -> None:
    command, settings = from_cron(place / "digest.cron")
    printed = [
        run_process(
            ["/bin/sh", "-c", command], env=os.environ | settings, capture_output=True, check=True
        ).stdout
        for _ in range(2)
    ]
    (run,) = runs(place)
    assert run.run_id == f"digest-{TODAY}"
    assert printed == [
        f"{run.run_id} submitted\n",
        f"{run.run_id} exists already (submitted); nothing was changed\n",
    ]


def test_a_timer_that_starts_its_service_twice_makes_one_run(place: Path) -> None:
    command, settings, service = from_unit(place / "digest.service")
    assert service["WorkingDirectory"] == str(place)
    for _ in range(2):
        run_process(command, cwd=place, env=os.environ | settings, capture_output=True, check=True)
    (run,) = runs(place)
    assert run.run_id == f"digest-{TODAY}"


def test_the_service_of_a_worker_executes_the_run_and_drains_in_time(place: Path) -> None:
    command, settings, service = from_unit(place / "holdfast-worker.service")
    minutes = re.fullmatch(r"(\d+)m", command[command.index("--drain") + 1])
    assert minutes is not None
    assert int(service["TimeoutStopSec"]) > 60 * int(minutes[1])
    environment = os.environ | settings
    with subprocess.Popen(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        assert json.loads(worker.stdout.readline())["event"] == "working"
        submit, more, _ = from_unit(place / "digest.service")
        run_process(submit, cwd=place, env=os.environ | more, capture_output=True, check=True)
        wait_until(lambda: [run.status for run in runs(place)] == ["completed"])
        worker.send_signal(getattr(signal, service["KillSignal"]))
        with bounded(worker):
            assert worker.wait() == 0
        assert json.loads(worker.stdout.read().splitlines()[-1])["event"] == "stopped"


def test_systemd_accepts_the_units(place: Path) -> None:
    units = ("digest.timer", "digest.service", "holdfast-worker.service")
    assert objections(place, *units) == []
    service = (place / "digest.service").read_text()
    (place / "broken.service").write_text(service.replace("ExecStart=/", "ExecStart=./"))
    assert objections(place, "broken.service"), "it objects to what is wrong"


def objections(place: Path, *units: str) -> list[str]:
    """What systemd says about these unit files."""
    analyze = shutil.which("systemd-analyze")
    assert analyze is not None, "the tests need systemd-analyze: sudo apt-get install systemd"
    done = run_process(
        [analyze, "verify", "--man=no", *(f"./{unit}" for unit in units)],
        cwd=place, capture_output=True, check=False,
    )  # fmt: skip
    return [line for line in done.stderr.splitlines() if any(unit in line for unit in units)]
