"""Single steps on Dask's workers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

import holdfast as hf
from holdfast.integrations.dask import DaskExecutor, run_on
from holdfast.workflow import for_each, step, workflow
from tests.integrations.dask import flows
from tests.integrations.dask.conftest import kill
from tests.waiting import wait_until


@pytest.fixture
def engine() -> Iterator[hf.Engine]:
    with hf.Engine("memory://") as engine:
        yield engine


def test_for_each_has_workers_do_the_work(client: Client, engine: hf.Engine) -> None:
    @workflow
    async def flow(numbers: list[int]) -> tuple[list[int], list[int]]:
        squares = await for_each(numbers, flows.square, run_on=run_on(client))
        return squares, await for_each(numbers, flows.pid, run_on=run_on(client))

    squares, pids = engine.run_sync(flow([1, 2, 3]))
    assert squares == [1, 4, 9]
    assert os.getpid() not in pids


def test_a_decorated_step_runs_on_the_current_client(client: Client, engine: hf.Engine) -> None:
    where = step(run_on=run_on())(flows.pid)

    @workflow
    async def flow() -> int:
        return await where()

    assert engine.run_sync(flow()) != os.getpid()


def test_no_more_than_so_many_steps_are_with_dask_at_once(
    client: Client, engine: hf.Engine, tmp_path: Path
) -> None:
    on = run_on(client, at_once=2)

    @workflow
    async def flow() -> list[int]:
        items = [(str(tmp_path), n) for n in range(12)]
        return await for_each(items, hold, run_on=on, concurrency=None)

    assert max(engine.run_sync(flow())) <= 2


def hold(item: tuple[str, int]) -> int:
    return flows.hold(*item)


def test_a_lost_worker_costs_no_attempt(client: Client, engine: hf.Engine, tmp_path: Path) -> None:
    @workflow
    async def flow() -> Any:
        made = step("wait").python(flows.mark_and_wait, args=(str(tmp_path), 7))
        return await made.run_on(run_on(client)).retry(1)

    def lose_the_first() -> None:
        wait_until(lambda: list(tmp_path.glob("began-*")))
        kill(int(next(tmp_path.glob("began-*")).name.rpartition("-")[2]))
        wait_until(lambda: len(list(tmp_path.glob("began-*"))) == 2)
        (tmp_path / "go").touch()

    thread = threading.Thread(target=lose_the_first)
    thread.start()
    assert engine.run_sync(flow()) == (7, 1)
    thread.join()


def test_a_step_that_kills_its_workers_fails_and_is_not_retried(
    client: Client, cluster: LocalCluster, engine: hf.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)

    @workflow
    async def flow() -> None:
        await step("doomed").python(flows.die).run_on(run_on(client)).retry(5, backoff=0)

    with pytest.raises(hf.StepFailedError, match="all those workers died") as failed:
        engine.run_sync(flow())
    assert failed.value.is_a(hf.ExecutorBrokenError)
    assert failed.value.attempts == 1


def test_a_step_that_takes_too_long_is_given_up(
    client: Client, engine: hf.Engine, tmp_path: Path
) -> None:
    on = run_on(client, at_once=1)

    @workflow
    async def flow() -> tuple[Any, int]:
        slow = step("slow").python(flows.mark_and_wait, args=(str(tmp_path), 1)).timeout(0.5)
        said = await slow.run_on(on).on_error(lambda error: error.error_type)
        return said, await step("next").python(flows.square, args=(5,)).run_on(on)

    assert engine.run_sync(flow()) == ("holdfast.errors.StepTimeoutError", 25)
    (tmp_path / "go").touch()


def test_a_cancelled_run_does_not_wait_for_its_steps(
    client: Client, engine: hf.Engine, tmp_path: Path
) -> None:
    @workflow
    async def flow() -> Any:
        items = [(str(tmp_path), n) for n in range(20)]
        return await for_each(items, mark_and_wait, run_on=run_on(client, at_once=3))

    run = engine.start_sync(flow(), run_id="r")
    wait_until(lambda: len(list(tmp_path.glob("began-*"))) >= 3)
    engine.cancel_sync("r")
    with pytest.raises(hf.RunCancelledError):
        run.result(timeout=60)
    (tmp_path / "go").touch()
    wait_until(lambda: not any(client.processing().values()))
    assert len(list(tmp_path.glob("began-*"))) < 20, "most of them never begin"


def mark_and_wait(item: tuple[str, int]) -> Any:
    return flows.mark_and_wait(*item)


def test_a_cancelled_call_is_not_made_if_it_still_waits(client: Client, tmp_path: Path) -> None:
    executor = DaskExecutor(client, at_once=1)
    first = executor.submit(flows.wait_there, str(tmp_path))
    second = executor.submit(Path.touch, tmp_path / "second")
    third = executor.submit(flows.square, 3)
    assert second.cancel()
    (tmp_path / "go").touch()
    assert (first.result(60), third.result(60)) == ("waited", 9)
    assert not (tmp_path / "second").exists()


def test_a_cancelled_call_makes_place_for_the_next_one(client: Client, tmp_path: Path) -> None:
    executor = DaskExecutor(client, at_once=1)
    first = executor.submit(flows.wait_there, str(tmp_path))
    assert first.cancel()
    assert executor.submit(flows.square, 4).result(60) == 16
    (tmp_path / "go").touch()


def test_what_a_step_raises_can_be_read(client: Client, engine: hf.Engine) -> None:
    @workflow
    async def flow() -> None:
        await step("odd").python(flows.raise_oddly).run_on(run_on(client))

    with pytest.raises(hf.StepFailedError, match="OddError: odd 5 6"):
        engine.run_sync(flow())


def test_what_a_worker_can_not_import_is_said(client: Client, engine: hf.Engine) -> None:
    executor = DaskExecutor(client)
    gone = Gone()
    with pytest.raises(ImportError, match="install the same code on all machines"):
        executor.submit(gone).result(60)


class Gone:
    """Pickled as something that nobody can import."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _import, ("no_such_module",)

    def __call__(self) -> None: ...


