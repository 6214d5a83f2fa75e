"""Checkpoints that are named as RUN@SEQ, in every command."""

from __future__ import annotations

import shlex

import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from holdfast.workflow import step, workflow
from tests.cli.conftest import Cli


def test_show_takes_a_checkpoint_as_run_at_seq(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    assert cli("show", "plain-run@2").out == cli("show", "plain-run", "--at", "2").out
    assert "state at plain-run@2\n" in cli("show", "plain@2").out, "the id may be shortened"
    assert cli("show", "plain-run@2", "--json").json["state"]["n"] == 1
    assert cli("show", "plain-run@2", "--step", "s1").out.startswith("s1  completed")
    assert cli("show", "plain-run@2", "--at", "3").code == Exit.USAGE
    missing = cli("show", "plain-run@77")
    assert missing.code == Exit.NOT_FOUND
    assert missing.err.endswith("has no checkpoint plain-run@77; it has @4, @3, @2, @1\n")
    assert "there is no run 'other@2'" in cli("show", "other@2").err


def test_a_misspelt_step_is_named_as_it_is_spelt(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    for name in ("measure", "write"):
        cp.save("job", {}, step=name)
    for words in (["diff", "job", "measure", "wirte"], ["fork", "job", "--at", "wirte"]):
        done = cli(*words)
        assert done.code == Exit.NOT_FOUND
        assert done.err.endswith("run 'job' has no checkpoint 'wirte'; did you mean 'write'?\n")
    assert "give a seq, RUN@SEQ or the name of a step" in cli("fork", "job", "--at", "zzz").err


def test_a_run_whose_id_looks_like_a_checkpoint_is_that_run(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    plain.save("plain-run@2", {"n": "other"})
    assert cli("show", "plain-run@2", "--json").json["state"] == {"n": "other"}
    assert cli("show", "plain-run@3", "--json").json["state"]["n"] == 2


def test_diff_fork_rollback_and_delete_take_a_checkpoint_alone(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    same = cli("diff", "plain-run", "2", "3").out
    assert cli("diff", "plain-run@2", "plain-run@3").out == same
    assert cli("diff", "plain-run@2", "3").out == same
    for one in (["plain-run"], ["plain-run", "2"], ["plain-run@2"]):
        done = cli("diff", *one)
        assert done.code == Exit.USAGE
        assert "name two checkpoints: RUN A B, RUN@SEQ B or RUN@SEQ RUN@SEQ\n" in done.err
    assert cli("fork", "plain-run@2", "--json").json["origin"] == "plain-run@2"
    assert cli("fork", "plain-run@2", "--at", "3").code == Exit.USAGE
    assert cli("rollback", "plain-run@3", "--json").json["checkpoint_id"] == "plain-run@3"
    assert cli("rollback", "plain-run").code == Exit.USAGE
    assert cli("rollback", "plain-run@3", "2").code == Exit.USAGE
    assert cli("delete", "plain-run@4", "--yes").out == "plain-run@4 deleted\n"


@pytest.mark.parametrize(
    ("command", "hints"),
    [
        (["verify"], ["verify plain-run", "show plain-run@2"]),
        (["verify", "--chain"], ["verify plain-run", "show plain-run@2"]),
        (["export"], ["export plain-run", "show plain-run@2"]),
        (["resume"], ["rollback plain-run 2", "fork plain-run --at 2"]),
        (["questions"], ["show plain-run@2"]),
        (["watch"], ["show plain-run@2"]),
        (["forget", "--yes"], ["delete plain-run 2"]),
    ],
)
def test_where_a_run_is_wanted_the_error_says_the_command_for_a_checkpoint(
    cli: Cli, plain: hf.SyncCheckpointer, command: list[str], hints: list[str]
) -> None:
    done = cli(*command, "plain-run@2")
    assert done.code == Exit.USAGE
    assert "'plain-run@2' is a checkpoint" in done.err
    said = done.err.partition("Error: ")[2].strip().split("holdfast ")[1:]
    assert [hint.split(";")[0].strip() for hint in said] == hints
    for hint in hints:
        yes = ["--yes"] if hint.startswith("delete") else []
        assert cli(*shlex.split(hint), *yes).code == 0, hint


def test_a_run_and_a_seq_are_meant_rather_than_a_run_that_begins_like_that(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    for run in ("user", "user@2024-01-01"):
        for n in (1, 2, 3):
            cp.save(run, {"run": run, "n": n})
    assert cli("show", "user@2", "--json").json["state"] == {"run": "user", "n": 2}
    assert cli("fork", "user@2", "--run-id", "f", "--json").code == 0
    assert cli("show", "f", "--json").json["state"] == {"run": "user", "n": 2}
    assert cli("show", "user@2024-01-01", "--json").json["state"]["n"] == 3
    assert cli("show", "user@2024-", "--json").json["state"]["n"] == 3


def test_an_entry_without_a_state_is_no_checkpoint_and_those_there_are_are_named(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    @workflow
    async def job() -> None:
        await step("one").python(int)
        await step("two").python(int)

    hf.Engine(cp).run_sync(job(), run_id="job")
    for command in (
        ["show", "job@3"],
        ["rollback", "job", "3"],
        ["fork", "job@3"],
        ["retry", "job@3"],
    ):
        refused = cli(*command)
        assert refused.code != 0
        assert "has no checkpoint job@3" in refused.err, command
        assert "it has @2, @1" in refused.err, command
        assert "list its checkpoints" not in refused.err
