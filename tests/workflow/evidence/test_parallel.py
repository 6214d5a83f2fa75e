"""Claims of parallel parts, of the items of a for_each, and of modified steps."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast as hf
from holdfast.workflow import Workflow, for_each, parallel, step, workflow
from tests.engine.desk import Desk, there
from tests.workflow.evidence.support import (
    by_run,
    every_store,
    stopped,
)
from tests.workflow.support import Flow


def both(desk: Desk) -> Workflow[..., Any]:
    def part(name: str) -> Any:
        return step(name).python(desk.write, args=(name,), outputs=desk / name)

    @workflow("both")
    def flow() -> Flow:
        yield part("first")
        pair = yield parallel(part("left"), part("right"))
        return [*pair, (yield part("last"))]

    return flow


@every_store
@pytest.mark.parametrize("gone", ["left", "right"])
def test_what_parallel_parts_wrote_is_checked_part_by_part(
    engine: hf.Engine, desk: Desk, gone: str
) -> None:
    flow = both(desk)
    result = by_run(engine, flow)
    desk.take()
    (desk / gone).unlink()
    assert by_run(engine, flow) == result
    again = desk.take()
    assert {gone, "last"} <= set(again) <= {"left", "right", "last"}
    assert desk.holds("first", "left", "right", "last")


def test_the_items_of_a_for_each_are_checked_one_by_one(engine: hf.Engine, desk: Desk) -> None:
    @workflow("each")
    def flow() -> Flow:
        body = lambda n: desk.write(f"item-{n}")  # noqa: E731
        return (
            yield for_each(range(4), body, name="work", concurrency=1,
                           outputs=lambda text: desk / text.removeprefix("this is "))
        )  # fmt: skip

    result = by_run(engine, flow)
    desk.take()
    (desk / "item-2").unlink()
    assert by_run(engine, flow) == result
    assert desk.take() == ["item-2", "item-3"]


def test_a_for_each_does_not_lose_the_outputs_of_a_step_that_it_is_given(
    engine: hf.Engine, desk: Desk
) -> None:
    @step
    def work(n: int) -> str:
        return desk.write(f"item-{n}")

    @workflow("each")
    def flow() -> Flow:
        where = lambda text: desk / text.removeprefix("this is ")  # noqa: E731
        return (yield for_each(range(2), work, concurrency=1, outputs=where))

    result = by_run(engine, flow)
    desk.take()
    (desk / "item-1").unlink()
    assert by_run(engine, flow) == result
    assert desk.take() == ["item-1"]


def test_outputs_of_a_for_each_whose_body_only_makes_steps_are_refused(
    memory: hf.Engine, desk: Desk
) -> None:
    @workflow("returns steps")
    def returns() -> Flow:
        yield for_each([1], lambda n: step("s").python(desk.call, args=("s",)), outputs=desk / "x")

    def body(n: int) -> Flow:
        yield step("s").python(desk.call, args=("s",))

    with pytest.raises(TypeError, match="outputs to the steps"):
        for_each([1], body, outputs=desk / "x")
    with pytest.raises(hf.StepFailedError, match=r"\.outputs\("):
        by_run(memory, returns)
    assert desk.take() == []


def test_a_result_that_was_fixed_is_claimed_as_fixed(engine: hf.Engine, desk: Desk) -> None:
    def better(text: str, problems: list[str]) -> str:
        return desk.write("a", "better")

    @workflow("checked")
    def flow() -> Flow:
        made = step("a").python(desk.write, args=("a", "bad"), outputs=desk / "a")
        yield made.validate(lambda text: text == "better", retry=1, on_failure=better)
        yield step("b").python(desk.call, args=("b",))

    stopped(engine, flow, desk, "b")
    by_run(engine, flow)
    assert desk.take() == []
    (desk / "a").unlink()
    by_run(engine, flow)
    assert desk.take() == ["a", "a", "b"]


def test_a_step_that_changes_its_arguments_is_still_the_same_step(
    engine: hf.Engine, desk: Desk
) -> None:
    def work(found: list[str]) -> list[str]:
        found.append(desk.write("a"))
        return found

    def said(found: list[str]) -> list[str]:
        found.append(desk.write("b"))
        hf.current_step().claim(there(desk / "b"))
        return found

    @workflow("changes")
    def flow() -> Flow:
        yield step("a").python(work, args=([],), outputs=desk / "a")
        yield step("b").python(said, args=([],))
        return (yield step("c").python(desk.call, args=("c",)))

    stopped(engine, flow, desk, "b")
    assert by_run(engine, flow) == "c"
    assert desk.take() == ["c"]


def test_a_step_that_is_skipped_on_error_claims_nothing(memory: hf.Engine, desk: Desk) -> None:
    @workflow("skips")
    def flow() -> Flow:
        made = step("a").python(desk.call, args=("a",), outputs=desk / "a")
        yield made.skip_on_error("nothing")
        return (yield step("b").python(desk.call, args=("b",)))

    assert by_run(memory, flow) == "b"
    assert by_run(memory, flow) == "b"
    assert desk.take() == ["a", "b"]
