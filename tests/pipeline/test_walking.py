"""Loops and their limits, and steps side by side."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.run import resting
from holdfast.pipeline import Pipeline
from tests.faults import FakeClock
from tests.pipeline.flows import Calls, path, run, when


def looping(calls: Calls, rounds: int, cp: Any = None, **loop: Any) -> Pipeline:
    paths = [
        path("a", "b"), path("b", "a", when("b.call", "less_than", rounds)), path("b", "c"), path("c", "end"),
    ]  # fmt: skip
    steps = [calls.step(name) for name in "abc"]
    return Pipeline(steps, {"start_at": "a", "paths": paths}, None, cp, loop or None)


def test_a_loop_goes_round_and_each_round_is_kept(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    result = run(looping(calls, 3, cp).run(1, "t"))
    assert calls == {"a": 3, "b": 3, "c": 1}
    assert list(result) == ["a", "b", "c"]
    kept = cp.list_checkpoints(result.run_id, oldest_first=True)
    assert [(info.step, info.iteration) for info in kept] == [
        ("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3), ("c", None),
    ]  # fmt: skip


def test_a_loop_has_a_limit_that_a_resume_does_not_reset(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    with pytest.raises(hf.LoopLimitError, match="stopped before 'a': it ran this step 5 times"):
        run(looping(calls, 9, cp, max_iterations=5).run(1, "t"))
    with pytest.raises(hf.LoopLimitError) as caught:
        run(looping(calls, 9, cp, max_iterations=5).resume("t"))
    assert caught.value.setting == "max_iterations"
    assert calls["a"] == 5
    assert run(looping(calls, 9, cp, max_iterations=20).resume("t")).status == "completed"
    assert calls["b"] == 9


def test_a_loop_without_a_limit_of_its_own_has_one() -> None:
    calls = Calls()
    with pytest.raises(hf.LoopLimitError, match="100 times"):
        run(looping(calls, 1000).run(1))


def test_a_loop_may_take_only_so_long_also_across_a_resume() -> None:
    calls, clock = Calls(), FakeClock()
    with hf.SyncCheckpointer("memory://", clock=clock) as cp:
        calls.failing = {"b"}
        pipeline = looping(calls, 3, cp, max_loop_time_seconds=60)
        with pytest.raises(hf.StepFailedError):
            run(pipeline.run(1, "t"))
        calls.failing = set()
        clock.advance(61)
        with pytest.raises(hf.LoopLimitError, match="its loop took 60 s"):
            run(pipeline.resume("t"))
        assert calls["b"] == 2, "the limit is looked at where the loop goes back"


def test_a_loop_in_a_branch_may_take_only_so_long_also_across_a_resume() -> None:
    calls, clock = Calls(), FakeClock()

    def again(data: Any) -> Any:
        calls["b"] += 1
        if calls["b"] == 2:
            raise RuntimeError("in the second round")
        return calls["b"]

    steps = [calls.step("a"), {"id": "b", "function": again}, calls.step("c")]
    paths = [
        path("a", ["b", "c"]),
        path("b", "b", when("b", "<", 9)),
        path("b", "end"),
        path("c", "end"),
    ]
    loop = {"max_loop_time_seconds": 60}
    with hf.SyncCheckpointer("memory://", clock=clock) as cp:
        pipeline = Pipeline(steps, {"start_at": "a", "paths": paths}, None, cp, loop)
        with pytest.raises(hf.StepFailedError):
            run(pipeline.run(1, "t"))
        clock.advance(61)
        with pytest.raises(hf.LoopLimitError):
            run(pipeline.resume("t"))
        assert calls["b"] == 2


def test_a_pause_stands_between_rounds_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def until(clock: object, due: int, within: float) -> None:
        slept.append(round(within, 1))

    monkeypatch.setattr(resting, "until", until)
    calls = Calls()
    run(looping(calls, 3, iteration_delay_seconds=5).run(1))
    assert slept == [5, 5]
    slept.clear()
    paths = [path("a", "a", when("a.call", "<", 3)), path("a", "end")]
    loop = {"iteration_delay_seconds": 1.5}
    run(Pipeline([Calls().step("a")], {"start_at": "a", "paths": paths}, loop_config=loop).run(1))
    assert slept == [1.5, 1.5]


def test_steps_in_a_list_run_at_the_same_time_and_join_where_their_paths_meet() -> None:
    met: list[str] = []

    async def waits(data: Any) -> Any:
        met.append(data)
        async with asyncio.timeout(10):
            while len(met) < 2:
                await asyncio.sleep(0)
        return data

    calls = Calls()
    steps = [
        calls.step("a"), {"id": "b", "function": waits, "inputs": "b"},
        {"id": "c", "function": waits, "inputs": "c"}, calls.step("d"), calls.step("e"),
    ]  # fmt: skip
    paths = [
        path("a", ["b", "c"]),
        path("b", "d"),
        path("d", "e"),
        path("c", "e"),
        path("e", "end"),
    ]
    result = run(Pipeline(steps, {"start_at": "a", "paths": paths}).run(1))
    assert calls.given["d"] == "b"
    assert calls.given["e"] == {"d": {"by": "d", "call": 1}, "c": "c"}
    assert set(result) == set("abcde")


def test_branches_may_join_at_the_end(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    paths = [path("a", ["b", "c"]), path("b", "end"), path("c", "end_with_success")]
    flow = {"start_at": "a", "paths": paths}
    result = run(Pipeline([calls.step(name) for name in "abc"], flow, checkpointer=cp).run(1, "t"))
    assert result.output == {"b": {"by": "b", "call": 1}, "c": {"by": "c", "call": 1}}
    assert calls.given["b"] == calls.given["c"] == {"by": "a", "call": 1}
    last = cp.load(result.run_id)
    assert last is not None
    assert last.state["steps"] == result


def test_a_step_of_a_branch_is_loaded_by_its_id(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    paths = [path("a", ["b", "c"]), path("b", "d"), path("c", "d"), path("d", "end")]
    flow = {"start_at": "a", "paths": paths}
    result = run(Pipeline([calls.step(name) for name in "abcd"], flow, checkpointer=cp).run(1, "t"))
    found = cp.load(result.run_id, step="c")
    assert found is not None
    assert (found.step, found.step_name) == ("a>c/c", "c")
    assert found.state == {"by": "c", "call": 1}, "its own output"
    same = cp.load(checkpoint_id=found.checkpoint_id)
    assert same is not None
    assert same.state == found.state
    assert [info.seq for info in cp.list_checkpoints(result.run_id, step="c")] == [found.seq]


def either(calls: Calls, end: str) -> Pipeline:
    """A branch that may end before it joins the other."""
    paths = [
        path("a", ["b", "c"]), path("b", end, when("pipeline_input", "equals", "stop")),
        path("b", "d"), path("c", "d"), path("d", "end"),
    ]  # fmt: skip
    return Pipeline([calls.step(name) for name in "abcd"], {"start_at": "a", "paths": paths})


@pytest.mark.parametrize(
    ("given", "end", "ran", "status"),
    [
        ("go", "end", "abcd", "completed"), ("stop", "end", "abcd", "completed"),
        ("go", "end_with_failure", "abcd", "completed"), ("stop", "end_with_failure", "abc", "failed"),
    ],
)  # fmt: skip
def test_a_branch_that_ends_early_does_not_keep_the_others_from_going_on(
    given: str, end: str, ran: str, status: str
) -> None:
    calls = Calls()
    result = run(either(calls, end).run(given))
    assert sorted(result) == list(ran)
    assert result.status == status
    assert set(calls.values()) == {1}


def test_where_all_branches_end_early_nothing_is_joined() -> None:
    calls = Calls()
    stop = when("pipeline_input", "equals", "stop")
    paths = [
        path("a", ["b", "c"]), path("b", "end", stop), path("b", "d"), path("c", "end", stop), path("c", "d"), path("d", "end"),
    ]  # fmt: skip
    pipeline = Pipeline([calls.step(name) for name in "abcd"], {"start_at": "a", "paths": paths})
    assert sorted(run(pipeline.run("stop"))) == ["a", "b", "c"]
    assert sorted(run(pipeline.run("go"))) == ["a", "b", "c", "d"]


def test_forks_may_stand_within_forks_and_loops_within_branches(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    paths = [
        path("a", ["b", "x"]), path("b", ["c", "d"]), path("c", "c", when("c.call", "<", 3)), path("c", "e"),
        path("d", "e"), path("e", "z"), path("x", "z"), path("z", "a", when("z.call", "<", 2)), path("z", "end"),
    ]  # fmt: skip
    flow = {"start_at": "a", "paths": paths}
    result = run(Pipeline([calls.step(n) for n in "abcdexz"], flow, checkpointer=cp).run(1, "t"))
    assert calls == {"a": 2, "b": 2, "c": 4, "d": 2, "e": 2, "x": 2, "z": 2}
    assert result.status == "completed"
    assert calls.given["z"] == {"e": result["e"], "x": result["x"]}


def test_a_branch_may_wait_in_a_loop_whose_only_way_out_is_an_end() -> None:
    calls = Calls()
    paths = [
        path("a", ["b", "c"]), path("b", "b", when("b.call", "<", 3)), path("b", "end"), path("c", "end"),
    ]  # fmt: skip
    pipeline = Pipeline([calls.step(name) for name in "abc"], {"start_at": "a", "paths": paths})
    assert sorted(run(pipeline.run(1))) == ["a", "b", "c"]
    assert calls["b"] == 3
