from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pydantic
import pytest
from hypothesis import given, settings

import holdfast as hf
from holdfast.documents.workflow_results import result_of
from holdfast.events import StepStarted
from holdfast.stores.memory import MemoryStore
from holdfast.workflow import Approval, approve, flow, step, workflow
from tests import strategies
from tests.effort import examples
from tests.strategies import same
from tests.workflow.support import Calls, Flow, stop_at


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: Decimal


class Model(pydantic.BaseModel):
    name: str
    points: list[Point]


class Fields(TypedDict):
    a: int
    b: Colour


class Pair(NamedTuple):
    left: Point
    right: set[int]


@settings(max_examples=examples(80), deadline=None)
@given(strategies.values())
def test_live_and_resumed_runs_hand_on_the_same_values(value: Any) -> None:
    seen: list[Any] = []

    @workflow
    def flow(given: Any) -> Flow:
        made = yield step("make").python(lambda: value).inline()
        seen.append((given, made))
        yield step("end").python(lambda: 0).inline()
        return made

    async def main() -> None:
        engine = hf.Engine(MemoryStore())
        await stop_at(engine.stream(flow(given=value), run_id="r"), StepStarted, "end")
        result = await engine.run(flow(given=value), run_id="r", resume=True)
        assert same(seen[0], seen[1])
        assert same(seen[0], (value, value))
        assert same(result, value)
        again = await engine.run(flow(given=value), run_id="r", resume=True)
        assert same(again, result)

    asyncio.run(main())


def typed_point() -> Point:
    return Point(1, Decimal("2.50"))


def typed_model() -> Model:
    return Model(name="m", points=[typed_point()])


def typed_fields() -> Fields:
    return {"a": 1, "b": Colour.RED}


def typed_pair() -> Pair:
    return Pair(typed_point(), {1, 2})


def typed_colour() -> Colour:
    return Colour.RED


def typed_dict() -> dict[str, list[Point]]:
    return {"p": [typed_point()]}


async def typed_optional() -> Point | None:
    return typed_point()


def typed_array() -> np.ndarray[Any, Any]:
    return np.arange(6, dtype="int16").reshape(2, 3)


@pytest.mark.parametrize(
    "make",
    [
        typed_point, typed_model, typed_fields, typed_pair, typed_colour, typed_dict,
        typed_optional, typed_array,
    ],
)  # fmt: skip
def test_a_result_has_the_type_that_its_function_says(
    engine: hf.Engine, make: Callable[[], Any]
) -> None:
    seen: list[Any] = []

    @workflow
    def flow() -> Flow:
        seen.append((yield step("make").python(make)))
        yield step("end").python(lambda: 0)

    async def main() -> None:
        made = make()
        expected = await made if asyncio.iscoroutine(made) else made
        await stop_at(engine.stream(flow(), run_id="r"), StepStarted, "end")
        await engine.run(flow(), run_id="r", resume=True)
        for value in seen:
            assert type(value) is type(expected)
            assert np.array_equal(value, expected)

    asyncio.run(main())


def test_without_a_type_plain_data_is_handed_on_from_the_first(engine: hf.Engine) -> None:
    seen: list[Any] = []

    @workflow
    def flow() -> Flow:
        seen.append((yield step("plain").python(lambda: Point(1, Decimal(2)))))
        seen.append((yield step("typed").python(lambda: Point(1, Decimal(2))).returns(Point)))
        yield step("end").python(lambda: 0)

    async def main() -> None:
        await stop_at(engine.stream(flow(), run_id="r"), StepStarted, "end")
        await engine.run(flow(), run_id="r", resume=True)
        assert seen == [{"x": 1, "y": Decimal(2)}, Point(1, Decimal(2))] * 2

    asyncio.run(main())


