"""People in the loop: for whom a question is, until when, what they see, and what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import holdfast as hf
from holdfast.checkpoint import to_datetime, to_micros
from holdfast.engine.people import inbox, requests
from holdfast.engine.people.checking import MAX_ANSWER_BYTES
from holdfast.engine.people.dialog import Dialog
from holdfast.kernel.appending import append, append_if
from holdfast.kernel.draft import Draft
from holdfast.model import Kind
from holdfast.workflow import (
    FAIL,
    Approval,
    Question,
    approve,
    ask,
    parallel,
    read_run,
    step,
    workflow,
)
from tests.faults import FakeClock
from tests.workflow.support import Flow, collect

MONDAY = datetime(2026, 1, 5, 9, tzinfo=UTC)
HOUR = 3600.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(to_micros(MONDAY))


@pytest.fixture
def people(store: hf.Store, clock: FakeClock) -> hf.Engine:
    """An engine whose time stands still."""
    return hf.Engine(hf.Checkpointer(store, clock=clock))


def _flow(name: str = "flow", **options: Any) -> Any:
    @workflow(name)
    def flow() -> Flow:
        return (yield ask("Well?", **options))

    return flow


async def _paused(engine: hf.Engine, flow: Any, run_id: str = "r") -> list[Question]:
    with pytest.raises(hf.RunPausedError):
        await engine.run(flow(), run_id=run_id)
    return [q async for q in engine.questions(run_id)]


async def _answers(engine: hf.Engine, run_id: str = "r") -> list[Mapping[str, Any]]:
    entries = await engine.checkpointer.core.off_loop(
        lambda: engine.checkpointer.core.journals.trail(run_id)
    )
    answers = [hf.CheckpointInfo(e).meta for e in entries if e.kind == Kind.ANSWER]
    return [{"by": meta.by} for meta in answers]


def test_people_see_who_is_asked_until_when_and_only_what_is_shown(people: hf.Engine) -> None:
    flow = _flow(
        returns=int, assignees=["ann", "bob"], deadline=timedelta(days=2), default=3,
        show={"sum": 10},
    )  # fmt: skip

    async def main() -> None:
        (asked,) = await _paused(people, flow)
        assert asked == Question(
            "r", "ask", "Well?", {"type": "integer"}, MONDAY, None, ("ann", "bob"),
            MONDAY + timedelta(days=2), 3, {"sum": 10},
        )  # fmt: skip

    asyncio.run(main())


def test_only_those_who_are_asked_may_answer_and_who_did_is_kept(people: hf.Engine) -> None:
    async def main() -> None:
        await _paused(people, _flow(assignees=["ann"]))
        with pytest.raises(hf.QuestionError, match="is for 'ann'; say who answers with by="):
            await people.answer("r", 1)
        with pytest.raises(hf.QuestionError, match="is for 'ann'; not for 'bob'"):
            await people.answer("r", 1, by="bob")
        with pytest.raises(ValueError, match="is reserved"):
            await people.answer("r", 1, by="deadline")
        await people.answer("r", 1, by="ann")
        with pytest.raises(hf.QuestionError, match="already, by 'ann' at 2026-01-05 09:00:00"):
            await people.answer("r", 2, by="ann")
        assert await _answers(people) == [{"by": "ann"}]

    asyncio.run(main())


def test_a_default_is_the_answer_once_the_deadline_has_passed(
    people: hf.Engine, clock: FakeClock
) -> None:
    flow = _flow(returns=str, deadline=HOUR, default="no")

    async def main() -> None:
        await _paused(people, flow)
        clock.advance(HOUR - 1)
        with pytest.raises(hf.RunPausedError):
            await people.run(flow(), run_id="r", resume=True)
        assert await people.apply_deadlines() == []
        clock.advance(1)
        assert len([q async for q in people.questions("r")]) == 1, "looking writes nothing"
        assert await _answers(people) == []
        assert await people.run(flow(), run_id="r", resume=True) == "no"
        assert await _answers(people) == [{"by": "deadline"}]

    asyncio.run(main())


def test_without_a_default_the_run_fails_and_asks_again_when_it_is_resumed(
    people: hf.Engine, clock: FakeClock
) -> None:
    flow = _flow(returns=str, deadline=MONDAY + timedelta(hours=1))
    late = _flow(returns=str, deadline=timedelta(hours=1))

    async def main() -> None:
        for run_id, kind in (("fixed", flow), ("r", late)):
            await _paused(people, kind, run_id)
        clock.advance(HOUR)
        with pytest.raises(hf.UnansweredError, match="nobody answered 'ask'") as caught:
            await people.run(late(), run_id="r", resume=True)
        assert isinstance(caught.value, TimeoutError)
        assert await people.status("r") == "failed"
        with pytest.raises(hf.RunPausedError):
            await people.run(late(), run_id="r", resume=True)
        (asked,) = [q async for q in people.questions("r")]
        assert asked.deadline == MONDAY + timedelta(hours=2)
        await people.answer("r", "yes")
        assert await people.run(late(), run_id="r", resume=True) == "yes"
        with pytest.raises(hf.UnansweredError):
            await people.run(flow(), run_id="fixed", resume=True)

    asyncio.run(main())


def test_a_workflow_may_continue_when_nobody_answers_and_does_so_after_every_crash(
    people: hf.Engine, clock: FakeClock
) -> None:
    fails = True

    def publish() -> str:
        if fails:
            raise OSError("no network")
        return "published"

    @workflow
    def flow() -> Flow:
        try:
            yield ask("Well?", deadline=HOUR)
        except TimeoutError:
            yield step("remind").python(lambda: None)
        return (yield step("publish").python(publish))

    async def main() -> None:
        nonlocal fails
        await _paused(people, flow)
        clock.advance(HOUR)
        with pytest.raises(hf.StepFailedError):
            await people.run(flow(), run_id="r", resume=True)
        fails = False
        assert await people.run(flow(), run_id="r", resume=True) == "published"

    asyncio.run(main())


def test_who_comes_after_the_deadline_is_told_and_changes_nothing(
    people: hf.Engine, clock: FakeClock
) -> None:
    flow = _flow(returns=str, deadline=HOUR, default="no")

    async def main() -> None:
        await _paused(people, flow)
        clock.advance(HOUR)
        with pytest.raises(hf.QuestionError, match="deadline has passed"):
            await people.answer("r", "yes")
        with pytest.raises(hf.QuestionError, match="when its deadline had passed"):
            await people.answer("r", "yes")
        assert await people.run(flow(), run_id="r", resume=True) == "no"
        assert await _answers(people) == [{"by": "deadline"}]

    asyncio.run(main())


def test_deadlines_of_all_runs_are_applied_at_once_by_whoever_wants_to(
    people: hf.Engine, clock: FakeClock
) -> None:
    async def main() -> None:
        soon, later = (_flow(f"{h}", deadline=h * HOUR, default=h) for h in (1, 5))
        for n in range(3):
            await _paused(people, soon, f"soon-{n}")
        await _paused(people, later, "later")
        await _paused(people, _flow("never"), "never")
        clock.advance(2 * HOUR)
        done = await people.apply_deadlines()
        assert sorted(q.run_id for q in done) == ["soon-0", "soon-1", "soon-2"]
        assert await people.apply_deadlines() == []
        assert [q.run_id async for q in people.questions()] == ["later", "never"]
        assert await people.run(soon(), run_id="soon-1", resume=True) == 1

    asyncio.run(main())


def test_all_open_questions_are_listed_those_due_first(people: hf.Engine, clock: FakeClock) -> None:
    async def main() -> None:
        whom = [["ann"], ["bob"], None]
        for n in range(9):
            hours = None if n % 2 else (10 - n) * HOUR
            await _paused(people, _flow(f"{n}", deadline=hours, assignees=whom[n % 3]), f"r{n}")
            clock.advance(1)
        await people.answer("r3", True, by="ann")
        await people.cancel("r4")
        order = ["r8", "r6", "r2", "r0", "r1", "r5", "r7"]
        assert [q.run_id async for q in people.questions()] == order
        mine = [q.run_id async for q in people.questions(assignee="ann")]
        assert mine == ["r8", "r6", "r2", "r0", "r5"]
        clock.advance(5 * HOUR)
        assert [q.run_id async for q in people.questions(overdue=True)] == ["r8", "r6"]

    asyncio.run(main())


def test_an_approval_comes_with_its_comment(people: hf.Engine) -> None:
    @workflow
    async def flow() -> Any:
        said = await approve("Deploy?", assignees=["ann"])
        return (said.approved, said.comment)

    async def main() -> None:
        await _paused(people, flow)
        with pytest.raises(hf.InvalidAnswerError, match="lacks 'approved'"):
            await people.answer("r", {"comment": "?"}, by="ann")
        await people.answer("r", Approval(False, "not on a Friday"), by="ann")
        assert await people.run(flow(), run_id="r", resume=True) == (False, "not on a Friday")

    asyncio.run(main())


def test_each_answer_reaches_its_own_question_in_parallel_branches(people: hf.Engine) -> None:
    def part(name: str, **options: Any) -> Flow:
        first = yield ask(f"{name} 1?", returns=int, name=name, **options)
        second = yield ask(f"{name} 2?", returns=int, name=name, show=first)
        return first * 10 + second

    @workflow
    def flow() -> Flow:
        return (yield parallel(a=part("x"), b=part("x", assignees=["bob"]), c=part("z")))

    async def main() -> None:
        asked = await _paused(people, flow)
        keys = {q.prompt + "/".join(q.assignees): q.key for q in asked}
        assert len(set(keys.values())) == 3
        for question, number in ((asked[2], 3), (asked[0], 1), (asked[1], 2)):
            await people.answer("r", number, question=question.key, by="bob")
        with pytest.raises(hf.RunPausedError):
            await people.run(flow(), run_id="r", resume=True)
        for question in reversed([q async for q in people.questions("r")]):
            assert question.prompt.endswith("2?")
            await people.answer("r", question.shown + 4, question=question.key)
        result = await people.run(flow(), run_id="r", resume=True)
        assert result == {"a": 15, "b": 26, "c": 37}

    asyncio.run(main())


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("options", "hostile"),
    [
        ({}, "x" * (MAX_ANSWER_BYTES + 1)),
        ({}, _deep(10_000)),
        ({}, object()),
        ({"returns": list[int]}, [1] * 300_000),
        ({"returns": list[int]}, _deep(100)),
        ({"returns": str}, 7),
        ({"returns": Approval}, {"approved": "yes"}),
        ({"returns": Approval}, [True]),
        ({"schema": {"type": "object", "additionalProperties": False}}, {"__class__": 1}),
        ({"schema": {"pattern": "^(a+)+$"}}, "a" * 4000 + "!"),
        ({"choices": [1, 2]}, True),
        ({"choices": ["a"]}, ["a"]),
    ],
)
def test_a_hostile_answer_is_refused_and_the_question_stays_open(
    engine: hf.Engine, options: Any, hostile: Any
) -> None:
    async def main() -> None:
        await _paused(engine, _flow(**options))
        with pytest.raises((hf.InvalidAnswerError, hf.SerializeError)):
            await engine.answer("r", hostile)
        assert len([q async for q in engine.questions("r")]) == 1
        assert await _answers(engine) == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"default": 1}, "deadline"),
        ({"default": "x", "deadline": 1, "returns": int}, "the default must be of type integer"),
        ({"deadline": 0}, "from now on"),
        ({"deadline": -1}, "from now on"),
        ({"deadline": float("nan")}, "from now on"),
        ({"deadline": 1e30}, "100 years"),
        ({"deadline": "tomorrow"}, "timedelta"),
        ({"assignees": "ann"}, r"\['ann'\]"),
        ({"assignees": {"ann": "finance"}}, r"as a list, such as \['ann'\]"),
        ({"assignees": ""}, "as a list$"),
        ({"choices": b"ab"}, r"such as \[b'ab'\]"),
        ({"choices": "abc"}, r"choices are given as a list, such as \['abc'\]"),
        ({"assignees": [""]}, "empty"),
        ({"assignees": []}, "assignees is empty: .*omit it to let anyone answer"),
        ({"choices": []}, "at least one"),
        ({"schema": {"type": "text"}}, "schema.type"),
        ({"schema": {"pattern": "(?=a)"}}, "pattern"),
        ({"schema": [1]}, "schema"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_where_it_is_written(
    options: Any, words: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        ask("Well?", **options)
    with pytest.raises(TypeError, match="prompt"):
        ask(" ")


def test_questions_of_older_journals_are_still_read(engine: hf.Engine) -> None:
    """They have a prompt and a schema, and nothing else."""

    async def main() -> None:
        checkpointer = engine.checkpointer
        assert isinstance(checkpointer, hf.Checkpointer)
        (asked,) = await _paused(engine, _flow(returns=bool))
        core = engine.checkpointer.core
        stored = (await core.off_loop(lambda: core.journals.trail("r")))[-1]
        body = core.journals.chain("r", stored.seq, stored).encoding
        assert core.journals.decode(body) == {"prompt": "Well?", "schema": {"type": "boolean"}}
        assert (asked.deadline, asked.default, asked.shown) == (None, FAIL, None)
        assert asked.asked_at == to_datetime(stored.at)

    asyncio.run(main())


def test_a_workflow_reads_the_state_of_another_run_once_and_for_all(engine: hf.Engine) -> None:
    @workflow
    def report() -> Flow:
        latest = yield read_run("prices")
        yield ask("Go on?")
        return latest, (yield read_run(thread_id="t")), (yield read_run("prices", step="a"))

    @workflow
    async def awaits() -> Any:
        return await read_run("prices")

    async def main() -> None:
        cp = engine.checkpointer
        assert isinstance(cp, hf.Checkpointer)
        with pytest.raises(hf.StepFailedError, match="CheckpointNotFoundError"):
            await engine.run(report(), run_id="too-early")
        await cp.save("prices", {"oil": 1}, step="a", thread_id="t")
        await _paused(engine, report)
        await cp.save("prices", {"oil": 2}, step="b")
        await engine.answer("r", True)
        came = await engine.run(report(), run_id="r", resume=True)
        assert came == ({"oil": 1}, {"oil": 2}, {"oil": 1})
        assert await engine.run(awaits(), run_id="s") == {"oil": 2}

    asyncio.run(main())


def test_a_thread_is_read_without_the_run_that_reads(store: hf.Store) -> None:
    @workflow
    def chat() -> Flow:
        try:
            before = yield step("before").python(lambda: hf.state_of(thread_id="t"))
        except hf.StepFailedError:
            before = None
        return (yield step("after").python(lambda: [before and before["after"], "hello"]))

    async def main() -> None:
        engine = hf.Engine(store)
        assert await engine.run(chat(), run_id="1", thread_id="t") == [None, "hello"]
        second = await engine.run(chat(), run_id="2", thread_id="t")
        assert second == [[None, "hello"], "hello"]
        with pytest.raises(RuntimeError, match="outside a step"):
            hf.state_of("1")

    asyncio.run(main())


def test_an_answer_survives_days_and_other_processes_that_resume(
    kept_url: str, clock: FakeClock
) -> None:
    flow = _flow(returns=str)

    async def later() -> Any:
        async with hf.Checkpointer(kept_url, clock=clock) as kept:
            return await hf.Engine(kept).run(flow(), run_id="r", resume=True)

    async def say() -> None:
        async with hf.Checkpointer(kept_url, clock=clock) as kept:
            await hf.Engine(kept).answer("r", "yes")

    for _ in range(3):
        with pytest.raises(hf.RunPausedError):
            asyncio.run(later())
        clock.advance(86_400)
    asyncio.run(say())
    clock.advance(86_400)
    assert asyncio.run(later()) == "yes"


def test_an_answer_in_the_place_of_what_was_only_queued_is_not_overlooked(kept_url: str) -> None:
    """The worker's entry was on its way when someone was asked about it, and never arrived."""
    asyncio.run(_begin(kept_url))
    with hf.SyncCheckpointer(kept_url) as here, hf.SyncCheckpointer(kept_url) as there:
        journals = here.core.journals
        following = Dialog(here.core, "r")
        head = journals.checked_head("r")
        assert head is not None
        following.catch_up(head)
        tip = journals.fetch_tip("r", with_state=False)
        deadline = journals.clock.monotonic() + 60
        ticket = journals.extend(tip, [Draft("decision", "running", b"\xc0")], deadline)
        assert ticket is not None
        following.catch_up(ticket.entries[0])
        assert len(following.open_questions()) == 1
        there.core.drive(requests.answer(there.core, "r", "yes"))
        journals.writer.wait(ticket)
        assert isinstance(ticket.error, hf.ConflictError)
        for drafts in range(3):
            head = journals.checked_head("r")
            assert head is not None
            following.catch_up(head)
            assert following.open_questions() == [], drafts
            there.core.drive(requests.request(there.core, "r", "pause"))
        with pytest.raises(hf.QuestionError, match="answered already"):
            here.core.drive(requests.answer(here.core, "r", "no"))


