"""submit, and how submitted and sleeping runs are shown."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from tests.cli.conftest import Cli


def test_a_run_is_submitted_and_executed_by_a_worker(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    done = cli("submit", "jobs:etl", "-i", "day=monday", "--run-id", "etl", "--thread", "t")
    assert (done.code, done.out) == (0, "etl submitted\n")
    found = cp.run("etl")
    assert found is not None
    assert (found.status, found.thread_id) == ("submitted", "t")
    worked = cli("worker", "--flow", "jobs:etl", "--until-idle")
    assert worked.code == 0
    assert [line["event"] for line in worked.lines] == ["working", "began", "completed", "stopped"]
    assert cli("show", "etl", "--json").json["run"]["status"] == "completed"


def test_a_submission_with_other_inputs_names_the_command_that_uses_the_recorded_ones(
    cli: Cli,
) -> None:
    cli("submit", "jobs:etl", "-i", "day=monday", "--run-id", "an etl")
    done = cli("submit", "jobs:etl", "-i", "day=tuesday", "--run-id", "an etl")
    assert done.code != 0
    assert "use `holdfast resume 'an etl'`, which uses the recorded inputs" in done.err


def test_the_same_submission_again_changes_nothing(cli: Cli) -> None:
    again = ["submit", "jobs:etl", "-i", "day=monday", "--run-id", "etl"]
    assert cli(*again, "--json").json["new"] is True
    done = cli(*again)
    assert (done.code, done.out) == (
        0,
        "etl exists already (submitted); nothing was changed\n",
    )
    cli("worker", "--flow", "jobs:etl", "--until-idle")
    done = cli(*again, "--json")
    assert done.code == 0
    assert done.json == {
        "run_id": "etl", "flow": "etl", "status": "completed", "new": False, "due": None,
    }  # fmt: skip
    assert len(cli("runs", "--json").lines) == 1


def test_an_id_that_is_taken_by_something_else_is_refused(cli: Cli) -> None:
    cli("submit", "jobs:etl", "-i", "day=monday", "--run-id", "etl")
    other = cli("submit", "jobs:etl", "-i", "day=friday", "--run-id", "etl")
    assert other.code == Exit.REFUSED
    assert "day was 'monday' and is 'friday'" in other.err
    assert cli("submit", "jobs:nap", "-i", "seconds=1", "--run-id", "etl").code == Exit.REFUSED


@pytest.mark.parametrize(
    "arguments",
    [
        ["jobs:etl"],
        ["jobs:etl", "-i", "day=x", "--delay", "soon"],
        ["jobs:etl", "-i", "day=x", "--delay", "-5"],
        ["jobs:etl", "-i", "day=x", "--delay", "99999d"],
        ["jobs:etl", "-i", "day=x", "--at", "tomorrow"],
        ["jobs:etl", "-i", "day=x", "--delay", "1m", "--at", "2026-11-19"],
        ["jobs:etl", "-i", "day=x", "--label", "team"],
        ["jobs:etl", "-i", "day=x", "--label", "a=1", "--label", "a=2"],
        ["jobs:etl", "-i", "day=x", "--run-id", ""],
        ["jobs:etl", "-i", "day=x", "--store", "memory://"],
        ["jobs:etl", "-i", "day=x", "--store", "duckdb:///runs.duckdb"],
        ["jobs:fetch"],
    ],
)
def test_what_can_not_be_submitted_is_a_usage_error(cli: Cli, arguments: list[str]) -> None:
    done = cli("submit", *arguments)
    assert done.code == Exit.USAGE
    assert "Traceback" not in done.err
    assert not Path(".holdfast").exists()
    assert not Path("runs.duckdb").exists()


def test_inputs_that_do_not_fit_are_named(cli: Cli) -> None:
    for command in ("submit", "run"):
        misspelled = cli(command, "jobs:nap", "-i", "secnds=1")
        assert misspelled.code == Exit.USAGE
        assert "it has no input 'secnds'; it takes (seconds:" in misspelled.err
        wrong = cli(command, "jobs:nap", "-i", "seconds=soon")
        assert wrong.code == Exit.USAGE
        assert wrong.err.endswith("Error: inputs.seconds: expected float, found str\n")
    assert not cli("runs", "--json").lines


def test_a_store_of_one_process_is_refused_with_one_to_use(cli: Cli) -> None:
    for store in ("memory://", "duckdb:///runs.duckdb"):
        done = cli("submit", "jobs:etl", "-i", "day=x", "--store", store)
        assert "sqlite:///" in done.err
        assert "postgresql://" in done.err


def test_a_run_may_be_submitted_for_later(cli: Cli) -> None:
    delayed = cli("submit", "jobs:etl", "-i", "day=x", "--delay", "10m", "--json").json
    due = datetime.fromisoformat(delayed["due"])
    assert timedelta(minutes=9) < due - datetime.now(UTC) <= timedelta(minutes=10)
    at = cli("submit", "jobs:etl", "-i", "day=x", "--at", "2096-11-19T10:00+00:00", "--json").json
    assert at["due"] == "2096-11-19T10:00:00+00:00"
    local = cli("submit", "jobs:etl", "-i", "day=x", "--at", "2096-11-19T10:00", "--run-id", "etl")
    assert local.out == "etl submitted, to be executed from 2096-11-19 10:00:00 on\n"
    worked = cli("worker", "--flow", "jobs:etl", "--until-idle")
    assert worked.lines[-1]["completed"] == 0, "nothing is due"


def test_a_submission_for_a_time_that_has_passed_is_executed_now(cli: Cli) -> None:
    cli("submit", "jobs:etl", "-i", "day=x", "--at", "2020-01-01", "--run-id", "etl")
    assert cli("worker", "--flow", "jobs:etl", "--until-idle").lines[-1]["completed"] == 1


def test_a_pipeline_is_submitted_to_its_own_store(cli: Cli) -> None:
    data = '{"words": ["a", "b"]}'
    done = cli("submit", "jobs:stored", "--input-json", data, "--run-id", "kept")
    assert done.code == 0
    assert Path("own.db").exists()
    assert not Path(".holdfast").exists()
    worked = cli("worker", "--flow", "jobs:stored", "--until-idle")
    assert worked.lines[-1]["paused"] == 1, "it asks a question"
    assert cli("runs", "--store", "own.db", "--json").lines[0]["thread_id"] == "kept"


def test_labels_are_recorded(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    cli("submit", "jobs:etl", "-i", "day=x", "--label", "team=ops", "--run-id", "a")
    cli("run", "jobs:etl", "-i", "day=x", "--label", "team=dev", "--run-id", "b")
    labels = {row.run: row.labels for row, _ in cp.store.listed()}
    assert labels["a"] == ("team=ops",)
    assert labels["b"] == ("team=dev",)


def test_runs_are_found_by_their_labels(cli: Cli) -> None:
    for run, team in (("a", "ops"), ("b", "dev"), ("c", "ops")):
        labels = ("--label", f"team={team}", "--label", f"name={run}")
        cli("submit", "jobs:etl", "-i", "day=x", "--run-id", run, *labels)

    def found(*options: str) -> list[str]:
        return [line["run_id"] for line in cli("runs", "--json", *options).lines]

    assert found("--label", "team=ops") == ["c", "a"]
    assert found("--label", "team=ops", "--label", "name=a") == ["a"]
    assert found("--label", "team=ops", "--status", "completed") == []
    assert found("b", "--label", "team=ops") == []
    assert cli("runs", "--label", "team=none").out == "no runs\n"
    assert cli("runs", "--label", "team").code == Exit.USAGE


def test_lists_say_when_a_run_continues(cli: Cli) -> None:
    cli("submit", "jobs:etl", "-i", "day=x", "--run-id", "now")
    cli("submit", "jobs:etl", "-i", "day=x", "--run-id", "later", "--at", "2096-11-19T10:00")
    cli("submit", "jobs:nap", "-i", "seconds=86400", "--run-id", "nap")
    cli("worker", "--flow", "jobs:nap", "--until-idle")
    rows = dict(line.split(maxsplit=1) for line in cli("runs").out.splitlines())
    assert rows["RUN"].startswith("STATUS     CONTINUES ")
    assert re.match(r"submitted  now ", rows["now"])
    assert re.match(r"submitted  2096-11-19 10:00:00 ", rows["later"])
    assert re.match(r"paused     \d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", rows["nap"])
    submitted = cli("runs", "--status", "submitted", "--json").lines
    assert {run["run_id"] for run in submitted} == {"now", "later"}
    assert "CONTINUES" not in cli("runs", "--status", "completed").out


def test_a_sleeping_run_shows_until_when(cli: Cli) -> None:
    cli("submit", "jobs:nap", "-i", "seconds=86400", "--run-id", "nap")
    cli("worker", "--flow", "jobs:nap", "--until-idle")
    shown = cli("show", "nap").out
    assert re.search(
        r"^nap  paused, continues \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  flow nap$", shown, re.M
    )
    assert re.search(r"0  \S+  submitted", shown)
    assert re.search(r"waits in sleep .* until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", shown)
    timeline = cli("show", "nap", "--json").json["timeline"]
    due = {moment["kind"]: moment["until"] for moment in timeline}
    assert due["sleep"] == due["pause"]
    assert due["sleep"] is not None


def test_a_submitted_run_is_cancelled_or_paused_before_anybody_executes_it(cli: Cli) -> None:
    for run in ("cancelled", "paused"):
        cli("submit", "jobs:etl", "-i", "day=x", "--run-id", run)
    assert cli("cancel", "cancelled").code == 0
    assert cli("pause", "paused").code == 0
    worked = cli("worker", "--flow", "jobs:etl", "--until-idle")
    assert [line["event"] for line in worked.lines] == ["working", "stopped"]
    statuses = {run["run_id"]: run["status"] for run in cli("runs", "--json").lines}
    assert statuses == {"cancelled": "cancelled", "paused": "paused"}
    assert cli("resume", "paused", "--flow", "jobs:etl").json["total"] == 6