def test_inputs_and_the_result_have_the_types_of_the_signature(engine: hf.Engine) -> None:
    @workflow("typed")
    async def flow(point: Point, colour: Colour = Colour.RED) -> Point:
        assert isinstance(point, Point)
        assert isinstance(colour, Colour)
        await step("a").python(lambda: 1)
        return point

    async def main() -> None:
        point = Point(1, Decimal(2))
        for resume in (False, True):
            result = await engine.run(flow(point=point), run_id="r", resume=resume)
            assert result == point
            assert isinstance(result, Point)

    asyncio.run(main())


def test_a_result_that_is_not_of_its_type_fails_its_step(engine: hf.Engine) -> None:
    @workflow
    def flow() -> Flow:
        yield step("a").python(lambda: {"x": "one"}).returns(Point)

    with pytest.raises(hf.StepFailedError, match="result of a"):
        asyncio.run(engine.run(flow()))


def test_nothing_is_shared_with_what_a_step_returned(engine: hf.Engine) -> None:
    mine: list[int] = [1]

    @workflow
    def flow() -> Flow:
        made = yield step("a").python(lambda: mine)
        mine.append(2)
        made.append(3)
        again = yield step("b").python(lambda: list(made))
        return again

    assert asyncio.run(engine.run(flow(), run_id="r")) == [1, 3]
    assert result_of(engine.checkpointer.core, "r").steps[0].output == [1]


def test_what_can_not_be_stored_is_named_by_its_path(store: hf.Store) -> None:
    calls = Calls()
    engine = hf.Engine(store)

    @workflow
    def flow(data: Any, bad: str) -> Flow:
        yield step("once").python(calls, args=("once",))
        made = {"items": [1, print]} if bad == "step" else None
        yield step("make").python(lambda: made).retry(3, backoff=0)
        return {"deep": [print]} if bad == "result" else None

    async def main() -> None:
        with pytest.raises(hf.SerializeError, match=r"inputs\['data'\]\[0\]|inputs\.data\[0\]"):
            await engine.run(flow(data=[print], bad=""), run_id="inputs")
        with hf.SyncCheckpointer(store) as cp:
            assert cp.runs() == []
        with pytest.raises(hf.StepFailedError, match=r"result of make\.items\[1\]") as caught:
            await engine.run(flow(data=1, bad="step"), run_id="step")
        assert isinstance(caught.value.__cause__, hf.SerializeError)
        assert caught.value.attempts == 1, "it would be the same every time"
        with pytest.raises(hf.SerializeError, match=r"result\.deep\[0\]"):
            await engine.run(flow(data=1, bad="result"), run_id="result")
        assert await engine.status("result") == "failed"

    asyncio.run(main())


def test_a_generator_says_what_it_returns(url: str) -> None:
    @workflow("typed")
    def typed() -> flow.Flow[Approval]:
        said: Approval = yield approve("Go?")
        return said

    @workflow("untyped")
    def untyped() -> flow.Flow[Any]:
        return (yield approve("Go?"))

    engine = hf.Engine(url)
    for one, result in ((typed, Approval(True)), (untyped, {"approved": True, "comment": ""})):
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(one(), run_id=one.name)
        engine.answer_sync(one.name, {"approved": True})
        assert engine.run_sync(one(), run_id=one.name, resume=True) == result
        assert engine.run_sync(one(), run_id=one.name, resume=True) == result, "recorded"
    engine.close_sync()


def test_a_step_whose_result_loses_its_type_is_warned_about_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @step
    def point(n: int):  # type: ignore[no-untyped-def]
        return Point(n, Decimal(n))

    @step
    def plain(n: int):  # type: ignore[no-untyped-def]
        return {"n": n}

    @workflow
    async def loses() -> list[Any]:
        return [await point(1), await point(2), await plain(3)]

    with hf.Engine("memory://") as engine:
        assert engine.run_sync(loses()) == [{"x": 1, "y": 1}, {"x": 2, "y": 2}, {"n": 3}]
    (told,) = [record.getMessage() for record in caplog.records]
    assert "step point of loses returned a Point, and the workflow gets a dict" in told
    assert "-> Point" in told
