"""Threads, going to another step, forks, and requests from outside."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.documents.iamodules import BaseCheckpointer
from holdfast.engine.events import RunCompleted, RunStarted, StepStarted
from holdfast.pipeline import HumanInputStep, Pipeline
from tests.pipeline.flows import Calls, follow, line, path, run


def reviewed(calls: Calls, cp: Any) -> Pipeline:
    steps = [
        calls.step("draft"),
        HumanInputStep(
            "review",
            prompt="Publish {steps.draft.output.by}?",
            schema={"type": "object", "required": ["approved"]},
            show={"draft": "{steps.draft.output}"},
        ),
        calls.step("publish"),
    ]
    return Pipeline(steps, line("draft", "review", "publish"), checkpointer=cp)


def test_a_run_waits_for_a_person_and_the_answer_is_the_steps_output(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    paused = run(reviewed(calls, cp).run("topic", "t"))
    assert (paused.status, list(paused)) == ("paused", ["draft"])
    assert paused.question is not None
    assert paused.question.prompt == "Publish draft?"
    assert paused.question.shown == {"draft": {"by": "draft", "call": 1}}
    assert [info.status for info in cp.runs()] == ["paused"]
    again = run(reviewed(calls, cp).resume("t"))  # another process, days later
    assert again == paused
    assert again.questions == paused.questions
    with pytest.raises(hf.InvalidAnswerError, match="lacks 'approved'"):
        run(reviewed(calls, cp).resume("t", answer={}))
    result = run(reviewed(calls, cp).resume("t", answer={"approved": True}))
    assert result["review"] == {"approved": True} == calls.given["publish"]
    assert (result.status, result.question) == ("completed", None)
    assert calls == {"draft": 1, "publish": 1}
    with pytest.raises(hf.QuestionError, match="answered already, at 20"):
        run(reviewed(calls, cp).resume("t", answer={"approved": True}))
    with pytest.raises(hf.RunFinishedError):
        run(reviewed(calls, cp).resume("t"))


def test_none_is_an_answer_like_any_other(cp: hf.SyncCheckpointer) -> None:
    pipeline = Pipeline([HumanInputStep("ask", "Well?")], line("ask"), checkpointer=cp)
    run(pipeline.run(1, "t"))
    assert run(pipeline.resume("t", answer=None)) == {"ask": None}


def test_several_questions_are_open_at_once_and_each_answer_reaches_its_own(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    steps = [calls.step("a"), HumanInputStep("x", "X?"), HumanInputStep("y", "Y?"), calls.step("z")]
    paths = [path("a", ["x", "y"]), path("x", "z"), path("y", "z"), path("z", "end")]
    pipeline = Pipeline(steps, {"start_at": "a", "paths": paths}, checkpointer=cp)
    paused = run(pipeline.run(1, "t"))
    assert [q.prompt for q in paused.questions] == ["X?", "Y?"]
    first, second = (q.key for q in paused.questions)
    with pytest.raises(hf.QuestionError, match="several"):
        run(pipeline.resume("t", answer="?"))
    paused = run(pipeline.resume("t", answer="to y", question=second))
    assert [q.key for q in paused.questions] == [first]
    assert paused["y"] == "to y"
    result = run(pipeline.resume("t", answer="to x"))
    assert calls.given["z"] == {"x": "to x", "y": "to y"}
    assert result.status == "completed"


def test_a_person_is_asked_anew_in_each_round(cp: hf.SyncCheckpointer) -> None:
    again = {"type": "expression", "config": {"source": "ask", "value": "again"}}
    paths = [path("ask", "ask", again), path("ask", "end")]
    flow = {"start_at": "ask", "paths": paths}
    pipeline = Pipeline([HumanInputStep("ask", "Again?")], flow, checkpointer=cp)
    assert run(pipeline.run(1, "t")).status == "paused"
    for _ in range(2):
        assert run(pipeline.resume("t", answer="again")).status == "paused"
    assert run(pipeline.resume("t", answer="no")) == {"ask": "no"}
    twice = Pipeline([HumanInputStep("ask", "Again?")], flow, None, cp, {"max_iterations": 2})
    run(twice.run(1, "u"))
    assert run(twice.resume("u", answer="again")).status == "paused"
    with pytest.raises(hf.LoopLimitError):  # before anyone is asked in vain
        run(twice.resume("u", answer="again"))


def test_without_a_checkpointer_nobody_can_be_asked() -> None:
    pipeline = Pipeline([HumanInputStep("ask", "Well?")], line("ask"))
    with pytest.raises(ValueError, match="step 'ask' waits for a person"):
        run(pipeline.run(1))


def test_settings_that_mean_nothing_to_a_person_are_refused() -> None:
    with pytest.raises(ValueError, match="timeout means nothing"):
        HumanInputStep("ask", "Well?", timeout=3)
    with pytest.raises(ValueError, match="choices must be a list"):
        HumanInputStep("ask", "Well?", choices="ab")
    with pytest.raises(ValueError, match="schema must be a JSON Schema"):
        HumanInputStep("ask", "Well?", "object")


def test_a_deadline_gives_the_default_or_fails_the_step(cp: hf.SyncCheckpointer) -> None:
    from datetime import datetime

    past = datetime(2020, 1, 1)
    steps = [HumanInputStep("ask", "Well?", choices=["a", "b"], deadline=past, default="b")]
    pipeline = Pipeline(steps, line("ask"), checkpointer=cp, name="defaults")
    assert run(pipeline.run(1, "t")).status == "paused"
    assert run(pipeline.resume("t")) == {"ask": "b"}
    late = HumanInputStep("ask", "Well?", deadline=past)
    pipeline = Pipeline([late], line("ask"), checkpointer=cp, name="fails")
    assert run(pipeline.run(1, "u")).status == "paused"
    with pytest.raises(hf.StepFailedError, match="nobody answered"):
        run(pipeline.resume("u"))
    passed = HumanInputStep("ask", "Well?", deadline=past, continue_on_error=True)
    pipeline = Pipeline([passed], line("ask"), checkpointer=cp, name="goes on")
    assert run(pipeline.run(1, "v")).status == "paused"
    assert run(pipeline.resume("v"))["ask"]["step_error"]
    with pytest.raises(ValueError, match="for one run only"):
        pipeline.to_dict()
    instead = HumanInputStep("ask", "Well?", deadline=past, fallback=lambda data, error: [data])
    pipeline = Pipeline([instead], line("ask"), checkpointer=cp, name="falls back")
    assert run(pipeline.run(1, "w")).status == "paused"
    assert run(pipeline.resume("w")) == {"ask": [1]}


# --- threads


def test_a_thread_holds_successive_runs_and_the_newest_is_resumed(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    first = run(reviewed(calls, cp).run(1, "t"))
    second = run(reviewed(calls, cp).run(2, "t"))
    assert first.run_id != second.run_id
    assert run(reviewed(calls, cp).resume("t", answer={"approved": 1})).run_id == second.run_id
    assert [info.run_id for info in cp.thread("t")] == [second.run_id, first.run_id]
    other = run(reviewed(calls, cp).run(3, "u"))
    assert run(reviewed(calls, cp).resume("u")).run_id == other.run_id


def test_threads_and_pipelines_do_not_see_each_others_runs(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    mine = run(reviewed(calls, cp).run(1, "t"))
    run(Calls().line("a", checkpointer=cp, name="other").run(1, "t"))
    assert run(reviewed(calls, cp).resume("t")).run_id == mine.run_id
    with pytest.raises(hf.CheckpointNotFoundError):
        run(reviewed(calls, cp).resume("nobody"))


def test_a_run_without_a_thread_is_one_of_its_own(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    paused = run(reviewed(calls, cp).run(1))
    result = run(reviewed(calls, cp).resume(paused.run_id, answer={"approved": True}))
    assert result.run_id == paused.run_id


def test_a_run_that_died_before_it_began_never_resumes_into_an_older_one() -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        calls = Calls()
        pipeline = reviewed(calls, cp)
        run(pipeline.run("old", "t"))
        from holdfast.kernel import appending

        cp.core.drive(appending.append(cp.core, "\x1fthread\x1ft", appending.thread_member("new")))
        with pytest.raises(hf.CheckpointNotFoundError) as caught:
            run(pipeline.resume("t", answer={"approved": True}))
        assert caught.value.run_id == "new"
        assert "run it again" in caught.value.__notes__[0]


def test_a_deleted_run_is_skipped(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    first = run(reviewed(calls, cp).run(1, "t"))
    second = run(reviewed(calls, cp).run(2, "t"))
    cp.clear(second.run_id, force=True)
    assert run(reviewed(calls, cp).resume("t")).run_id == first.run_id


# --- other steps


def test_going_back_takes_the_state_before_that_step(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    pipeline = calls.line("a", "b", "c", checkpointer=cp)
    result = run(pipeline.run("in", "t"))
    again = run(pipeline.resume("t", from_step="b"))
    assert again.run_id == result.run_id
    assert calls == {"a": 1, "b": 2, "c": 2}
    assert calls.given["b"] == {"by": "a", "call": 1}
    assert again["b"] == {"by": "b", "call": 2}
    run(pipeline.resume("t", from_step="a"))
    assert calls.given["a"] == "in"
    state = cp.load(result.run_id)
    assert state is not None
    assert list(state.state["steps"]) == ["a", "b", "c"]


def test_going_forward_keeps_the_newest_state_and_records_the_skipped_question(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    paused = run(reviewed(calls, cp).run(1, "t"))
    result = run(reviewed(calls, cp).resume("t", from_step="publish"))
    assert list(result) == ["draft", "publish"]
    assert calls.given["publish"] == {"by": "draft", "call": 1}
    assert result.run_id == paused.run_id
    assert result.questions == ()
    kinds = [entry.kind for entry in cp.core.journals.entries(paused.run_id)]
    assert kinds.count("answer") == 1
    with pytest.raises(hf.QuestionError, match=r"was skipped at 20.*resumed from 'publish'"):
        run(reviewed(calls, cp).resume("t", answer={"approved": True}))


def test_a_question_that_was_skipped_to_itself_is_asked_again(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    run(reviewed(calls, cp).run(1, "t"))
    paused = run(reviewed(calls, cp).resume("t", from_step="review"))
    assert [q.key for q in paused.questions] == ["review"]
    assert run(reviewed(calls, cp).resume("t", answer={"approved": 1})).status == "completed"
    again = run(reviewed(calls, cp).resume("t", from_step="review"))
    assert again.status == "paused"
    assert list(again) == ["draft"]
    assert run(reviewed(calls, cp).resume("t", answer={"approved": 2}))["review"] == {"approved": 2}


def test_going_forward_out_of_branches_keeps_their_outputs(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    steps = [calls.step("a"), calls.step("b"), HumanInputStep("ask", "Well?"), calls.step("z")]
    paths = [path("a", ["b", "ask"]), path("b", "z"), path("ask", "z"), path("z", "end")]
    pipeline = Pipeline(steps, {"start_at": "a", "paths": paths}, checkpointer=cp)
    run(pipeline.run(1, "t"))
    assert list(run(pipeline.resume("t", from_step="z"))) == ["a", "b", "z"]
    assert calls == {"a": 1, "b": 1, "z": 1}


def test_an_unknown_step_is_refused(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    run(reviewed(calls, cp).run(1, "t"))
    with pytest.raises(
        ValueError, match="'pubish' is not a step of 'pipeline'; did you mean 'publish'"
    ):
        run(reviewed(calls, cp).resume("t", from_step="pubish"))
    run(reviewed(calls, cp).cancel("t"))
    with pytest.raises(hf.RunFinishedError):
        run(reviewed(calls, cp).resume("t", from_step="publish"))


def test_a_fork_continues_from_a_checkpoint_and_history_stays(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    pipeline = calls.line("a", "b", "c", checkpointer=cp)
    result = run(pipeline.run("in", "t"))
    before = [entry.digest for entry in cp.core.journals.entries(result.run_id)]
    after_a = cp.load(result.run_id, step="a")
    assert after_a is not None
    forked = run(pipeline.resume_from_checkpoint(after_a))
    info = cp.list_checkpoints(result.run_id, step="b")[0]
    other = run(pipeline.resume_from_checkpoint(info))
    assert len({result.run_id, forked.run_id, other.run_id}) == 3
    assert calls == {"a": 1, "b": 2, "c": 3}
    assert forked["a"] == result["a"]
    assert [entry.digest for entry in cp.core.journals.entries(result.run_id)] == before
    assert cp.thread("t")[0].run_id == other.run_id
    with pytest.raises(hf.CheckpointNotFoundError):
        cp.clear(result.run_id)
        run(pipeline.resume_from_checkpoint(after_a))


def test_a_fork_from_within_a_branch_keeps_the_other_branches_outputs(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    paths = [path("a", ["b", "c"]), path("b", "d"), path("c", "d"), path("d", "end")]
    flow = {"start_at": "a", "paths": paths}
    pipeline = Pipeline([calls.step(name) for name in "abcd"], flow, checkpointer=cp)
    result = run(pipeline.run(1, "t"))
    branch = next(i for i in cp.list_checkpoints(result.run_id) if i.step_name == "c")
    assert run(pipeline.resume_from_checkpoint(branch)).status == "completed"
    assert calls["a"] == 1
    assert calls["b"] + calls["c"] <= 3


def test_a_fork_of_another_pipeline_is_refused_and_leaves_nothing(cp: hf.SyncCheckpointer) -> None:
    result = run(Calls().line("a", checkpointer=cp, name="other").run(1, "t"))
    checkpoint = cp.load(result.run_id)
    by_hand = cp.save("by hand", {"steps": {}}, flow="pipeline", thread_id="t")
    assert checkpoint is not None
    for foreign in (checkpoint, by_hand):
        with pytest.raises(hf.FlowChangedError):
            run(Calls().line("a", checkpointer=cp).resume_from_checkpoint(foreign))
    assert len(cp.runs()) == 2


def test_going_back_into_a_branch_runs_it_again_from_there(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    paths = [
        path("a", ["b", "c"]),
        path("b", "x"),
        path("x", "d"),
        path("c", "d"),
        path("d", "end"),
    ]
    flow = {"start_at": "a", "paths": paths}
    pipeline = Pipeline([calls.step(name) for name in "abcdx"], flow, checkpointer=cp)
    run(pipeline.run(1, "t"))
    result = run(pipeline.resume("t", from_step="x"))
    assert (calls["a"], calls["b"], calls["x"], calls["d"]) == (1, 1, 2, 2)
    assert calls.given["x"] == {"by": "b", "call": 1}
    assert calls.given["d"] == {"x": result["x"], "c": result["c"]}


def test_only_who_was_asked_may_answer_and_is_remembered(cp: hf.SyncCheckpointer) -> None:
    steps = [HumanInputStep("ask", "Well?", assignees=["ann"])]
    pipeline = Pipeline(steps, line("ask"), checkpointer=cp)
    run(pipeline.run(1, "t"))
    for by in (None, "bob"):
        with pytest.raises(hf.QuestionError):
            run(pipeline.resume("t", answer=1, by=by))
    assert run(pipeline.resume("t", answer=2, by="ann")) == {"ask": 2}


# --- from outside


def test_a_run_is_paused_after_the_step_under_way_and_resumes_later(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    pipeline = calls.line("a", "b", "c", checkpointer=cp)

    async def pausing() -> None:
        async with pipeline.stream(1, "t") as events:
            async for event in events:
                if isinstance(event, StepStarted) and event.name == "b":
                    await pipeline.pause("t")

    run(pausing())
    assert [info.status for info in cp.runs()] == ["paused"]
    assert "c" not in calls
    events = run(follow(pipeline.resume_stream("t")))
    assert isinstance(events[0], RunStarted)
    assert events[0].restored == 2
    assert isinstance(events[-1], RunCompleted)
    assert calls == {"a": 1, "b": 1, "c": 1}


def test_a_changed_flow_is_not_resumed_unless_it_says_how(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    calls.failing = {"b"}
    with pytest.raises(hf.StepFailedError):
        run(calls.line("a", "b", checkpointer=cp).run(1, "t"))
    calls.failing = set()
    with pytest.raises(hf.FlowChangedError):
        run(calls.line("a", "b", "c", checkpointer=cp).resume("t"))
    as_it_is = hf.Migrations(2, {1: None})
    changed = calls.line("a", "b", "c", checkpointer=cp, migrate=as_it_is)
    assert list(run(changed.resume("t"))) == ["a", "b", "c"]


def test_a_pipeline_closes_what_it_opened(kept_url: str) -> None:
    async def twice() -> None:
        async with Calls().line("a", checkpointer=kept_url) as pipeline:
            result = await pipeline.run(1, "t")
            assert await pipeline.checkpointer.load(result.run_id)
        await pipeline.close()
        async with Calls().line("a", checkpointer=kept_url) as pipeline:
            with pytest.raises(hf.RunFinishedError):
                await pipeline.resume("t")

    asyncio.run(twice())


def test_options_that_there_are_not_are_named_in_public_words() -> None:
    asking = Pipeline([HumanInputStep("ask", "Well?")], line("ask"), checkpointer="memory://")
    for call in (asking.resume_sync, asking.resume_stream):
        with pytest.raises(TypeError, match="has no option 'answr'; did you mean 'answer'"):
            call("t", answr=1)  # type: ignore[call-arg]


# --- begin, go on, or give the result


def test_run_with_resume_begins_resumes_and_returns_the_result(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    calls.failing = {"b"}
    pipeline = calls.line("a", "b", checkpointer=cp)
    for _ in range(2):
        with pytest.raises(hf.StepFailedError):
            run(pipeline.run({"n": 1}, "t", resume=True))
    calls.failing = set()
    done = run(pipeline.run({"n": 1}, "t", resume=True))
    again = pipeline.run_sync({"n": 1}, "t", resume=True)
    assert (again, again.run_id, again.output) == (done, done.run_id, done.output)
    assert again.status == "completed"
    assert run(pipeline.run(None, "t", resume=True)).run_id == done.run_id  # whatever it began with
    assert calls == {"a": 1, "b": 3}
    assert len(cp.runs()) == 1
    with pytest.raises(hf.InputMismatchError):
        run(pipeline.run({"n": 2}, "t", resume=True))
    assert run(pipeline.run({"n": 2}, "t")).run_id != done.run_id


def test_run_with_resume_checks_the_data_of_a_run_that_is_not_finished(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    paused = run(reviewed(calls, cp).run("topic", "t", resume=True))
    assert run(reviewed(calls, cp).run("topic", "t", resume=True)).questions == paused.questions
    with pytest.raises(hf.InputMismatchError):
        run(reviewed(calls, cp).run("other", "t", resume=True))
    run(reviewed(calls, cp).cancel("t"))
    with pytest.raises(hf.RunFinishedError, match="cancelled"):
        run(reviewed(calls, cp).run("topic", "t", resume=True))


def test_run_with_resume_gives_a_flows_own_failure_again(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    flow = {"start_at": "a", "paths": [path("a", "end_with_failure")]}
    pipeline = Pipeline([calls.step("a")], flow, checkpointer=cp)
    first, again = (run(pipeline.run(1, "t", resume=True)) for _ in range(2))
    assert (again.status, again, again.run_id) == ("failed", first, first.run_id)
    assert calls == {"a": 1}


def test_run_with_resume_needs_a_thread_and_a_place_to_keep_it(cp: hf.SyncCheckpointer) -> None:
    with pytest.raises(ValueError, match="give a thread_id"):
        run(Calls().line("a", checkpointer=cp).run(1, resume=True))
    with pytest.raises(ValueError, match="give it checkpointer="):
        run(Calls().line("a").run(1, "t", resume=True))


def test_an_older_run_of_a_thread_is_resumed_by_its_id(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    older, newer = (run(reviewed(calls, cp).run(topic, "t")) for topic in ("one", "two"))
    result = run(reviewed(calls, cp).resume(run_id=older.run_id, answer={"approved": True}))
    assert (result.run_id, result.status) == (older.run_id, "completed")
    assert run(reviewed(calls, cp).resume("t")).run_id == newer.run_id
    assert reviewed(calls, cp).resume_sync(run_id=newer.run_id).status == "paused"
    wrongs: list[dict[str, Any]] = [{}, {"thread_id": "t", "run_id": older.run_id}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="give "):
            run(reviewed(calls, cp).resume(**wrong))


def test_errors_about_threads_say_so(cp: hf.SyncCheckpointer) -> None:
    pipeline = reviewed(Calls(), cp)
    made = run(pipeline.run(1, "t"))
    with pytest.raises(hf.CheckpointNotFoundError, match="no run of this flow in thread 'x'"):
        run(pipeline.resume("x"))
    with pytest.raises(
        hf.ThreadNotFoundError, match=r"a run in thread 't'; resume it with run_id="
    ):
        run(pipeline.resume(made.run_id))


def test_a_checkpoint_within_a_branch_has_the_whole_state_by_ids_as_written(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    paths = [path("a", ["b", "c"]), path("b", "d"), path("c", "d"), path("d", "end")]
    steps = [calls.step(name) for name in "abcd"]
    pipeline = Pipeline(steps, {"start_at": "a", "paths": paths}, checkpointer=cp)
    result = run(pipeline.run({"n": 1}, "t"))

    async def states() -> list[Any]:
        view = BaseCheckpointer(pipeline)
        infos = await view.list_checkpoints("t")
        found = [await view.load_checkpoint("t", info.checkpoint_id) for info in infos]
        return [None if one is None else one.state for one in found]

    found = run(states())
    for state in found:
        assert state["pipeline_input"] == {"n": 1}
        assert state["steps"] == {name: result[name] for name in state["steps"]}
    assert [len(state["steps"]) for state in found] == [4, 3, 3, 2, 1]
