from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest

import holdfast as hf
from holdfast.events import QuestionAsked, RunCompleted, RunPaused, StepStarted
from holdfast.workflow import ask, parallel, step, workflow
from tests.workflow.support import Calls, Flow, collect, of, recorded, stop_at, until


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Address:
    street: str
    number: int = 1


@workflow("approval")
def approval() -> Flow:
    draft = yield step("draft").python(lambda: "text")
    approved = yield ask(f"Publish {draft!r}?", returns=bool, name="approve")
    return (yield step("publish").python(lambda: approved))


def test_a_run_pauses_for_an_answer_and_continues_with_it(store: hf.Store) -> None:
    async def main() -> None:
        engine = hf.Engine(store)
        events = await collect(engine.stream(approval(), run_id="r"))
        assert [type(e) for e in events[-2:]] == [QuestionAsked, RunPaused]
        assert events[-2] == QuestionAsked("r", "approve", "Publish 'text'?")
        assert events[-1] == RunPaused("r", ("approve",))
        assert await engine.status("r") == "paused"
        other = hf.Engine(store)
        (question,) = [q async for q in other.questions("r")]
        assert (question.key, question.prompt) == ("approve", "Publish 'text'?")
        assert question.schema == {"type": "boolean"}
        await other.answer("r", True)
        assert [q async for q in other.questions("r")] == []
        events = await collect(other.resume_stream("r", flow=approval))
        assert of(events, RunCompleted)[0].result is True
        assert not of(events, QuestionAsked)

    asyncio.run(main())


def test_without_an_answer_a_resumed_run_waits_on(engine: hf.Engine) -> None:
    async def main() -> None:
        for resume in (False, True, True):
            with pytest.raises(hf.RunPausedError, match="'approve'") as caught:
                await engine.run(approval(), run_id="r", resume=resume)
            assert caught.value.state == {"draft": "text"}
        assert recorded(engine, "r") == ["draft"]

    asyncio.run(main())


def test_an_answer_that_does_not_fit_leaves_the_question_open(engine: hf.Engine) -> None:
    async def main() -> None:
        await collect(engine.stream(approval(), run_id="r"))
        for wrong in ("yes", 1, None):
            with pytest.raises(hf.InvalidAnswerError, match="boolean"):
                await engine.answer("r", wrong)
        with pytest.raises(hf.QuestionError, match="open are 'approve'"):
            await engine.answer("r", True, question="aprove")
        assert len([q async for q in engine.questions("r")]) == 1
        await engine.answer("r", False)
        assert await engine.run(approval(), run_id="r", resume=True) is False

    asyncio.run(main())


def test_of_two_answers_one_wins(store: hf.Store) -> None:
    async def main() -> None:
        engines = [hf.Engine(store) for _ in range(5)]
        await collect(engines[0].stream(approval(), run_id="r"))
        came = await asyncio.gather(
            *(engine.answer("r", n == 0) for n, engine in enumerate(engines)),
            return_exceptions=True,
        )
        assert came.count(None) == 1
        assert sum(isinstance(error, hf.QuestionError) for error in came) == 4
        won = came.index(None) == 0
        assert await engines[0].run(approval(), run_id="r", resume=True) is won

    asyncio.run(main())


def test_what_was_never_asked_can_not_be_answered(engine: hf.Engine) -> None:
    async def main() -> None:
        with pytest.raises(hf.CheckpointNotFoundError):
            await engine.answer("nobody", True)
        await stop_at(engine.stream(approval(), run_id="r"), StepStarted, "draft")
        with pytest.raises(hf.QuestionError, match="nothing is asked"):
            await engine.answer("r", True)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("kind", "given", "handed", "wrong"),
    [
        (Colour, "red", Colour.RED, "green"),
        (Colour, Colour.BLUE, Colour.BLUE, 3),
        (Address, {"street": "Quay", "number": 7}, Address("Quay", 7), {"number": 7}),
        (Address, Address("Quay"), Address("Quay"), {"street": 7}),
        (Literal["a", "b"], "b", "b", "c"),
        (int | None, None, None, "1"),
        (list[int], [1, 2], [1, 2], [1, "2"]),
        (str, "", "", None),
    ],
)
def test_answers_come_as_the_type_asked_for(
    engine: hf.Engine, kind: Any, given: Any, handed: Any, wrong: Any
) -> None:
    @workflow
    def flow() -> Flow:
        answer = yield ask("What?", returns=kind)
        return answer == handed and type(answer) is type(handed)

    async def main() -> None:
        await collect(engine.stream(flow(), run_id="r"))
        with pytest.raises(hf.InvalidAnswerError):
            await engine.answer("r", wrong)
        await engine.answer("r", given)
        assert await engine.run(flow(), run_id="r", resume=True) is True

    asyncio.run(main())


