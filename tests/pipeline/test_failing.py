"""Steps that fail: tried again, stood in for, passed over, or resumed."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.context import current_step
from holdfast.engine.events import StepCompleted, StepStarted
from holdfast.pipeline import Pipeline, Retry, Step
from tests.pipeline.flows import Calls, line, path, run, when

QUICK = {"attempts": 3, "backoff": 0}


def test_a_failed_run_raises_and_resume_runs_the_failed_step_again(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    calls.failing = {"b"}
    pipeline = calls.line("a", "b", "c", checkpointer=cp)
    for _ in range(2):
        with pytest.raises(hf.StepFailedError, match="b is broken"):
            run(pipeline.run(1, "t") if not calls["a"] else pipeline.resume("t"))
    calls.failing = set()
    result = run(pipeline.resume("t"))
    assert list(result) == ["a", "b", "c"]
    assert calls == {"a": 1, "b": 3, "c": 1}
    assert calls.given["b"] == {"by": "a", "call": 1}


def test_the_step_after_a_join_fails_and_is_given_the_same_when_resumed(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    calls.failing = {"d"}
    paths = [path("a", ["b", "c"]), path("b", "d"), path("c", "d"), path("d", "end")]
    flow = {"start_at": "a", "paths": paths}
    pipeline = Pipeline([calls.step(name) for name in "abcd"], flow, checkpointer=cp)
    with pytest.raises(hf.StepFailedError):
        run(pipeline.run(1, "t"))
    given, calls.failing = calls.given["d"], set()
    run(pipeline.resume("t"))
    assert calls.given["d"] == given == {"b": {"by": "b", "call": 1}, "c": {"by": "c", "call": 1}}
    assert calls == {"a": 1, "b": 1, "c": 1, "d": 2}


def test_a_failed_branch_does_not_take_the_others_along(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    calls.failing = {"c"}
    paths = [path("a", ["b", "c"]), path("b", "d"), path("c", "d"), path("d", "end")]
    flow = {"start_at": "a", "paths": paths}
    pipeline = Pipeline([calls.step(name) for name in "abcd"], flow, checkpointer=cp)
    with pytest.raises(hf.StepFailedError, match="c is broken"):
        run(pipeline.run(1, "t"))
    calls.failing = set()
    assert run(pipeline.resume("t")).status == "completed"
    assert calls == {"a": 1, "b": 1, "c": 2, "d": 1}


@pytest.mark.parametrize(
    "retry", [QUICK, Retry(3, 0), {"max_attempts": 3, "initial_delay": 0, "jitter": False}]
)
def test_a_step_is_tried_again(retry: Any) -> None:
    tries: list[int] = []

    def flaky(data: Any) -> Any:
        tries.append(current_step().attempt)
        data["n"] += 1
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return data

    steps = [{"id": "a", "function": flaky, "retry": retry}]
    assert run(Pipeline(steps, line("a")).run({"n": 1})) == {"a": {"n": 2}}
    assert tries == [1, 2, 3]


def test_how_errors_are_handled_may_stand_in_the_config_as_documents_have_it() -> None:
    calls = Calls()
    calls.failing = {"a"}
    handling = {"continue_on_error": True, "retry": {"max_attempts": 2, "initial_delay": 0}}
    step = calls.step("a", config={"error_handling": handling})
    result = run(Pipeline([step], line("a")).run(1))
    assert result["a"]["attempts"] == 2


def test_a_step_that_takes_too_long_fails() -> None:
    async def slow(data: Any) -> Any:
        await asyncio.sleep(3600)

    steps = [{"id": "a", "function": slow, "timeout": 0.01, "continue_on_error": True}]
    output = run(Pipeline(steps, line("a")).run(1))["a"]
    assert output["error_type"] == "holdfast.errors.StepTimeoutError"


def test_a_failure_that_is_ignored_is_the_output_and_can_be_asked_about() -> None:
    calls = Calls()
    calls.failing = {"a"}
    steps = [
        calls.step("a", continue_on_error=True, name="First"),
        calls.step("b"),
        calls.step("c"),
    ]
    paths = [
        path("a", "b", when("a.step_error", "equals", True, default=False)),
        path("a", "c"), path("b", "end"), path("c", "end"),
    ]  # fmt: skip
    result = run(Pipeline(steps, {"start_at": "a", "paths": paths}).run(1))
    assert result["a"] == {
        "step_error": True,
        "step_name": "First",
        "error_type": "RuntimeError",
        "error_message": "a is broken",
        "attempts": 1,
    }
    assert list(result) == ["a", "b"]
    assert calls.given["b"] == result["a"]


class Cached(Step):
    def run(self, data: Any) -> Any:
        raise ConnectionError("offline")

    async def fallback(self, data: Any, error: hf.StepFailedError) -> Any:
        if data == "unknown":
            raise KeyError(data)
        return {"cached": data, "why": error.message, "key": current_step().step}


def test_a_fallback_gives_the_output_of_a_step_that_failed() -> None:
    with pytest.raises(hf.StepFailedError, match="unknown"):
        run(Pipeline([Cached("get")], line("get")).run("unknown"))
    output = run(Pipeline([Cached("get")], line("get")).run("kelp"))["get"]
    assert output == {"cached": "kelp", "why": "offline", "key": "get!fallback"}


def test_a_fallback_that_fails_may_be_ignored_too() -> None:
    pipeline = Pipeline([Cached("get", continue_on_error=True)], line("get"))
    assert run(pipeline.run("unknown"))["get"]["error_type"] == "KeyError"
    assert run(pipeline.run("kelp"))["get"]["cached"] == "kelp"


def test_a_fallback_may_be_a_function(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    calls.failing = {"a"}

    def instead(data: Any, error: Any) -> Any:
        return [data, error.error_type]

    pipeline = Pipeline(
        [calls.step("a", fallback=instead), calls.step("b")], line("a", "b"), checkpointer=cp
    )
    assert run(pipeline.run(1, "t"))["a"] == [1, "RuntimeError"]
    assert calls.given["b"] == [1, "RuntimeError"]


def test_a_failure_that_was_answered_is_not_asked_for_again(cp: hf.SyncCheckpointer) -> None:
    """The process ends between a failure and its fallback: the step is not tried again."""
    calls = Calls()
    calls.failing = {"a"}

    def instead(data: Any, error: Any) -> Any:
        return "instead"

    pipeline = Pipeline([calls.step("a", fallback=instead)], line("a"), checkpointer=cp)

    async def dropped() -> None:
        async with pipeline.stream(1, "t") as events:
            async for event in events:
                if isinstance(event, StepStarted) and event.step == "a!fallback":
                    return

    run(dropped())
    assert run(pipeline.resume("t"))["a"] == "instead"
    assert calls["a"] == 1


def test_a_run_that_failed_in_a_fallback_tries_the_step_itself_again(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    calls.failing = {"a"}

    def instead(data: Any, error: Any) -> Any:
        raise KeyError("nothing instead")

    paths = [path("first", ["a", "b"]), path("a", "end"), path("b", "end")]
    for flow in (line("first", "a", "b"), {"start_at": "first", "paths": paths}):
        calls.clear()
        calls.failing = {"a"}
        steps = [calls.step("first"), calls.step("a", fallback=instead), calls.step("b")]
        pipeline = Pipeline(steps, flow, checkpointer=cp)
        with pytest.raises(hf.StepFailedError, match="nothing instead"):
            run(pipeline.run(1, "t"))
        calls.failing = set()
        assert run(pipeline.resume("t"))["a"] == {"by": "a", "call": 2}


def test_a_failure_that_does_not_fit_into_the_state_either_ends_the_run() -> None:
    def fail(data: Any) -> Any:
        raise RuntimeError("x" * 100)

    steps = [{"id": "a", "function": fail, "continue_on_error": True}]
    cp = hf.Checkpointer("memory://", max_state_bytes=2000)
    with pytest.raises(hf.StepFailedError) as caught:
        run(Pipeline(steps, line("a"), checkpointer=cp).run("y" * 1850, "t"))
    assert "StateTooLargeError" in caught.value.error_type


def test_inputs_that_can_not_be_rendered_fail_their_step() -> None:
    calls = Calls()
    steps = [calls.step("a"), calls.step("b", inputs={"x": "{{ a.missing }}"})]
    with pytest.raises(hf.StepFailedError, match="there is no 'missing'") as caught:
        run(Pipeline(steps, line("a", "b")).run(1))
    assert caught.value.step == "b"
    assert isinstance(caught.value.__cause__, hf.UnresolvedError)
    steps[1]["continue_on_error"] = True
    assert run(Pipeline(steps, line("a", "b")).run(1))["b"]["step_error"]
    steps[1]["fallback"] = lambda data, error: [data, error.error_type]
    output = run(Pipeline(steps, line("a", "b")).run(1)).output
    assert output == [None, "holdfast.errors.UnresolvedError"]  # there are no inputs to hand over
    assert calls["b"] == 0


def test_steps_that_are_not_saved_are_run_again_from_the_last_that_was(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    steps = [
        calls.step("a"),
        calls.step("b", checkpoint=False),
        calls.step("c", checkpoint=False),
        calls.step("d"),
    ]
    pipeline = Pipeline(steps, line("a", "b", "c", "d"), checkpointer=cp)

    async def dropped() -> None:
        events = pipeline.stream(1, "t")
        async with events:
            async for event in events:
                if isinstance(event, StepCompleted) and event.name == "c":
                    return

    run(dropped())
    (info,) = cp.runs()
    assert [one.step for one in cp.list_checkpoints(info.run_id)] == ["a"]
    result = run(pipeline.resume("t"))
    assert list(result) == ["a", "b", "c", "d"]
    assert calls == {"a": 1, "b": 2, "c": 2, "d": 1}
    assert [one.step for one in cp.list_checkpoints(info.run_id)] == ["d", "a"]


def test_a_step_that_can_not_be_set_up_says_why() -> None:
    for settings, words in [
        ({"config": 3}, "config must be a mapping"),
        ({"fallback": "x"}, "fallback must be a function"),
        ({"retry": {"attempts": "3"}}, "attempts must be a number"),
    ]:
        with pytest.raises(ValueError, match=words):
            Step("a", **settings)  # type: ignore[arg-type]


def test_errors_name_steps_and_paths_as_they_are_written(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    calls.failing = {"b"}
    paths = [path("a", ["b", "c"]), path("b", "d"), path("c", "d"), path("d", "end")]
    flow = {"start_at": "a", "paths": paths}
    steps = [calls.step(name) for name in "abcd"]
    with pytest.raises(hf.StepFailedError, match=r"^step 'b' failed") as caught:
        run(Pipeline(steps, flow, checkpointer=cp).run(1, "t"))
    assert (caught.value.name, caught.value.step) == ("b", "a>b/b")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(hf.FlowChangedError) as told:
        run(
            Pipeline([steps[0], steps[1], steps[3]], line("a", "b", "d"), checkpointer=cp).resume(
                "t"
            )
        )
    assert "step 'c' is gone" in str(told.value)
    assert "the paths of 'a' changed" in str(told.value)
    assert "Give it migrate=hf.Migrations" in str(told.value)


def test_a_condition_that_can_not_be_decided_names_its_path() -> None:
    paths = [path("a", "end", when("a.missing", "equals", 1))]
    with pytest.raises(
        hf.UnresolvedError, match=r"^the path from 'a' to 'end': a\.missing: there is"
    ):
        run(Pipeline([Calls().step("a")], {"start_at": "a", "paths": paths}).run(1))
