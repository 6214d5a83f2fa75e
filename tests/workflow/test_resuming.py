from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.events import RunCompleted, RunStarted, StepCompleted, StepStarted
from holdfast.workflow import Workflow, parallel, step, workflow
from tests.workflow.support import Calls, Flow, collect, of, steps, stop_at


def flow_of(*names: str, version: Any = None, migrate: Any = None, calls: Any = None) -> Any:
    """A flow named "flow" with these steps, one after the other."""
    calls = calls or Calls()

    @workflow("flow", version=version, migrate=migrate)
    def flow(data: Any = None, more: Any = None) -> Flow:
        values = {}
        for name in names:
            values[name] = yield step(name).python(calls, args=(name,))
        return list(values.values())

    return flow


@pytest.mark.parametrize("stop", ["a", "b", "c"])
@pytest.mark.parametrize("kind", [StepStarted, StepCompleted])
def test_a_run_resumes_exactly_after_its_last_step(
    store: hf.Store, kind: type[StepStarted], stop: str
) -> None:
    calls = Calls()
    flow = flow_of("a", "b", "c", calls=calls)

    async def main() -> None:
        await stop_at(hf.Engine(store).stream(flow(), run_id="r"), kind, stop)
        before = calls.take()
        events = await collect(hf.Engine(store).resume_stream("r", flow=flow))
        (began,) = of(events, RunStarted)
        assert (began.resumed, began.restored) == (True, len(before))
        assert before + calls.take() == ["a", "b", "c"]
        assert steps(events, StepStarted) == ["a", "b", "c"][len(before) :]
        assert of(events, RunCompleted)[0].result == ["a", "b", "c"]

    asyncio.run(main())


def test_resuming_what_does_not_exist_is_an_error(engine: hf.Engine) -> None:
    async def main() -> None:
        with pytest.raises(hf.CheckpointNotFoundError, match="nobody"):
            await collect(engine.resume_stream("nobody", flow=flow_of("a")))

    asyncio.run(main())
    with pytest.raises(hf.CheckpointNotFoundError):
        engine.status_sync("nobody")


def test_a_finished_run_can_not_be_resumed_or_begun_again(engine: hf.Engine) -> None:
    flow = flow_of("a")

    async def main() -> None:
        await engine.run(flow(), run_id="r")
        with pytest.raises(hf.RunFinishedError):
            await collect(engine.resume_stream("r", flow=flow))
        with pytest.raises(hf.RunExistsError):
            await collect(engine.stream(flow(), run_id="r"))
        with pytest.raises(hf.RunExistsError):
            await engine.run(flow(), run_id="r")

    asyncio.run(main())


def test_an_unfinished_run_can_not_be_begun_again(engine: hf.Engine) -> None:
    flow = flow_of("a")

    async def main() -> None:
        await stop_at(engine.stream(flow(), run_id="r"), RunStarted)
        with pytest.raises(hf.RunExistsError):
            await engine.run(flow(), run_id="r")

    asyncio.run(main())


def test_run_with_resume_begins_resumes_or_looks_up(engine: hf.Engine) -> None:
    calls = Calls()
    flow = flow_of("a", "b", calls=calls)

    async def main() -> None:
        assert await engine.run(flow(), run_id="new", resume=True) == ["a", "b"]
        assert await engine.run(flow(), run_id="new", resume=True) == ["a", "b"]
        assert calls.take() == ["a", "b"]
        await stop_at(engine.stream(flow(), run_id="old"), StepStarted, "b")
        assert await engine.run(flow(), run_id="old", resume=True) == ["a", "b"]
        assert calls.take() == ["a", "b"]

    asyncio.run(main())


def test_other_inputs_are_refused_and_equal_ones_are_not(engine: hf.Engine) -> None:
    flow = flow_of("a", "b")

    async def main() -> None:
        data = {"x": 1, "y": {1, 2, 3}}
        await stop_at(engine.stream(flow(data=data, more=(1, 2)), run_id="r"), StepStarted, "b")
        for other in ({"data": data}, {"data": data, "more": [1, 2]}, {"more": (1, 2), "data": {}}):
            with pytest.raises(hf.InputMismatchError) as caught:
                await collect(engine.stream(flow(**other), run_id="r", resume=True))
            assert caught.value.expected_hash != caught.value.actual_hash
        same = {"y": {3, 2, 1}, "x": 1}
        await collect(engine.stream(flow(more=(1, 2), data=same), run_id="r", resume=True))

    asyncio.run(main())


