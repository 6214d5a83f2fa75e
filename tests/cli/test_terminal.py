"""The program in a real terminal: color, forms, editors, bars, Ctrl-C, pipes, completion."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from tests import forks
from tests.cli.conftest import Cli
from tests.cli.test_framework import HOSTILE
from tests.waiting import run_process

Terminal = Callable[..., "pexpect.spawn[str]"]
ALONE = "holdfast-alone"
"""The program that is a process of the terminal, as all are outside of tests; it starts slowly."""


@pytest.fixture
def terminal(cli: Cli, tmp_path: Path) -> Terminal:
    """Starts `holdfast`, or another program, in a terminal of its own."""
    program = forks.program(tmp_path / "bin" / "holdfast", "-m", "holdfast")
    alone = program.with_name(ALONE)
    alone.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n')
    alone.chmod(0o755)
    usual = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NO_COLOR", "FORCE_COLOR", "EDITOR", "VISUAL")
    }
    path = f"{program.parent}:{os.environ['PATH']}"

    def spawn(*arguments: str, program: str = "holdfast", **environment: str) -> pexpect.spawn[str]:
        given = usual | {"PATH": path, "TERM": "xterm-256color"} | environment
        command = ["--default-signal=INT", program, *arguments]  # a shell's & has Ctrl-C ignored
        return pexpect.spawn(
            "env", command, env=given, encoding="utf-8", timeout=60, dimensions=(40, 120)
        )

    return spawn


def interrupted(child: pexpect.spawn[str]) -> tuple[int | None, str]:
    """Press Ctrl-C until the program ends.

    One that comes between the prompt and the read that follows is only noticed when the read ends:
    Python's `input` leaves a moment there.
    """
    shown = ""
    for _ in range(20):
        child.sendintr()
        over = child.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=3) == 0
        shown += child.before or ""
        if over:
            child.close()
            return child.exitstatus, shown.replace("\r\n", "\n")
    raise AssertionError(f"Ctrl-C does not end it: {shown}")


def finished(child: pexpect.spawn[str]) -> tuple[int | None, str]:
    child.expect(pexpect.EOF)
    child.close()
    assert child.before is not None
    return child.exitstatus, child.before.replace("\r\n", "\n")


def test_there_is_color_on_a_terminal_unless_it_is_not_wanted(
    terminal: Terminal, plain: hf.SyncCheckpointer
) -> None:
    code, shown = finished(terminal("runs"))
    assert code == 0
    assert "\x1b[34mopen" in shown
    assert "\x1b[32m+ log" in finished(terminal("diff", "plain", "1", "3"))[1]
    assert "\x1b[3" not in finished(terminal("runs", NO_COLOR="1"))[1]
    assert "\x1b" not in finished(terminal("runs", TERM="dumb"))[1]
    code, printed = finished(terminal("runs", "--json"))
    assert "\x1b" not in printed


def test_only_our_own_colors_reach_the_terminal(
    terminal: Terminal, cp: hf.SyncCheckpointer
) -> None:
    cp.save("run", {HOSTILE: [HOSTILE]}, step="s")
    cp.save("run", {HOSTILE: [HOSTILE, 1]}, step="s")
    for arguments in (["show", "run"], ["diff", "run", "1", "2"], ["show", "run", "--json"]):
        shown = finished(terminal(*arguments))[1]
        rest = re.sub(r"\x1b\[[0-9;]*m", "", shown)
        assert "\x1b" not in rest
        assert not {"\x07", "\x9b", "\u202e", "\x7f", "\b", "\r"} & set(rest)
        assert "owned" in rest


def test_an_answer_is_given_in_a_form(terminal: Terminal, cli: Cli) -> None:
    cli("run", "jobs:review", "-i", "what=report", "--run-id", "review")
    form = terminal("answer", "rev", "--by", "ann")
    form.expect_exact("publish report?")
    form.expect_exact("approved [y/n]:")
    form.sendline("maybe")
    form.expect_exact("approved [y/n]:")
    form.sendline("y")
    form.expect_exact("amount:")
    form.sendline("many")
    form.expect_exact("not a valid integer")
    form.expect_exact("amount:")
    form.sendline("3")
    form.expect_exact("note")
    form.sendline("fine by me")
    code, shown = finished(form)
    assert code == 0
    assert "holdfast resume review" in shown
    result = cli("resume", "review", "--flow", "jobs:review").json
    assert result == "report: Decision(approved=True, amount=3, note='fine by me')"


def test_ctrl_c_in_a_form_answers_nothing(terminal: Terminal, cli: Cli) -> None:
    cli("run", "jobs:review", "-i", "what=report", "--run-id", "review")
    form = terminal("answer", "review", program=ALONE)
    form.expect_exact("approved [y/n]:")
    code, shown = interrupted(form)
    assert code == Exit.INTERRUPTED
    assert "Traceback" not in shown
    assert len(cli("questions", "--json").lines) == 1


def test_a_state_is_edited_in_an_editor(
    terminal: Terminal, cli: Cli, plain: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i \'s/"n": 3/"n": 33/\' "$1"\n')
    editor.chmod(0o755)
    forked = terminal("fork", "plain", "--edit", "--run-id", "edited", EDITOR=str(editor))
    assert finished(forked)[0] == 0
    assert cli("show", "edited", "--json").json["state"] == {"n": 33, "log": ["a"] * 3, "same": "ü"}
    quits = terminal("fork", "plain", "--edit", "--run-id", "not-made", EDITOR="true")
    code, shown = finished(quits)
    assert code == Exit.FAILED
    assert "nothing was forked" in shown
    assert cli("show", "not-made").code == Exit.NOT_FOUND


def test_what_is_not_json_can_be_edited_again(
    terminal: Terminal, plain: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\necho '{' > \"$1\"\n")
    editor.chmod(0o755)
    child = terminal("fork", "plain", "--edit", EDITOR=str(editor))
    child.expect_exact("edit it again?")
    child.sendline("n")
    assert finished(child)[0] == Exit.FAILED


def test_long_work_has_a_bar_that_is_gone_at_the_end(
    terminal: Terminal, cp: hf.SyncCheckpointer
) -> None:
    cp.save_many({"run_id": f"run-{n}", "state": n} for n in range(50))
    code, shown = finished(terminal("verify", "--no-evidence"))
    assert code == 0
    assert "verifying" in shown
    assert "50/50" in shown
    assert shown.rstrip().endswith("50 runs: 50 ok")


def test_watching_breaks_long_lines_between_words(terminal: Terminal, cli: Cli) -> None:
    Path("gauges.py").write_text(
        "from holdfast.workflow import workflow\n"
        "@workflow('gauges')\n"
        "async def gauges():\n"
        "    raise ValueError('measurement ' * 20)\n"
    )
    assert cli("run", "gauges:gauges", "--run-id", "g").code == Exit.FAILED
    code, shown = finished(terminal("watch", "g", NO_COLOR="1"))
    assert code == Exit.FAILED
    assert shown.count("measurement") == 20
    lines = [line for line in shown.splitlines() if "measurement" in line]
    assert len(lines) > 1
    assert all(len(line) <= 120 for line in lines)
    assert all(line.startswith(" " * 16 + "measurement") for line in lines[1:])


def test_watching_ends_with_ctrl_c_and_does_nothing_to_the_run(
    terminal: Terminal, plain: hf.SyncCheckpointer
) -> None:
    child = terminal("watch", "plain", "--interval", "0.05")
    child.expect_exact("s3")
    plain.save("plain-run", 5, step="after-that")
    child.expect_exact("after-that")
    child.sendintr()
    code, shown = finished(child)
    assert code == 0
    assert "Traceback" not in shown
    info = plain.run("plain-run")
    assert info is not None
    assert info.step == "after-that"


def test_forgetting_asks_first(terminal: Terminal, plain: hf.SyncCheckpointer) -> None:
    child = terminal("forget", "--owner", "ann")
    child.expect_exact("Delete 1 run permanently?")
    child.sendline("n")
    assert finished(child)[0] == 1
    assert plain.run("plain-run") is not None
    child = terminal("forget", "--owner", "ann")
    child.expect_exact("Delete 1 run permanently?")
    child.sendline("y")
    assert finished(child)[0] == 0
    assert plain.run("plain-run") is None


def test_a_run_is_followed_on_a_terminal(terminal: Terminal) -> None:
    code, shown = finished(terminal("run", "jobs:etl", "-i", "day=x", "--run-id", "etl"))
    assert code == 0
    assert "✓ fetch" in shown
    assert "completed in" in shown


def test_a_pipe_that_is_closed_early_is_no_error(
    terminal: Terminal, cp: hf.SyncCheckpointer
) -> None:
    cp.save_many({"run_id": f"run-{n:05}" + "x" * 200, "state": n} for n in range(1500))
    command = f"'{sys.executable}' -m holdfast runs --json --limit 0 | head -n 1"
    done = run_process(["bash", "-c", command], capture_output=True, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_a_shell_completes_commands_and_run_ids(
    terminal: Terminal, plain: hf.SyncCheckpointer
) -> None:
    shell = terminal("--norc", "--noprofile", "-i", program="bash", PS1="$ ")
    shell.sendline('eval "$(holdfast completion bash)"; echo rea""dy')
    shell.expect_exact("ready")
    shell.send("holdfast quest\t")
    shell.expect_exact("questions ")
    shell.sendcontrol("u")
    shell.send("holdfast show pl\t")
    shell.expect_exact("plain-run")
    shell.sendcontrol("u")
    shell.sendline("exit")
    shell.expect(pexpect.EOF)
    shell.close()
