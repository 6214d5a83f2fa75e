"""Outages while other things happen: what is finished is recorded, and nothing else is."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.run.hold import Hold
from holdfast.events import RollbackStarted, StepCompleted, StepFailed
from holdfast.kernel.draft import Draft
from holdfast.model import Entry, Kind, Status
from holdfast.store import ANY_HEAD, Behind
from holdfast.stores.sqlite.store import SQLiteStore
from holdfast.workflow import Workflow, parallel, sleep, step, workflow


class Weather:
    """Three things side by side: `quick`; then `beside`, while a child run meets an outage."""

    def __init__(self, *, beside_fails: bool = False) -> None:
        self.fair = False
        self.done: list[str] = []
        self.undone: list[str] = []
        self.beside_fails = beside_fails
        self.storm = asyncio.Event()

    async def quick(self) -> str:
        self.done.append("quick")
        return "quick"

    async def beside(self) -> str:
        await self.storm.wait()
        self.done.append("beside")
        if self.beside_fails and not self.fair:
            raise ValueError("it failed")
        return "beside"

    def flow(self) -> Workflow[[], Any]:
        """The parent's workflow."""

        @workflow("part")
        async def part() -> str:
            await self.storm.wait()
            if not self.fair:
                raise hf.StoreUnavailableError("the server is restarted")
            self.done.append("part")
            return "part"

        @workflow("whole")
        async def whole() -> Any:
            return await parallel(
                step("quick").python(self.quick).with_rollback(self.undone.append),
                step("sub").subworkflow(part),
                step("beside").python(self.beside),
            )

        return whole

    async def strike(self, engine: hf.Engine, then: str | None = None) -> None:
        """Run it; the outage and what is beside it end in the same turn of the run's loop."""
        async for event in engine.stream(self.flow()(), run_id="run"):
            if isinstance(event, StepCompleted) and event.name == "quick":
                self.storm.set()
                while len(asyncio.all_tasks()) > 1:  # the run itself waits for us
                    await asyncio.sleep(0)
                if then is not None:
                    await getattr(engine, then)("run")


def _steps(engine: hf.Engine) -> list[tuple[str, str | None]]:
    """What is recorded of the run's steps, if nothing has ended it."""
    store = engine.checkpointer.core.journals.store
    about_steps = (Kind.RESULT, Kind.DECISION, Kind.FAIL)
    entries = store.read("run")
    ends = (Kind.PAUSE, Kind.COMPLETE, Kind.CANCEL)
    assert not [entry for entry in entries if entry.kind in ends or entry.status == Status.FAILED]
    return [(entry.kind, entry.step) for entry in entries if entry.kind in about_steps]


def test_an_outage_of_a_child_run_while_a_step_beside_it_finishes_is_no_pause() -> None:
    async def main() -> None:
        weather = Weather()
        async with hf.Engine("memory://") as engine:
            with pytest.raises(hf.StoreUnavailableError, match="restarted"):
                await weather.strike(engine)
            assert _steps(engine) == [("result", "quick"), ("result", "beside")]
            weather.fair = True
            outcome = await engine.run(weather.flow()(), run_id="run", resume=True)
            assert outcome == ("quick", "part", "beside")
            assert weather.done == ["quick", "beside", "part"]

    asyncio.run(main())


def test_an_outage_of_a_child_run_while_a_step_beside_it_fails_undoes_nothing() -> None:
    async def main() -> None:
        weather = Weather(beside_fails=True)
        async with hf.Engine("memory://") as engine:
            with pytest.raises(hf.StoreUnavailableError, match="restarted"):
                await weather.strike(engine)
            assert weather.undone == []
            assert _steps(engine) == [("result", "quick"), ("fail", "beside")]

    asyncio.run(main())


def test_a_run_that_is_to_pause_is_not_paused_by_an_outage_of_its_child() -> None:
    async def main() -> None:
        weather = Weather()
        async with hf.Engine("memory://") as engine:
            with pytest.raises(hf.StoreUnavailableError, match="restarted"):
                await weather.strike(engine, "pause")
            assert _steps(engine) == [("result", "quick"), ("result", "beside")]

    asyncio.run(main())


