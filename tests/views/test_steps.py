"""The steps of a run, as its journal tells of them, and the axis they are drawn on."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.graph import END, Graph
from holdfast.pipeline import Pipeline
from holdfast.views import words
from holdfast.views.axis import Axis, Piece, axis_of
from holdfast.views.step_detail import choose, detail_of
from holdfast.views.step_graph import graph_of
from holdfast.views.step_groups import groups_of
from holdfast.views.step_names import split_key
from holdfast.views.step_reading import StepReader, steps_of
from holdfast.views.steps import Execution, Steps
from holdfast.workflow import Retry, ask, for_each, step, workflow
from tests.waiting import bounded


@pytest.fixture
def cp(tmp_path: Path) -> Iterator[hf.SyncCheckpointer]:
    with hf.SyncCheckpointer(tmp_path / "runs.db") as opened:
        yield opened


def read(cp: hf.SyncCheckpointer, run_id: str) -> Steps:
    info = cp.run(run_id)
    assert info is not None
    return steps_of(cp, info)


def named(steps: Steps, name: str) -> Execution:
    return next(one for one in steps.executions if one.name == name)


tries: list[int] = []


@step(retry=Retry(3, backoff=0.0))
def charge(amount: int) -> int:
    tries.append(amount)
    hf.current_step().emit(f"try {len(tries)}", record=True)
    if len(tries) < 3:
        raise ConnectionError("503 from the bank")
    return amount


@step
def square(n: int) -> int:
    return n * n


@step
def broken() -> None:
    raise ValueError("no such harbour")


@workflow
async def order(amount: int) -> list[int]:
    await charge(amount)
    squares = await for_each([1, 2, 3], square)
    for n in squares:
        await square(n)
    await ask("Ship it?", name="ship")
    return squares


@workflow
async def doomed() -> None:
    await broken()


def test_attempts_items_rounds_and_questions_are_told_apart(cp: hf.SyncCheckpointer) -> None:
    tries.clear()
    engine = hf.Engine(cp.store)
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(order(7), run_id="order-1")
    steps = read(cp, "order-1")
    paid = named(steps, "charge")
    assert [one.outcome for one in paid.attempts] == ["failed", "failed", "completed"]
    assert len(paid.outputs) == 3
    assert paid.is_problem
    asked = named(steps, "ship")
    assert (asked.status, asked.kind, asked.end) == ("asks", "question", None)
    folded = {group.name: group for group in groups_of(steps)}
    assert (folded["charge"].kind, folded["charge"].tries) == ("one", 2)
    assert (folded["square"].kind, folded["square"].items) == ("items", 3)
    assert len(folded["square"].members) == 6, "and three that are no items"

    engine.answer_sync("order-1", "yes", by="ann")
    answered = named(read(cp, "order-1"), "ship")
    assert (answered.status, answered.note) == ("answered", "answered by ann")


def test_what_is_added_to_a_run_is_read_behind_what_is_known(cp: hf.SyncCheckpointer) -> None:
    tries.clear()
    engine = hf.Engine(cp.store)
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(order(7), run_id="order-1")
    info = cp.run("order-1")
    assert info is not None
    reader = StepReader(cp, "order-1", info.flow)
    reader.read(info)
    engine.answer_sync("order-1", "yes")
    engine.run_sync(order(7), run_id="order-1", resume=True)
    cp_now = cp.run("order-1")
    assert cp_now is not None
    assert reader.read(cp_now) == steps_of(cp, cp_now)


def test_a_failed_step_and_the_failure_of_its_run_are_one_row(cp: hf.SyncCheckpointer) -> None:
    with pytest.raises(hf.StepFailedError):
        hf.Engine(cp.store).run_sync(doomed(), run_id="doomed-1")
    steps = read(cp, "doomed-1")
    assert [(one.name, one.status) for one in steps.executions] == [("broken", "failed")]
    assert steps.failure is not None


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("kind", ["graph", "pipeline"])
def test_a_node_that_ends_its_run_failed_in_each_attempt_and_took_its_time(
    cp: hf.SyncCheckpointer, kind: str, attempts: int
) -> None:
    def fall(state: dict[str, int]) -> dict[str, int]:
        time.sleep(0.05)
        raise ValueError("no such harbour")

    retry = Retry(attempts, backoff=0.2, jitter=0.0)
    if kind == "graph":
        app = Graph(dict, name="g").add_node("fall", fall, retry=retry).set_entry("fall")
        call: Any = app.add_edge("fall", END).compile()({})
    else:
        policy = {"attempts": attempts, "backoff": 0.2, "jitter": 0.0}
        steps = [{"id": "fall", "function": fall, "retry": policy}]
        flow = {"start_at": "fall", "paths": [{"from": "fall", "to": "end"}]}
        call = Pipeline(name="p", steps=steps, flow=flow)({})
    with pytest.raises(hf.StepFailedError):
        hf.Engine(cp).run_sync(call, run_id="r")
    info = cp.run("r")
    assert info is not None
    detail = detail_of(cp, info, steps_of(cp, info), "fall")
    assert [(tried.outcome, tried.message) for tried in detail.attempts] == [
        ("failed", "no such harbour")
    ] * attempts
    spans = [tried.seconds or 0.0 for tried in detail.attempts]
    assert min(spans) >= 0.05
    pauses = (attempts - 1) * 0.2
    assert sum(spans) + pauses <= (detail.execution.took or 0.0) + 0.01, "pauses are no attempts"


def test_a_rollback_leaves_steps_behind_and_deletes_none(cp: hf.SyncCheckpointer) -> None:
    for name in "abc":
        cp.save("back", {"at": name}, step=name)
    cp.rollback("back", seq=1)
    cp.save("back", {"at": "d"}, step="d")
    found = {one.name: one.current for one in read(cp, "back").executions}
    assert found == {"a": True, "b": False, "c": False, "d": True}


def test_a_damaged_entry_is_a_row_among_the_others(cp: hf.SyncCheckpointer) -> None:
    for name in "abc":
        cp.save("run", {"at": name}, step=name)
    with sqlite3.connect(cp.store.url.removeprefix("sqlite:///")) as db:
        db.execute("DELETE FROM holdfast_entries WHERE run = 'run' AND seq = 2")
    db.close()
    found = [(one.name, one.status) for one in read(cp, "run").executions]
    assert found == [("a", "completed"), ("@2", "damaged"), ("c", "completed")]


_DIES: str = """
import os, signal, sys
import holdfast as hf
from holdfast.workflow import step, workflow

