"""Runs that were asked to cancel while nobody executed them, and have steps to undo."""

from __future__ import annotations

import shlex

import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from tests.cli.conftest import Cli


@pytest.fixture
def cancelled(cli: Cli, cp: hf.SyncCheckpointer) -> str:
    """What `holdfast cancel` printed for a run that asks and has reserved a room."""
    assert cli("run", "jobs:trip", "--run-id", "trip").code == Exit.PAUSED
    assert cli("questions", "--json").lines[0]["run_id"] == "trip"
    done = cli("cancel", "trip", "--by", "ann")
    assert done.code == 0
    return done.out


def test_who_cancels_a_paused_run_is_told_what_undoes_its_steps(cli: Cli, cancelled: str) -> None:
    asked, why, command, *_ = cancelled.splitlines()
    assert asked == "trip was asked to cancel, and is paused"
    assert why == "to undo its steps, continue it with:"
    assert command.strip() == "holdfast resume trip --flow=MODULE:NAME"
    done = cli(*shlex.split(command.replace("MODULE:NAME", "jobs:trip"))[1:])
    assert "undoing reserve" in done.err
    assert cli("runs", "--json").lines[0]["status"] == "cancelled"


def test_show_says_that_a_run_is_to_cancel_and_how(cli: Cli, cancelled: str) -> None:
    shown = cli("show", "trip").out
    assert "it was asked to cancel; to undo its steps, continue it with:\n" in shown
    assert "holdfast resume trip" in shown
    assert "holdfast answer" not in shown


def test_a_run_that_is_to_cancel_asks_nothing(cli: Cli, cancelled: str) -> None:
    cli("run", "jobs:color", "--run-id", "other")
    assert [one["run_id"] for one in cli("questions", "--json").lines] == ["other"]
    assert [one["run_id"] for one in cli("questions", "--limit", "1", "--json").lines] == ["other"]
    of_run = cli("questions", "trip").out
    assert of_run == "no open questions\nwhat it asked is void: the run was asked to cancel\n"


def test_an_answer_to_a_run_that_is_to_cancel_is_refused(
    cli: Cli, cp: hf.SyncCheckpointer, cancelled: str
) -> None:
    before = len(cp.timeline("trip"))
    done = cli("answer", "trip", "--with", "yes")
    assert done.code == Exit.REFUSED
    assert "run 'trip' was asked to cancel: its questions are void" in done.err
    assert len(cp.timeline("trip")) == before


def test_the_question_of_a_cancelled_child_run_is_not_offered(cli: Cli) -> None:
    cli("run", "jobs:journey", "--run-id", "j")
    (asked,) = cli("questions", "--json").lines
    assert asked["run_id"].startswith("j//")
    cli("cancel", "j")
    assert cli("questions").out == "no open questions\n"
    assert cli("answer", asked["run_id"], "--with", "yes").code == Exit.REFUSED
    assert "it was asked to cancel;" in cli("show", "j").out


def test_a_submitted_run_that_is_to_cancel_is_for_workers(cli: Cli) -> None:
    cli("submit", "jobs:trip", "--run-id", "trip")
    cli("worker", "--flow", "jobs:trip", "--until-idle")
    told = cli("cancel", "trip").out
    assert "a worker is to undo its steps, and none is alive; start one:" in told
    cli("worker", "--flow", "jobs:trip", "--until-idle")
    assert cli("runs", "--json").lines[0]["status"] == "cancelled"


def test_a_run_that_is_to_cancel_stays_so_when_somebody_pauses_it(cli: Cli, cancelled: str) -> None:
    assert cli("pause", "trip").code == 0
    assert cli("questions").out == "no open questions\n"
    assert cli("answer", "trip", "--with", "yes").code == Exit.REFUSED
    assert "it was asked to cancel;" in cli("show", "trip").out
    cli("resume", "trip", "--flow", "jobs:trip")
    assert cli("runs", "--json").lines[0]["status"] == "cancelled"


def test_a_run_that_was_rolled_back_and_is_to_cancel_says_so(cli: Cli) -> None:
    cli("run", "jobs:trip", "--run-id", "trip")
    cli("rollback", "trip", "1")
    assert "holdfast resume trip" in cli("cancel", "trip").out
    assert "it was asked to cancel; to undo its steps, continue it with:" in cli("show", "trip").out
    cli("resume", "trip", "--flow", "jobs:trip")
    assert cli("runs", "--json").lines[0]["status"] == "cancelled"


def test_a_run_that_is_to_cancel_and_was_answered_in_part_asks_nothing(cli: Cli) -> None:
    cli("run", "jobs:trips", "--run-id", "two")
    assert cli("answer", "two", "--question", "first", "--with", "yes").code == 0
    assert len(cli("questions", "--json").lines) == 1
    cli("cancel", "two")
    assert cli("questions").out == "no open questions\n"
    assert cli("questions", "--limit", "1").out == "no open questions\n"
    assert cli("answer", "two", "--with", "yes").code == Exit.REFUSED
    assert "it was asked to cancel;" in cli("show", "two").out
