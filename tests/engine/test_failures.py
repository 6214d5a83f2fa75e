"""What an error that leaves a run says, whatever the flow is written as."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

import holdfast as hf
from holdfast.events import StepFailed
from holdfast.graph import END, Graph
from holdfast.pipeline import Pipeline
from holdfast.workflow import step, workflow


def fails(*_: Any) -> None:
    raise ValueError("no luck")


def test_a_failed_step_of_a_workflow_names_its_run(tmp_path: Any) -> None:
    @workflow
    def flow() -> Generator[Any, Any, Any]:
        yield step("bad").python(fails)

    with (
        hf.Engine(tmp_path / "runs.db") as engine,
        pytest.raises(hf.StepFailedError) as caught,
    ):
        engine.run_sync(flow(), run_id="r-1")
    assert caught.value.run_id == "r-1"


def test_a_failed_node_of_a_graph_names_its_run() -> None:
    graph = Graph(dict).add_node("bad", fails).add_edge("bad", END).set_entry("bad").compile()
    with pytest.raises(hf.StepFailedError) as caught:
        graph.run_sync({}, store="memory://", run_id="g-1")
    assert caught.value.run_id == "g-1"


def test_the_failure_that_a_fallback_is_given_names_its_run() -> None:
    seen = []
    pipeline = Pipeline(
        steps=[{"id": "bad", "function": fails, "fallback": lambda _, error: seen.append(error)}],
        flow={"start_at": "bad", "paths": [{"from": "bad", "to": "end"}]},
        checkpointer="memory://",
    )
    result = pipeline.run_sync({})
    pipeline.close_sync()
    assert [error.run_id for error in seen] == [result.run_id]


def test_a_failure_read_back_from_the_journal_names_its_run(tmp_path: Any) -> None:
    caught: list[str] = []

    @workflow
    def flow() -> Generator[Any, Any, Any]:
        try:
            yield step("bad").python(fails)
        except hf.StepFailedError as error:
            caught.append(error.run_id)
        yield step("worse").python(fails)

    with hf.Engine(tmp_path / "runs.db") as engine:
        for resume in (False, True):
            with pytest.raises(hf.StepFailedError):
                engine.run_sync(flow(), run_id="r-1", resume=resume)
    assert caught == ["r-1", "r-1"]


def test_a_failed_check_names_its_run(tmp_path: Any) -> None:
    @workflow
    def flow() -> Generator[Any, Any, Any]:
        yield step("odd").python(lambda: 2).validate(lambda n: n % 2 == 1)

    with (
        hf.Engine(tmp_path / "runs.db") as engine,
        pytest.raises(hf.StepFailedError) as caught,
    ):
        engine.run_sync(flow(), run_id="r-1")
    assert caught.value.run_id == "r-1"


def test_the_failure_of_a_child_run_names_the_parent_and_its_cause_the_child() -> None:
    @workflow
    def inner() -> Generator[Any, Any, Any]:
        yield step("bad").python(fails)

    @workflow
    def outer() -> Generator[Any, Any, Any]:
        yield step("part").subworkflow(inner)

    async def main() -> hf.StepFailedError:
        async with hf.Engine("memory://") as engine:
            failed = []
            with pytest.raises(hf.StepFailedError) as caught:
                async for event in engine.stream(outer(), run_id="r-1"):
                    failed += [event.run_id] if isinstance(event, StepFailed) else []
            assert failed == ["r-1//part", "r-1"]
            return caught.value

    error = asyncio.run(main())
    assert error.run_id == "r-1"
    assert isinstance(error.__cause__, hf.StepFailedError)
    assert error.__cause__.run_id == "r-1//part"


def nothing_left(*_: Any) -> str:
    return next(iter(()))


def test_a_step_in_a_thread_fails_when_its_iterator_is_empty() -> None:
    first = step(nothing_left)

    @workflow
    async def flow() -> str:
        return await first()

    with hf.Engine("memory://") as engine:
        run = engine.start_sync(flow())
        with pytest.raises(hf.StepFailedError, match="StopIteration"):
            run.result(timeout=30)


def test_a_step_fails_when_the_iterator_behind_its_claims_is_empty() -> None:
    @step(outputs=nothing_left)
    def write() -> None: ...

    @workflow
    async def flow() -> None:
        await write()

    with hf.Engine("memory://") as engine:
        run = engine.start_sync(flow())
        with pytest.raises(hf.StepFailedError, match="StopIteration"):
            run.result(timeout=30)