@step
def fetch() -> int:
    return 1

@step
def store() -> int:
    if len(sys.argv) > 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2

@workflow
async def etl() -> int:
    return await fetch() + await store()

hf.Engine(sys.argv[1]).run_sync(etl(), run_id="etl-1", resume=True)
"""


def test_a_crash_is_a_gap_after_which_another_process_continued(
    cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    script = tmp_path / "dies.py"
    script.write_text(_DIES)
    command = [sys.executable, str(script), str(tmp_path / "runs.db")]
    with subprocess.Popen([*command, "die"]) as first, bounded(first):
        assert first.wait() == -signal.SIGKILL
    with subprocess.Popen(command) as second, bounded(second):
        assert second.wait() == 0
    steps = read(cp, "etl-1")
    before, after = steps.spells
    assert (before.pid, before.ended, after.pid) == (str(first.pid), "died", str(second.pid))
    assert (after.restored, after.first) == (1, "store")
    assert [one.outcome for one in named(steps, "store").attempts] == ["cut off", "completed"]
    axis = axis_of(steps, steps.last, orphaned=False)
    assert [piece.kind for piece in axis.pieces].count("crash") == 1
    assert axis.x(before.end or 0) < axis.x(after.start), "the crash has room"
    assert os.getpid() not in (first.pid, second.pid)


def test_long_waits_are_collapsed_and_all_of_the_axis_is_used() -> None:
    second = 1_000_000
    work = [(0, 1), (1, 2), (2, 3), (10_000, 10_001)]
    made = tuple(
        Execution(f"s{n}", f"s{n}", f"s{n}", "completed", n, start * second, end * second, 1.0)
        for n, (start, end) in enumerate(work)
    )
    steps = Steps("r", 3, 0, 10_001 * second, "completed", made, (), (), {}, 0, {}, None, None)
    axis = axis_of(steps, 20_000 * second, orphaned=False)
    assert [piece.kind for piece in axis.pieces] == ["work", "idle", "work"]
    assert axis.pieces[1].seconds == 9997
    assert axis.x(0) == 0
    assert axis.x(10_001 * second) == pytest.approx(100)
    assert axis.x(3 * second) > 60, "three of four seconds of work"
    assert {label.kind for label in axis.labels()} == {"tick", "idle"}


def test_a_graph_is_what_was_recorded_or_the_order_of_steps(cp: hf.SyncCheckpointer) -> None:
    for name in ("fetch", "parse", "fetch", "parse"):
        cp.save("plain", {}, step=name)
    steps = read(cp, "plain")
    found = graph_of(steps, groups_of(steps))
    assert not found.recorded
    assert [(node.name, node.times) for node in found.nodes] == [
        ("start", 0),
        ("fetch", 2),
        ("parse", 2),
    ]
    assert {edge[:3] for edge in found.edges} == {
        ("start", "fetch", 1),
        ("fetch", "parse", 2),
        ("parse", "fetch", 1),
    }


def test_times_on_the_axis_count_from_the_begin_of_the_run() -> None:
    second = 1_000_000
    axis = Axis(
        [
            Piece(0, 4 * second, 0, 45, "work"),
            Piece(4 * second, 60 * second, 45, 10, "idle"),
            Piece(60 * second, 64 * second, 55, 45, "work"),
        ]
    )
    after = [tick.after for tick in axis.ticks() if tick.at is None]
    assert after == sorted(set(after))


def test_no_two_labels_of_the_axis_read_the_same_and_none_is_cut_off() -> None:
    second = 1_000_000
    axis = Axis(
        [
            Piece(0, second // 5, 0, 40, "work"),
            Piece(second // 5, 200 * second, 40, 8, "waits"),
            Piece(200 * second, 200 * second + second // 4, 48, 43, "work"),
            Piece(200 * second + second // 4, 209 * second, 91, 8, "crash"),
            Piece(209 * second, 209 * second + 5000, 99, 1, "work"),
        ]
    )
    labels = axis.labels()
    ticks = [label for label in labels if label.kind == "tick"]
    texts = [words.span(label.seconds) for label in ticks if label.at is None]
    assert "3 m 20 s" in texts
    assert len(texts) == len(set(texts))
    clocks = [label.at // second for label in ticks if label.at is not None]
    assert clocks == [0, 200], "there is no room for a text beside that of the crash"
    assert [label.kind for label in labels][-1] == "crash"
    assert all(label.x < 92 or label.at_end for label in labels)
    assert any(label.wide for label in ticks)
    assert not all(label.wide for label in ticks)


class Unknown:
    """What can't be stored."""