async def _begin(url: str) -> None:
    async with hf.Checkpointer(url) as kept:
        await _paused(hf.Engine(kept), _flow())


def test_a_damaged_question_hides_no_other(
    store: hf.Store, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with hf.Checkpointer(store) as cp:
            engine = hf.Engine(cp)
            await _paused(engine, _flow(), "fine")
            wrong = cp.core.journals.encode({"prompt": 3})
            draft = Draft("question", "paused", wrong, step="q", meta='{"questions":1}')
            opening = Draft("open", "running", parent=None)
            odd = {"prompt": "?", "schema": {"properties": 5, "pattern": "(?=a)"}}
            odd_draft = draft._replace(encoding=cp.core.journals.encode(odd))
            await cp.core.drive_async(append_if(cp.core, "odd", lambda head: opening))
            await cp.core.drive_async(append_if(cp.core, "odd", lambda head: odd_draft))
            with pytest.raises(hf.InvalidAnswerError, match="can't be checked"):
                await engine.answer("odd", {"a": 1})
            await engine.cancel("odd")
            await cp.core.drive_async(append_if(cp.core, "bad", lambda head: opening))
            await cp.core.drive_async(append_if(cp.core, "bad", lambda head: draft))
            assert [q.run_id async for q in engine.questions()] == ["fine"]
            with pytest.raises(hf.CheckpointCorruptedError, match="no question"):
                [q async for q in engine.questions("bad")]

    asyncio.run(main())
    assert "the questions of run bad" in caplog.text


def test_recover_resumes_what_was_answered_and_what_is_overdue(
    people: hf.Engine, clock: FakeClock
) -> None:
    """Though the process that asked is alive and well: it is this one."""
    flow = _flow(returns=str, deadline=HOUR, default="late")

    async def main() -> None:
        for run_id in ("answered", "overdue", "held"):
            await _paused(people, flow, run_id)
        assert await people.recover(flow) == {}
        await people.answer("answered", "yes")
        await people.pause("held")
        await people.answer("held", "yes")
        assert await people.status("held") == "paused", "someone wants it to be"
        assert await people.recover(flow) == {"answered": "yes"}
        clock.advance(HOUR)
        assert await people.recover(flow) == {"overdue": "late"}
        assert await people.run(flow(), run_id="held", resume=True) == "yes"

    asyncio.run(main())


def test_events_tell_of_a_question_once(people: hf.Engine) -> None:
    flow = _flow(deadline=HOUR, default=1)

    async def main() -> None:
        first = await collect(people.stream(flow(), run_id="r"))
        again = await collect(people.resume_stream("r", flow=flow))
        names = [[type(e).__name__ for e in events] for events in (first, again)]
        assert names[0].count("QuestionAsked") == 1
        assert "QuestionAsked" not in names[1]

    asyncio.run(main())


def _put(engine: hf.Engine, run_id: str, draft: Draft) -> None:
    engine.checkpointer.core.drive(append(engine.checkpointer.core, run_id, draft))


def test_a_damaged_run_does_not_keep_others_from_being_asked_and_answered(
    people: hf.Engine, clock: FakeClock
) -> None:
    bad = Draft(Kind.QUESTION.value, "paused", b"\xc1\xc1", step="x")
    meaningless = Draft(Kind.PAUSE.value, "paused", meta="[1]")

    async def main() -> None:
        flow = _flow(deadline=HOUR, default=1)
        for run_id in ("damaged", "other", "senseless"):
            await _paused(people, flow, run_id)
        _put(people, "damaged", bad)
        _put(people, "senseless", meaningless)
        core = people.checkpointer.core
        assert {found.run_id for found in inbox.open_questions(core)} == {"other", "senseless"}
        for run_id in ("damaged", "senseless"):
            with pytest.raises(hf.CheckpointCorruptedError):
                await people.answer(run_id, 1, question="ask")
        clock.advance(2 * HOUR)
        with pytest.raises(hf.CheckpointCorruptedError):
            await people.apply_deadlines("senseless")
        assert [found.run_id for found in await people.apply_deadlines()] == ["other"]
        assert await people.run(flow(), run_id="other", resume=True) == 1

    asyncio.run(main())


def test_a_question_is_read_from_the_store_once(
    people: hf.Engine, store: hf.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer is decided again while the run goes on, where nothing may block."""
    asyncio.run(_paused(people, _flow()))
    core = people.checkpointer.core
    following = Dialog(core, "r")
    head = core.journals.checked_head("r")
    assert head is not None
    following.catch_up(head)
    (found,) = following.open_questions()
    monkeypatch.setattr(core.journals, "store", None)
    assert following.open_questions() == [found]


def test_a_plain_script_asks_answers_and_resumes(url: str) -> None:
    flow = _flow(returns=int)
    engine = hf.Engine(url)
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(flow(), run_id="r")
    (asked,) = engine.questions_sync("r")
    assert list(engine.questions_sync()) == [asked]
    engine.pause_sync("r")
    engine.answer_sync("r", 7, by="ann")
    assert engine.recover_sync(flow) == {}
    assert engine.run_sync(flow(), run_id="r", resume=True) == 7
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(flow(), run_id="other")
    engine.cancel_sync("other")
    assert engine.status_sync("other") == "cancelled"
    engine.close_sync()


def test_where_a_loop_runs_the_blocking_twins_say_what_to_await() -> None:
    async def main() -> None:
        list(hf.Engine(False).questions_sync("r"))

    with pytest.raises(RuntimeError, match=r"`async for \.\.\. in questions\(\.\.\.\)` instead"):
        asyncio.run(main())