def test_a_run_that_is_to_be_cancelled_is_undone_after_the_outage_of_its_child() -> None:
    async def main() -> None:
        weather = Weather()
        async with hf.Engine("memory://") as engine:
            with pytest.raises(hf.StoreUnavailableError, match="restarted"):
                await weather.strike(engine, "cancel")
            assert _steps(engine) == [("result", "quick"), ("result", "beside")]
            assert weather.undone == []
            weather.fair = True
            with pytest.raises(hf.RunCancelledError):
                await engine.run(weather.flow()(), run_id="run", resume=True)
            assert weather.undone == ["quick"]

    asyncio.run(main())


def test_an_outage_of_a_child_run_behind_the_failure_of_a_step_undoes_nothing() -> None:
    """The run waits for the steps beside the one that failed: one more ends with the outage."""

    async def main() -> None:
        storm, undone = asyncio.Event(), list[str]()

        @workflow
        async def part() -> None:
            await storm.wait()
            raise hf.StoreUnavailableError("the server is restarted")

        async def fail() -> None:
            raise ValueError

        async def slow() -> None:
            await storm.wait()

        @workflow
        async def whole() -> None:
            await step("done").python(lambda: "done").inline().with_rollback(undone.append)
            await parallel(
                step("fail").python(fail),
                step("sub").subworkflow(part),
                step("slow").python(slow),
            )

        async with hf.Engine("memory://") as engine:
            with pytest.raises(hf.StoreUnavailableError, match="restarted"):
                async for event in engine.stream(whole(), run_id="run"):
                    if isinstance(event, StepFailed):
                        storm.set()
                        while len(asyncio.all_tasks()) > 1:
                            await asyncio.sleep(0)
            recorded = _steps(engine)
            assert undone == []
            assert recorded == [("result", "done"), ("fail", "fail"), ("result", "slow")]

    asyncio.run(main())


def test_what_a_flow_still_awaits_when_its_steps_are_undone_is_not_taken_for_the_undoing() -> None:
    async def main() -> None:
        undone, again = list[str](), False
        undoing = asyncio.Event()

        async def undo(name: str) -> None:
            undoing.set()
            for _ in range(100):  # meanwhile the other await ends
                await asyncio.sleep(0)
            undone.append(name)

        async def fail() -> None:
            raise ValueError

        async def first() -> None:
            await asyncio.to_thread(str)
            await step("made").python(lambda: "made").inline().with_rollback(undo)

        async def second() -> None:
            await step("fail").python(fail)

        async def third() -> None:
            if again:
                await undoing.wait()

        @workflow
        async def whole() -> None:
            await parallel(first(), second(), third())

        async with hf.Engine("memory://") as engine:
            async for event in engine.stream(whole(), run_id="run"):
                if isinstance(event, RollbackStarted):
                    break  # and never comes back
            again = True
            with pytest.raises(hf.StepFailedError):
                await engine.run(whole(), run_id="run", resume=True)
        assert undone == ["made"]

    asyncio.run(main())


class Flaky(SQLiteStore):
    """Takes nothing while it is told to refuse entries of a kind."""

    refuses: Kind | None = None

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if any(entry.kind == self.refuses for entry in entries):
            raise hf.StoreUnavailableError("the disk is full")
        return super().append(entries, behind)


@pytest.fixture
def flaky(tmp_path: Path) -> Iterator[Flaky]:
    store = Flaky(tmp_path / "runs.db")
    yield store
    store.close()


