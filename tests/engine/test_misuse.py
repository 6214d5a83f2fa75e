"""What programs do to an engine that nobody planned for."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine import launcher
from holdfast.engine.arguments import digest
from holdfast.workflow import ask, for_each, step, workflow
from tests.waiting import wait_until

done: list[object] = []


@pytest.fixture(autouse=True)
def afresh() -> None:
    done.clear()


@step
def note(value: object) -> object:
    done.append(value)
    return value


@step
async def later(value: int) -> int:
    return value


def test_a_step_of_run_sync_may_run_an_event_loop_of_its_own() -> None:
    async def twice(n: int) -> int:
        return 2 * n

    @step
    def uses_asyncio(n: int) -> int:
        return asyncio.run(twice(n)) + later(n).result() + engine.run_sync(inner(n))

    @workflow
    async def inner(n: int) -> int:
        return await later(n)

    @workflow
    async def flow() -> int:
        return await uses_asyncio(1)

    with hf.Engine(False) as engine:
        assert engine.run_sync(flow()) == 4
        assert engine.start_sync(flow()).result(30) == 4
        assert asyncio.run(engine.run(flow())) == 4


def test_a_function_that_hides_an_async_def_from_for_each_is_refused() -> None:
    async def body(n: int) -> Any:
        return await note(n)

    class Callable:
        async def __call__(self, n: int) -> Any:
            return await note(n)

    @workflow
    async def hidden() -> Any:
        return await for_each([1], lambda n: body(n))

    @workflow
    async def shown() -> Any:
        return await for_each([1, 2], Callable())

    with hf.Engine("memory://") as engine:
        with pytest.raises(hf.StepFailedError, match="give for_each the `async def` itself"):
            engine.run_sync(hidden())
        assert engine.run_sync(shown(), run_id="r") == [1, 2]
        with hf.SyncCheckpointer(engine.checkpointer.store) as cp:
            steps = [c.step for c in cp.list_checkpoints("r", oldest_first=True)]
    assert steps == ["Callable[0]/note", "Callable[1]/note"]


def test_inputs_beside_the_call_are_refused_with_how_to_give_them() -> None:
    @workflow
    async def flow(n: int) -> object:
        return await note(n)

    wanted = r"engine\.{}\(flow\(\.\.\.\)\)"
    with hf.Engine("memory://") as engine:
        for given in (flow, flow(1)):
            with pytest.raises(TypeError, match=wanted.format("run")):
                engine.run_sync(given, 1, run_id="r")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=wanted.format("submit")):
                engine.submit_sync(given, 1, run_id="r")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=wanted.format("start")):
                engine.start_sync(given, 1, run_id="r")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=wanted.format("stream")):
                engine.stream(given, 1, run_id="r")  # type: ignore[arg-type]
    assert done == []


def test_who_waits_long_for_another_engine_is_told_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @step
    def slow() -> str:
        begun.set()
        go_on.wait(30)
        return "done"

    @workflow
    async def flow() -> str:
        return await slow()

    monkeypatch.setattr(launcher, "_TELL_AFTER", 0.2)
    first, second = hf.Engine(tmp_path / "runs.db"), hf.Engine(tmp_path / "runs.db")
    with first, second, ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(first.run_sync, flow(), run_id="r", resume=True)]
        assert begun.wait(30)
        calls.append(pool.submit(second.run_sync, flow(), run_id="r", resume=True))
        wait_until(lambda: "waiting for it" in caplog.text)
        go_on.set()
        assert [call.result(30) for call in calls] == ["done", "done"]
    (told,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "run r is executed by" in told.getMessage()


def test_items_that_were_finished_are_not_done_again_although_the_flow_failed() -> None:
    async def item(n: int) -> Any:
        hf.now()
        done.append(n)
        if n == 2 and done.count(2) == 1:
            raise ValueError("no")
        return n

    @workflow
    async def flow() -> Any:
        found = await for_each([1, 2, 3], item, concurrency=1)
        if done.count("fails") == 0:
            done.append("fails")
            raise ValueError("right after")
        return found

    with hf.Engine("memory://") as engine:
        with pytest.raises(ValueError, match="no"):
            engine.run_sync(flow(), run_id="r")
        with pytest.raises(ValueError, match="right after"):
            engine.resume_sync("r")
        assert engine.resume_sync("r") == [1, 2, 3]
    assert done == [1, 2, 2, 3, "fails"]


def test_going_back_to_a_step_keeps_what_was_decided_and_answered_before_it() -> None:
    @workflow
    async def flow() -> Any:
        first = await note("first")
        chosen, answer = str(hf.uuid()), await ask("Well?", returns=str)
        return [first, await note(chosen), answer]

    with hf.Engine("memory://") as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(flow(), run_id="r")
        engine.answer_sync("r", "yes")
        found = engine.resume_sync("r")
        assert engine.resume_sync("r", from_step="note#2") == found
        assert engine.resume_sync("r", replay=True) == found
    assert done == [found[0], found[1], found[1], found[1]]


@pytest.mark.parametrize("where", ["flow", "step", "plain"])
def test_an_exit_in_one_background_run_leaves_the_others_alone(where: str) -> None:
    @step(inline=True)
    def leave() -> None:
        sys.exit(3)

    @workflow
    async def in_flow() -> None:
        sys.exit(3)

    @workflow
    async def in_step() -> None:
        await leave()

    @workflow
    def in_plain() -> None:
        sys.exit(3)

    @workflow
    async def fine() -> int:
        return await later(1)

    with hf.Engine(False) as engine:
        exits = {"flow": in_flow, "step": in_step, "plain": in_plain}[where]
        run = engine.start_sync(exits(), run_id="r")
        with pytest.raises((hf.RunStoppedError, hf.RunError)):
            run.result(30)
        assert engine.start_sync(fine()).result(30) == 1


def test_a_forked_child_starts_runs_of_its_own(tmp_path: Path) -> None:
    @workflow
    async def fine() -> int:
        return await later(1)

    engine = hf.Engine(tmp_path / "runs.db")
    assert engine.start_sync(fine()).result(30) == 1
    child = os.fork()
    if not child:
        try:
            os._exit(engine.start_sync(fine()).result(30))
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    engine.close_sync()


def test_a_stream_is_read_by_one_task_at_a_time() -> None:
    @workflow
    async def fine() -> int:
        return await later(1)

    async def main() -> None:
        async with hf.Engine(False) as engine:
            stream = engine.stream(fine())
            first = asyncio.create_task(_all(stream))
            await asyncio.sleep(0)
            await asyncio.gather(first, _all(stream), return_exceptions=True)
            assert len(first.result()) > 3

    async def _all(stream: Any) -> list[Any]:
        return [event async for event in stream]

    asyncio.run(main())


def test_steps_of_a_plain_def_are_not_waited_for_in_other_threads() -> None:
    @workflow
    def flow() -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(note("a").result).result()

    with hf.Engine(False) as engine, pytest.raises(RuntimeError, match="would not be recorded"):
        engine.run_sync(flow())
    assert done == []


class Hostile:
    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)

    def __repr__(self) -> str:
        raise ValueError("repr")

    def __len__(self) -> int:
        raise ValueError("len")


def test_any_argument_has_a_digest() -> None:
    hostile = Hostile()
    for value in (
        hostile,
        10**5000,
        range(10**20),
        {hostile: 1},
        [hostile],
        memoryview(b"a" * 9999),
    ):
        assert len(digest((value,), {"more": value})) == 24


@pytest.mark.parametrize(
    "make",
    [
        lambda: range(10**9),
        lambda: dict.fromkeys(range(10**5)),
        lambda: set(range(10**5)),
        lambda: [[0] * 10**5] * 10,
    ],
)
def test_the_digest_of_large_arguments_looks_at_few_of_their_members(make: Any) -> None:
    value = make()
    seen = 0

    def count(*_: object) -> None:
        nonlocal seen
        seen += 1

    sys.setprofile(count)
    try:
        digest((value,), {})
    finally:
        sys.setprofile(None)
    assert seen < 30_000


def test_the_order_of_keys_of_any_type_does_not_matter() -> None:
    one = {(1, 2): 1, (3, 4): 2, 1.5: 3, "a": 4, None: 5}
    other = dict(reversed(one.items()))
    assert digest((one,), {}) == digest((other,), {})
