"""A repair keeps what was decided, asked and handled before the step."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.workflow import ask, parallel, step, workflow
from tests.engine.desk import Desk
from tests.workflow.evidence.support import (
    WHOLE,
    by_run,
    line,
)
from tests.workflow.support import Flow


def test_a_repair_keeps_what_was_decided_and_answered_before_the_step(
    engine: hf.Engine, desk: Desk
) -> None:
    decided: list[Any] = []

    @workflow("asks")
    def flow() -> Flow:
        yield step("a").python(desk.call, args=("a",))
        decided.append(hf.uuid())
        price = yield ask("Price?", returns=int)
        text = yield step("b").python(desk.write, args=("b", str(price)), outputs=desk / "b")
        return text, decided[-1]

    with pytest.raises(hf.RunPausedError):
        by_run(engine, flow)
    asyncio.run(engine.answer("r", 42, by="ann"))
    by_run(engine, flow)
    for _ in range(2):
        (desk / "b").unlink()
        assert by_run(engine, flow)[0] == "42"
    assert len(set(decided)) == 1
    assert desk.take() == ["a", "b", "b", "b"]


def test_a_repair_keeps_the_answer_to_what_was_asked_beside_the_step(
    engine: hf.Engine, desk: Desk
) -> None:
    @workflow("asks")
    def flow() -> Flow:
        made = step("b").python(desk.write, args=("b",), outputs=desk / "b")
        _, price = yield parallel(made, ask("Price?", name="price", returns=int))
        yield step("c").python(desk.call, args=("c",))
        return price

    with pytest.raises(hf.RunPausedError):
        by_run(engine, flow)
    asyncio.run(engine.answer("r", 42))
    (desk / "b").unlink()
    assert by_run(engine, flow) == 42
    assert desk.take() == ["b", "b", "c"]


def test_a_question_that_was_asked_after_the_step_is_asked_again(
    engine: hf.Engine, desk: Desk
) -> None:
    @workflow("asks")
    def flow() -> Flow:
        text = yield step("b").python(desk.write, args=("b",), outputs=desk / "b")
        return (yield ask(f"Is {text!r} fine?"))

    with pytest.raises(hf.RunPausedError):
        by_run(engine, flow)
    asyncio.run(engine.answer("r", "yes"))
    (desk / "b").unlink()
    with pytest.raises(hf.RunPausedError):
        by_run(engine, flow)
    asyncio.run(engine.answer("r", "no"))
    assert by_run(engine, flow) == "no"


def test_a_repair_keeps_a_failure_that_the_flow_handled(engine: hf.Engine, desk: Desk) -> None:
    desk.broken.add("x")

    @workflow("recovers")
    def flow() -> Flow:
        try:
            yield step("x").python(desk.call, args=("x",))
        except hf.StepFailedError:
            return (yield step("b").python(desk.write, args=("b",), outputs=desk / "b"))

    by_run(engine, flow)
    desk.broken.clear()
    (desk / "b").unlink()
    assert by_run(engine, flow) == "this is b"
    assert desk.take() == ["x", "b", "b"]


def test_a_step_that_failed_the_run_once_is_repaired_like_any_other(
    engine: hf.Engine, desk: Desk
) -> None:
    flow = line(desk)
    desk.broken.add("b")
    with pytest.raises(hf.StepFailedError):
        by_run(engine, flow)
    desk.broken.clear()
    by_run(engine, flow)
    desk.take()
    (desk / "b").unlink()
    assert by_run(engine, flow) == WHOLE
    assert desk.take() == ["b", "c"]
