"""fork, rollback."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from tests.cli.conftest import Cli


def test_a_rollback_makes_an_earlier_checkpoint_the_current_one(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    assert cli("rollback", "plain", "s1", "--json").json == {
        "run_id": "plain-run", "checkpoint_id": "plain-run@2", "step": "s1",
    }  # fmt: skip
    assert cli("show", "plain", "--json").json["state"]["n"] == 1
    assert cli("rollback", "plain", "4").code == 0, "what was left can be gone back to"
    assert cli("rollback", "plain", "77").code == Exit.NOT_FOUND


def test_the_checkpoint_is_named_in_the_same_ways_by_fork_and_rollback(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    for ways in (["plain-run", "s1"], ["plain-run", "--at", "s1"], ["plain-run@2"]):
        assert cli("fork", *ways, "--json").json["origin"] == "plain-run@2"
        assert cli("rollback", *ways, "--json").json["checkpoint_id"] == "plain-run@2"
        cli("rollback", "plain-run", "4")
    for command in ("fork", "rollback"):
        assert cli(command, "plain-run", "s1", "--at", "s2").code == Exit.USAGE


def test_a_fork_begins_with_the_state_or_an_edited_one(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    same = cli("fork", "plain", "--json").json
    assert same["origin"] == "plain-run@4"
    assert cli("diff", "plain", "4", same["checkpoint_id"], "--json").json["patch"] == []
    other = cli(
        "fork", "plain", "--at", "s2", "--run-id", "edited", "--set", "log.1=b", "--set", "n=7",
        "--set", "new=text",
    )  # fmt: skip
    assert other.code == 0
    state = cli("show", "edited", "--json").json["state"]
    assert state == {"n": 7, "log": ["a", "b"], "same": "ü", "new": "text"}
    assert cli("fork", "plain", "--run-id", "edited").code == Exit.REFUSED


@pytest.mark.parametrize("wrong", ["log.9=1", "no.where=1", "n.x=1", "nothing", "=1"])
def test_a_path_that_is_not_there_is_a_usage_error(
    cli: Cli, plain: hf.SyncCheckpointer, wrong: str
) -> None:
    before = len(plain.runs())
    assert cli("fork", "plain", "--set", wrong).code == Exit.USAGE
    assert len(plain.runs()) == before


@pytest.mark.parametrize("text", ["[9.0", '{"a": 1', '"it', "[1]]"])
def test_a_value_that_looks_like_json_but_is_not_valid_is_refused(
    cli: Cli, plain: hf.SyncCheckpointer, text: str
) -> None:
    refused = cli("fork", "plain", "--set", f"same={text}")
    assert refused.code == Exit.USAGE
    assert "looks like JSON, but is not valid" in refused.err
    option, quoted = shlex.split(refused.err.partition("quote it: ")[2])
    assert cli("fork", "plain", option, quoted, "--run-id", "text").code == 0
    assert cli("show", "text", "--json").json["state"]["same"] == text


def test_a_key_that_a_state_did_not_have_is_warned_of(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    warned = cli("fork", "plain", "--set", "smae=1", "--set", "n=2")
    assert warned.code == 0
    assert warned.err == (
        "warning: --set: the state had no 'smae'; it was added; did you mean 'same'?\n"
    )


def test_a_forked_workflow_goes_on_with_edited_results(cli: Cli) -> None:
    cli("run", "jobs:etl", "-i", "day=monday", "--run-id", "etl")
    cli("fork", "etl", "--at", "fetch", "--run-id", "etl-b", "--set", "fetch.rows=[10, 20]")
    assert cli("resume", "etl-b", "--flow", "jobs:etl").json["total"] == 30
    assert cli("fork", "etl", "--set", "nostep=1").code == Exit.USAGE


def test_the_command_that_continues_a_fork_or_a_run_that_went_back_is_shown(cli: Cli) -> None:
    cli("run", "jobs:etl", "-i", "day=monday", "--run-id", "etl")
    Path("pyproject.toml").write_text('[tool.holdfast]\nflows = ["jobs:etl"]\n')
    for done in (cli("fork", "etl", "--at", "fetch"), cli("rollback", "etl", "fetch")):
        way = done.out.partition("; continue with: holdfast ")[2]
        assert cli(*way.split()).json["total"] == 6


def test_checkpoints_without_a_flow_are_continued_by_their_own_program(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    assert cli("fork", "plain", "--run-id", "b").out == "b, forked from plain-run@4\n"
    assert cli("rollback", "plain", "s1").out == "plain-run is at plain-run@2, after s1\n"


def test_show_ends_with_what_continues_a_run_that_was_rolled_back_or_forked(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    cli("run", "jobs:etl", "-i", "day=monday", "--run-id", "etl")
    Path("pyproject.toml").write_text('[tool.holdfast]\nflows = ["jobs:etl"]\n')
    assert "continue" not in cli("show", "etl").out
    cli("fork", "etl", "--at", "fetch", "--run-id", "forked")
    cli("rollback", "etl", "fetch")
    for run, why in (("etl", "it was rolled back;"), ("forked", "it was forked, and nobody has")):
        *_, said, way = cli("show", run).out.splitlines()
        assert said.startswith(why)
        assert way == f"  holdfast resume {run}"
        assert cli(*way.split()[1:]).json["total"] == 6
    cli("rollback", "plain", "s1")
    assert cli("show", "plain").out.splitlines()[-1] == (
        "it was rolled back; your program continues from this state when it loads it"
    )
    plain.save("plain-run", {"n": 5})
    assert "rolled back;" not in cli("show", "plain").out


def test_a_submitted_run_that_was_rolled_back_is_given_to_a_worker_again(cli: Cli) -> None:
    cli("submit", "jobs:etl", "-i", "day=monday", "--run-id", "etl")
    assert cli("resume", "etl", "--flow", "jobs:etl").code == 0
    cli("rollback", "etl", "fetch")
    *_, why, way = cli("show", "etl").out.splitlines()
    assert why == "it was rolled back; have a worker continue it:"
    assert way == "  holdfast resume etl --submit"
    assert "a worker continues it" in cli(*way.split()[1:]).out
    assert "it waits for a worker, and none is alive" in cli("show", "etl").out
