from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import holdfast as hf
from holdfast.documents.workflow_results import result_of
from holdfast.events import (
    CheckpointFailed,
    CheckpointSaved,
    RunCompleted,
    StepCompleted,
    StepStarted,
)
from holdfast.model import Entry
from holdfast.store import ANY_HEAD, Behind
from holdfast.stores.memory import MemoryStore
from holdfast.workflow import CheckpointStrategy, ask, step, workflow
from tests.workflow.support import Calls, Flow, collect, of, recorded, steps, stop_at


class Unreliable(MemoryStore):
    """Takes nothing while it is down."""

    inline = False
    down = False

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        if self.down:
            raise hf.StoreUnavailableError("the store is down")
        return super().append(entries, behind)


def build(calls: Calls, hook: Any = None) -> Any:
    def work(name: str) -> str:
        calls(name)
        if hook is not None:
            hook(name)
        return name

    @workflow("flow")
    def flow() -> Flow:
        values = []
        for name in ("a", "b", "c", "d"):
            made = step(name).python(work, args=(name,))
            values.append((yield made.checkpoint() if name == "b" else made))
        return values

    return flow


class LosesReplies(MemoryStore):
    """Does what it is told, and every other time it can't say so."""

    inline = False
    replies = 0

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        outcomes = super().append(entries, behind)
        self.replies += 1
        if self.replies % 2:
            raise hf.OutcomeUnknownError(entries[0].run, "the connection broke")
        return outcomes


def test_a_reply_that_was_lost_repeats_nothing() -> None:
    calls = Calls()

    async def main() -> None:
        engine = hf.Engine(LosesReplies())
        assert await engine.run(build(calls)(), run_id="r") == [*"abcd"]
        assert recorded(engine, "r") == [*"abcd"]

    asyncio.run(main())
    assert calls.order == [*"abcd"]


def test_a_save_that_fails_stops_the_run_and_a_resume_continues() -> None:
    store, calls = Unreliable(), Calls()
    flow = build(calls, lambda name: setattr(store, "down", name == "b"))

    async def main() -> None:
        engine = hf.Engine(hf.Checkpointer(store, deadline=0.3))
        with pytest.raises(hf.CheckpointSaveError, match="down"):
            await engine.run(flow(), run_id="r")
        assert calls.take() == ["a", "b"]
        store.down = False
        assert await engine.run(build(calls)(), run_id="r", resume=True) == [*"abcd"]
        assert calls.take() == ["b", "c", "d"]

    asyncio.run(main())


def test_a_run_that_is_told_to_continues_without_its_checkpoints(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, calls = Unreliable(), Calls()
    flow = build(calls, lambda name: setattr(store, "down", name in "bc"))

    async def main() -> None:
        cp = hf.Checkpointer(store, deadline=0.3, on_save_failure="warn")
        engine = hf.Engine(cp)
        seen_degraded = []
        events = []
        async for event in engine.stream(flow(), run_id="r"):
            events.append(event)
            if isinstance(event, StepCompleted):
                seen_degraded.append(cp.degraded is not None)
        assert [e.step for e in of(events, CheckpointFailed)] == ["b", "c"]
        assert seen_degraded == [False, True, True, False]
        assert cp.degraded is None
        assert of(events, RunCompleted)[0].result == [*"abcd"]
        assert recorded(engine, "r") == [*"abcd"], "nothing is lost"
        assert "continues without its checkpoint" in caplog.text

    asyncio.run(main())


def test_what_a_degraded_run_saved_late_is_not_run_again() -> None:
    store, calls = Unreliable(), Calls()
    flow = build(calls, lambda name: setattr(store, "down", name == "b"))

    async def main() -> None:
        cp = hf.Checkpointer(store, deadline=0.3, on_save_failure="warn")
        await stop_at(hf.Engine(cp).stream(flow(), run_id="r"), StepStarted, "d")
        assert calls.take() == ["a", "b", "c"]
        engine = hf.Engine(store)
        assert await engine.run(build(calls)(), run_id="r", resume=True) == [*"abcd"]
        assert calls.take() == ["d"]

    asyncio.run(main())


def test_whoever_gets_only_the_result_is_warned_if_the_end_is_not_saved() -> None:
    store = Unreliable()
    flow = build(Calls(), lambda name: setattr(store, "down", name in "cd"))

    async def main() -> None:
        engine = hf.Engine(hf.Checkpointer(store, deadline=0.05, on_save_failure="warn"))
        with pytest.warns(hf.UnsavedWarning, match="run 'r' completed, but its last steps") as seen:
            assert await engine.run(flow(), run_id="r") == [*"abcd"]
        (warning,) = (one.message for one in seen)
        assert isinstance(warning, hf.UnsavedWarning)
        assert (warning.run_id, "the store is down" in warning.reason) == ("r", True)
        assert result_of(engine.checkpointer.core, "r").status == "running"

    asyncio.run(main())


def test_the_last_event_says_whether_the_end_is_saved() -> None:
    store = Unreliable()

    async def completed(down_at: str, run_id: str) -> RunCompleted:
        store.down = False
        flow = build(Calls(), lambda name: setattr(store, "down", name in down_at))
        engine = hf.Engine(hf.Checkpointer(store, deadline=0.05, on_save_failure="warn"))
        (found,) = of(await collect(engine.stream(flow(), run_id=run_id)), RunCompleted)
        return found

    async def main() -> None:
        assert (await completed("", "fine")).saved
        assert (await completed("bc", "caught up")).saved
        lost = await completed("d", "lost")
        assert (lost.saved, lost.result) == (False, [*"abcd"])

    asyncio.run(main())


def test_an_error_says_that_the_end_of_its_run_is_not_saved() -> None:
    store = Unreliable()

    def fails() -> None:
        store.down = True
        raise ValueError("no luck")

    @workflow
    def failing() -> Flow:
        yield step("bad").python(fails)

    @workflow
    def asking() -> Flow:
        yield step("last").python(lambda: setattr(store, "down", True))
        yield ask("Well?")

    async def main() -> None:
        engine = hf.Engine(hf.Checkpointer(store, deadline=0.05, on_save_failure="warn"))
        with pytest.raises(hf.StepFailedError) as failed:
            await engine.run(failing(), run_id="f")
        store.down = False
        with pytest.raises(hf.RunPausedError) as paused:
            await engine.run(asking(), run_id="p")
        for error in (failed.value, paused.value):
            (note,) = error.__notes__
            assert "stopped, and that is not saved" in note

    asyncio.run(main())


@pytest.mark.parametrize(
    ("strategy", "kept"),
    [
        ("every_step", ["a", "b", "c"]),
        ("on_success", ["a", "b", "c"]),
        ("marked", ["a", "b"]),
        ("on_error", []),
    ],
)
def test_a_crash_goes_back_to_what_the_strategy_saved(
    store: hf.Store, strategy: str, kept: list[str]
) -> None:
    calls = Calls()
    flow = build(calls)

    async def main() -> None:
        engine = hf.Engine(store, checkpoint_after=strategy)
        await stop_at(engine.stream(flow(), run_id="r"), StepStarted, "d")
        assert recorded(engine, "r") == kept
        calls.take()
        assert await engine.run(flow(), run_id="r", resume=True) == [*"abcd"]
        assert calls.take() == [*"abcd"][len(kept) :]

    asyncio.run(main())


@pytest.mark.parametrize("strategy", list(CheckpointStrategy))
def test_a_failed_run_keeps_what_it_finished(store: hf.Store, strategy: str) -> None:
    calls = Calls()
    broken = True

    def fail(name: str) -> None:
        if broken and name == "d":
            raise ValueError("no")

    flow = build(calls, fail)

    async def main() -> None:
        nonlocal broken
        engine = hf.Engine(store, checkpoint_after=strategy)
        with pytest.raises(hf.StepFailedError):
            await engine.run(flow(), run_id="r")
        calls.take()
        broken = False
        assert await engine.run(flow(), run_id="r", resume=True) == [*"abcd"]
        assert calls.take() == ["d"]

    asyncio.run(main())


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ValueError, match="sometimes"):
        hf.Engine(False, checkpoint_after="sometimes")


