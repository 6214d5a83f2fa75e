"""What commands and functions say of arguments that can't be meant."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from holdfast.evidence import Policy, command_evidence
from holdfast.workflow import step
from tests.cli.conftest import Cli


def test_a_run_that_a_program_saved_has_no_flow_to_resume(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    done = cli("resume", "plain-run")
    assert done.code == Exit.NOT_FOUND
    assert "the run was saved by a program, and has no flow to resume" in done.err


def test_a_store_is_copied_not_imported(cli: Cli) -> None:
    with hf.SyncCheckpointer("b.db") as cp:
        cp.save("run", 1)
    done = cli("import", "b.db", "--store", "c.db")
    assert done.code == Exit.USAGE
    assert "if it is a store, use holdfast copy b.db TARGET" in done.err


@pytest.mark.parametrize("target", ["b.db", "./b.db", "sqlite:///b.db"])
def test_a_store_is_not_copied_to_itself(cli: Cli, target: str) -> None:
    with hf.SyncCheckpointer("b.db") as cp:
        cp.save("run", 1)
    done = cli("copy", "b.db", target)
    assert done.code == Exit.USAGE
    assert "the same store" in done.err


def test_a_url_is_no_host(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    done = cli("verify", "--host", "http://x/")
    assert done.code == Exit.USAGE
    assert "'http://x/' is no host" in done.err
    with pytest.raises(ValueError, match="is no host"):
        Policy(hosts=frozenset({"http://x/"}))


def test_functions_say_what_they_take() -> None:
    wrong: Any = "make"
    with pytest.raises(TypeError, match=r"what run_command or subprocess\.run returned, not str"):
        command_evidence(wrong)
    number: Any = 3
    with pytest.raises(TypeError, match="outputs must be paths"):
        step(outputs=number)(print)
    with (
        hf.Engine("memory://") as engine,
        pytest.raises(TypeError, match="verify must be an EvidenceVerifier"),
    ):
        engine.work_sync(verify=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["run", "recover --flow", "worker --flow", "submit"])
def test_a_placeholder_that_is_pasted_as_it_is_gets_told_so(
    cli: Cli, plain: hf.SyncCheckpointer, command: str
) -> None:
    done = cli(*command.split(), "MODULE:NAME")
    assert done.code != 0
    assert "MODULE:NAME is a placeholder" in done.err
    assert "such as jobs.nightly:etl" in done.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--store", "runs.db", "runs"], "--store goes after the command: holdfast runs --store …"),
        (["--json", "show", "plain"], "--json goes after the command: holdfast show --json\n"),
        (["verify", "--all"], "all runs are checked if you name none"),
        (["diff", "plain", "plain"], "RUN A B, RUN@SEQ B or RUN@SEQ RUN@SEQ"),
        (["submit", "jobs:etl", "day=x"], "an input is given as: --input day=x\n"),
        (["run", "jobs:etl", "a b", "c"], "an input is given as: --input 'NAME=a b'\n"),
        (["run", "jobs:etl", "day=a b"], "an input is given as: --input 'day=a b'\n"),
        (["run", "jobs:etl", "a b", "c", "a"], "an input is given as: --input NAME=VALUE\n"),
        (["doctor", "--fix"], "Did you mean '--repair'?"),
        (["runs", "--limit", "x"], "'x' is not a valid whole number"),
    ],
)
def test_a_word_in_the_wrong_place_is_told_its_place(
    cli: Cli, plain: hf.SyncCheckpointer, arguments: list[str], told: str
) -> None:
    done = cli(*arguments)
    assert done.code == Exit.USAGE
    assert told in done.err


@pytest.mark.parametrize(
    ("arguments", "way"),
    [
        (["show", "plain-run@s1"], "holdfast show plain-run --at s1\n"),
        (["fork", "plain-run@s1"], "holdfast fork plain-run --at s1\n"),
        (["rollback", "plain-run@s1"], "holdfast rollback plain-run s1\n"),
        (["diff", "plain-run@s1", "2"], "holdfast diff plain-run s1 B\n"),
        (["pause", "plain-run@s1"], "behind the @ is a seq\n"),
    ],
)
def test_a_step_behind_an_at_sign_is_told_where_it_belongs(
    cli: Cli, plain: hf.SyncCheckpointer, arguments: list[str], way: str
) -> None:
    done = cli(*arguments)
    assert done.code == Exit.NOT_FOUND
    assert done.err.endswith(way)


def test_a_flow_without_runs_may_be_another(cli: Cli) -> None:
    cli("run", "jobs:etl", "-i", "day=x")
    done = cli("runs", "--flow", "elt")
    assert (done.code, done.out) == (0, "no runs of flow 'elt'; did you mean 'etl'?\n")
    assert cli("runs", "--flow", "etl", "--status", "failed").out == "no runs\n"
    assert cli("runs", "--flow", "elt", "--json").out == ""
