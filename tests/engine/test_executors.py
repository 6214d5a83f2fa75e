"""Steps on executors that break: given ones, and those that a factory makes again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.graph import END, Graph
from holdfast.workflow import Retry, for_each, parallel, step, workflow
from tests.processes import GONE, state_of
from tests.waiting import wait_until

processes = partial(ProcessPoolExecutor, 2, mp_context=get_context("forkserver"))


@pytest.fixture
def engine() -> Iterator[hf.Engine]:
    with hf.Engine("memory://") as engine:
        yield engine


class Factory:
    """Makes executors, and remembers them."""

    def __init__(self, make: Callable[[], Executor] = processes) -> None:
        self._make = make
        self.made: list[Any] = []

    def __call__(self) -> Executor:
        made = self._make()
        self.made.append(made)
        return made


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_first(marks: str, times: int = 1) -> str:
    """Kill the process that runs this, so many times in all."""
    count = len(list(Path(marks).iterdir()))
    if count < times:
        (Path(marks) / str(count)).touch()
        die()
    return f"attempt {hf.current_step().attempt}"


def wait_for_deaths(item: int, marks: str, times: int) -> int:
    """Work beside something that dies; done when that is over."""
    wait_until(lambda: len(list(Path(marks).iterdir())) >= times)
    return item


def square(n: int) -> int:
    return n * n


def raise_broken() -> None:
    raise BrokenProcessPool("of my own")


def pid() -> int:
    return os.getpid()


def test_a_factory_makes_one_executor_for_all_steps_of_an_engine(engine: hf.Engine) -> None:
    factory = Factory(lambda: ThreadPoolExecutor(2))
    squared = step(run_on=factory)(square)

    @workflow
    async def flow() -> list[int]:
        first = await squared(2)
        return [first, *await for_each([3, 4], square, run_on=factory)]

    assert engine.run_sync(flow()) == engine.run_sync(flow()) == [4, 9, 16]
    assert len(factory.made) == 1


def test_a_factory_that_a_flow_makes_again_and_again_is_called_once(engine: hf.Engine) -> None:
    factory = Factory(lambda: ThreadPoolExecutor(1))

    @workflow
    async def flow() -> int:
        total = 0
        for n in range(3):
            made = step("square").python(square, args=(n,))
            total += await made.run_on(lambda: factory())
        return total

    assert engine.run_sync(flow()) == 5
    assert len(factory.made) == 1


def test_executors_of_factories_are_shut_down_when_the_engine_is_closed() -> None:
    factory = Factory()
    where = step(run_on=factory)(pid)

    @workflow
    async def flow() -> int:
        return await where()

    with hf.Engine("memory://") as engine:
        child = engine.run_sync(flow())
        assert state_of(child) != GONE
    with pytest.raises(RuntimeError, match="shutdown"):
        factory.made[0].submit(pid)
    wait_until(lambda: state_of(child) == GONE)


def test_an_executor_that_was_given_stays_open() -> None:
    @workflow
    async def flow(n: int) -> int:
        return await step("square").python(square, args=(n,)).run_on(pool)

    with ThreadPoolExecutor(1) as pool:
        with hf.Engine("memory://") as engine:
            assert engine.run_sync(flow(3)) == 9
        assert pool.submit(square, 4).result() == 16


def test_a_killed_process_is_no_failed_attempt_and_its_step_runs_again(
    engine: hf.Engine, tmp_path: Path
) -> None:
    factory = Factory()

    @workflow
    async def flow() -> str:
        return await step("a").python(die_at_first, args=(str(tmp_path),)).run_on(factory).retry(1)

    assert engine.run_sync(flow()) == "attempt 2"
    assert len(factory.made) == 2


@dataclass
class Said:
    words: str = ""


def listen(marks: str, state: Said) -> dict[str, str]:
    return {"words": die_at_first(marks)}


def test_a_node_of_a_graph_runs_again_on_a_new_executor(engine: hf.Engine, tmp_path: Path) -> None:
    graph = Graph(Said)
    graph.add_node("listen", partial(listen, str(tmp_path)), run_on=processes)
    graph.set_entry("listen").add_edge("listen", END)
    assert engine.run_sync(graph.compile()(Said())).words == "attempt 2"


def test_a_step_that_kills_its_process_each_time_fails_after_three_times(
    engine: hf.Engine,
) -> None:
    factory = Factory()

    @workflow
    async def flow() -> None:
        await step("doomed").python(die).run_on(factory).retry(10, backoff=0)

    with pytest.raises(hf.StepFailedError, match="broke 3 times while this step ran") as failed:
        engine.run_sync(flow())
    assert failed.value.is_a(hf.ExecutorBrokenError)
    assert len(factory.made) == 3


def test_retry_says_how_often_the_process_of_a_step_may_die(engine: hf.Engine) -> None:
    factory = Factory()

    @workflow
    async def flow() -> None:
        await step("doomed").python(die).run_on(factory).retry(10, crashes=0)

    with pytest.raises(hf.StepFailedError, match="broke 1 times while this step ran"):
        engine.run_sync(flow())
    assert len(factory.made) == 1


def two_processes() -> ProcessPoolExecutor:
    """A pool that watches both its processes.

    Python notices the death of a process that a pool has just started only at the next result.
    """
    pool = processes()
    list(pool.map(square, range(2)))
    return pool


def test_steps_beside_one_that_kills_its_process_are_completed(
    engine: hf.Engine, tmp_path: Path
) -> None:
    """Twice the executor breaks under both. Alone, in either order, only the cause breaks its own."""
    doomed = step("doomed").python(die_at_first, args=(str(tmp_path), 9))

    @workflow
    async def flow() -> list[Any]:
        beside = step("beside").python(wait_for_deaths, args=(7, str(tmp_path), 2))
        return list(
            await parallel(
                doomed.run_on(two_processes).on_error(lambda error: error.error_type),
                beside.run_on(two_processes),
            )
        )

    assert engine.run_sync(flow()) == ["holdfast.errors.ExecutorBrokenError", 7]


def test_an_executor_that_broke_between_two_steps_is_made_again(engine: hf.Engine) -> None:
    factory = Factory(partial(ProcessPoolExecutor, 1, mp_context=get_context("spawn")))

    @workflow
    async def flow() -> tuple[int, int]:
        first = await step("first").python(pid).run_on(factory)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: _is_broken(factory.made[0]))
        return first, await step("second").python(pid).run_on(factory)

    first, second = engine.run_sync(flow())
    assert first != second
    assert len(factory.made) == 2


def _is_broken(pool: ProcessPoolExecutor) -> bool:
    try:
        pool.submit(pid)
    except BrokenProcessPool:
        return True
    return False


def test_an_executor_that_was_given_and_breaks_says_to_give_a_factory(engine: hf.Engine) -> None:
    with processes() as pool:

        @workflow
        async def flow() -> None:
            await step("doomed").python(die).run_on(pool).retry(3, backoff=0)

        with pytest.raises(hf.StepFailedError, match="give run_on a function that makes one") as no:
            engine.run_sync(flow())
    assert no.value.is_a(hf.ExecutorBrokenError)
    assert no.value.attempts == 1


@pytest.mark.parametrize("make", [processes, partial(ThreadPoolExecutor, 1)])
def test_a_step_that_raises_broken_executor_itself_has_failed(
    engine: hf.Engine, make: Callable[[], Executor]
) -> None:
    @workflow
    async def flow() -> None:
        await step("raises").python(raise_broken).run_on(factory).retry(2, backoff=0)

    factory = Factory(make)
    with pytest.raises(hf.StepFailedError, match="of my own") as failed:
        engine.run_sync(flow())
    assert failed.value.attempts == 2
    assert len(factory.made) == 1


def test_threads_whose_initializer_fails_fail_the_step(engine: hf.Engine) -> None:
    factory = Factory(lambda: ThreadPoolExecutor(1, initializer=raise_broken))

    @workflow
    async def flow() -> int:
        return await step("a").python(square, args=(2,)).run_on(factory)

    with pytest.raises(hf.StepFailedError, match="initializer failed"):
        engine.run_sync(flow())


@pytest.mark.parametrize("given", [4, "threads", object()])
def test_what_is_no_executor_is_refused_where_it_is_given(given: Any) -> None:
    made = step("a").python(square)
    made.use()
    with pytest.raises(TypeError, match="run_on must be an executor or a function that makes one"):
        made.run_on(given)
    with pytest.raises(TypeError, match="run_on must be an executor or a function that makes one"):
        step(run_on=given)(square)
    with pytest.raises(TypeError, match="run_on must be an executor or a function that makes one"):
        for_each([1], square, run_on=given)


def test_a_factory_that_makes_no_executor_fails_the_step(engine: hf.Engine) -> None:
    @workflow
    async def flow() -> int:
        return await step("a").python(square, args=(2,)).run_on(lambda: 3)  # type: ignore[arg-type, return-value]

    with pytest.raises(hf.StepFailedError, match="returned 3, which is no executor"):
        engine.run_sync(flow())


def test_for_each_takes_no_executor_for_code_with_steps_of_its_own() -> None:
    async def body(n: int) -> int:
        return await step("square").python(square, args=(n,))

    with pytest.raises(TypeError, match="give retry, timeout, run_on and outputs to the steps"):
        for_each([1], body, run_on=processes)


def test_retry_is_what_a_decorated_step_says(engine: hf.Engine) -> None:
    doomed = step(run_on=processes, retry=Retry(5, backoff=0, crashes=0))(die)

    @workflow
    async def flow() -> None:
        await doomed()

    with pytest.raises(hf.StepFailedError, match="broke 1 times"):
        engine.run_sync(flow())