def test_one_of_several_choices_is_given(engine: hf.Engine) -> None:
    @workflow
    async def flow() -> Any:
        return await ask("Which?", choices=["small", "large"])

    async def main() -> None:
        await collect(engine.stream(flow(), run_id="r"))
        with pytest.raises(hf.InvalidAnswerError, match="'small', 'large'"):
            await engine.answer("r", "medium")
        await engine.answer("r", "large")
        assert await engine.run(flow(), run_id="r", resume=True) == "large"

    asyncio.run(main())


def test_several_questions_may_be_open_at_once(engine: hf.Engine) -> None:
    calls = Calls()

    def part(name: str) -> Flow:
        answer = yield ask(f"{name}?", returns=int, name=name)
        calls(name)
        return (yield step("double").python(lambda: 2 * answer))

    @workflow
    def flow() -> Flow:
        return (yield parallel(part("a"), part("b"), step("c").python(lambda: 3)))

    async def main() -> None:
        events = await collect(engine.stream(flow(), run_id="r"))
        asked = of(events, RunPaused)[0].questions
        assert len(asked) == 2
        with pytest.raises(hf.QuestionError, match="several"):
            await engine.answer("r", 1)
        await engine.answer("r", 2, question=asked[1])
        events = await collect(engine.resume_stream("r", flow=flow))
        assert of(events, RunPaused)[0].questions == asked[:1]
        assert await engine.status("r") == "paused"
        await engine.answer("r", 1)
        assert await engine.run(flow(), run_id="r", resume=True) == (2, 4, 3)

    asyncio.run(main())


def test_an_answer_that_comes_while_the_run_works_is_used_without_a_pause(store: hf.Store) -> None:
    gate: asyncio.Event
    calls = Calls()

    async def slow() -> None:
        calls("slow")
        await gate.wait()

    def asking() -> Flow:
        return (yield ask("Well?", returns=str))

    @workflow
    def flow() -> Flow:
        return (yield parallel(asking(), step("slow").python(slow)))

    async def main() -> None:
        nonlocal gate
        gate = asyncio.Event()
        engine, other = hf.Engine(store), hf.Engine(store)
        task = asyncio.create_task(engine.run(flow(), run_id="r"))
        await until(lambda: calls.order == ["slow"])
        (question,) = [q async for q in other.questions("r")]
        await other.answer("r", "well", question=question.key)
        gate.set()
        assert await task == ("well", None)

    asyncio.run(main())


def test_a_question_can_be_cancelled(engine: hf.Engine) -> None:
    async def main() -> None:
        await collect(engine.stream(approval(), run_id="r"))
        await engine.cancel("r")
        assert await engine.status("r") == "cancelled"
        with pytest.raises(hf.RunFinishedError):
            await engine.answer("r", True)

    asyncio.run(main())


@pytest.mark.parametrize("end", ["completed", "cancelled", "failed and rolled back", "failed"])
def test_a_second_answer_is_told_who_answered_also_after_the_end(
    engine: hf.Engine, end: str
) -> None:
    def bad() -> None:
        raise ValueError("no luck")

    @workflow
    def flow() -> Flow:
        if end == "failed and rolled back":
            yield step("undoable").python(lambda: 1).with_rollback(lambda: None)
        sure = yield ask("Sure?", returns=bool)
        if end == "cancelled":
            yield ask("Really?", name="again")
        elif end != "completed":
            yield step("bad").python(bad)
        return sure

    async def main() -> None:
        await collect(engine.stream(flow(), run_id="r"))
        (question,) = [q async for q in engine.questions("r")]
        await engine.answer("r", True, by="ann")
        with contextlib.suppress(hf.StepFailedError, hf.RunPausedError):
            await engine.run(flow(), run_id="r", resume=True)
        if end == "cancelled":
            await engine.cancel("r")
        with pytest.raises(hf.QuestionError, match="was answered already, by 'ann' at 20") as late:
            await engine.answer("r", False, question=question.key, by="bob")
        assert (late.value.run_id, late.value.question) == ("r", question.key)
        assert late.value.answered_by == "ann"
        assert late.value.answered_at is not None
        assert late.value.answered_at >= question.asked_at
        if end != "cancelled":  # only this question was asked
            with pytest.raises(hf.QuestionError, match="by 'ann'"):
                await engine.answer("r", False, by="bob")

    asyncio.run(main())


def test_an_answer_to_a_question_that_ended_with_its_run_says_that_the_run_is_over(
    engine: hf.Engine,
) -> None:
    async def main() -> None:
        await collect(engine.stream(approval(), run_id="r"))
        await engine.cancel("r")
        for question in (None, "nobody-asked-this"):
            with pytest.raises(hf.RunFinishedError):
                await engine.answer("r", True, question=question)

    asyncio.run(main())
