"""run, resume, recover, questions, answer, pause, cancel."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli import _flows
from holdfast.cli._exits import Exit
from holdfast.engine import launch
from holdfast.engine.holding.process import Identity
from holdfast.engine.opening import Link
from holdfast.engine.options import Options
from tests import forks
from tests.cli.conftest import Cli
from tests.holders import dying
from tests.waiting import bounded, run_process, wait_until


def test_a_workflow_is_run_and_its_result_printed(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    done = cli("run", "jobs:etl", "--input", "day=2026-01-31", "--run-id", "etl", "--thread", "t")
    assert done.code == 0
    assert done.json == {"day": "2026-01-31", "total": 6}, "only the result is on standard output"
    assert "✓ fetch" in done.err
    assert "started: etl, flow etl" in done.err
    found = cp.run("etl")
    assert found is not None
    assert (found.status, found.thread_id) == ("completed", "t")


def test_what_steps_print_is_not_in_the_result(cli: Cli) -> None:
    Path("loud.py").write_text(
        "from pathlib import Path\n"
        "from holdfast.workflow import step, workflow\n"
        "print('importing')\n"
        "@step\n"
        "def measure():\n"
        "    print('measuring')\n"
        "    return len(Path('now').read_text())\n"
        "@workflow\n"
        "async def loud():\n"
        "    print('flowing')\n"
        "    return await measure()\n"
    )
    said = "flowing\n", "measuring\n"
    failed = cli("run", "loud:loud", "--run-id", "a", "--json")
    assert failed.lines[-1]["event"] == "RunFailed"
    assert all(word in failed.err for word in ("importing\n", *said))
    Path("now").write_text("12")
    for arguments in (["retry", "a", "--flow", "loud:loud"], ["run", "loud:loud"]):
        done = cli(*arguments)
        assert done.out == "2\n", "only the result is on standard output"
    assert all(word in done.err for word in said)


NOISY = """
import subprocess
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from holdfast.workflow import step, workflow

subprocess.run(["echo", "importing"], check=True)

@step
def measure() -> int:
    subprocess.run(["echo", "a process"], check=True)
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as pool:
        pool.submit(print, "a pool", flush=True).result()
    return int(Path("now").read_text())

@workflow
async def noisy() -> int:
    return await measure()