@pytest.mark.parametrize("refused", [Kind.FAIL, Kind.DECISION])
def test_an_outage_while_a_run_is_undone_leaves_the_rest_to_be_undone(
    flaky: Flaky, refused: Kind
) -> None:
    """A `fail` begins the undoing, a `decision` says that a step was undone."""
    undone, outages = list[str](), [refused]

    @workflow
    async def flow() -> None:
        for name in "ab":
            made = step(name).python(lambda name=name: name).inline()
            await made.with_rollback(undone.append)
        flaky.refuses = outages.pop() if outages else None
        raise ValueError("it failed")

    engine = hf.Engine(hf.Checkpointer(flaky, deadline=0.2))
    with pytest.raises(hf.CheckpointSaveError):
        engine.run_sync(flow(), run_id="run")
    assert undone == (["b"] if refused == Kind.DECISION else [])
    undone.clear()
    flaky.refuses = None
    with pytest.raises((hf.StepFailedError, ValueError), match="it failed") as failed:
        engine.run_sync(flow(), run_id="run", resume=True)
    assert undone == ["b", "a"]
    assert not getattr(failed.value, "__notes__", ()), "all could be undone"


def test_an_outage_where_a_failed_attempt_is_noted_is_no_failure_of_the_step(flaky: Flaky) -> None:
    attempts: list[int] = []

    def work() -> str:
        attempts.append(hf.current_step().attempt)
        if len(attempts) == 1:
            flaky.refuses = Kind.FAIL
            raise ValueError("the first fails")
        return "done"

    @workflow
    async def flow() -> str:
        result: str = await step("work").python(work).retry(3, 0.0)
        return result

    engine = hf.Engine(hf.Checkpointer(flaky, deadline=0.2))
    with pytest.raises(hf.CheckpointSaveError):
        engine.run_sync(flow(), run_id="run")
    assert Kind.FAIL not in [entry.kind for entry in flaky.read("run")]
    flaky.refuses = None
    assert engine.run_sync(flow(), run_id="run", resume=True) == "done"
    assert len(attempts) == 2


def test_a_sleep_that_can_not_be_recorded_in_time_is_no_failure_of_the_run(
    flaky: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may save to the run again and again, until the deadline."""
    append, lost = Hold.append, [Kind.SLEEP]

    async def overtaken(self: Hold, drafts: Sequence[Draft], **options: Any) -> list[Entry]:
        if lost and any(draft.kind == lost[0] for draft in drafts):
            raise hf.CheckpointSaveError(self.run, f"others kept saving; no {lost.pop()}")
        return await append(self, drafts, **options)

    monkeypatch.setattr(Hold, "append", overtaken)

    @workflow
    async def flow() -> str:
        await parallel(sleep(0.01), step("work").python(int))
        return "rested"

    engine = hf.Engine(hf.Checkpointer(flaky))
    with pytest.raises(hf.CheckpointSaveError, match="others kept saving"):
        engine.run_sync(flow(), run_id="run")
    assert Kind.FAIL not in [entry.kind for entry in flaky.read("run")]
    assert engine.run_sync(flow(), run_id="run", resume=True) == "rested"


def test_a_damaged_child_run_is_no_failure_of_its_step_and_undoes_nothing(tmp_path: Path) -> None:
    undone: list[str] = []
    path = tmp_path / "runs.db"

    @workflow
    async def part() -> str:
        return await step("work").python(lambda: "work").inline()

    @workflow
    async def whole() -> str:
        await step("made").python(lambda: "made").inline().with_rollback(undone.append)
        return await part()

    async def leave() -> None:
        async with hf.Engine(path) as engine:
            async for event in engine.stream(whole(), run_id="run"):
                if isinstance(event, StepCompleted) and event.name == "work":
                    break  # and never comes back

    def alter(old: bytes, new: bytes) -> None:
        with closing(sqlite3.connect(path)) as db, db:
            changed = "CAST(replace(body, ?, ?) AS BLOB)"
            db.execute(
                f"UPDATE holdfast_entries SET body = {changed} WHERE run = 'run//part'", (old, new)
            )

    asyncio.run(leave())
    alter(b"work", b"walk")
    with hf.Engine(path) as engine:
        with pytest.raises(hf.CheckpointCorruptedError):
            engine.run_sync(whole(), run_id="run", resume=True)
        assert undone == []
        assert _steps(engine) == [("result", "made")]
    alter(b"walk", b"work")
    with hf.Engine(path) as engine:
        assert engine.run_sync(whole(), run_id="run", resume=True) == "work"