def test_run_with_resume_checks_the_inputs_too(engine: hf.Engine) -> None:
    flow = flow_of("a", "b")

    async def main() -> None:
        await stop_at(engine.stream(flow(data=1), run_id="r"), StepStarted, "b")
        with pytest.raises(hf.InputMismatchError):
            await engine.run(flow(data=2), run_id="r", resume=True)
        await engine.run(flow(data=1), run_id="r", resume=True)
        with pytest.raises(hf.InputMismatchError):  # nor is another run's result handed out
            await engine.run(flow(data=2), run_id="r", resume=True)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("new", "recorded", "asked"),
    [
        (("a", "B", "c"), "b", "B"),
        (("b", "c"), "a", "b"),
        (("b", "a", "c"), "a", "b"),
        (("a",), "b", "end"),
        (("a", "new", "b", "c"), "b", "new"),
    ],
)
def test_a_changed_flow_is_refused_with_both_names(
    engine: hf.Engine, new: tuple[str, ...], recorded: str, asked: str
) -> None:
    calls = Calls()

    async def main() -> None:
        old = flow_of("a", "b", "c")
        await stop_at(engine.stream(old(), run_id="r"), StepStarted, "c")
        with pytest.raises(hf.FlowChangedError) as caught:
            await engine.run(flow_of(*new, calls=calls)(), run_id="r", resume=True)
        assert repr(recorded) in str(caught.value)
        assert asked in str(caught.value)
        assert not calls.order, "nothing was run"
        assert await engine.run(old(), run_id="r", resume=True) == ["a", "b", "c"]

    asyncio.run(main())


def test_steps_added_at_the_end_of_a_flow_are_no_change(engine: hf.Engine) -> None:
    async def main() -> None:
        await stop_at(engine.stream(flow_of("a", "b")(), run_id="r"), StepStarted, "b")
        new = flow_of("a", "b", "c")
        assert await engine.run(new(), run_id="r", resume=True) == ["a", "b", "c"]

    asyncio.run(main())


def test_a_step_of_another_kind_is_a_change(store: hf.Store) -> None:
    @workflow("flow")
    def other() -> Flow:
        yield step("a").subworkflow(flow_of("x"))

    async def main() -> None:
        await stop_at(hf.Engine(store).stream(flow_of("a", "b")(), run_id="r"), StepStarted, "b")
        with pytest.raises(hf.FlowChangedError, match="subworkflow"):
            await hf.Engine(store).run(other(), run_id="r", resume=True)

    asyncio.run(main())


def test_a_flow_of_another_name_is_refused(engine: hf.Engine) -> None:
    @workflow("other")
    def other() -> Flow:
        yield step("a").python(lambda: 1)

    async def main() -> None:
        await stop_at(engine.stream(flow_of("a", "b")(), run_id="r"), StepStarted, "b")
        with pytest.raises(hf.FlowChangedError, match="'flow', not 'other'"):
            await engine.run(other(), run_id="r", resume=True)

    asyncio.run(main())


def test_a_flow_that_is_not_deterministic_is_refused_with_advice(engine: hf.Engine) -> None:
    names = iter(("first", "second"))

    @workflow
    def flow() -> Flow:
        yield step(next(names)).python(lambda: 1)
        yield step("end").python(lambda: 1)

    async def main() -> None:
        await stop_at(engine.stream(flow(), run_id="r"), StepStarted, "end")
        with pytest.raises(hf.FlowChangedError, match=r"hf\.now\(\)") as caught:
            await engine.run(flow(), run_id="r", resume=True)
        assert "'first'" in str(caught.value)
        assert "'second'" in str(caught.value)

    asyncio.run(main())


def test_a_workflow_whose_parameters_no_longer_fit_its_run_is_refused(store: hf.Store) -> None:
    @step
    def fails(n: int) -> int:
        raise ValueError(n)

    @workflow("job")
    async def old(n: int) -> int:
        return await fails(n)

    @workflow("job")
    async def renamed(m: int) -> int:
        return m

    @workflow("job")
    async def wants_more(n: int, m: int) -> int:
        return n + m

    @workflow("job")
    async def takes_more(n: int, m: int = 1) -> int:
        return n + m

    with pytest.raises(hf.StepFailedError):
        hf.Engine(store).run_sync(old(1), run_id="r")
    for changed, why in ((renamed, "started with 'n'"), (wants_more, "started without 'm'")):
        with pytest.raises(hf.FlowChangedError, match=why):
            hf.Engine(store).resume_sync("r", flow=changed)
    assert hf.Engine(store).resume_sync("r", flow=takes_more) == 2


