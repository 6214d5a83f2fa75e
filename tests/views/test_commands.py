"""Commands that are shown can be pasted into a shell, whatever an id holds."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.views.commands import Commands, led_by, meaning
from tests.waiting import run_process

ENVIRONMENT = {
    **os.environ,
    "LC_ALL": "C.UTF-8",
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
}
IDS = (
    *(
        "plain",
        "a b",
        "it's",
        '"',
        "$(id)",
        "`id`",
        "a;b",
        "-h",
        "--store=x",
        "*",
        "~",
        "a\\b",
        "#",
    ),
    *("ünïcode", "\u202eright", "no\u00a0break", "\u200b", "\U000e0001", "\\U0000202e'\u2028"),
)


@pytest.mark.parametrize("name", IDS, ids=ascii)
def test_a_shell_reads_the_id_that_is_meant(name: str) -> None:
    line = Commands("runs.db").line("show", name, "--at", "1")
    assert line.isprintable()
    script = f'holdfast() {{ printf "%s\\0" "$@"; }}; {line}'
    done = run_process(
        ["bash", "-c", script],
        capture_output=True,
        check=True,
        env=ENVIRONMENT,
    )
    words = done.stdout.split("\0")[:-1]
    assert words[0] == "show"
    assert words[-1 if name.startswith("-") else 1] == name


def test_a_command_runs_as_it_is_shown(tmp_path: Path) -> None:
    store = str(tmp_path / "my runs.db")
    with hf.SyncCheckpointer(store) as cp:
        cp.save("--a 'b'\u202e", {"n": 1})
    done = run_process(
        ["bash", "-c", Commands(store).line("show", "--a 'b'\u202e", "--json")],
        capture_output=True,
        check=True,
        env=ENVIRONMENT,
    )
    assert json.loads(done.stdout)["state"] == {"n": 1}


def test_no_command_ends_with_a_comment_which_an_interactive_zsh_does_not_know() -> None:
    commands = Commands("runs.db")
    resume = commands.resume("r")
    assert "#" not in resume
    note = meaning(resume, "nightly")
    assert note == "MODULE:NAME is the module and name of flow 'nightly'"
    assert led_by("Continue it with:", resume, note) == f"Continue it with ({note}): {resume}"


def test_no_command_shows_a_password() -> None:
    line = Commands("postgresql://ann:hunter2@db/runs").line("show", "r")
    assert line == "holdfast show r '--store=postgresql://ann:***@db/runs'"


@pytest.mark.parametrize(
    "store",
    [
        "runs.db",
        "./runs.db",
        "journals/",
        "sqlite:///runs.db",
        "SQLITE:///runs.db",
        "sqlite:///runs.db?survives=process-crash",
    ],
)
def test_a_command_for_everywhere_names_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    here = tmp_path / "a 100% dir"
    (here / "journals").mkdir(parents=True)
    monkeypatch.chdir(here)
    with hf.SyncCheckpointer(store) as cp:
        cp.save("r", {"n": 1})
    command = Commands(store).anywhere().line("show", "r", "--json")
    done = run_process(
        ["bash", "-c", command], cwd="/", capture_output=True, check=False, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == {"n": 1}


def test_a_command_for_everywhere_names_key_files_and_no_other_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = ("--key-file=keys.json", "--key-store=sqlite:///k.db", "--trusted=/etc/ann.pub")
    line = Commands("postgresql://db/runs", keys).anywhere().line("runs")
    assert line == (
        f"holdfast runs --store=postgresql://db/runs --key-file={tmp_path}/keys.json "
        f"--key-store=sqlite:///{tmp_path}/k.db --trusted=/etc/ann.pub"
    )
