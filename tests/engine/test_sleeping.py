"""Sleeps, pauses before another attempt and deadlines: they outlive processes and clock changes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.checkpoint import to_datetime, to_micros
from holdfast.engine import timers
from holdfast.graph import END, Graph
from holdfast.model import Kind
from holdfast.pipeline import Pipeline, SleepStep
from holdfast.workflow import Retry, ask, parallel, sleep, step, workflow
from tests.faults import FakeClock
from tests.holders import dying

MONDAY = datetime(2026, 1, 5, 9, tzinfo=UTC)
DAY = 86_400.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(to_micros(MONDAY))


@pytest.fixture
def engine(url: str, clock: FakeClock) -> hf.Engine:
    """An engine whose time stands still."""
    return hf.Engine(hf.Checkpointer(url, clock=clock))


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> list[float]:
    """What was slept: the clock moves on at once."""
    found: list[float] = []
    real = asyncio.sleep

    async def jump(seconds: float, result: Any = None) -> Any:
        if seconds > 1:
            found.append(seconds)
            clock.advance(seconds)
        await real(0)
        return result

    monkeypatch.setattr(asyncio, "sleep", jump)
    return found


def _kinds(engine: hf.Engine, run_id: str) -> list[str]:
    journals = engine.checkpointer.core.journals
    return [entry.kind for entry in journals.entries(run_id)]


calls: list[str] = []


@step
def work(name: str) -> str:
    calls.append(name)
    return name


@workflow
async def patient(days: float) -> str:
    before = await work("before")
    await sleep(days=days)
    return before + await work("after")


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


def test_a_workflow_sleeps_and_continues(engine: hf.Engine, slept: list[float]) -> None:
    async def main() -> None:
        assert await engine.run(patient(0.5), run_id="r") == "beforeafter"
        assert sum(slept) == pytest.approx(DAY / 2, abs=1)
        assert await engine.run(patient(0.5), run_id="r", resume=True) == "beforeafter"

    asyncio.run(main())
    assert calls == ["before", "after"]


def test_a_resumed_run_sleeps_only_for_the_rest(
    engine: hf.Engine, clock: FakeClock, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        real = asyncio.sleep

        async def crash(seconds: float) -> None:
            if seconds > 1:
                raise SystemExit
            await real(seconds)

        with dying(engine.checkpointer.core), monkeypatch.context() as patch:
            patch.setattr(asyncio, "sleep", crash)
            with pytest.raises(SystemExit):
                await engine.run(patient(3), run_id="r")
        clock.advance(2 * DAY)
        slept.clear()
        assert await engine.run(patient(3), run_id="r", resume=True) == "beforeafter"
        assert sum(slept) == pytest.approx(DAY, abs=1)
        assert _kinds(engine, "r").count(Kind.SLEEP) == 1

    asyncio.run(main())
    assert calls == ["before", "after"]


def test_an_hour_takes_an_hour_though_the_clock_is_set_back(
    engine: hf.Engine, clock: FakeClock, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the event loop goes on; the wall clock jumps back by a day."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        began, real = loop.time(), loop.time
        monkeypatch.setattr(loop, "time", lambda: began + clock.monotonic() + (real() - began))
        jump = asyncio.sleep

        async def set_back(seconds: float) -> None:
            if len(slept) == 1:
                clock.step(-DAY)
            await jump(seconds)

        monkeypatch.setattr(asyncio, "sleep", set_back)
        await engine.run(patient(1 / 24), run_id="r")
        assert sum(slept) == pytest.approx(3600, abs=1)

    asyncio.run(main())


def test_until_is_a_moment_of_the_wall_clock(
    engine: hf.Engine, clock: FakeClock, slept: list[float]
) -> None:
    @workflow
    async def evening() -> str:
        await hf.sleep(until=MONDAY + timedelta(hours=9))
        return "done"

    async def main() -> None:
        await engine.run(evening(), run_id="r")
        assert to_datetime(clock.now()) == MONDAY + timedelta(hours=9)
        slept.clear()
        await engine.run(evening(), run_id="past")

    asyncio.run(main())
    assert slept == []


def test_a_graph_sleeps_between_nodes(engine: hf.Engine, slept: list[float]) -> None:
    graph = Graph(dict, name="g")
    graph.add_node("a", lambda state: {"n": 1})
    graph.add_sleep("wait", hours=1)
    graph.add_node("b", lambda state: {"n": state["n"] + 1})
    graph.add_edge("a", "wait").add_edge("wait", "b").add_edge("b", END).set_entry("a")
    app = graph.compile()
    result = asyncio.run(engine.run(app({}), run_id="r"))
    assert result == {"n": 2}
    assert sum(slept) == pytest.approx(3600, abs=1)


def test_a_pipeline_sleeps_and_passes_its_data_on(engine: hf.Engine, slept: list[float]) -> None:
    definition = {
        "name": "p",
        "steps": [
            {"id": "a", "function": "double"},
            {"id": "wait", "type": "sleep", "minutes": 30},
            {"id": "b", "function": "double"},
        ],
        "flow": {
            "start_at": "a",
            "paths": [
                {"from": "a", "to": "wait"},
                {"from": "wait", "to": "b"},
                {"from": "b", "to": "end"},
            ],
        },
    }
    pipeline = Pipeline.from_dict(definition, registry={"double": lambda data: data * 2})
    result = asyncio.run(engine.run(pipeline(3), run_id="r"))
    assert result.output == 12
    assert sum(slept) == pytest.approx(1800, abs=1)
    assert pipeline.to_dict()["steps"][1] == {"id": "wait", "type": "sleep", "minutes": 30}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "a duration, such as"),
        ({"hours": -1}, "between now and 100 years"),
        ({"hours": 1, "until": "2026-01-01"}, "a duration, such as"),
        ({"until": "tomorrow"}, "Invalid isoformat"),
        ({"hours": "1"}, "must be a number"),
    ],
)
def test_a_pipelines_sleep_says_what_is_wrong_with_it(settings: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SleepStep("wait", **settings)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((), {}, "a duration, such as"),
        ((1,), {"until": MONDAY}, "a duration, such as"),
        ((1,), {"hours": 2}, "one duration"),
        (("1",), {}, "timedelta or a number"),
        ((True,), {}, "timedelta or a number"),
        ((float("nan"),), {}, "between now"),
        ((-1,), {}, "between now"),
        ((), {"days": 40_000}, "between now"),
        ((), {"day": 1}, "did you mean 'days'"),
        ((), {"until": "monday"}, "a datetime"),
    ],
)
def test_a_sleep_says_what_is_wrong_with_it(arguments: Any, options: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        sleep(*arguments, **options)


@given(began=st.floats(0, 1e6), within=st.floats(1e-6, 1e3))
def test_a_wait_ends_in_time_though_the_wall_clock_stands_still(
    began: float, within: float
) -> None:
    """What is left may be so little that the time is the same after it."""
    now, looks = began, 0

    async def sleep(seconds: float) -> None:
        nonlocal now, looks
        now, looks = now + seconds, looks + 1
        assert looks <= within / 60 + 5

    clock = FakeClock()
    loop = SimpleNamespace(time=lambda: now)
    fake = SimpleNamespace(sleep=sleep, get_running_loop=lambda: loop)
    with mock.patch.object(timers, "asyncio", fake), suppress(StopIteration):
        timers.until(clock, clock.now() + 10**12, within).send(None)
    assert began + within - 1e-6 <= now <= began + within + 1e-6


def test_a_sleep_outside_of_a_flow_just_sleeps() -> None:
    async def main() -> None:
        await sleep(0.01)

    asyncio.run(main())
    sleep(0.01).result()


def test_a_worker_leaves_a_run_that_sleeps_for_long_and_continues_it_when_it_is_due(
    engine: hf.Engine, clock: FakeClock
) -> None:
    async def main() -> None:
        handle = await engine.submit(patient(3), run_id="r")
        assert await engine.work(patient, until_idle=True) == 1
        assert await handle.status() == hf.Status.PAUSED
        clock.advance(2 * DAY)
        assert await engine.work(patient, until_idle=True) == 0
        clock.advance(DAY)
        assert await engine.work(patient, until_idle=True) == 1
        assert await handle == "beforeafter"

    asyncio.run(main())
    assert calls == ["before", "after"]


def test_a_sleeping_child_run_is_left_with_its_parent_and_both_continue(
    engine: hf.Engine, clock: FakeClock
) -> None:
    @workflow
    async def parent() -> str:
        first, second = await parallel(patient(1), patient(2))
        return first + second

    async def main() -> None:
        handle = await engine.submit(parent(), run_id="r")
        for _ in range(3):
            await engine.work(parent, until_idle=True)
            clock.advance(DAY)
        assert await handle.status() == hf.Status.COMPLETED

    asyncio.run(main())
    assert sorted(calls) == ["after", "after", "before", "before"]


@pytest.mark.parametrize("in_place", [False, True], ids=["side by side", "in a child run"])
def test_a_child_run_that_sleeps_beside_a_long_step_continues_when_it_is_due(
    engine: hf.Engine, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    real, go_on, told = asyncio.sleep, asyncio.Event(), list[str]()

    async def jump(seconds: float, result: Any = None) -> Any:
        await real(0.05 if seconds > 1 else 0)
        clock.advance(seconds)
        return result

    monkeypatch.setattr(asyncio, "sleep", jump)

    @step
    async def long() -> None:
        await go_on.wait()
        told.append("the long step ended")

    @workflow
    async def napping() -> None:
        await sleep(minutes=1)
        told.append("the child woke up")
        go_on.set()

    @workflow
    async def both() -> None:
        await parallel(long(), napping())

    @workflow
    async def parent() -> None:
        await both()

    async def main() -> None:
        flow = parent if in_place else both
        handle = await engine.submit(flow(), run_id="r")
        await asyncio.wait_for(engine.work(flow, until_idle=True), 60)
        assert await handle.status() == hf.Status.COMPLETED

    asyncio.run(main())
    assert told == ["the child woke up", "the long step ended"]


@pytest.mark.parametrize("deep", [False, True], ids=["a child", "a child of it"])
def test_a_child_run_that_asks_beside_a_long_step_continues_when_it_is_answered(
    engine: hf.Engine, deep: bool
) -> None:
    told, over = list[str](), asyncio.Event()

    @step
    async def answered() -> None:
        told.append("answered")
        over.set()

    @step
    async def long() -> None:
        await over.wait()
        told.append("the long step ended")

    @workflow
    async def asking() -> None:
        await ask("Go?", returns=bool)
        await answered()

    @workflow
    async def between() -> None:
        await asking()

    @workflow
    async def parent() -> None:
        await parallel(long(), between() if deep else asking())

    async def main() -> None:
        handle = await engine.submit(parent(), run_id="r")
        worker = asyncio.create_task(engine.work(parent, until_idle=True))
        while not (asked := [question async for question in engine.questions()]):
            await asyncio.sleep(0.01)
        await engine.answer(asked[0].run_id, True)
        await asyncio.wait_for(worker, 60)
        assert await handle.status() == hf.Status.COMPLETED

    asyncio.run(main())
    assert told == ["answered", "the long step ended"]


def test_a_child_run_sleeps_on_and_is_left_when_the_long_step_beside_it_ends(
    engine: hf.Engine, clock: FakeClock
) -> None:
    store = engine.checkpointer.core.journals.store

    @step
    async def long() -> None:
        while sum(run.kind == Kind.PAUSE for run in store.runs()) < 2:
            await asyncio.sleep(0.01)

    @workflow
    async def napping(days: int) -> None:
        await sleep(days=days)

    @workflow
    async def parent() -> None:
        await parallel(long(), napping(1), napping(2))

    async def main() -> None:
        handle = await engine.submit(parent(), run_id="r")
        for expected in (hf.Status.PAUSED, hf.Status.PAUSED, hf.Status.COMPLETED):
            await asyncio.wait_for(engine.work(parent, until_idle=True), 60)
            assert await handle.status() == expected
            clock.advance(DAY)

    asyncio.run(main())


def test_a_worker_leaves_a_family_whose_step_ends_while_the_others_sleep(
    engine: hf.Engine,
) -> None:
    @workflow
    async def middle() -> None:
        await parallel(patient(1), work("beside"))

    @workflow
    async def parent() -> None:
        await middle()

    async def main() -> None:
        handle = await engine.submit(parent(), run_id="r")
        await asyncio.wait_for(engine.work(parent, until_idle=True), 60)
        assert await handle.status() == hf.Status.PAUSED

    asyncio.run(main())


@pytest.mark.parametrize("asked", [False, True], ids=["by its flow", "with its parent"])
def test_a_child_run_that_sleeps_is_cancelled(engine: hf.Engine, asked: bool) -> None:
    dozing = "r//patient" if asked else "r//go/patient"
    store = engine.checkpointer.core.journals.store

    async def asleep() -> None:
        while not any(run.run == dozing and run.kind == Kind.PAUSE for run in store.runs()):
            await asyncio.sleep(0.01)

    @step
    async def until_asleep() -> None:
        await asleep()

    @workflow
    async def gives_up() -> None:
        async def nap() -> None:
            await patient(1)

        async def go() -> None:
            napping = asyncio.create_task(nap())
            await until_asleep()
            napping.cancel()
            await work("after that")

        await hf.durable(go())

    @workflow
    async def waits() -> None:
        await parallel(patient(1), hold())

    @step
    async def hold() -> None:
        await asleep()
        await engine.cancel("r")
        await asyncio.sleep(60)

    async def main() -> None:
        handle = await engine.submit((waits if asked else gives_up)(), run_id="r")
        await asyncio.wait_for(engine.work(waits, gives_up, until_idle=True), 60)
        ended = hf.Status.CANCELLED if asked else hf.Status.COMPLETED
        assert await handle.status() == ended
        assert await engine.status(dozing) == hf.Status.CANCELLED

    asyncio.run(main())


def test_a_pause_before_another_attempt_outlives_the_process(
    engine: hf.Engine, clock: FakeClock
) -> None:
    tries: list[int] = []

    @step(retry=Retry(3, backoff=3600, longest=3600, jitter=0))
    def flaky() -> str:
        tries.append(clock.now())
        if len(tries) < 3:
            raise OSError("not yet")
        return "done"

    @workflow
    async def flow() -> str:
        return await flaky()

    async def main() -> None:
        handle = await engine.submit(flow(), run_id="r")
        for expected in (1, 1, 2, 2, 3):
            await engine.work(flow, until_idle=True)
            assert len(tries) == expected
            clock.advance(1801)
        assert await handle == "done"

    asyncio.run(main())


def test_a_crash_while_a_retry_waits_does_not_shorten_the_wait(
    engine: hf.Engine, clock: FakeClock, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    @step(retry=Retry(2, backoff=50, jitter=0))
    async def flaky() -> str:
        tries.append(clock.now())
        if len(tries) < 2:
            raise OSError("not yet")
        return "done"

    @workflow
    async def flow() -> str:
        return await flaky()

    async def main() -> None:
        async def crash(seconds: float) -> None:
            raise SystemExit

        with dying(engine.checkpointer.core), monkeypatch.context() as patch:
            patch.setattr(asyncio, "sleep", crash)
            with pytest.raises(SystemExit):
                await engine.run(flow(), run_id="r")
        clock.advance(20)
        assert await engine.run(flow(), run_id="r", resume=True) == "done"
        assert sum(slept) == pytest.approx(30, abs=1)

    asyncio.run(main())
    assert len(tries) == 2


def test_a_worker_answers_what_nobody_answered_in_time(engine: hf.Engine, clock: FakeClock) -> None:
    @workflow
    async def flow() -> str:
        return await ask("Well?", returns=str, deadline=DAY, default="never mind")

    async def main() -> None:
        handle = await engine.submit(flow(), run_id="r")
        deadline = datetime.fromtimestamp(clock.now() / 1e6, UTC) + timedelta(seconds=DAY)
        await engine.work(flow, until_idle=True)
        with pytest.raises(hf.RunPausedError) as paused:
            await handle
        assert paused.value.until == pytest.approx(deadline, abs=timedelta(seconds=60))
        clock.advance(DAY + 1)
        await engine.work(flow, until_idle=True)
        assert await handle == "never mind"

    asyncio.run(main())


def test_a_worker_continues_a_run_that_was_answered_also_in_a_child(engine: hf.Engine) -> None:
    @workflow
    async def child() -> str:
        return await ask("Well?", returns=str)

    @workflow
    async def parent() -> str:
        return "said " + await child()

    async def main() -> None:
        handle = await engine.submit(parent(), run_id="r")
        await engine.work(parent, until_idle=True)
        (question,) = [q async for q in engine.questions()]
        await engine.answer(question.run_id, "yes")
        await engine.work(parent, until_idle=True)
        assert await handle == "said yes"

    asyncio.run(main())


def test_a_run_that_asks_while_it_sleeps_is_continued_by_whichever_comes_first(
    engine: hf.Engine, clock: FakeClock
) -> None:
    @workflow
    async def flow() -> str:
        answer, _ = await parallel(ask("Well?", returns=str), sleep(days=1))
        return answer

    async def main() -> None:
        for run_id, early in (("early", True), ("late", False)):
            handle = await engine.submit(flow(), run_id=run_id)
            await engine.work(flow, until_idle=True)
            if early:
                await engine.answer(run_id, "yes")
                await engine.work(flow, until_idle=True)
                assert await handle.status() == hf.Status.PAUSED
            clock.advance(DAY + 1)
            await engine.work(flow, until_idle=True)
            if not early:
                await engine.answer(run_id, "yes")
                await engine.work(flow, until_idle=True)
            assert await handle == "yes"

    asyncio.run(main())


def test_a_sleeping_run_can_be_paused_and_cancelled(engine: hf.Engine, clock: FakeClock) -> None:
    async def main() -> None:
        for run_id in ("pause", "cancel"):
            await engine.submit(patient(1), run_id=run_id)
        await engine.work(patient, until_idle=True)
        await engine.pause("pause")
        await engine.cancel("cancel")
        clock.advance(2 * DAY)
        assert await engine.work(patient, until_idle=True) == 0
        assert await engine.status("cancel") == hf.Status.CANCELLED
        assert await engine.resume("pause") == "beforeafter"

    asyncio.run(main())


def test_a_worker_undoes_the_steps_of_a_sleeping_run_that_was_cancelled(
    engine: hf.Engine, clock: FakeClock
) -> None:
    @step(with_rollback=lambda name: calls.append(f"undo {name}"))
    def book(name: str) -> str:
        calls.append(name)
        return name

    @workflow
    async def trip() -> None:
        await book("hotel")
        await sleep(days=3)

    async def main() -> None:
        await engine.submit(trip(), run_id="r")
        await engine.work(trip, until_idle=True)
        await engine.cancel("r")
        assert await engine.status("r") == hf.Status.PAUSED
        assert await engine.work(trip, until_idle=True) == 1
        assert await engine.status("r") == hf.Status.CANCELLED

    asyncio.run(main())
    assert calls == ["hotel", "undo hotel"]