@pytest.mark.parametrize("durability", ["async", "exit"])
def test_an_unfinished_run_is_known_however_lazy_the_saves(
    store: hf.Store, durability: Any
) -> None:
    calls = Calls()
    flow = build(calls)

    async def main() -> None:
        cp = hf.Checkpointer(store, durability=durability)
        engine = hf.Engine(cp)
        events = await collect(engine.stream(flow(), run_id="done"))
        assert of(events, RunCompleted)[0].result == [*"abcd"]
        assert steps(events, StepCompleted) == [*"abcd"]
        assert recorded(engine, "done") == [*"abcd"]
        await stop_at(engine.stream(flow(), run_id="r"), StepStarted, "c")
        assert [(r.run_id, r.status) for r in await cp.runs(status="running")] == [("r", "running")]
        assert await engine.run(flow(), run_id="r", resume=True) == [*"abcd"]

    asyncio.run(main())


def test_a_decision_is_durable_before_anything_is_done_about_it(store: hf.Store) -> None:
    async def main() -> None:
        engine = hf.Engine(hf.Checkpointer(store, durability="async"))

        @workflow
        def flow() -> Flow:
            for n in range(20):
                number = hf.random()
                assert (yield step(f"s{n}").python(decisions)) == n + 1, number

        def decisions() -> int:
            return sum(entry.kind == "decision" for entry in store.read("r"))

        await engine.run(flow(), run_id="r")

    asyncio.run(main())


def test_in_exit_durability_a_timeout_keeps_everything(store: hf.Store) -> None:
    calls = Calls()

    async def main() -> None:
        cp = hf.Checkpointer(store, durability="exit")
        engine = hf.Engine(cp, timeout=0.05)

        calls_before_slow: list[int] = []

        async def slow() -> None:
            calls_before_slow.append(len(calls.order))
            await asyncio.sleep(3600)

        @workflow
        def flow() -> Flow:
            yield step("a").python(calls, args=("a",))
            yield step("b").python(slow)

        while len(calls_before_slow) < 2:  # a busy machine may time out in the first step
            with pytest.raises(hf.RunTimeoutError):
                await engine.run(flow(), run_id="r", resume=True)
        assert calls_before_slow[0] == calls_before_slow[1] == len(calls.order)

    asyncio.run(main())


def test_a_checkpoint_is_announced_when_it_is_durable(store: hf.Store) -> None:
    async def main() -> None:
        cp = hf.Checkpointer(store, durability="async")
        events = await collect(hf.Engine(cp).stream(build(Calls())(), run_id="r"))
        assert [e.step for e in of(events, CheckpointSaved)] == [*"abcd"]

    asyncio.run(main())
