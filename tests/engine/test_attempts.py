"""Which attempt of a step it is, after the events of its run were left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

import holdfast as hf
from holdfast.events import Event, StepCompleted, StepFailed, StepProgress, StepStarted
from holdfast.graph import END, Graph
from holdfast.workflow import parallel, step, workflow


class Work:
    """Steps that wait to be let go, and say which attempt they are."""

    def __init__(self) -> None:
        self.attempts: list[tuple[str, int]] = []
        self.hangs = True

    async def __call__(self, *_: Any) -> Any:
        here = hf.current_step()
        self.attempts.append((here.name, here.attempt))
        here.progress()
        if self.hangs and here.name != "quick":
            await asyncio.Event().wait()
        return {}


async def leave(stream: AsyncIterator[Event], kind: type[Event], name: str | None = None) -> None:
    """Follow a run up to an event, and drop it there."""
    async for event in stream:
        if isinstance(event, kind) and name in (None, getattr(event, "step", None)):
            break
    await stream.aclose()  # type: ignore[attr-defined]


async def started(stream: AsyncIterator[Event]) -> list[tuple[str, int]]:
    return [(e.name, e.attempt) async for e in stream if isinstance(e, StepStarted)]


def flow_of(work: Work) -> Any:
    @workflow
    def flow() -> Any:
        yield step("quick").python(work)
        yield step("slow").python(work).retry(3, backoff=0)

    return flow


def test_a_step_under_way_when_the_events_are_left_counts_as_tried() -> None:
    work = Work()
    flow = flow_of(work)

    async def main() -> None:
        async with hf.Engine("memory://") as engine:
            await leave(engine.stream(flow(), run_id="r"), StepProgress, "slow")
            await leave(engine.resume_stream("r"), StepProgress, "slow")
            work.hangs = False
            assert await started(engine.resume_stream("r")) == [("slow", 3)]

    asyncio.run(main())
    assert work.attempts == [("quick", 1), ("slow", 1), ("slow", 2), ("slow", 3)]


@pytest.mark.parametrize(("kind", "name"), [(StepCompleted, "quick"), (StepStarted, "slow")])
def test_a_step_that_had_not_begun_when_the_events_were_left_is_at_its_first_attempt(
    kind: type[Event], name: str
) -> None:
    work = Work()
    work.hangs = False
    flow = flow_of(work)

    async def main() -> None:
        async with hf.Engine("memory://") as engine:
            await leave(engine.stream(flow(), run_id="r"), kind, name)
            for _ in range(3):
                await leave(engine.resume_stream("r"), StepStarted, "slow")
            assert await started(engine.resume_stream("r")) == [("slow", 1)]

    asyncio.run(main())
    assert work.attempts == [("quick", 1), ("slow", 1)]


def test_leaving_the_events_is_no_crash() -> None:
    work = Work()

    @workflow
    def flow() -> Any:
        yield step("slow").python(work).retry(2, crashes=1)

    async def main() -> None:
        async with hf.Engine("memory://") as engine:
            await leave(engine.stream(flow(), run_id="r"), StepProgress)
            for _ in range(4):
                await leave(engine.resume_stream("r"), StepProgress)
            work.hangs = False
            await engine.resume("r")

    asyncio.run(main())
    assert [attempt for _, attempt in work.attempts] == [1, 2, 3, 4, 5, 6]


def test_only_the_branches_under_way_count_as_tried() -> None:
    work = Work()

    @workflow
    def flow() -> Any:
        yield step("quick").python(work)
        yield parallel(step("one").python(work), step("quick").python(work))
        yield step("last").python(work)

    async def main() -> None:
        async with hf.Engine("memory://") as engine:
            await leave(engine.stream(flow(), run_id="r"), StepCompleted, "quick#2")
            work.hangs = False
            await engine.resume("r")

    asyncio.run(main())
    assert sorted(work.attempts[:3]) == [("one", 1), ("quick", 1), ("quick", 1)]
    assert work.attempts[3:] == [("one", 2), ("last", 1)]


def test_a_graph_whose_store_is_opened_by_each_call_counts_too(tmp_path: Any) -> None:
    work = Work()
    app = Graph(dict).add_node("slow", work).add_edge("slow", END).set_entry("slow").compile()
    store = f"sqlite:///{tmp_path}/runs.db"

    async def main() -> None:
        await leave(app.stream({}, store=store, run_id="g"), StepProgress)
        work.hangs = False
        await app.resume("g", store=store)

    asyncio.run(main())
    assert work.attempts == [("slow", 1), ("slow", 2)]


def test_a_cancelled_task_counts_the_step_that_it_interrupted() -> None:
    work = Work()
    flow = flow_of(work)

    async def main() -> None:
        async with hf.Engine("memory://") as engine:
            task = asyncio.create_task(engine.run(flow(), run_id="r"))
            while len(work.attempts) < 2:
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            work.hangs = False
            assert await started(engine.resume_stream("r")) == [("slow", 2)]

    asyncio.run(main())


def test_failed_attempts_are_not_counted_twice() -> None:
    tries: list[int] = []

    async def fails() -> None:
        tries.append(hf.current_step().attempt)
        if len(tries) == 2:
            hf.current_step().progress()
            await asyncio.Event().wait()
        raise OSError("busy")

    @workflow
    def flow() -> Any:
        yield step("bad").python(fails).retry(3, backoff=0)

    async def main() -> None:
        async with hf.Engine("memory://") as engine:
            await leave(engine.stream(flow(), run_id="r"), StepProgress)
            with pytest.raises(hf.StepFailedError, match="after 3 attempts"):
                async for event in engine.resume_stream("r"):
                    if isinstance(event, StepFailed):
                        assert event.attempts == 3
            with pytest.raises(hf.StepFailedError):  # a failed run begins to count anew
                await engine.resume("r")

    asyncio.run(main())
    assert tries == [1, 2, 3, 4, 1, 2, 3]