def _import(name: str) -> Any:
    return __import__(name)


def test_a_closed_client_fails_the_step_with_a_clear_error(
    cluster: LocalCluster, engine: hf.Engine
) -> None:
    with Client(cluster, set_as_default=False) as client:
        on = run_on(client)

    @workflow
    async def flow() -> int:
        made = step("square").python(flows.square, args=(2,)).run_on(on)
        return await made.retry(2, backoff=0)

    with pytest.raises(hf.StepFailedError, match="the Dask client is closed") as failed:
        engine.run_sync(flow())
    assert failed.value.is_a(hf.ExecutorBrokenError)


def test_a_client_that_is_closed_under_a_step_fails_it_with_a_clear_error(
    cluster: LocalCluster, engine: hf.Engine, tmp_path: Path
) -> None:
    client = Client(cluster, set_as_default=False)

    @workflow
    async def flow() -> Any:
        made = step("wait").python(flows.mark_and_wait, args=(str(tmp_path), 7))
        return await made.run_on(run_on(client)).retry(1)

    def close() -> None:
        wait_until(lambda: list(tmp_path.glob("began-*")))
        client.close()

    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises(hf.StepFailedError, match="the Dask client is clos") as failed:
        engine.run_sync(flow())
    thread.join()
    (tmp_path / "go").touch()
    assert failed.value.is_a(hf.ExecutorBrokenError)


def test_an_executor_that_is_shut_down_gives_up_what_is_left(
    client: Client, tmp_path: Path
) -> None:
    executor = DaskExecutor(client, at_once=1)
    calls = [executor.submit(flows.wait_there, str(tmp_path)) for _ in range(2)]
    executor.shutdown(cancel_futures=True)
    for call in calls:
        with pytest.raises(RuntimeError, match="shut down"):
            call.result(60)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(flows.square, 2)
    (tmp_path / "go").touch()


def test_at_once_must_be_a_number_above_zero(client: Client) -> None:
    with pytest.raises(ValueError, match="at_once must be at least 1"):
        run_on(client, at_once=0)


def test_equal_places_to_run_share_one_executor(client: Client) -> None:
    assert run_on(client, resources={"GPU": 1}) == run_on(client, resources={"GPU": 1})
    assert run_on(client) != run_on(client, at_once=5)
    assert len({run_on(client), run_on(client)}) == 1


def test_retries_are_those_of_the_step(client: Client, engine: hf.Engine) -> None:
    @workflow
    async def flow() -> None:
        made = step("odd").python(flows.raise_oddly).run_on(run_on(client))
        await made.retry(2, backoff=0)

    with pytest.raises(hf.StepFailedError) as failed:
        engine.run_sync(flow())
    assert failed.value.attempts == 2
