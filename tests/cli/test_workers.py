"""worker and workers: what they execute, what they say, and how they stop."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pexpect
import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from holdfast.engine.holding.process import Identity
from tests import forks
from tests.cli.conftest import Cli
from tests.cli.test_terminal import ALONE, Terminal, finished
from tests.cli.test_terminal import terminal as terminal
from tests.waiting import bounded, wait_until


class Started:
    """A worker in a process of its own, whose lines are read as they come."""

    def __init__(self, process: forks.Process) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def says(self, event: str, count: int = 1) -> None:
        """Wait until it has."""
        wait_until(lambda: [line["event"] for line in tuple(self.lines)].count(event) >= count)

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        with bounded(self.process):
            code = self.process.wait()
        self._reading.join()
        return code


@contextmanager
def worker(*arguments: str) -> Iterator[Started]:
    command = ("-m", "holdfast", "worker", *arguments)
    with forks.start(*command, stdout=subprocess.PIPE) as process:
        started = Started(process)
        try:
            yield started
        finally:
            process.kill()
            started.end()


def test_it_says_what_it_works_on_and_what_became_of_it(cli: Cli) -> None:
    cli("submit", "jobs:etl", "-i", "day=x", "--run-id", "good")
    cli("submit", "jobs:broken", "--run-id", "bad")
    done = cli(
        "worker", "--flow", "jobs:etl", "--flow", "jobs:broken", "--at-once", "3",
        "--per-flow", "etl=2", "--drain", "2m", "--until-idle",
    )  # fmt: skip
    assert done.code == Exit.FAILED, "a run failed"
    first, *between, last = done.lines
    assert first["event"] == "working"
    assert first["pid"] == os.getpid()
    assert first["flows"] == ["etl", "broken"]
    assert (first["at_once"], first["per_flow"], first["drain"]) == (3, {"etl": 2}, 120.0)
    events = {(line["run_id"], line["event"]): line for line in between}
    assert events.keys() == {
        ("good", "began"), ("good", "completed"), ("bad", "began"), ("bad", "failed"),
    }  # fmt: skip
    assert "no such table" in events["bad", "failed"]["detail"]
    assert (last["event"], last["completed"], last["failed"]) == ("stopped", 1, 1)
    times = [line["at"] for line in done.lines]
    assert times == sorted(times)


def test_what_steps_print_is_not_among_the_lines(cli: Cli) -> None:
    cli("submit", "jobs:talkative")
    done = cli("worker", "--flow", "jobs:talkative", "--until-idle")
    assert done.code == 0
    assert [line["event"] for line in done.lines] == ["working", "began", "completed", "stopped"]
    assert "I am a step" in done.err


def test_it_continues_what_was_answered_and_what_lost_its_process(cli: Cli) -> None:
    assert cli("run", "jobs:review", "-i", "what=report", "--run-id", "review").code == Exit.PAUSED
    with worker("--flow", "jobs:slow") as dying:
        cli("submit", "jobs:slow", "-i", "path=go", "--run-id", "slow")
        dying.says("began")
        dying.send(signal.SIGKILL)
        dying.end()
    assert cli("runs", "slow", "--json").lines[0]["orphaned"] is True
    Path("go").touch()
    flows = ("--flow", "jobs:review", "--flow", "jobs:slow", "--until-idle")
    first = cli("worker", *flows)
    assert [line["run_id"] for line in first.lines if line["event"] == "completed"] == ["slow"]
    cli("answer", "review", "--with", '{"approved": true, "amount": 3}')
    second = cli("worker", *flows)
    assert [line["run_id"] for line in second.lines if line["event"] == "completed"] == ["review"]


def test_a_run_of_a_flow_that_it_does_not_know_stays_as_it_is(cli: Cli) -> None:
    cli("submit", "jobs:etl", "-i", "day=x", "--run-id", "etl")
    done = cli("worker", "--flow", "jobs:broken", "--until-idle")
    assert [line["event"] for line in done.lines] == ["working", "stopped"]
    assert cli("runs", "--json").lines[0]["status"] == "submitted"


def test_a_run_whose_code_is_missing_is_refused_and_stays(cli: Cli) -> None:
    Path("old.py").write_text(
        "from holdfast.workflow import workflow\n"
        "@workflow('etl', version='9')\n"
        "async def etl(day: str) -> str: return day\n"
    )
    cli("submit", "old:etl", "-i", "day=x", "--run-id", "etl")
    done = cli("worker", "--flow", "jobs:etl", "--until-idle")
    assert done.code == Exit.FAILED
    refused = next(line for line in done.lines if line["event"] == "refused")
    assert "version 9" in refused["detail"]
    assert done.lines[-1]["refused"] == 1
    assert cli("runs", "--json").lines[0]["status"] == "submitted"
    assert cli("worker", "--flow", "old:etl", "--until-idle").lines[-1]["completed"] == 1


def test_the_flows_of_the_project_are_executed(cli: Cli) -> None:
    assert "--flow" in cli("worker").err
    Path("pyproject.toml").write_text('[tool.holdfast]\nflows = ["jobs:etl"]\n')
    cli("submit", "jobs:etl", "-i", "day=x")
    assert cli("worker", "--until-idle").lines[-1]["completed"] == 1
    Path("pyproject.toml").write_text('[tool.holdfast]\nflows = ["jobs:etl", "jobs:gone"]\n')
    assert cli("worker", "--until-idle").code == Exit.NOT_FOUND, "not only with some of them"


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        ([], Exit.USAGE, "a worker needs flows"),
        (["--flow", "jobs"], Exit.USAGE, "names no flow"),
        (["--flow", "jobs:fetch"], Exit.USAGE, "not a flow"),
        (["--flow", "jobs:gone"], Exit.NOT_FOUND, "has no 'gone'"),
        (["--flow", "gone:etl"], Exit.NOT_FOUND, "no module 'gone'"),
        (["--flow", "jobs:etl", "--per-flow", "etl=0"], Exit.USAGE, "between 1 and 1,000"),
        (["--flow", "jobs:etl", "--per-flow", "etl=1001"], Exit.USAGE, "between 1 and 1,000"),
        (["--flow", "jobs:etl", "--per-flow", "x=1"], Exit.USAGE, "no flow 'x', only etl"),
        (["--flow", "jobs:etl", "--per-flow", "etl"], Exit.USAGE, "takes FLOW=N"),
        (["--flow", "jobs:etl", "--per-flow", "etl=two"], Exit.USAGE, "takes FLOW=N"),
        (["--flow", "jobs:etl", "--per-flow", "etl=-1"], Exit.USAGE, "takes FLOW=N"),
        (["--flow", "jobs:etl", "--per-flow", "=1"], Exit.USAGE, "takes FLOW=N"),
        (
            ["--flow", "jobs:etl", "--per-flow", "etl=1", "--per-flow", "etl=2"],
            Exit.USAGE,
            "two limits",
        ),
        (["--flow", "jobs:etl", "--at-once", "0"], Exit.USAGE, "--at-once"),
        (["--flow", "jobs:etl", "--drain", "-1"], Exit.USAGE, "--drain"),
        (["--flow", "jobs:etl", "--drain", "long"], Exit.USAGE, "length of time"),
        (["--flow", "jobs:etl", "--store", "memory://"], Exit.USAGE, "postgresql://"),
        (["--flow", "jobs:etl", "--store", "duckdb:///x.duckdb"], Exit.USAGE, "postgresql://"),
        (["--flow", "jobs:etl", "--flow", "jobs:stored"], Exit.USAGE, "different stores"),
    ],
)
def test_what_can_not_work_is_refused_before_anything_starts(
    cli: Cli, arguments: list[str], code: Exit, reason: str
) -> None:
    done = cli("worker", *arguments)
    assert (done.code, done.out) == (code, "")
    assert reason in done.err
    assert "Traceback" not in done.err
    assert not Path(".holdfast").exists()
    assert not Path("x.duckdb").exists()


def test_two_flows_of_one_name_are_refused(cli: Cli) -> None:
    Path("other.py").write_text(
        "from holdfast.workflow import workflow\n"
        "@workflow('etl')\n"
        "async def etl(day: str) -> str: return day\n"
    )
    done = cli("worker", "--flow", "jobs:etl", "--flow", "other:etl")
    assert done.code == Exit.USAGE
    assert "two flows are called 'etl'" in done.err


def test_a_worker_drains_at_sigterm(cli: Cli) -> None:
    for run in ("a", "b"):
        cli("submit", "jobs:slow", "-i", "path=go", "--run-id", run)
    with worker("--flow", "jobs:slow") as started:
        started.says("began", 2)
        started.send(signal.SIGTERM)
        started.says("draining")
        cli("submit", "jobs:slow", "-i", "path=go", "--run-id", "too-late")
        Path("go").touch()
        assert started.end() == 0
    draining = next(line for line in started.lines if line["event"] == "draining")
    assert (draining["signal"], draining["runs"]) == ("SIGTERM", ["a", "b"])
    assert started.lines[-1]["completed"] == 2
    assert cli("runs", "too-late", "--json").lines[0]["status"] == "submitted"


def test_what_is_not_finished_in_time_is_left_to_other_workers(cli: Cli) -> None:
    cli("submit", "jobs:slow", "-i", "path=go", "--run-id", "slow")
    with worker("--flow", "jobs:slow", "--drain", "0") as started:
        started.says("began")
        started.send(signal.SIGTERM)
        assert started.end() == 0, "though its step is in a thread that can't be stopped"
    assert started.lines[-1]["left"] == 1
    Path("go").touch()
    done = cli("worker", "--flow", "jobs:slow", "--until-idle")
    assert done.lines[-1]["completed"] == 1


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, Exit.TERMINATED), (signal.SIGINT, Exit.INTERRUPTED)],
)
def test_the_second_signal_ends_a_worker_at_once(cli: Cli, number: int, code: Exit) -> None:
    cli("submit", "jobs:slow", "-i", "path=go", "--run-id", "slow")
    with worker("--flow", "jobs:slow", "--drain", "1h") as started:
        started.says("began")
        started.send(number)
        started.says("draining")
        started.send(number)
        assert started.end() == code
    Path("go").touch()
    assert cli("worker", "--flow", "jobs:slow", "--until-idle").lines[-1]["completed"] == 1


def test_a_worker_whose_lines_nobody_reads_stops(cli: Cli) -> None:
    command = ("-m", "holdfast", "worker", "--flow", "jobs:etl")
    with forks.start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "working"
        process.stdout.close()
        cli("submit", "jobs:etl", "-i", "day=x", "--run-id", "etl")
        with bounded(process):
            process.wait()
    assert cli("runs", "--json").lines[0]["status"] == "completed"


def test_whoever_answers_is_told_that_a_worker_continues_the_run(cli: Cli) -> None:
    for run in ("one", "two"):
        cli("submit", "jobs:review", "-i", "what=draft", "--run-id", run)
    with worker("--flow", "jobs:review") as started:
        started.says("paused", 2)
        answered = cli("answer", "one", "--with", '{"approved": true, "amount": 1}')
        assert answered.out == "answered; a worker continues it\n"
        started.says("completed")
    answered = cli("answer", "two", "--with", '{"approved": true, "amount": 1}')
    assert "no worker is alive to continue it; start one:\n  holdfast worker" in answered.out
    assert "it waits for a worker, and none is alive; start one:" in cli("show", "two").out


def test_whoever_submits_a_run_is_told_if_no_worker_is_alive(cli: Cli) -> None:
    done = cli("submit", "jobs:etl", "-i", "day=x", "--run-id", "it")
    assert done.out == "it submitted\n"
    assert done.err == "warning: no worker is alive; start one: holdfast worker --flow=jobs:etl\n"
    way = "  holdfast worker --flow=MODULE:NAME\nMODULE:NAME is the module and name of flow 'etl'\n"
    assert cli("show", "it").out.endswith(way)
    with worker("--flow", "jobs:etl") as started:
        started.says("completed")
        assert cli("submit", "jobs:etl", "-i", "day=y").err == ""


def test_doctor_warns_of_runs_that_wait_for_a_worker(cli: Cli) -> None:
    cli("submit", "jobs:slow", "-i", "path=go", "--delay", "1d")
    assert "workers" not in cli("doctor").out, "nothing is due"
    cli("submit", "jobs:etl", "-i", "day=x")
    cli("submit", "jobs:etl", "-i", "day=y")
    warned = cli("doctor")
    assert warned.code == 0
    assert "! workers: 2 runs of 'etl' should be executed, and no worker is there" in warned.out
    with worker("--flow", "jobs:etl") as started:
        started.says("completed", 2)
        assert "workers" not in cli("doctor").out


def test_workers_are_listed_with_what_they_do(cli: Cli) -> None:
    assert cli("workers").code == Exit.NOT_FOUND, "looking creates nothing"
    cli("submit", "jobs:slow", "-i", "path=go", "--run-id", "slow")
    assert cli("workers").out == "no workers\n"
    with worker("--flow", "jobs:slow", "--flow", "jobs:etl", "--at-once", "7") as started:
        started.says("began")
        (found,) = cli("workers", "--json").lines
        assert found["pid"] == started.process.pid
        assert (found["state"], found["flows"], found["at_once"]) == ("alive", ["etl", "slow"], 7)
        wait_until(lambda: cli("workers", "--json").lines[0]["runs"] == 1)
        table = cli("workers").out.splitlines()
        assert table[0].split() == ["HOST", "PID", "STATE", "FLOWS", "RUNS", "MAX", "LAST", "BEAT", "NOTE"]  # fmt: skip
        assert re.search(rf"{started.process.pid}  alive  etl, slow\s+1\s+7  ", table[1])
        started.send(signal.SIGKILL)
        started.end()
    assert cli("workers", "--json").lines[0]["state"] == "dead"
    assert "its runs are continued by others" in cli("workers").out


def test_a_worker_of_another_machine_is_unknown(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with worker("--flow", "jobs:etl") as started:
        started.says("working")
        wait_until(lambda: Path(".holdfast/holdfast.db").exists())
        wait_until(lambda: cli("workers", "--json").out)
        monkeypatch.setattr(Identity, "lives", lambda *_: None)
        (found,) = cli("workers", "--json").lines
        assert (found["pid"], found["state"]) == (started.process.pid, "unknown")
        assert re.search(r"unknown  etl .* ago", cli("workers").out)


BLOCKED = """
import asyncio, time
from pathlib import Path
import holdfast as hf
from holdfast.workflow import step, workflow

