"""What a run's result says after it failed, was resumed and completed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import holdfast as hf
from holdfast.documents.maverick import StoreView
from holdfast.documents.workflow_results import result_of
from holdfast.workflow import for_each, parallel, step, workflow
from tests.workflow.support import Flow, recorded


class Switch:
    """Work that fails until it is switched on."""

    def __init__(self) -> None:
        self.on = False

    def __call__(self, *_: Any) -> int:
        if not self.on:
            raise ValueError("no luck")
        return 1


def failed_then_completed(engine: hf.Engine, make: Callable[[Switch], Any]) -> Any:
    """The result of a run that failed once and completed when it was resumed."""
    switch = Switch()
    flow = make(switch)
    with pytest.raises(hf.StepFailedError):
        engine.run_sync(flow(), run_id="r")
    before = result_of(engine.checkpointer.core, "r")
    assert before.error is not None
    assert not all(one.success for one in before.steps)
    switch.on = True
    engine.run_sync(flow(), run_id="r", resume=True)
    return result_of(engine.checkpointer.core, "r")


def test_a_step_that_failed_before_the_resume_is_listed_once_as_what_became_of_it(
    engine: hf.Engine,
) -> None:
    def make(switch: Switch) -> Any:
        @workflow
        def flow() -> Flow:
            yield step("a").python(lambda: 1)
            yield step("b").python(switch).retry(2, backoff=0)

        return flow

    result = failed_then_completed(engine, make)
    assert (result.success, result.error) == (True, None)
    assert [(one.name, one.success) for one in result.steps] == [("a", True), ("b", True)]


def test_parallel_steps_that_failed_before_the_resume_are_listed_once(
    engine: hf.Engine,
) -> None:
    def make(switch: Switch) -> Any:
        @workflow
        def flow() -> Flow:
            yield parallel(step("a").python(switch), step("b").python(switch))

        return flow

    result = failed_then_completed(engine, make)
    listed = sorted((one.name, one.success) for one in result.steps)  # as they finish
    assert listed == [("a", True), ("b", True)]


def test_a_failed_step_that_the_resumed_run_does_not_need_is_not_listed(
    engine: hf.Engine,
) -> None:
    switch = Switch()

    @workflow
    def flow() -> Flow:
        if not switch.on:
            yield step("old").python(switch)
        yield step("new").python(lambda: 1)

    with pytest.raises(hf.StepFailedError):
        engine.run_sync(flow(), run_id="r")
    switch.on = True
    engine.run_sync(flow(), run_id="r", resume=True)
    assert recorded(engine, "r") == ["new"]


def test_a_failure_that_the_flow_handled_stays_in_the_list(engine: hf.Engine) -> None:
    def make(switch: Switch) -> Any:
        @workflow
        def flow() -> Flow:
            yield step("handled").python(Switch()).skip_on_error()
            yield step("b").python(switch)

        return flow

    result = failed_then_completed(engine, make)
    assert [(one.name, one.success) for one in result.steps] == [("handled", False), ("b", True)]


def test_checks_that_failed_before_the_resume_are_listed_and_drawn_once(
    engine: hf.Engine,
) -> None:
    good = False

    @workflow
    def flow() -> Flow:
        yield for_each([1], lambda n: step("odd").python(lambda: n).validate(lambda _: good))

    with pytest.raises(hf.StepFailedError):
        engine.run_sync(flow(), run_id="r")
    good = True
    engine.run_sync(flow(), run_id="r", resume=True)
    names = recorded(engine, "r")
    assert len(names) == len(set(names))
    assert all(one.success for one in result_of(engine.checkpointer.core, "r").steps)
    assert "x 2" not in engine.mermaid_sync("r")


def test_the_document_view_lists_a_step_once(engine: hf.Engine) -> None:
    def make(switch: Switch) -> Any:
        @workflow
        def flow() -> Flow:
            yield step("a").python(lambda: 1)
            yield step("b").python(switch)

        return flow

    failed_then_completed(engine, make)
    data = asyncio.run(StoreView(engine.checkpointer).load_latest("r"))
    assert data is not None
    assert [(one.name, one.success) for one in data.step_results] == [("a", True), ("b", True)]


def test_a_failed_run_still_says_why_after_somebody_asked_it_to_pause(
    engine: hf.Engine,
) -> None:
    @workflow
    def flow() -> Flow:
        yield step("bad").python(Switch())

    with pytest.raises(hf.StepFailedError):
        engine.run_sync(flow(), run_id="r")
    engine.pause_sync("r")
    result = result_of(engine.checkpointer.core, "r")
    assert (result.status, result.error) == ("failed", "ValueError: no luck")


def test_the_timeline_tells_failed_attempts_from_the_failure_of_the_run(
    engine: hf.Engine,
) -> None:
    def make(switch: Switch) -> Any:
        @workflow
        def flow() -> Flow:
            yield step("b").python(switch).retry(2, backoff=0)

        return flow

    failed_then_completed(engine, make)
    with hf.SyncCheckpointer(engine.checkpointer.store) as cp:
        moments = [one for one in cp.timeline("r") if one.kind == "fail"]
    assert [(one.status, one.note) for one in moments] == [
        ("running", "attempt 1: ValueError: no luck"),
        ("running", "ValueError: no luck"),
        ("failed", "ValueError: no luck"),
    ]