def test_an_attempt_whose_value_can_not_be_stored_is_as_long_as_it_was(
    cp: hf.SyncCheckpointer,
) -> None:
    tried: list[int] = []

    @step(retry=Retry(2, backoff=0.4, jitter=0.0))
    def odd() -> object:
        tried.append(1)
        if len(tried) == 1:
            raise ConnectionError
        return Unknown()

    @workflow
    async def job() -> None:
        await odd()

    with pytest.raises(hf.StepFailedError):
        hf.Engine(cp).run_sync(job(), run_id="odd")
    info = cp.run("odd")
    assert info is not None
    (one,) = [each for each in steps_of(cp, info).executions if each.name == "odd"]
    first, last = one.attempts
    assert first.end is not None
    assert last.start is not None
    assert last.start - first.end >= 0.4e6, "the pause between them"


def executed(*outcomes: tuple[str, str]) -> Steps:
    """A run in which these parts and items ended so, one after the other."""
    executions = tuple(
        Execution(key, *split_key(key), status, seq, None, None)
        for seq, (key, status) in enumerate(outcomes, 1)
    )
    return Steps("r", 9, 0, 0, "failed", executions, (), (), {}, 0, {}, None, None)


def test_of_the_parts_of_a_step_the_one_that_failed_is_shown() -> None:
    steps = executed(("book/hotel", "failed"), ("book/flight", "completed"))
    assert [one.name for one in choose(steps, "book")] == ["book / flight", "book / hotel"]


def test_an_item_that_failed_at_first_is_shown_as_it_ended() -> None:
    steps = executed(("a[1]", "failed"), ("a[2]", "completed"), ("a[1]", "completed"))
    shown = choose(steps, "a")[-1]
    assert (shown.name, shown.status) == ("a[1]", "completed")