@step
async def compute() -> None:
    while not Path("go").exists():
        time.sleep(0.01)

@workflow
async def blocking() -> None:
    await compute()

async def main() -> None:
    async with hf.Engine(dead_after=1.5) as engine:
        await engine.submit(blocking(), run_id="blocking")
        await engine.work(until_idle=True)

asyncio.run(main())
"""


def test_a_worker_whose_event_loop_is_blocked_is_told(cli: Cli) -> None:
    with forks.start("-c", BLOCKED) as process, bounded(process):
        try:
            wait_until(lambda: Path(".holdfast/holdfast.db").exists())
            wait_until(lambda: "its event loop is blocked for " in cli("workers").out)
            assert cli("workers", "--json").lines[0]["lag"] >= 1
        finally:
            Path("go").touch()
        assert process.wait() == 0


def test_a_worker_that_stopped_is_not_listed_any_more(cli: Cli) -> None:
    cli("submit", "jobs:etl", "-i", "day=x")
    with worker("--flow", "jobs:etl") as started:
        started.says("completed")
        started.send(signal.SIGTERM)
        assert started.end() == 0
    assert cli("workers", "--json").lines == []


def test_killed_and_drained_workers_complete_every_run_and_book_each_effect_once(
    cli: Cli,
) -> None:
    runs = 60
    for number in range(runs):
        cli("submit", "jobs:effects", "-i", f"number={number}", "--run-id", f"run-{number}")
    with closing(sqlite3.connect(".holdfast/holdfast.db")) as db:
        db.execute("CREATE TABLE effects (done TEXT)")
        db.commit()
    chance = random.Random(16)

    def completed() -> int:
        return cp.store.counts().get("completed", 0)

    def reached(goal: int) -> bool:
        return completed() >= goal

    options = ("--flow", "jobs:effects", "--at-once", "3", "--drain", "0.1")
    with hf.SyncCheckpointer() as cp, ExitStack() as all_of_them:
        workers = [all_of_them.enter_context(worker(*options)) for _ in range(4)]
        for victim in range(8):
            wait_until(partial(reached, min(runs, completed() + chance.randint(2, 6))))
            workers[victim % 4].send(chance.choice([signal.SIGKILL, signal.SIGTERM]))
            workers[victim % 4].end()
            workers[victim % 4] = all_of_them.enter_context(worker(*options))
        wait_until(partial(reached, runs))
        for each in workers:
            each.says("working")
            each.send(signal.SIGTERM)
        assert [each.end() for each in workers] == [0] * 4
    with closing(sqlite3.connect(".holdfast/holdfast.db")) as db:
        booked = [done for (done,) in db.execute("SELECT done FROM effects")]
    assert sorted(booked) == sorted(f"{n}{name}" for n in range(runs) for name in "abc")


def test_a_table_shows_what_a_worker_does(terminal: Terminal, cli: Cli) -> None:
    for run in ("first", "second"):
        cli("submit", "jobs:slow", "-i", f"path={run}.go", "--run-id", run)
    child = terminal("worker", "--flow", "jobs:slow")
    child.expect(r"worker \S+:\d+")
    child.expect_exact("executes slow: 10 at once")
    child.expect(r"RUN.*FLOW.*STEP.*SINCE")
    child.expect(r"slow +wait ")
    child.expect_exact("2 running")
    Path("first.go").touch()
    child.expect_exact("1 running")
    child.expect_exact("1 completed")
    cli("submit", "jobs:slow", "-i", "path=third.go", "--run-id", "third")
    child.expect(r"third +slow +wait ")
    child.sendintr()
    child.expect_exact("SIGINT: draining")
    child.expect(r"draining, [\d.]+ s left")
    Path("second.go").touch()
    Path("third.go").touch()
    code, shown = finished(child)
    assert code == 0
    assert "3 completed" in shown.rpartition("stopped:")[2]
    assert "Traceback" not in shown


def test_the_table_says_that_a_run_sleeps(terminal: Terminal, cli: Cli) -> None:
    cli("submit", "jobs:nap", "-i", "seconds=9", "--run-id", "tired")
    child = terminal("worker", "--flow", "jobs:nap")
    child.expect(r"tired +nap +sleep +\d")
    child.sendintr()
    child.expect_exact("again to end at once")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()


def test_what_steps_print_and_what_fails_appears_above_the_table(
    terminal: Terminal, cli: Cli
) -> None:
    cli("submit", "jobs:talkative")
    cli("submit", "jobs:broken", "--run-id", "bad")
    code, shown = finished(
        terminal("worker", "--flow", "jobs:talkative", "--flow", "jobs:broken", "--until-idle")
    )
    assert code == Exit.FAILED
    assert "\nI am a step\n" in re.sub(r"\r|\x1b\[[0-9;]*[A-Za-z]", "", shown)
    assert "✗ bad  step 'load' failed: RuntimeError: no such table" in shown
    assert shown.rstrip().endswith("\x1b[32m1 completed\x1b[0m, \x1b[31m1 failed\x1b[0m")


def test_json_is_printed_on_a_terminal_if_that_is_asked_for(terminal: Terminal, cli: Cli) -> None:
    cli("submit", "jobs:etl", "-i", "day=x")
    code, shown = finished(terminal("worker", "--flow", "jobs:etl", "--until-idle", "--json"))
    assert code == 0
    events = [json.loads(line)["event"] for line in shown.splitlines()]
    assert events == ["working", "began", "completed", "stopped"]


def test_ctrl_c_twice_ends_a_worker_on_a_terminal(terminal: Terminal, cli: Cli) -> None:
    cli("submit", "jobs:slow", "-i", "path=go", "--run-id", "slow")
    child = terminal("worker", "--flow", "jobs:slow", "--drain", "1h", program=ALONE)
    child.expect_exact("1 running")
    child.sendintr()
    child.expect_exact("again to end at once")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == Exit.INTERRUPTED
