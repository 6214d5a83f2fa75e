"""runs, show, diff, stats, watch."""

from __future__ import annotations

import asyncio
import os
import random
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.cli._exits import Exit
from holdfast.codec.summaries import for_people
from holdfast.kernel.core import Core
from holdfast.model import Entry
from holdfast.workflow import Retry, ask, for_each, parallel, step, workflow
from tests.cli.conftest import Cli
from tests.operations.test_hidden import add_own, own_of
from tests.waiting import join


def test_runs_are_listed_with_what_they_are_doing(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    plain.save("other", {}, flow="nightly", thread_id="t1")
    plain.complete("other")
    out = cli("runs").out.splitlines()
    assert out[0].split() == ["RUN", "STATUS", "THREAD", "FLOW", "STEP", "SEQ", "SAVED"]
    assert out[1].split()[:4] == ["other", "completed", "t1", "nightly"]
    assert cli("runs", "plain").out.split()[:3] == ["RUN", "STATUS", "FLOW"], "none has a thread"
    assert out[2].split()[:4] == ["plain-run", "open", "s3", "4"]
    for arguments in (
        ["--status", "completed"],
        ["--flow", "nightly"],
        ["--thread", "t1"],
        ["oth"],
    ):
        assert [run["run_id"] for run in cli("runs", *arguments, "--json").lines] == ["other"]
    assert [run["run_id"] for run in cli("runs", "--owner", "ann", "--json").lines] == ["plain-run"]
    assert cli("runs", "--owner", "bob").out == "no runs\n"
    told = "no runs whose id begins with 'plain-rnu'; did you mean 'plain-run'?\n"
    assert cli("runs", "plain-rnu").out == told


def test_a_command_drops_no_lock_of_a_store_that_its_process_has_open(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    """Another process that closes the store would take itself for the last one, and end its log."""
    cp.save("run", {"n": 1})
    before = locks_here()
    assert before, "the store is open"
    assert "run" in cli("runs").out
    assert locks_here() == before


def test_a_command_leaves_the_log_of_a_store_whose_file_was_emptied(cli: Cli) -> None:
    """The saves may still be in it."""
    with hf.SyncCheckpointer("runs.db") as cp:
        cp.save("run", {"n": 1})
        log = Path("runs.db-wal").read_bytes()
    Path("runs.db").write_bytes(b"")
    Path("runs.db-wal").write_bytes(log)
    assert cli("runs", "--store=runs.db").code != 0
    assert Path("runs.db-wal").read_bytes() == log


def locks_here() -> list[str]:
    """What this process has locked of files called holdfast.db, as Linux lists it."""
    names = {str(path.stat().st_ino) for path in Path(".holdfast").glob("holdfast.db")}
    held = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return [
        " ".join(words[1:4])
        for words in held
        if str(os.getpid()) in words and words[-3].rpartition(":")[2] in names
    ]


def test_a_long_list_says_how_much_of_it_is_shown(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    order = random.Random(0).sample(range(1200), 1200)
    for n in order:
        cp.save(f"run-{n:04}", n)
    cp.save("run-0007", "failed", status="failed")
    *shown, last = cli("runs").out.splitlines()
    assert len(shown) == 1 + 50
    assert [line.split()[0] for line in shown[1:]] == [f"run-{n:04}" for n in order[:-51:-1]]
    counts = "1 failed, 1,199 open"
    assert last == f"50 of 1,200, newest first ({counts}); see all with --limit 0"
    assert "of" not in cli("runs", "--limit", "0").out.splitlines()[-1]
    assert "of" not in cli("runs", "run-001").out.splitlines()[-1], "there are ten of them"


def test_runs_are_chosen_by_label_time_status_and_question(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    for day, team in (("monday", "blue"), ("tuesday", "red")):
        given = ["-i", f"day={day}", "--run-id", day, "--label", f"team={team}"]
        assert cli("submit", "jobs:etl", *given).code == 0
    cp.save("failed", 1, status="failed")
    cp.save("open", 1)

    def chosen(*options: str) -> list[str]:
        return [run["run_id"] for run in cli("runs", "--json", *options).lines]

    assert chosen() == ["open", "failed", "tuesday", "monday"]
    assert chosen("--label", "team=blue") == ["monday"]
    assert chosen("--status", "failed", "--status", "open") == ["open", "failed"]
    assert chosen("--since", "1h", "--limit", "1") == ["open"]
    assert chosen("--until", "1h") == chosen("--asking") == []
    assert cli("runs", "--label", "team").code == 2
    assert cli("runs", "--label", "team=blue", "--label", "team=red").code == 2


def test_json_has_the_whole_list_newest_first(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    order = random.Random(0).sample(range(60), 60)
    for n in order:
        cp.save(f"run-{n}", n)
    newest_first = [f"run-{n}" for n in reversed(order)]
    for arguments, expected in (
        ([], newest_first),
        (["--limit", "0"], newest_first),
        (["--limit", "3"], newest_first[:3]),
    ):
        assert [run["run_id"] for run in cli("runs", "--json", *arguments).lines] == expected


def test_a_long_list_of_questions_says_so_too(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    @workflow
    def survey() -> Any:
        return (yield parallel(*(ask(f"Question {n}?") for n in range(105))))

    with pytest.raises(hf.RunPausedError):
        hf.Engine(cp).run_sync(survey(), run_id="survey")
    *shown, last = cli("questions").out.splitlines()
    assert len(shown) == 1 + 100
    assert last == "100 of 105, the most urgent first; see all with --limit 0"
    last = cli("questions", "survey", "--limit", "10").out.splitlines()[-1]
    assert last == "10 of 105, in the order asked; see all with --limit 0"
    assert len(cli("questions", "--json").lines) == 105
    assert len(cli("questions", "--json", "--limit", "10").lines) == 10
    assert len(cli("questions", "--limit", "0").out.splitlines()) == 1 + 105


def test_runs_within_runs_are_listed_when_asked_for(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    assert cli("run", "jobs:etl", "-i", "day=monday", "--run-id", "etl").code == 0
    assert [run["run_id"] for run in cli("runs", "--json").lines] == ["etl"]
    assert [run["run_id"] for run in cli("runs", "--json", "--children").lines] == [
        "etl//total",
        "etl",
    ]


def test_ids_with_slashes_are_no_runs_within_others(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    cp.save("https:/example.org/a", 1)
    cp.save("https:/example.org/a/b", 1)
    assert len(cli("runs", "--json").lines) == 2
    assert cli("show", "https:/example.org/a").code == 0
    assert cli("show", "https").code == Exit.USAGE


def test_show_tells_what_happened_when(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    cli("run", "jobs:etl", "-i", "day=monday", "--run-id", "etl", "--owner", "ann")
    shown = cli("show", "etl").out
    assert "etl  completed  flow etl  owner ann" in shown
    for word in (
        "began",
        "fetch",
        "total",
        "child run etl//total",
        "completed",
        "━",
        "child runs",
        "└── total  completed",
    ):
        assert word in shown
    assert '"rows": [' in shown
    document = cli("show", "etl", "--json").json
    assert [moment["kind"] for moment in document["timeline"]] == [
        "open",
        "result",
        "child",
        "result",
        "complete",
    ]
    steps = [moment["step"] for moment in document["timeline"]]
    assert steps == [None, "fetch", "total", "total", None]
    children = [moment["child"] for moment in document["timeline"]]
    assert children == [None, None, "etl//total", "etl//total", None]
    assert document["timeline"][1]["took"] > 0
    assert document["state"] == {"fetch": {"day": "monday", "rows": [1, 2, 3]}, "total": 6}
    assert [run["run_id"] for run in document["children"]] == ["etl//total"]


def test_show_draws_child_runs_below_the_runs_that_began_them(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    @workflow
    async def leaf() -> None: ...

    @workflow
    async def branch() -> None:
        await parallel(leaf(), leaf())

    @workflow
    async def tree() -> None:
        await parallel(branch(), leaf())

    for run_id in ("oak", "o" * 500):
        hf.Engine(cp).run_sync(tree(), run_id=run_id)
        shown = cli("show", run_id).out
        drawn = shown[shown.index("child runs") :].splitlines()[1:6]
        assert [line.partition("──")[0] for line in drawn if "──" in line] == [
            "├", "│   ├", "│   └", "└",
        ]  # fmt: skip
    assert cli("show", "oak//b", "--json").json["run"]["run_id"].startswith("oak//")


def test_show_finds_the_newest_run_of_a_thread(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    cp.save("first", 1, thread_id="talk")
    cp.save("second", 2, thread_id="talk")
    assert cli("show", "talk", "--json").json["run"]["run_id"] == "second"
    cp.save("talk", 3)
    assert cli("show", "talk", "--json").json["run"]["run_id"] == "talk", "a run comes first"
    assert cli("show", "tal", "--json").json["run"]["run_id"] == "talk"
    assert cli("cancel", "tolk").code == Exit.NOT_FOUND


def test_show_tells_of_gaps_failures_and_what_was_left_behind(
    cli: Cli, plain: hf.SyncCheckpointer
) -> None:
    time.sleep(0.15)
    plain.save("plain-run", {"n": 9}, step="late")
    plain.rollback("plain-run", seq=2)
    shown = cli("show", "plain-run").out
    assert "· nothing recorded for " in shown
    assert "went back s1" in shown
    assert shown.count("left behind") == 3
    assert cli("run", "jobs:broken", "--run-id", "broken").code == Exit.FAILED
    failed = cli("show", "broken").out
    assert "failed" in failed
    assert "RuntimeError: no such table" in failed


def test_show_has_the_state_at_any_checkpoint(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    for where in ("2", "s1", "plain-run@2", "plain@2"):
        document = cli("show", "plain", "--at", where, "--json").json
        assert document["checkpoint_id"] == "plain-run@2"
        assert document["state"]["n"] == 1
    assert cli("show", "plain", "--at", "99").code == Exit.NOT_FOUND
    assert cli("show", "plain", "--at", "nostep").code == Exit.NOT_FOUND


def test_show_lists_the_items_of_a_step_by_their_numbers(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    @step
    async def count(n: int) -> int:
        await asyncio.sleep(0.01 * (11 - n))
        return n

    @workflow
    async def counting() -> list[int]:
        return await for_each(range(12), count, name="counts")

    hf.Engine(cp.store).run_sync(counting(), run_id="r")
    out = cli("show", "r", "--step", "counts").out
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("counts[")][1:]
    assert listed == [f"counts[{n}]" for n in range(12)]
    assert cli("show", "r", "--step", "counts[3]").out.count("counts[") == 1, "only what was asked"
    assert cli("show", "r", "--step", "counts[3]", "--json").json["rounds"] == 12


def test_show_takes_an_item_within_another_step_by_its_key(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    async def inner() -> list[int]:
        return await for_each([1, 2], abs, name="sizes")

    @workflow
    async def outer() -> None:
        await parallel(inner())

    hf.Engine(cp.store).run_sync(outer(), run_id="r")
    out = cli("show", "r", "--step", "inner/sizes[1]").out
    assert "sizes[1]" in out
    assert "sizes[0]" not in out


def test_of_the_items_of_a_step_the_one_that_failed_is_shown(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    @step
    async def weigh(n: int) -> int:
        await asyncio.sleep(0.0 if n else 0.1)  # the one that failed is not recorded last
        if n == 1:
            raise ValueError("too light")
        return n

    @workflow
    async def weighing() -> list[int]:
        return await for_each(range(3), weigh, name="weights")

    with pytest.raises(hf.StepFailedError):
        hf.Engine(cp.store).run_sync(weighing(), run_id="r")
    shown = cli("show", "r", "--step", "weights").out
    assert shown.startswith("weights[1]  failed")
    assert "too light" in shown


def test_show_tells_what_one_step_did(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    tries = []

    @step(retry=Retry(2, backoff=0.0))
    def charge(amount: int) -> dict[str, int]:
        tries.append(amount)
        hf.current_step().emit(f"try {len(tries)}", record=True)
        if len(tries) == 1:
            raise ConnectionError("503 from the bank")
        return {"charged": amount}

    @workflow
    async def pay(amount: int) -> dict[str, int]:
        await charge(amount)
        return await charge(amount + 1)

    hf.Engine(cp.store).run_sync(pay(7), run_id="pay-1")
    out = cli("show", "pay-1", "--step", "charge").out
    assert "attempt 1 failed" in out
    assert "ConnectionError: 503 from the bank" in out
    assert 'raise ConnectionError("503 from the bank")' in out
    assert "attempt 2 completed" in out
    assert '"try 2"' in out
    assert '"charged": 7' in out
    assert "charge#2   completed" in out
    told = cli("show", "pay-1", "--step", "charge#2", "--json").json
    assert (told["status"], told["result"]) == ("completed", {"charged": 8})
    assert cli("show", "pay-1", "--step", "refund").code == Exit.NOT_FOUND
    assert cli("show", "pay-1", "--step", "charge", "--at", "first").code == Exit.USAGE


def test_the_executions_of_a_step_are_listed_in_their_order_and_named_as_elsewhere(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    @step(retry=Retry(2, backoff=0.0))
    def work(n: int) -> int:
        if n == 3 and hf.current_step().attempt == 1:
            raise ConnectionError("away")
        return n

    @workflow
    async def loop() -> None:
        for n in range(1, 12):
            await work(n)

    hf.Engine(cp.store).run_sync(loop(), run_id="loop-1")
    out = cli("show", "loop-1", "--step", "work").out
    listed = [line.split()[0] for line in out.partition("EXECUTION")[2].splitlines()[1:12]]
    assert listed == ["work", *(f"work#{n}" for n in range(2, 12))]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (True, "true"),
        ("a red one", '"a red one"'),
        ({"password": "hunter2", "n": 1}, '"n": 1'),
        ("x" * 200, f'"{"x" * 58}…'),
        ("x" * 20_000, "<20.0 KB>"),
        (b"x" * 999, '"<bytes, 999 B>"'),
    ],
)
def test_what_was_answered_is_shown_with_who_answered(
    cli: Cli, cp: hf.SyncCheckpointer, answer: Any, told: str
) -> None:
    @workflow
    async def asking() -> Any:
        return await ask("Publish?", name="publish")

    with hf.Engine(cp.store) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(asking(), run_id="a")
        engine.answer_sync("a", answer, by="ann")
    (line,) = (one for one in cli("show", "a").out.splitlines() if "answered publish" in one)
    assert told in line
    assert line.endswith("by ann")
    assert "hunter2" not in line
    detail = cli("show", "a", "--step", "publish")
    assert "answered by ann" in detail.out
    assert "\nanswer\n" in detail.out
    found = cli("show", "a", "--step", "publish", "--json").json
    assert (found["status"], found["answer"]["by"]) == ("answered", "ann")
    if not isinstance(answer, bytes | dict):
        assert found["answer"]["value"] == answer
    assert "hunter2" not in f"{detail.out}{found['answer']}"


def test_a_node_inside_parallel_branches_is_named_like_any_other(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    assert cli("run", "jobs:wide", "--run-id", "wide").code == 0
    for where, visits in (("start", 1), ("left", 2), ("right", 2), ("start>left/left", 2)):
        document = cli("show", "wide", "--at", where, "--json").json
        assert document["state"] == {"name": where.rpartition("/")[2], "visits": visits}
    assert '~ name: "left" → "right"' in cli("diff", "wide", "left", "right").out
    last = max(("left", "right"), key=lambda name: cp.list_checkpoints("wide", step=name)[0].seq)
    edit = ("fork", "wide", "--at", last, "--run-id", "edited", "--set", "visits=10")
    assert cli(*edit).code == 0
    assert cli("resume", "edited", "--flow", "jobs:wide").code == 0
    assert cli("show", "edited", "--json").json["state"]["visits"] == 11
    assert cli("rollback", "wide", "left").code == 0
    assert cli("resume", "wide", "--flow", "jobs:wide").code == 0


def test_long_states_and_timelines_are_cut_unless_asked_for(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:
    cp.save_many({"run_id": "long", "state": list(range(n))} for n in range(70))
    short, full = cli("show", "long").out, cli("show", "long", "--full").out
    assert "… 21 earlier; see them with --full" in short
    assert short.splitlines()[1].partition(",")[0] == full.splitlines()[1].partition(",")[0]
    assert "more lines; see them with --full" in short
    assert "--full" not in full
    assert len(full.splitlines()) > 140


def test_of_a_large_state_only_what_is_shown_is_laid_out(
    cli: Cli, cp: hf.SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cp.save("few", {"rows": [{"id": n, "name": "x" * 70} for n in range(30)]})
    cp.save("many", {"rows": [{"id": n, "name": "x" * 70} for n in range(9000)]})
    drawn: list[object] = []

    def draw(value: object) -> Any:
        drawn.append(value)
        return for_people(value)

    monkeypatch.setattr("holdfast.cli._show.for_people", draw)
    few, many = cli("show", "few").out.splitlines(), cli("show", "many").out.splitlines()
    assert few[-1] == "… 104 more lines; see them with --full"
    assert many[-1] == "… over 1,000 more lines; see them with --full"
    assert few[-21:-1] == many[-21:-1]
    assert len(drawn) < 2500


def test_a_diff_is_readable_and_a_patch_that_applies(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    shown = cli("diff", "plain", "1", "s3").out.splitlines()
    assert shown[0] == "plain-run@1 → plain-run@4"
    assert "~ n: 0 → 3" in shown
    assert '+ log[2]: "a"' in shown
    patch = cli("diff", "plain", "1", "4", "--patch").json
    assert patch == plain.diff("plain-run", 1, 4).patch
    assert {"op": "replace", "path": "/n", "value": 3} in patch
    assert cli("diff", "plain", "1", "4", "--json").json["patch"] == patch
    assert "no difference" in cli("diff", "plain", "2", "plain@2").out
    assert cli("diff", "plain", "1", "99").code == Exit.NOT_FOUND


def test_stats_count_what_runs_did_over_time(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    plain.save("timed", 1, flow="etl")
    document = cli("stats", "--since", "7d", "--flow", "etl", "--json").json
    assert (document["hours"], len(document["periods"])) == (6, 29)
    assert sum(period["started"] for period in document["periods"]) == 1
    assert cli("stats", "--since", "24h").out.count("\n") == 26
    assert cli("stats", "--flow", "etl").code == Exit.USAGE
    assert cli("stats", "timed", "--since", "24h").code == Exit.USAGE


def test_stats_count_the_store_or_a_run(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    plain.save("other", 1)
    document = cli("stats", "--json").json
    assert (document["runs"], document["checkpoints"]) == (2, 5)
    assert document["statuses"] == {"open": 2}
    assert cli("stats", "other", "--json").json["checkpoints"] == 1
    assert "checkpoints           5" in cli("stats").out


@pytest.mark.parametrize("as_json", [True, False])
def test_watch_follows_a_run_to_its_end(
    cli: Cli, cp: hf.SyncCheckpointer, tmp_path: Path, as_json: bool
) -> None:
    cp.save("job", 0, step="first")

    def work() -> None:
        for n in range(3):
            time.sleep(0.1)
            cp.save("job", n, step=f"later-{n}")
        cp.complete("job")

    worker = threading.Thread(target=work)
    worker.start()
    done = cli("watch", "job", "--interval", "0.05", *(["--json"] if as_json else []))
    join(worker)
    assert done.code == 0
    if as_json:
        assert [moment["seq"] for moment in done.lines] == list(range(6))
        assert done.lines[-1]["kind"] == "complete"
    else:
        assert [line.split()[2] for line in done.out.splitlines()] == [
            "began", "first", "later-0", "later-1", "later-2", "completed",
        ]  # fmt: skip


def test_watching_a_run_that_failed_exits_like_it(cli: Cli) -> None:
    cli("run", "jobs:broken", "--run-id", "broken")
    assert cli("watch", "broken").code == Exit.FAILED


def test_no_command_shows_or_trips_over_what_the_store_keeps_for_itself(
    cli: Cli, plain: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    commands = (
        ("runs", "--json", "--children"),
        ("stats", "--json"),
        ("verify", "--json"),
        ("doctor", "--json"),
        ("questions", "--json"),
        ("prune", "--runs-older-than", "1w", "--yes", "--json"),
        ("forget", "--owner", "ann", "--dry-run"),
    )

    def outcomes() -> list[tuple[int, str]]:
        done = [cli(*command) for command in commands]
        return [(one.code, re.sub('receipt .*|the file [^"]*', "", one.out)) for one in done]

    before = outcomes()
    add_own(plain)
    assert outcomes() == before
    assert {code for code, _ in before} == {0}
    copied = cli("copy", f"sqlite:///{tmp_path}/copy.db", "--json")
    assert copied.code == 0
    with hf.SyncCheckpointer(f"sqlite:///{tmp_path}/copy.db") as copy:
        assert [run.run_id for run in copy.runs()] == ["plain-run"]
        assert own_of(copy.store) == [[], [], []]


def test_of_many_questions_only_those_that_are_shown_are_read(
    cli: Cli, cp: hf.SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.engine.people import inbox

    @workflow
    async def asking(deadline: float) -> str:
        answer: str = await ask("which?", name="which", deadline=deadline)
        return answer

    engine = hf.Engine(cp.store)
    for n in range(8):
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(asking(9000.0 - 1000 * n), run_id=f"ask-{n}")
    read: list[str] = []
    whole = inbox._asked_by

    def counted(core: Core, head: Entry) -> Any:
        read.append(head.run)
        return whole(core, head)

    monkeypatch.setattr(inbox, "_asked_by", counted)
    lines = cli("questions", "--limit", "3").out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["ask-7", "ask-6", "ask-5"]
    assert lines[4].startswith("3 of 8, the most urgent first")
    assert read == ["ask-7", "ask-6", "ask-5"]
    assert len(cli("questions", "--json").lines) == 8