def test_another_version_needs_a_migration(engine: hf.Engine) -> None:
    calls = Calls()

    def change(results: dict[str, Any]) -> dict[str, Any]:
        assert results == {"a": "a", "b": "b"}
        return {"A": results["a"] + results["b"]}

    async def main() -> None:
        old = flow_of("a", "b", "c")
        await stop_at(engine.stream(old(), run_id="r"), StepStarted, "c")
        with pytest.raises(hf.FlowChangedError, match="version 1"):
            await engine.run(flow_of("A", "c", version="2")(), run_id="r", resume=True)
        new = flow_of("A", "c", "d", migrate=hf.Migrations(2, {1: change}), calls=calls)
        await stop_at(engine.resume_stream("r", flow=new), StepStarted, "d")
        assert await engine.run(new(), run_id="r", resume=True) == ["ab", "c", "d"]
        assert calls.order == ["c", "d"]

    asyncio.run(main())


def test_a_version_that_takes_the_results_as_they_are(engine: hf.Engine) -> None:
    async def main() -> None:
        await stop_at(engine.stream(flow_of("a", "b")(), run_id="r"), StepStarted, "b")
        new = flow_of("a", "b", "c", migrate=hf.Migrations(2, {1: None}))
        assert await engine.run(new(), run_id="r", resume=True) == ["a", "b", "c"]

    asyncio.run(main())


def test_time_chance_and_ids_are_the_same_after_a_resume(engine: hf.Engine) -> None:
    seen: list[Any] = []

    def nested() -> Flow:
        value = hf.random()
        yield step("x").python(lambda: 1)
        return value

    @workflow
    def flow() -> Flow:
        made = (hf.now(), hf.random(), hf.uuid(), hf.now())
        made += tuple((yield parallel(nested(), nested())))
        seen.append(made)
        yield step("end").python(lambda: 1)
        return made

    async def main() -> None:
        await stop_at(engine.stream(flow(), run_id="r"), StepStarted, "end")
        assert await engine.run(flow(), run_id="r", resume=True) == seen[0]
        assert seen[0] == seen[1]
        assert seen[0][0].tzinfo is not None
        assert len(set(seen[0])) == 6

    asyncio.run(main())
    assert hf.now() != hf.now()
    assert hf.uuid() != hf.uuid()
    assert 0 <= hf.random() < 1


def test_a_run_that_this_process_executes_can_not_be_resumed_here(engine: hf.Engine) -> None:
    flow = flow_of("a", "b")

    async def main() -> None:
        async with engine.stream(flow(), run_id="r") as stream:
            await anext(stream)
            with pytest.raises(hf.RunActiveError):
                await engine.run(flow(), run_id="r", resume=True, wait=False)
            with pytest.raises(hf.RunActiveError):
                await engine.resume("r")
        assert await engine.resume("r") == ["a", "b"]

    asyncio.run(main())


def test_of_many_who_resume_a_run_one_executes_it_and_all_have_its_result(
    engine: hf.Engine,
) -> None:
    calls = Calls()
    flow = flow_of("a", "b", calls=calls)

    async def main() -> None:
        await stop_at(engine.stream(flow(), run_id="r"), StepStarted, "a")
        came = await asyncio.gather(
            *(engine.run(flow(), run_id="r", resume=True) for _ in range(5))
        )
        assert came == [["a", "b"]] * 5
        assert calls.order == ["a", "b"]

    asyncio.run(main())


def test_what_no_flow_began_can_not_be_resumed_by_one(store: hf.Store) -> None:
    with hf.SyncCheckpointer(store) as cp:
        cp.save("r", {"n": 1})
    with pytest.raises(hf.FlowChangedError, match="not started by a flow"):
        asyncio.run(collect(hf.Engine(store).resume_stream("r", flow=flow_of("a"))))


def test_a_failure_that_the_flow_made_its_own_is_tried_again(engine: hf.Engine) -> None:
    calls = Calls()
    broken = True

    def work() -> str:
        if broken:
            raise ValueError("no")
        return "yes"

    @workflow
    def flow(cleans_up: bool) -> Flow:
        try:
            return (yield step("work").python(work))
        except hf.StepFailedError as error:
            if cleans_up:
                yield step("clean up").python(calls, args=("clean up",))
            raise LookupError("in my own words") from error

    async def main() -> None:
        nonlocal broken
        for run_id, cleans_up in (("r", False), ("s", True)):
            with pytest.raises(LookupError, match="my own words"):
                await engine.run(flow(cleans_up=cleans_up), run_id=run_id)
        broken = False
        assert await engine.run(flow(cleans_up=False), run_id="r", resume=True) == "yes"
        # what was done about the failure was done, and does not stand in the way
        assert await engine.run(flow(cleans_up=True), run_id="s", resume=True) == "yes"
        assert calls.order == ["clean up"]

    asyncio.run(main())


def test_a_workflow_says_what_it_is() -> None:
    flow: Workflow[..., Any] = flow_of("a", version="3")
    place = "tests.workflow.test_resuming.flow_of.<locals>.flow"
    assert repr(flow) == f"<workflow 'flow' version 3, {place}>"
