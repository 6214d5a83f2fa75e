"""What is under way is seen from another process: the step, and how far it is."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest
from numpy import float32

import holdfast as hf
from holdfast.engine.holding import slots
from holdfast.engine.holding.here import process_of
from holdfast.engine.holding.process import this_process
from holdfast.engine.holding.slots import UnderWay
from holdfast.engine.working.listing import doing_now
from tests import forks
from tests.cli.conftest import Cli

SLOW = """
import time

import holdfast as hf
from holdfast.workflow import step, workflow


@step
def copy_rows() -> int:
    hf.current_step().progress(0.25, "rows 1 to 250")
    open("began", "w").close()
    time.sleep(120)
    return 1


@workflow
async def slow() -> int:
    return await copy_rows()


if __name__ == "__main__":
    hf.Engine(".holdfast/holdfast.db", dead_after=1).run_sync(slow(), run_id="long")
"""


@contextmanager
def at_work() -> Iterator[None]:
    Path("slow.py").write_text(SLOW)
    process = forks.start("slow.py")
    try:
        while not Path("began").exists():
            assert process.poll() is None
            time.sleep(0.02)
        yield
    finally:
        process.kill()
        process.wait()


def test_others_see_the_step_under_way_and_its_progress(cli: Cli) -> None:
    with at_work(), hf.SyncCheckpointer(".holdfast/holdfast.db") as cp:
        while not (found := doing_now(cp.core)):
            time.sleep(0.05)
        with hf.SyncCheckpointer(".holdfast/holdfast.db", owner="bob") as theirs:
            assert doing_now(theirs.core) == {}, "no owner hears of another's runs"
        (one,) = found["long"]
        assert (one.step, one.fraction, one.message) == ("copy_rows", 0.25, "rows 1 to 250")
        assert "under way  copy_rows 25 % rows 1 to 250" in cli("show", "long").out
    watched = cli("watch", "long", "--json")
    assert watched.code == 1, "its process is dead by now"
    assert [json.loads(line)["kind"] for line in watched.out.splitlines()] == ["open"]


def test_all_runs_are_watched_until_somebody_interrupts(
    cli: Cli, cp: hf.SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cp.save("first", 1, step="a")
    looks = []

    def look(*_: object) -> dict[str, object]:
        looks.append(1)
        if len(looks) == 2:
            cp.save("first", 2, step="b")
            cp.save("second", 1, step="c")
        if len(looks) == 3:
            for number in range(12):
                cp.save("first", number, step=f"burst-{number}")
        if len(looks) == 5:
            raise KeyboardInterrupt
        return {}

    monkeypatch.setattr("holdfast.cli.watch.doing_now", look)
    monkeypatch.setattr("holdfast.cli.watch._LOOK", 0.5)
    done = cli("watch", "--interval", "0.05")
    assert done.code == 0
    assert "first  b" in done.out
    assert "second  c" in done.out
    assert "first  a" not in done.out, "that was before"
    assert done.out.count("burst-") == 12, "however many come between two looks"


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_run_that_waits_for_an_answer_is_watched_on_and_says_how_to_answer(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    cli("run", "jobs:review", "-i", "what=x", "--run-id", "r")
    looks = []

    def look(*_: object) -> dict[str, object]:
        looks.append(1)
        if len(looks) == 3:
            raise KeyboardInterrupt
        return {}

    monkeypatch.setattr("holdfast.cli.watch.doing_now", look)
    monkeypatch.setattr("holdfast.cli.watch._LOOK", 0.05)
    done = cli("watch", "r", "--interval", "0.05", *options)
    assert done.code == 0
    way = """holdfast answer r '--with={"approved": true, "amount": 1}'"""
    note = "put your own answer in place of this example"
    told = f"it waits for an answer:\n  {way}\n{note}\nCtrl-C stops watching\n"
    assert done.err == ("" if options else told), "once, and not for programs"


def test_an_encrypted_store_tells_nothing_of_steps_in_the_clear(tmp_path: Path) -> None:
    from holdfast.workflow import step, workflow

    seen: list[object] = []

    @step
    def work() -> int:
        hf.current_step().progress(0.5, "the name of a patient")
        from holdfast.engine.holding.here import running_here

        run = running_here(engine.checkpointer.core, "secret")
        assert run is not None
        seen.append(run.under_way())
        return 1

    @workflow
    async def flow() -> int:
        return await work()

    with hf.Engine(tmp_path / "runs.db", key=hf.Keyring({"2026": bytes(32)})) as engine:
        engine.run_sync(flow(), run_id="secret")
    assert seen == [[]]


@pytest.mark.parametrize("told", [(0.5, 42), (Fraction(1, 2), "x"), (float32(0.5), None)])
def test_whatever_a_step_reports_its_process_still_beats(tmp_path: Path, told: Any) -> None:
    from holdfast.workflow import step, workflow

    @step
    def work() -> None:
        hf.current_step().progress(*told)
        core = engine.checkpointer.core
        lease = process_of(core).presence(core).lease(core, 30.0)  # which beats, too
        assert lease is not None
        (one,) = doing_now(core)["long"]
        assert one.fraction == 0.5

    @workflow
    async def flow() -> None:
        await work()

    with hf.Engine(tmp_path / "runs.db") as engine:
        engine.run_sync(flow(), run_id="long")


def test_beats_tell_an_owner_of_its_own_runs_only_and_of_no_run_that_can_not_be(
    tmp_path: Path,
) -> None:
    """Not even of one that was deleted while it was executed."""
    names = ("theirs", "bobs", "deleted", "a\ud800", "\x1b[31m", "", 7)
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        for run_id, owner in (("theirs", "eve"), ("bobs", "bob"), ("deleted", "eve")):
            cp.save(run_id, 1, owner=owner)
        cp.clear("deleted", force=True)
        doing = tuple(UnderWay(cast("str", name), "s", None, "m") for name in names)
        beat = slots.Beat("00", "alive", this_process(), 30.0, doing=doing)
        slots.take(cp.core, beat, beat.process.place)
        assert [*doing_now(cp.core)] == ["theirs", "bobs", "deleted"]
    with hf.SyncCheckpointer(tmp_path / "runs.db", owner="bob") as cp:
        assert [*doing_now(cp.core)] == ["bobs"]