"""


def _holdfast(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forks.run("-m", "holdfast", *arguments, capture_output=True, check=False)


def test_what_other_processes_print_is_not_in_what_commands_print(cli: Cli) -> None:
    Path("noisy.py").write_text(NOISY)

    def call(*arguments: str) -> str:
        done = _holdfast(*arguments, "--flow", "noisy:noisy")
        assert all(f"{one}\n" in done.stderr for one in ("importing", "a process", "a pool"))
        return done.stdout

    for name in "ab":
        cli("submit", "noisy:noisy", "--run-id", name)
    lines = call("worker", "--until-idle").splitlines()
    assert json.loads(lines[-1])["failed"] == 2
    Path("now").write_text("12")
    assert call("retry", "a") == "12\n"
    (row,) = json.loads(call("retry", "--yes", "--json"))
    assert (row["run_id"], row["status"]) == ("b", "completed")
    events = _holdfast("run", "noisy:noisy", "--json").stdout.splitlines()
    assert json.loads(events[-1])["event"] == "RunCompleted"
    with hf.SyncCheckpointer() as cp, dying(cp.core):
        flow = _flows.load("noisy:noisy").flow
        asyncio.run(launch.start(cp.core, flow.program, "left", {}, Options(), Link()))
    assert [row["status"] for row in json.loads(call("recover", "--json"))] == ["completed"]


def test_standard_output_is_as_before_when_a_step_has_failed() -> None:
    code = (
        "import os, sys\n"
        "from holdfast.cli._stdout import own_stdout\n"
        "before = sys.stdout\n"
        "try:\n"
        "    with own_stdout() as out:\n"
        "        print('result', file=out, flush=True)\n"
        "        os.write(1, b'bytes\\n')\n"
        "        print('kept', file=before)\n"
        "        raise ValueError\n"
        "except ValueError:\n"
        "    assert sys.stdout is before and out.closed\n"
        "os.write(1, b'after\\n')\n"
    )
    done = run_process([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == ("result\nafter\n", "bytes\nkept\n")


def test_what_steps_print_is_not_among_the_runs_that_were_continued(cli: Cli) -> None:
    cli("run", "jobs:talkative", "--run-id", "done")
    with hf.SyncCheckpointer() as cp, dying(cp.core):
        flow = _flows.load("jobs:talkative").flow
        asyncio.run(launch.start(cp.core, flow.program, "left", {}, Options(), Link()))
    recovered = cli("recover", "--flow", "jobs:talkative", "--json")
    assert [row["status"] for row in recovered.json] == ["completed"]
    assert "I am a step" in recovered.err


def test_inputs_are_json_where_the_flow_does_not_want_text(cli: Cli) -> None:
    assert cli("run", "jobs:etl", "-i", "day=5").json["day"] == "5"
    assert cli("run", "jobs:inner", "-i", "rows=[1, 2]").json == 3
    assert cli("run", "jobs:inner", "--input-json", '{"rows": [4]}').json == 4
    assert cli("run", "jobs:inner", "--input-json", "-", stdin='{"rows": [5]}').json == 5
    Path("in.json").write_text('{"rows": [6]}')
    assert cli("run", "jobs:inner", "--input-json", "@in.json").json == 6


@pytest.mark.parametrize(
    "arguments",
    [
        ["jobs:etl"],
        ["jobs:etl", "-i", "nonsense"],
        ["jobs:etl", "-i", "night=1"],
        ["jobs:etl", "--input-json", "[1]"],
        ["jobs:etl", "--input-json", "{"],
        ["jobs"],
        ["jobs:fetch"],
        [":etl"],
    ],
)
def test_wrong_inputs_and_names_are_usage_errors_and_run_nothing(
    cli: Cli, arguments: list[str]
) -> None:
    done = cli("run", *arguments)
    assert done.code == Exit.USAGE
    assert not Path(".holdfast").exists()


def test_a_flow_that_is_not_there_is_not_found(cli: Cli) -> None:
    missing = cli("run", "jobs:elt")
    assert missing.code == Exit.NOT_FOUND
    assert "it has anything, broken, claims, color, effects, etl, graph, impatient" in missing.err
    assert cli("run", "no_such_module:etl").code == Exit.NOT_FOUND
    assert cli("run", "nothere.py:etl").code == Exit.NOT_FOUND


def test_a_graph_is_run_from_a_file(cli: Cli) -> None:
    done = cli("run", "./jobs.py:graph", "-i", "name=7", "--run-id", "g")
    assert done.json == {"name": "7", "visits": 3}
    assert cli("run", "./jobs.py:graph", "-i", "nme=x").code == Exit.USAGE


def test_events_are_json_lines_for_programs(cli: Cli) -> None:
    events = cli("run", "jobs:etl", "-i", "day=x", "--run-id", "e", "--json").lines
    kinds = [event["event"] for event in events if event["run_id"] == "e"]
    assert kinds[0] == "RunStarted"
    assert kinds[-1] == "RunCompleted"
    assert kinds.count("StepCompleted") == 2
    assert events[-1]["result"] == {"day": "x", "total": 6}


def test_a_failed_run_exits_with_1_and_says_why(cli: Cli) -> None:
    done = cli("run", "jobs:broken", "--run-id", "b")
    assert (done.code, done.out) == (Exit.FAILED, "")
    assert "RuntimeError: no such table" in done.err
    assert "Traceback" not in done.err
    assert cli("run", "jobs:broken", "--run-id", "b").code == Exit.REFUSED, "the id is taken"
    assert cli("resume", "b", "--flow", "jobs:broken", "--json").lines[-1]["event"] == "RunFailed"


def test_a_question_pauses_a_run_until_it_is_answered(cli: Cli) -> None:
    asked = cli("run", "jobs:review", "-i", "what=report", "--run-id", "review")
    assert asked.code == Exit.PAUSED
    assert "? publish: publish report?" in asked.err
    assert "holdfast answer review" in asked.err
    assert cli("resume", "review", "--flow", "jobs:review").code == Exit.PAUSED
    (question,) = cli("questions", "--json").lines
    assert (question["run_id"], question["question"]) == ("review", "publish")
    assert question["schema"]["required"] == ["approved", "amount"]
    assert cli("questions", "rev", "--json").lines == [question]
    assert "publish report?" in cli("questions").out
    wrong = cli("answer", "review", "--with", '{"approved": true, "amount": "many"}')
    assert wrong.code == Exit.USAGE
    assert "amount" in wrong.err
    done = cli("answer", "rev", "--with", '{"approved": true, "amount": 3}', "--by", "ann")
    assert done.code == 0
    assert cli("questions").out == "no open questions\n"
    second = cli("answer", "review", "--with", '{"approved": false, "amount": 3}', "--by", "bob")
    assert second.code == Exit.REFUSED, "there is such a question; somebody was faster"
    assert "'ann'" in second.err
    assert "amount=3" in cli("resume", "review", "--flow", "jobs:review").json


def test_nothing_is_asked_where_there_is_no_terminal(cli: Cli) -> None:
    cli("run", "jobs:review", "-i", "what=report", "--run-id", "review")
    done = cli("answer", "review", stdin="y\n3\n\n")
    assert done.code == Exit.USAGE
    assert 'give the answer: --with {"approved": true, "amount": 1}\n' in done.err
    assert cli("answer", "review", "--with", "{").code == Exit.USAGE
    assert cli("answer", "review", "--question", "other", "--with", "1").code == Exit.NOT_FOUND
    assert cli("fork", "review", "--edit").code == Exit.USAGE


def test_flows_are_found_in_the_project(cli: Cli) -> None:
    cli("run", "jobs:review", "-i", "what=report", "--run-id", "review")
    lost = cli("resume", "review")
    assert lost.code == Exit.NOT_FOUND
    assert "started as 'jobs:review'" in lost.err
    assert "--flow MODULE:NAME" in lost.err
    Path("pyproject.toml").write_text('[tool.holdfast]\nflows = ["jobs:etl", "jobs:review"]\n')
    assert cli("resume", "review").code == Exit.PAUSED
    other = cli("resume", "review", "--flow", "jobs:etl")
    assert other.code == Exit.NOT_FOUND
    assert "known are only 'etl'" in other.err


def test_a_flow_of_the_project_that_can_not_be_loaded_stops_no_other(cli: Cli) -> None:
    cli("run", "jobs:review", "-i", "what=report", "--run-id", "review")
    Path("wrong.py").write_text("1 / 0")
    flows = '["wrong:flow", "nosuch:flow", "jobs:nosuch", "jobs", "jobs:review"]'
    Path("pyproject.toml").write_text(f"[tool.holdfast]\nflows = {flows}\n")
    done = cli("resume", "review")
    assert done.code == Exit.PAUSED
    assert done.err.count("warning: flow ") == 4
    Path("pyproject.toml").write_text('[tool.holdfast]\nflows = "jobs:review"\n')
    assert cli("resume", "review").code == Exit.USAGE


def test_a_resume_checks_the_world_first(cli: Cli) -> None:
    assert cli("run", "jobs:claims", "--run-id", "c").code == 0
    assert cli("resume", "c", "--flow", "jobs:claims").code == Exit.REFUSED, "it is finished"
    Path("out.txt").unlink()
    again = cli("resume", "c", "--flow", "jobs:claims")
    assert again.code == 0
    assert "runs again" in again.err
    assert Path("out.txt").exists()


def test_a_run_is_paused_and_cancelled_from_outside(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    cli("run", "jobs:review", "-i", "what=report", "--run-id", "review")
    assert cli("pause", "review", "--reason", "lunch", "--json").json["status"] == "paused"
    assert "paused  " in (shown := cli("show", "review").out)
    assert "pause lunch" in shown
    cancelled = cli("cancel", "rev", "--json").json
    assert cancelled == {"run_id": "review", "asked": "cancel", "status": "cancelled"}
    assert cli("cancel", "review").code == Exit.REFUSED
    assert cli("pause", "nosuch").code == Exit.NOT_FOUND


@contextmanager
def at_work(cli: Cli, flow: str = "slow") -> Iterator[forks.Process]:
    """A worker in another process, in the middle of a step that ends when a file named go is there."""
    arguments = ["run", f"jobs:{flow}", "-i", "path=go", "--run-id", flow, "--json"]
    worker = forks.start(
        "-m", "holdfast", *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with worker, bounded(worker):
        assert worker.stdout is not None
        for line in worker.stdout:
            if json.loads(line).get("step") == "wait":
                break
        try:
            yield worker
        finally:
            worker.kill()


def test_copying_a_run_that_a_process_executes_gives_a_warning(cli: Cli) -> None:
    warning = f"1 run is being executed by {socket.gethostname()}:"
    cli("run", "jobs:etl", "-i", "day=x", "--run-id", "etl")
    with at_work(cli) as worker:
        done = cli("copy", "other.db")
        assert done.code == 0
        assert done.err == f"{warning}{worker.pid}; copy again when it has ended\n"
        assert list(cli("copy", "other.db", "--json").json["live"]) == ["slow"]
        assert cli("copy", "third.db", "--run", "etl").err == ""
        Path("go").touch()
        assert worker.wait() == 0
    again = cli("copy", "other.db")
    assert again.out == "3 runs copied to other.db: 1 brought up to date, 2 unchanged\n"
    assert again.err == ""
    assert cli("recover", "--store", "other.db").out == "no orphaned runs\n"


def test_runs_whose_worker_was_killed_are_recovered(cli: Cli) -> None:
    with at_work(cli):
        assert cli("recover").out == "no orphaned runs\n", "its worker lives"
    assert "slow" in cli("doctor").out
    (orphan,) = cli("recover", "--dry-run", "--json").json
    assert (orphan["run_id"], orphan["status"]) == ("slow", "orphaned")
    assert cli("recover", "--dry-run").code == 0
    assert "not resumed: name the flow with --flow" in (
        cli("recover", "--dry-run", "--flow", "jobs:etl").out
    )
    assert "not resumed" not in cli("recover", "--dry-run", "--flow", "jobs:slow").out
    alone = cli("recover", "--flow", "jobs:etl", "--json")
    (left,) = alone.json
    assert left["status"] == "orphaned", "runs of other flows are left alone"
    assert alone.code == Exit.FAILED
    assert "\nnot resumed: name the flow with --flow" in cli("recover").out
    Path("go").touch()
    done = cli("recover", "--flow", "jobs:slow", "--json")
    assert done.code == 0
    (recovered,) = done.json
    assert (recovered["status"], recovered["result"]) == ("completed", "go")
    assert cli("recover").out == "no orphaned runs\n"


def test_a_run_of_another_machine_is_undecided_until_someone_waits(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at_work(cli):
        monkeypatch.setattr(Identity, "lives", lambda *_: None)
        done = cli("recover", "--no-wait", "--flow", "jobs:slow", "--json")
        (row,) = done.json
        assert (row["run_id"], row["status"], done.code) == ("slow", "undecided", 0)
        assert "its process may be alive" in row["error"]
        (row,) = cli("recover", "--dry-run", "--json").json
        assert row["status"] == "undecided"
        assert "slow  running" in cli("runs").out
        doctor = cli("doctor")
        assert doctor.code == 0
        assert "1 run executed by processes on other machines, which may be dead" in doctor.out


def test_a_run_that_the_import_of_its_flow_resumed_is_not_said_to_be_left(cli: Cli) -> None:
    with at_work(cli):
        pass
    Path("go").touch()
    Path("eager.py").write_text(
        "import holdfast as hf\n"
        "from jobs import slow\n"
        "with hf.Engine() as engine:\n"
        "    engine.run_sync(slow(path='go'), run_id='slow', resume=True)\n"
    )
    done = cli("recover", "--flow", "eager:slow")
    assert (done.code, done.out) == (0, "no orphaned runs\n")


def test_until_when_a_question_can_be_answered_is_shown_with_what_comes_then(cli: Cli) -> None:
    Path("patient.py").write_text(
        "from holdfast.workflow import ask, workflow\n"
        "@workflow('patient')\n"
        "async def patient(**default):\n"
        "    return await ask('well?', deadline=3600, **default)\n"
    )
    cli("run", "patient:patient", "-i", "default=none", "--run-id", "p")
    cli("run", "patient:patient", "--run-id", "fails")
    told = r"\nit waits for an answer until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(then: (.*)\):\n  holdfast answer"
    assert re.findall(told, cli("show", "p").out) == ["none"]
    assert re.findall(told, cli("show", "fails").out) == ["it fails"]


def test_a_run_whose_deadline_has_passed_is_to_be_resumed(cli: Cli) -> None:
    paused = cli("run", "jobs:impatient", "--run-id", "i")
    assert paused.code == Exit.PAUSED
    assert re.search(r"\n  \S+: until .+ \(then: no answer\)\n", paused.err)
    wait_until(lambda: cli("questions", "--overdue", "--json").out)
    shown = cli("show", "i").out
    way = "continue it with:\n  holdfast resume i --flow=MODULE:NAME\n"
    assert f"\nnobody answered it in time; {way}" in shown
    assert "holdfast answer" not in shown
    late = cli("answer", "i", "--with", "now")
    assert late.code == Exit.NOT_FOUND
    assert "its deadline has passed" in late.err
    assert late.err.endswith("): holdfast resume i --flow=MODULE:NAME\n")
    assert cli("resume", "i", "--flow", "jobs:impatient").json == "no answer"


def test_what_nobody_answered_in_time_is_recovered_too(cli: Cli) -> None:
    paused = cli("run", "jobs:impatient", "--run-id", "i")
    assert paused.code == Exit.PAUSED
    assert re.search(r"\n  \S+: until .+ \(then: no answer\)\n", paused.err)
    wait_until(lambda: cli("questions", "--overdue", "--json").out)
    (row,) = cli("recover", "--flow", "jobs:impatient", "--json").json
    assert (row["run_id"], row["status"], row["result"]) == ("i", "completed", "no answer")


def test_a_run_elsewhere_hears_that_it_is_to_pause(cli: Cli) -> None:
    with at_work(cli) as worker:
        assert cli("pause", "slow").code == 0
        Path("go").touch()
        out, _ = worker.communicate()
    assert worker.returncode == Exit.PAUSED
    assert json.loads(out.splitlines()[-1])["event"] == "RunPaused"
    assert "was asked to pause" in cli("show", "slow").out


def test_ctrl_c_leaves_a_run_that_can_be_resumed(cli: Cli) -> None:
    with at_work(cli) as worker:
        worker.send_signal(signal.SIGINT)
        Path("go").touch()
        _, err = worker.communicate()
    assert worker.returncode == Exit.INTERRUPTED
    assert err.endswith("interrupted; continue with: holdfast resume slow --flow=jobs:slow\n")
    assert " released" in cli("show", "slow").out
    assert cli("resume", "slow", "--flow", "jobs:slow").json == "go"


def test_ctrl_c_ends_a_step_that_does_not_end_when_it_comes_again(cli: Cli) -> None:
    with at_work(cli, "stuck") as worker:
        assert worker.stdout is not None
        assert json.loads(worker.stdout.readline())["event"] == "StepOutput", "it is in the step"
        worker.send_signal(signal.SIGINT)
        assert worker.stderr is not None
        assert worker.stderr.readline().endswith("; Ctrl-C again ends it at once\n")
        worker.send_signal(signal.SIGINT)
        _, err = worker.communicate()
    assert worker.returncode == Exit.INTERRUPTED
    assert err == "interrupted; continue with: holdfast resume stuck --flow=jobs:stuck\n"
    Path("go").touch()
    assert cli("resume", "stuck", "--flow", "jobs:stuck").json == "go"


def test_a_pipeline_is_run_and_is_a_thread_of_its_own(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    done = cli("run", "jobs:pipeline", "-i", 'words=["a", "b"]', "--run-id", "p")
    assert done.json == {"count": 2, "double": 2}
    assert [run.run_id for run in cp.thread("p")] == ["p"]
    assert cli("resume", "p", "--flow", "jobs:pipeline").code == Exit.REFUSED
    cli("run", "jobs:pipeline", "-i", "words=[]", "--run-id", "q", "--thread", "t")
    assert [run.run_id for run in cp.thread("t")] == ["q"]


def test_a_pipeline_is_kept_where_it_keeps_itself_unless_another_store_is_named(cli: Cli) -> None:
    asked = cli("run", "jobs:stored", "-i", "words=[1]", "--run-id", "k")
    assert asked.code == Exit.PAUSED
    assert "store: own.db" in asked.err
    assert not Path(".holdfast").exists()
    assert cli("answer", "k", "--with", '"yes"', "--store", "own.db").code == 0
    done = cli("resume", "k", "--flow", "jobs:stored")
    assert done.json == {"count": 1, "publish": "yes"}
    assert cli("resume", "other", "--flow", "jobs:stored").code == Exit.NOT_FOUND
    elsewhere = cli(
        "run", "jobs:stored", "-i", "words=[]", "--run-id", "e", "--store", "elsewhere.db"
    )
    assert "store: elsewhere.db" in elsewhere.err
    assert [run["run_id"] for run in cli("runs", "--store", "own.db", "--json").lines] == ["k"]


def test_a_pipeline_may_bring_a_checkpointer_along(cli: Cli) -> None:
    Path("brings.py").write_text(
        "import holdfast as hf\nfrom holdfast.pipeline import Pipeline\n"
        'here = hf.SyncCheckpointer("brought.db")\n'
        'flow = {"start_at": "one", "paths": [{"from": "one", "to": "end"}]}\n'
        'steps = [{"id": "one", "function": lambda data: 1}]\n'
        'brings = Pipeline(steps, flow, checkpointer=here, name="brings")\n'
    )
    assert cli("run", "brings.py:brings", "--run-id", "b").code == 0
    assert cli("resume", "b", "--flow", "brings:brings").code == Exit.REFUSED, "it is finished"
    assert [run["run_id"] for run in cli("runs", "--store", "brought.db", "--json").lines] == ["b"]


def test_the_sum_below_a_list_counts_what_is_under_way(cli: Cli) -> None:
    with at_work(cli):
        pass
    assert cli("submit", "jobs:etl", "-i", "day=monday", "--run-id", "later").code == 0
    assert "1 of 2, newest first (1 submitted, 1 under way)" in cli("runs", "--limit", "1").out


def test_a_run_whose_process_is_dead_is_shown_as_orphaned(cli: Cli) -> None:
    with at_work(cli) as worker:
        (alive,) = cli("runs", "--json").lines
        assert (alive["status"], alive["orphaned"]) == ("running", False)
        assert alive["holder"].endswith(f":{worker.pid}")
        assert "slow  running" in cli("runs").out
        assert cli("runs", "--status", "orphaned").out == "no runs\n"
        assert "slow  running" in cli("runs", "--status", "running").out
        assert cli("doctor").code == 0
    assert "slow  orphaned" in cli("runs").out
    assert "slow  orphaned" in cli("runs", "--status", "orphaned").out
    assert cli("runs", "--status", "running").out == "no runs\n", "nobody executes it"
    assert cli("runs", "--status", "running", "--status", "orphaned", "--json").lines
    assert cli("runs", "--status", "orphaned", "--status", "paused", "--json").lines
    (dead,) = cli("runs", "--json").lines
    assert (dead["status"], dead["orphaned"]) == ("running", True)
    shown = cli("show", "slow")
    assert "slow  orphaned" in shown.out
    assert "\ncut off  a step that had recorded nothing yet\n" in shown.out
    assert f"{worker.pid} is dead; continue it with:\n  holdfast resume slow --flow" in shown.out
    assert cli("show", "slow", "--json").json["run"]["orphaned"] is True
    unnamed = cli("show", "slow", "--step", "under way")
    assert unnamed.code == Exit.NOT_FOUND
    assert "run 'slow' has no step 'under way'" in unnamed.err
    watched = cli("watch", "slow")
    assert watched.code == Exit.FAILED
    assert f"{worker.pid} is dead; continue it with (MODULE:NAME is the module" in watched.err
    assert watched.err.endswith("): holdfast resume slow --flow=MODULE:NAME\n")
    doctor = cli("doctor")
    assert doctor.code == Exit.FAILED
    assert "✗ orphans: 1 run of 'slow' has no living process: slow" in doctor.out


def test_commands_call_an_orphaned_run_as_the_list_of_runs_does(cli: Cli) -> None:
    with at_work(cli):
        pass
    retried = cli("retry", "slow", "--flow", "jobs:slow")
    assert retried.code == Exit.REFUSED
    assert "run 'slow' is orphaned, and did not fail; continue it with: holdfast resume slow" in (
        retried.err
    )
    again = cli("submit", "jobs:slow", "-i", "path=go", "--run-id", "slow")
    assert again.out == "slow exists already (orphaned); nothing was changed\n"
    assert "slow  orphaned" in cli("dry-run", "--flow", "jobs:slow").out


def test_the_step_of_a_dead_process_is_cut_off(cli: Cli) -> None:
    Path("dies.py").write_text(
        "import os, signal\n"
        "from holdfast.graph import END, Graph\n"
        "def load(state): os.kill(os.getpid(), signal.SIGKILL)\n"
        "graph = Graph(dict, name='dies').add_node('fetch', lambda state: {'n': 1})\n"
        "graph.add_node('load', load).add_edge('fetch', 'load').add_edge('load', END)\n"
        "graph.set_entry('fetch')\n"
    )
    forks.run(
        "-m", "holdfast", "run", "dies:graph", "--input-json", "{}", "--run-id", "dead", check=False
    )
    assert "\ncut off  load\n" in cli("show", "dead").out
    assert cli("show", "dead", "--step", "load").out.startswith("load  cut off")
    assert cli("show", "dead", "--step", "load", "--json").json["status"] == "cut off"


def test_a_run_whose_answer_has_come_is_told_from_one_that_waits(cli: Cli) -> None:
    cli("run", "jobs:review", "-i", "what=x", "--run-id", "r")
    assert "r    paused" in cli("runs").out
    cli("answer", "r", "--with", '{"approved": true, "amount": 3}')
    assert "r    answered" in cli("runs").out
    assert "r    answered" in cli("runs", "--status", "answered").out
    assert cli("runs", "--status", "running", "--status", "orphaned").out == "no runs\n"
    assert "it was answered" in cli("show", "r").out
    (run,) = cli("runs", "--json").lines
    assert (run["answered"], run["orphaned"], run["holder"]) == (True, False, None)
    doctor = cli("doctor")
    assert doctor.code == 0, "it waits for someone to go on, and nothing is wrong"
    assert "1 run waited for an answer, now given" in doctor.out
    watched = cli("watch", "r")
    assert watched.code == Exit.FAILED, "nobody continues it"
    assert "it was answered; continue it with (MODULE:NAME is the module" in watched.err
    assert watched.err.endswith("): holdfast resume r --flow=MODULE:NAME\n")


def test_a_run_that_no_process_executes_is_cancelled_at_once(cli: Cli) -> None:
    with at_work(cli):
        pass
    assert cli("cancel", "slow", "--json").json["status"] == "cancelled"
    cli("run", "jobs:review", "-i", "what=x", "--run-id", "r")
    cli("run", "jobs:etl", "-i", "day=x", "--run-id", "etl")
    assert cli("fork", "etl", "--at", "fetch", "--run-id", "f").code == 0
    assert cli("cancel", "f", "--json").json["status"] == "cancelled"
    cli("answer", "r", "--with", '{"approved": true, "amount": 3}')
    assert cli("cancel", "r", "--json").json["status"] == "cancelled"


def test_a_run_that_a_process_executes_is_only_asked_to_cancel(cli: Cli) -> None:
    with at_work(cli):
        assert cli("cancel", "slow", "--json").json["status"] == "running"


def way_on(printed: str) -> list[str]:
    """The command that is offered, ready to be called."""
    (line,) = re.findall(r"continue with:\s+holdfast (.*)", printed)
    return shlex.split(line)


def test_the_command_that_is_offered_continues_the_run(cli: Cli) -> None:
    asked = cli("run", "./jobs.py:anything", "--run-id", "it's", "--store", "other.db")
    answer = way_on(asked.err)
    assert answer == ["answer", "it's", "--store=other.db"], "it asks for the answer"
    assert "it asks for the answer; in a script, give it: --with JSON\n" in asked.err
    answered = cli(*answer, "--with", "3")
    assert way_on(answered.out) == [
        "resume",
        "it's",
        "--flow=MODULE:NAME",
        "--store=other.db",
    ]
    assert answered.out.endswith(
        "\nMODULE:NAME is the module and name of flow 'anything'; its record says that it was "
        "started as './jobs.py:anything'\n"
    )
    way = (word.replace("MODULE:NAME", "./jobs.py:anything") for word in way_on(answered.out))
    assert cli(*way).json == 3


def test_a_run_whose_id_is_taken_is_continued_as_the_error_says(cli: Cli) -> None:
    cli("run", "jobs:anything", "--run-id", "it")
    taken = cli("run", "jobs:anything", "--run-id", "it")
    assert taken.code == Exit.REFUSED
    assert "run 'it' already exists; choose another id, or continue it with: " in taken.err
    cli("answer", "it", "--with", "3")
    way = taken.err.rpartition("holdfast ")[2]
    assert cli(*shlex.split(way)).json == 3


def test_a_run_whose_id_is_taken_is_not_to_be_continued_if_it_is_finished_or_under_way(
    cli: Cli,
) -> None:
    cli("run", "jobs:etl", "-i", "day=1", "--run-id", "it")
    taken = cli("run", "jobs:etl", "-i", "day=2", "--run-id", "it")
    assert taken.err.endswith("choose another id, or look at it with: holdfast show it\n")
    cli("run", "jobs:broken", "--run-id", "broken")
    taken = cli("run", "jobs:broken", "--run-id", "broken")
    assert "continue it with: holdfast retry broken --flow=jobs:broken" in taken.err
    with at_work(cli):
        taken = cli("run", "jobs:slow", "-i", "path=go", "--run-id", "slow")
        assert "or watch it with: holdfast watch slow" in taken.err


def test_a_module_that_executes_runs_when_it_is_imported_is_told_so(cli: Cli) -> None:
    Path("eager.py").write_text(
        "import holdfast as hf\nfrom jobs import etl\n"
        'with hf.Engine(".holdfast/holdfast.db") as engine:\n'
        '    engine.run_sync(etl(day="1"), run_id="it", resume=True)\n'
    )
    done = cli("recover", "--flow", "eager:etl")
    assert "warning: importing eager executed runs; put what starts them under" in done.err
    assert "executed runs" not in cli("recover", "--flow", "jobs:etl").err


def test_the_command_that_is_offered_names_a_flow_of_the_user_or_the_project(cli: Cli) -> None:
    """A store may say anything: nothing of it becomes a module to import."""
    asked = cli("run", "jobs:review", "-i", "what=x", "--run-id", "it")
    cli("answer", "it", "--with", '{"approved": true, "amount": 1}')
    paused = cli("run", "jobs:anything", "--run-id", "other")
    assert asked.code == paused.code == Exit.PAUSED
    Path("pyproject.toml").write_text('[tool.holdfast]\nflows = ["jobs:anything"]\n')
    assert way_on(cli("answer", "other", "--with", "3").out) == ["resume", "other"]
    cli("run", "jobs:color", "--run-id", "c")
    answered = cli("answer", "c", "--with", "blue", "--by", "ann")
    assert way_on(answered.out) == ["resume", "c", "--flow=MODULE:NAME"]


def test_the_id_of_a_run_does_not_become_an_option(cli: Cli) -> None:
    hostile = "--flow=./evil.py:x"
    asked = cli("run", "jobs:anything", f"--run-id={hostile}")
    answer = way_on(asked.err)
    assert answer == ["answer", "--", hostile]
    answered = cli("answer", "--with=3", "--", hostile)
    assert way_on(answered.out) == ["resume", "--flow=MODULE:NAME", "--", hostile]
    assert cli("resume", "--flow=jobs:anything", "--", hostile).json == 3


def test_the_command_that_is_offered_names_who_may_answer_and_which_question(cli: Cli) -> None:
    asked = cli("run", "jobs:color", "--run-id", "c")
    answer = way_on(asked.err)
    assert "--by=ann" in answer
    assert "or with another answer: blue\n" in asked.err
    assert cli(*answer).code == 0


def test_a_question_that_is_not_open_is_named_before_its_answer_is_looked_at(cli: Cli) -> None:
    cli("run", "jobs:color", "--run-id", "c")
    wrong = cli("answer", "c", "--with=red", "--question", "d")
    assert wrong.code == Exit.NOT_FOUND
    assert wrong.err == "Error: run 'c', question 'd': is not open; open are 'ask'\n"


def test_without_a_terminal_the_answers_that_fit_are_named(cli: Cli) -> None:
    cli("run", "jobs:color", "--run-id", "c")
    done = cli("answer", "c")
    assert done.code == Exit.USAGE
    assert "there is no terminal to ask on; give the answer: --with red|blue\n" in done.err


def test_a_flow_that_is_configured_need_not_be_named(cli: Cli) -> None:
    Path("pyproject.toml").write_text('[tool.holdfast]\nflows = ["jobs:anything"]\n')
    cli("run", "jobs:anything", "--run-id", "it")
    answered = cli("answer", "it", "--with", "3")
    assert way_on(answered.out) == ["resume", "it"]
    assert cli("resume", "it").json == 3


def test_where_nobody_knows_the_flow_the_command_has_a_place_for_it(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    sys.path.insert(0, str(Path.cwd()))
    try:
        engine = hf.Engine(cp)
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(importlib.import_module("jobs").anything(), run_id="it")
    finally:
        sys.modules.pop("jobs")
    answered = cli("answer", "it", "--with", "3")
    assert "answered; start your program again, or continue with:\n  holdfast " in answered.out
    assert answered.out.endswith("\nMODULE:NAME is the module and name of flow 'anything'\n")
    assert way_on(answered.out) == ["resume", "it", "--flow=MODULE:NAME"]
    assert cli("resume", "it").code == Exit.NOT_FOUND
    assert (
        "it was answered; start your program again, or continue it with:" in cli("show", "it").out
    )
    doctor = cli("doctor").out
    assert "! answers: 1 run waited for an answer, now given: it\n" in doctor
    (hint,) = re.findall(
        r"continue it with \(MODULE:NAME is the module and name of flow 'anything'\): "
        r"holdfast (recover --flow=MODULE:NAME)\n",
        doctor,
    )
    assert "workers" not in doctor, "its program continues it"
    way = hint.replace("MODULE:NAME", "jobs:anything").split()
    assert cli(*way, "--json").json[0]["status"] == "completed"


def test_what_a_run_says_it_was_started_by_is_shown_and_never_imported(cli: Cli) -> None:
    Path("evil.py").write_text("open('imported', 'w').close()\n")
    cli("run", "jobs:anything", "--run-id", "it")
    with sqlite3.connect(".holdfast/holdfast.db") as db:
        ((meta,),) = db.execute("SELECT meta FROM holdfast_entries WHERE run = 'it' AND seq = 0")
    db.close()
    assert json.loads(meta)["source"] == "jobs:anything"
    with hf.SyncCheckpointer() as cp:
        link = Link(source="./evil.py:x")
        flow = _flows.load("./jobs.py:anything").flow
        with dying(cp.core):
            asyncio.run(launch.start(cp.core, flow.program, "hostile", {}, Options(), link))
    refused = cli("resume", "hostile")
    assert refused.code == Exit.NOT_FOUND
    assert "evil" not in refused.err.partition("name it with")[2], "not as advice"
    assert "(its record says that it was started as './evil.py:x')" in refused.err
    assert not Path("imported").exists()


@pytest.mark.parametrize("source", ["x\x1b]0;owned\x07", "\u202efdp", "a\nError: b", "x" * 9999])
def test_what_a_run_says_it_was_started_by_is_escaped(cli: Cli, source: str) -> None:
    with hf.SyncCheckpointer() as cp:
        flow = _flows.load("./jobs.py:anything").flow
        link = Link(source=source)
        with dying(cp.core):
            asyncio.run(launch.start(cp.core, flow.program, "hostile", {}, Options(), link))
    refused = cli("resume", "hostile")
    assert refused.err.count("\n") == 1
    assert refused.err[:-1].isprintable()
    assert len(refused.err) < 1000


def test_text_need_not_be_quoted_where_text_is_an_answer(cli: Cli) -> None:
    cli("run", "jobs:color", "--run-id", "c")
    wrong = cli("answer", "c", "--with", "green", "--by", "ann")
    assert wrong.code == Exit.USAGE
    assert "--with takes red|blue, not 'green'" in wrong.err
    assert cli("answer", "c", "--with", "blue", "--by", "ann").code == 0
    late = cli("answer", "c", "--with", "green", "--by", "bob")
    assert "was answered already, by 'ann' at 20" in late.err
    assert cli("resume", "c", "--flow", "jobs:color").json == "blue"


@pytest.mark.parametrize("broken", ["{approved: true}", "[1", '"open', "@missing"])
def test_what_was_meant_to_be_json_is_not_taken_for_text(cli: Cli, broken: str) -> None:
    cli("run", "jobs:anything", "--run-id", "it")
    assert cli("answer", "it", "--with", broken).code != 0
    assert len(cli("questions", "--json").lines) == 1


def test_who_answers_is_asked_for_in_the_words_of_the_command_line(cli: Cli) -> None:
    cli("run", "jobs:color", "--run-id", "c")
    refused = cli("answer", "c", "--with", "blue")
    assert refused.code == Exit.NOT_FOUND
    assert "is for 'ann'; say who answers: --by NAME" in refused.err
    assert "not for 'bob'" in cli("answer", "c", "--with", "blue", "--by", "bob").err


def test_a_pipeline_may_begin_with_any_value(cli: Cli) -> None:
    Path("shout.py").write_text("functions = {'upper': str.upper}\n")
    Path("shout.yaml").write_text(
        "name: shout\nsteps:\n  - {id: up, function: upper}\n"
        "flow: {start_at: up, paths: [{from: up, to: end}]}\n"
    )
    done = cli("run", "shout.yaml@shout:functions", "--input-json", '"hello"', "--run-id", "s")
    assert done.json == {"up": "HELLO"}
    assert cli("resume", "s", "--flow", "shout.yaml@shout:functions").code == Exit.REFUSED
    unnamed = cli("run", "shout.yaml", "--input-json", '"hello"')
    assert unnamed.code == Exit.USAGE
    assert "shout.yaml@module:functions" in unnamed.err
    assert cli("run", "nosuch.yaml").code == Exit.NOT_FOUND
    both = cli("run", "shout.yaml@shout:functions", "--input-json", '"x"', "-i", "a=1")
    assert both.code == Exit.USAGE


def test_errors_name_options_of_the_command_and_no_arguments_of_the_library(cli: Cli) -> None:
    with at_work(cli):
        refused = cli("resume", "slow", "--flow", "jobs:slow")
        assert refused.code == Exit.REFUSED
        assert (
            "or resume it with --take-over: that process then records nothing more" in refused.err
        )
