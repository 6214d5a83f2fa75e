"""The one engine: whatever the flow, whoever calls it, in whichever thread or event loop."""

from __future__ import annotations

import asyncio
import gc
import inspect
import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine import launch
from holdfast.engine.events import RunCompleted, RunStarted, StepStarted
from holdfast.graph import END, Graph
from holdfast.pipeline import Pipeline
from holdfast.workflow import Workflow, approve, ask, step, workflow


@dataclass
class Count:
    n: int = 0


def add_one(state: Count) -> Count:
    return Count(state.n + 1)


@step(inline=True)
def double(n: int) -> int:
    return 2 * n


@workflow
async def doubled(n: int) -> int:
    return await double(n)


@workflow
async def asking() -> bool:
    return await ask("May I?", returns=bool)


app = Graph(Count, name="count").add_node("add", add_one).add_edge("add", END)
counting = app.set_entry("add").compile()
piped = Pipeline(
    [{"id": "double", "function": lambda n: 2 * n}],
    {"start_at": "double", "paths": [{"from": "double", "to": "end_with_success"}]},
    name="p",
)


@pytest.fixture
def engine(tmp_path: Path) -> hf.Engine:
    return hf.Engine(tmp_path / "runs.db")


def test_one_engine_runs_workflows_graphs_and_pipelines_alike(engine: hf.Engine) -> None:
    for resume in (False, True):
        options: Any = {"resume": resume, "thread_id": "t", "owner": "ann", "timeout": 60}
        assert engine.run_sync(doubled(2), run_id="w", **options) == 4
        assert engine.run_sync(counting(Count(4)), run_id="g", **options) == Count(5)
        assert engine.run_sync(piped(3), run_id="p", **options).output == 6
    with hf.SyncCheckpointer(engine.checkpointer.store) as cp:
        assert {run.run_id: run.owner for run in cp.thread("t")} == dict.fromkeys("gpw", "ann")


def test_the_call_of_a_graph_and_of_a_pipeline_is_a_child_run_in_a_workflow(
    engine: hf.Engine,
) -> None:
    @workflow
    async def whole(n: int) -> list[Any]:
        state, result = await counting(Count(n)), await piped(n)
        return [state.n, await doubled(n), result.output, result["double"], result.status]

    for _ in range(2):  # and as they are recorded
        found = engine.run_sync(whole(1), run_id="r", resume=True)
        assert found == [2, 2, 2, 2, "completed"]


def test_a_recorded_child_result_comes_back_with_its_type(engine: hf.Engine) -> None:
    @workflow
    async def whole(first: bool) -> str:
        state, result = await counting(Count(1)), await piped(1)
        await ask("Well?", returns=str)
        return f"{state!r} {type(result).__name__} {result.run_id} {result.output}"

    with pytest.raises(hf.RunPausedError):
        engine.run_sync(whole(True), run_id="r")
    engine.answer_sync("r", "yes")
    assert engine.resume_sync("r") == "Count(n=2) PipelineResult r//p 2"


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: hf.Engine(3), TypeError, "URL, a path, a Store or a Checkpointer"),  # type: ignore[arg-type]
        (lambda: hf.Engine("nosuch://x"), hf.StoreURLError, "no store for nosuch"),
        (lambda: hf.Engine("sqlite://runs.db"), hf.StoreURLError, "sqlite:///relative.db"),
        (lambda: hf.Engine(False, trust="blindly"), ValueError, "trust"),  # type: ignore[arg-type]
        (lambda: hf.Engine(False, timeout=-1), ValueError, "timeout"),
        (lambda: hf.Engine(False, durability="never"), ValueError, "durability"),  # type: ignore[arg-type]
        (lambda: hf.Engine(False, checkpoint_after="lunch"), ValueError, "every_step"),
        (lambda: hf.Engine(False, on_save_failure="cry"), ValueError, "'raise' or 'warn'"),  # type: ignore[arg-type]
        (lambda: hf.Engine(False, flows=[app]), TypeError, r"compile\(\) it first"),  # type: ignore[list-item]
        (lambda: hf.Engine(False, flows=[add_one]), TypeError, "@workflow"),  # type: ignore[list-item]
        (lambda: hf.Engine(False, flows=doubled), TypeError, r"flows=\[doubled\]"),  # type: ignore[arg-type]
        (lambda: hf.Engine(False, run_id="r"), TypeError, "Engine has no option"),  # type: ignore[call-arg]
    ],
)
def test_what_an_engine_cannot_work_with_is_refused_when_it_is_made(
    make: Callable[[], hf.Engine], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make()


def test_what_is_no_call_of_a_flow_is_refused_with_advice(engine: hf.Engine) -> None:
    wrong: Any = doubled
    with pytest.raises(TypeError, match=r"call it with its inputs, engine\.run\(doubled"):
        engine.run_sync(wrong)
    with pytest.raises(TypeError, match="takes the call of a flow"):
        engine.run_sync(wrong.fn)
    with pytest.raises(TypeError, match="takes the call of a flow"):
        engine.run_sync(double(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"engine\.run\(call, run_id=\.\.\., resume=True\)"):
        engine.resume_sync(doubled(1))  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="did you mean 'run_id'"):
        engine.run_sync(doubled(1), workflow_id="r")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing a required argument: 'n'; it takes"):
        doubled()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="resume=True needs a run_id or a thread_id"):
        engine.run_sync(doubled(1), resume=True)
    with pytest.raises(RuntimeError, match=r"engine\.run_sync\(doubled\(\.\.\.\)\) runs it"):
        doubled(1).result()


def test_inputs_of_any_name_do_not_clash_with_options(engine: hf.Engine) -> None:
    @workflow
    async def greedy(
        run_id: str, resume: int, self: str, call: str, /, *more: int, **rest: int
    ) -> str:
        return f"{run_id} {resume} {self} {call} {more} {rest}"

    for resume in (False, True):
        call = greedy("a", 1, "s", "c", 2, 3, trust=4, flow=5)
        found = engine.run_sync(call, run_id="r", resume=resume)
        assert found == "a 1 s c (2, 3) {'trust': 4, 'flow': 5}"


def test_no_password_is_shown_by_an_engine_that_was_never_used() -> None:
    engine = hf.Engine("postgresql://ann:hunter2@localhost/runs")
    assert "hunter2" not in repr(engine)
    engine.close_sync()
    with pytest.raises(hf.StoreClosedError) as closed:
        engine.run_sync(doubled(1))
    assert "hunter2" not in str(closed.value)
    assert repr(hf.Engine()) == "Engine()"


def test_an_engine_opens_its_store_when_it_is_first_used(tmp_path: Path) -> None:
    engine = hf.Engine(tmp_path / "runs.db")
    assert not list(tmp_path.iterdir())
    engine.run_sync(doubled(1))
    assert list(tmp_path.iterdir())
    engine.close_sync()


def test_graphs_of_other_functions_are_other_flows_although_they_look_alike(
    engine: hf.Engine,
) -> None:
    def subtract(state: Count) -> Count:
        return Count(state.n - 1)

    other = Graph(Count, name="count").add_node("add", subtract).add_edge("add", END)
    engine.run_sync(counting(Count()))
    with pytest.raises(ValueError, match="two flows are called 'count'"):
        engine.run_sync(other.set_entry("add").compile()(Count()))


def test_every_async_verb_has_a_blocking_twin_and_shows_its_options() -> None:
    verbs = [
        name
        for name, member in inspect.getmembers(hf.Engine)
        if not name.startswith("_")
        and (
            inspect.iscoroutinefunction(member) or name in ("stream", "resume_stream", "questions")
        )
    ]
    assert len(verbs) > 12
    for verb in verbs:
        shown, twin = (inspect.signature(getattr(hf.Engine, n)) for n in (verb, f"{verb}_sync"))
        assert shown.parameters.keys() == twin.parameters.keys()
        assert "Async" not in str(twin.return_annotation)
    for verb in ("run", "start", "stream", "resume"):
        names = inspect.signature(getattr(hf.Engine, verb)).parameters
        assert {"trust", "take_over", "wait", "timeout", "durability", "strict"} <= names.keys()
        assert not any(p.kind is p.VAR_KEYWORD for p in names.values())


@pytest.mark.parametrize("verb", ["run", "stream", "start"])
def test_the_defaults_that_help_shows_are_what_is_used(engine: hf.Engine, verb: str) -> None:
    shown = inspect.signature(getattr(hf.Engine, verb)).parameters.values()
    options = {p.name: p.default for p in shown if p.kind is p.KEYWORD_ONLY}
    made = getattr(engine, f"{verb}_sync")(doubled(2), **options)
    if verb == "start":
        made = made.result()
    elif verb == "stream":
        made = list(made)[-1].result
    assert made == 4


def test_one_engine_serves_several_threads_and_loops_and_opens_its_store_once(
    engine: hf.Engine,
) -> None:
    together = threading.Barrier(8)

    def use(n: int) -> int:
        together.wait(30)
        if n % 2:
            return engine.run_sync(doubled(n), run_id=f"r{n}")
        return asyncio.run(engine.run(doubled(n), run_id=f"r{n}"))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(use, range(8))) == [2 * n for n in range(8)]
    engine.close_sync()
    with pytest.raises(hf.StoreClosedError):
        engine.run_sync(doubled(1))


def test_closing_an_engine_lets_runs_of_other_threads_finish(engine: hf.Engine) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @step
    def slow() -> str:
        begun.set()
        assert go_on.wait(30)
        return "done"

    @workflow
    async def patient() -> str:
        return await slow() + await slow()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(engine.run_sync, patient(), run_id="r")
        assert begun.wait(30)
        engine.close_sync()
        go_on.set()
        assert running.result(30) == "donedone"
    with pytest.raises(hf.StoreClosedError):
        engine.status_sync("r")


def test_a_started_run_is_awaited_as_often_as_one_likes(engine: hf.Engine) -> None:
    async def main() -> None:
        run = await engine.start(doubled(2), run_id="r")
        assert (run.id, run.flow, run.done()) == ("r", "doubled", False)
        events = [event async for event in run.events()]
        assert isinstance(events[0], RunStarted)
        assert isinstance(events[-1], RunCompleted)
        assert await run == await run == await engine.get("r", doubled) == 4
        assert [event async for event in run.events()] == events
        assert (run.done(), await run.status()) == (True, hf.Status.COMPLETED)
        with pytest.raises(RuntimeError, match="`await` the handle"):
            run.result()
        again = await engine.start(doubled(2), run_id="r", resume=True)
        assert await again == 4

    asyncio.run(main())


def test_a_started_run_raises_what_ended_it(engine: hf.Engine) -> None:
    @step
    def fail() -> None:
        raise ValueError("no")

    @workflow
    async def failing() -> None:
        await fail()

    async def main() -> None:
        run = await engine.start(failing(), run_id="r")
        for _ in range(2):
            with pytest.raises(hf.StepFailedError, match="ValueError: no"):
                await run
        with pytest.raises(hf.StepFailedError, match="ValueError: no"):
            await engine.get("r", failing)
        paused = await engine.start(asking(), run_id="q")
        with pytest.raises(hf.RunPausedError):
            await paused
        with pytest.raises(hf.RunPausedError, match="'ask'"):
            await engine.get("q")
        await paused.cancel("not needed")
        with pytest.raises(hf.RunCancelledError):
            await engine.get("q")

    asyncio.run(main())
    with pytest.raises(hf.CheckpointNotFoundError):
        engine.get("nobody").result()


def test_a_program_without_an_event_loop_starts_runs_in_the_background(engine: hf.Engine) -> None:
    go_on = threading.Event()

    @step
    def slow(n: int) -> int:
        assert go_on.wait(30)
        return n

    @workflow
    async def waits(n: int) -> int:
        return await slow(n)

    runs = [engine.start_sync(waits(n), run_id=f"r{n}") for n in range(3)]
    with pytest.raises(TimeoutError):
        runs[0].result(timeout=0.01)
    go_on.set()
    assert [run.result(timeout=30) for run in runs] == [0, 1, 2]
    assert runs[0].status_sync() == hf.Status.COMPLETED
    with hf.Engine(engine.checkpointer, flows=[waits]) as other:
        assert other.get("r2").result(timeout=30) == 2
    engine.close_sync()


def test_an_engine_that_is_dropped_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    engine = hf.Engine(False)
    assert engine.start_sync(doubled(2)).result() == 4
    (thread,) = (t for t in set(threading.enumerate()) - before if t.name == "holdfast-engine")
    del engine
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()


def test_closing_stops_what_was_started_and_leaves_it_to_be_resumed(tmp_path: Path) -> None:
    begun, runs = threading.Event(), []

    @step
    async def endless() -> int:
        runs.append(1)
        begun.set()
        if len(runs) == 1:
            await asyncio.Event().wait()
        return 7

    @workflow
    async def long() -> int:
        return await endless()

    with hf.Engine(tmp_path / "runs.db") as engine:
        run = engine.start_sync(long(), run_id="r")
        assert begun.wait(30)
    assert run.done()
    with pytest.raises(hf.RunStoppedError, match="nobody executes it; resume it"):
        run.result()
    with hf.Engine(tmp_path / "runs.db", flows=[long]) as engine:
        assert engine.recover_sync() == {"r": 7}


def test_closing_does_not_wait_for_a_run_whose_event_loop_stands_still(tmp_path: Path) -> None:
    @step
    async def endless() -> None:
        await asyncio.Event().wait()

    @workflow
    async def long() -> None:
        await endless()

    engine = hf.Engine(tmp_path / "runs.db")
    with asyncio.Runner() as runner:
        run = runner.run(engine.start(long(), run_id="r"))
        engine.close_sync()
        assert not run.done()
    with pytest.raises(hf.RunStoppedError):
        run.result()


def test_closing_while_runs_are_under_way_logs_no_unretrieved_error() -> None:
    @step
    async def endless() -> None:
        await asyncio.Event().wait()

    @workflow
    async def long() -> None:
        await endless()

    complaints: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
        async with hf.Engine(False) as engine:
            run = await engine.start(long())
            async for event in run.events():
                if isinstance(event, StepStarted):
                    break
        with pytest.raises(hf.RunStoppedError):
            await run

    asyncio.run(scenario())
    gc.collect()
    assert complaints == []


def test_a_stream_of_a_completed_run_says_its_result(engine: hf.Engine) -> None:
    assert engine.run_sync(doubled(2), run_id="r") == 4
    events = list(engine.stream_sync(doubled(2), run_id="r", resume=True))
    assert [type(event) for event in events] == [RunStarted, RunCompleted]
    assert isinstance(events[-1], RunCompleted)
    assert events[-1].result == 4


def test_a_run_is_resumed_with_the_flow_of_its_recorded_name_and_version(tmp_path: Path) -> None:
    def version(number: int, **options: Any) -> Workflow[..., Any]:
        @workflow("order", version=number, **options)
        async def order() -> str:
            return f"{await ask('Well?', returns=str)} {number}"

        return order

    store = tmp_path / "runs.db"
    for run_id, old in (("a", version(1)), ("b", version(2))):
        with hf.Engine(store) as engine, pytest.raises(hf.RunPausedError):
            engine.run_sync(old(), run_id=run_id)
    newest = version(3, migrate=hf.Migrations(3, {1: None, 2: None}))
    with hf.Engine(store, flows=[version(2), newest]) as engine:
        for run_id in "ab":
            engine.answer_sync(run_id, "yes")
        assert engine.resume_sync("b") == "yes 2"
        assert engine.resume_sync("a") == "yes 3"
    with hf.Engine(store, flows=[version(3)]) as engine:
        with pytest.raises(hf.UnknownFlowError, match=r"'order' version 2.*knows 'order' \(3\)"):
            engine.resume_sync("b")
        with pytest.raises(hf.CheckpointNotFoundError):
            engine.resume_sync("nobody")


def test_two_flows_of_one_name_and_version_are_an_error(engine: hf.Engine) -> None:
    def one() -> Workflow[..., Any]:
        @workflow("same")
        async def first() -> int:
            return 1

        return first

    @workflow("same")
    async def second() -> int:
        return 2

    assert engine.run_sync(one()()) == 1
    assert engine.run_sync(one()()) == 1, "the same definition, executed again"
    with pytest.raises(ValueError, match="two flows are called 'same' version 1"):
        engine.run_sync(second())


def test_of_several_who_run_the_same_at_once_one_executes_and_all_get_its_result(
    engine: hf.Engine,
) -> None:
    done: list[int] = []
    go_on = asyncio.Event()

    @step
    async def slow(n: int) -> int:
        await go_on.wait()
        done.append(n)
        return n

    @workflow
    async def once() -> int:
        return await slow(1) + await slow(2)

    async def main() -> None:
        first = await engine.start(once(), run_id="r")
        with pytest.raises(hf.RunActiveError):
            await engine.run(once(), run_id="r", resume=True, wait=False)
        with pytest.raises(hf.RunActiveError):
            await engine.resume("r", flow=once)
        patient = hf.Engine(engine.checkpointer, wait=True)
        others = [engine.run(once(), run_id="r", resume=True) for _ in range(5)]
        others += [engine.resume("r", flow=once, wait=True), patient.resume("r", flow=once)]
        waiting = [asyncio.create_task(other) for other in others]
        await asyncio.sleep(0)
        go_on.set()
        assert await asyncio.gather(first, *waiting) == [3] * 8

    asyncio.run(main())
    assert done == [1, 2]


def test_of_several_who_open_the_same_run_at_once_one_executes_and_all_get_its_result(
    engine: hf.Engine,
) -> None:
    done: list[int] = []

    @step
    def once(n: int) -> int:
        done.append(n)
        return n

    @workflow
    async def opened() -> int:
        return await once(1)

    async def main() -> list[int]:
        return await asyncio.gather(
            *(engine.run(opened(), run_id="r", resume=True) for _ in range(5))
        )

    assert asyncio.run(main()) == [1] * 5
    assert done == [1]


def test_inputs_that_do_not_fit_leave_no_run_behind(engine: hf.Engine) -> None:
    wrong: Any = "three"
    with pytest.raises(hf.ReviveError) as refused:
        engine.run_sync(doubled(wrong), run_id="r")
    assert str(refused.value) == (
        "inputs.n: expected int, found str; pass what the type hint asks for, or correct the hint"
    )
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    assert engine.run_sync(doubled(3), run_id="r") == 6


def test_a_started_run_is_not_taken_by_others_of_its_engine() -> None:
    async def main() -> None:
        async with hf.Engine(False) as engine:
            run = await engine.start(doubled(1), run_id="r")
            with pytest.raises(hf.RunActiveError):
                await engine.resume("r")
            others = [engine.start(doubled(1), run_id="r", resume=True) for _ in range(3)]
            assert [await other for other in await asyncio.gather(*others)] == [2, 2, 2]
            assert await run == 2

    asyncio.run(main())


def test_a_flow_that_was_defined_again_is_resumed_with_its_new_code(
    engine: hf.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cell(number: int) -> Workflow[..., Any]:
        async def study() -> int:
            return await double(number)

        study.__module__, study.__qualname__ = __name__, "study"
        return workflow(study)

    first, second = cell(1), cell(2)
    monkeypatch.setattr(sys.modules[__name__], "study", first, raising=False)
    assert engine.run_sync(first(), run_id="r") == 2
    monkeypatch.setattr(sys.modules[__name__], "study", second)
    assert engine.resume_sync("r", from_step="double") == 4


def test_those_who_wait_for_a_run_that_fails_get_its_failure_and_do_not_try_again(
    engine: hf.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    waiting: set[object] = set()
    all_wait = asyncio.Event()
    resume = launch.resume

    async def noting_who_waits(*args: Any) -> Any:
        try:
            return await resume(*args)
        except hf.RunActiveError:
            waiting.add(asyncio.current_task())
            if len(waiting) == 3:
                all_wait.set()
            raise

    @step
    async def fail() -> int:
        tried.append(1)
        await all_wait.wait()
        raise OSError("no")

    @workflow
    async def failing() -> int:
        return await fail()

    async def main() -> list[Any]:
        first = await engine.start(failing(), run_id="r")
        others = [engine.run(failing(), run_id="r", resume=True) for _ in range(3)]
        return await asyncio.gather(first, *others, return_exceptions=True)

    monkeypatch.setattr(launch, "resume", noting_who_waits)
    found = asyncio.run(main())
    assert [str(error) for error in found] == [str(found[0])] * 4
    assert all(isinstance(error, hf.StepFailedError) for error in found)
    assert tried == [1]


def test_a_step_that_waits_for_its_own_run_is_told_so(engine: hf.Engine) -> None:
    @step
    async def selfish() -> int:
        return await engine.run(lonely(), run_id="r", resume=True)

    @workflow
    async def lonely() -> int:
        return await selfish()

    with pytest.raises(hf.StepFailedError, match="RunActiveError"):
        engine.run_sync(lonely(), run_id="r")


def test_a_child_does_not_wait_for_the_run_that_waits_for_it(engine: hf.Engine) -> None:
    @step
    async def impatient() -> int:
        return await engine.run(parent(), run_id="r", resume=True)

    @workflow
    async def child() -> int:
        return await impatient()

    @workflow
    async def parent() -> int:
        return await child()

    with pytest.raises(hf.StepFailedError, match="RunActiveError"):
        engine.run_sync(parent(), run_id="r")


def test_waiting_for_a_run_that_nobody_executes_ends(engine: hf.Engine) -> None:
    with pytest.raises(hf.RunPausedError):
        engine.run_sync(asking(), run_id="answered")
    engine.answer_sync("answered", True)
    for event in engine.stream_sync(doubled(1), run_id="left"):
        if isinstance(event, StepStarted):
            break
    for run_id in ("answered", "left"):
        with pytest.raises(hf.RunStoppedError, match="nobody executes it"):
            engine.get(run_id).result(timeout=30)
        assert engine.resume_sync(run_id) in (True, 2)


def test_nobody_waits_for_a_run_that_only_they_could_continue(engine: hf.Engine) -> None:
    async def main() -> None:
        async with engine.stream(doubled(1), run_id="r") as stream:
            await anext(stream)
            with pytest.raises(hf.RunActiveError):
                await engine.run(doubled(1), run_id="r", resume=True)

    asyncio.run(main())
    assert engine.run_sync(doubled(1), run_id="r", resume=True) == 2


def test_waiting_for_others_takes_no_longer_than_the_timeout(engine: hf.Engine) -> None:
    @step
    async def endless() -> None:
        await asyncio.Event().wait()

    @workflow
    async def long() -> None:
        await endless()

    async def main() -> None:
        await engine.start(long(), run_id="r")
        with pytest.raises(hf.RunActiveError):
            await engine.run(long(), run_id="r", resume=True, timeout=0.05)
        await engine.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("place", "again"),
    [({"from_step": "b"}, "bc"), ({"after_step": "b"}, "c"), ({"replay": True}, "c")],
)
def test_a_workflow_is_resumed_at_a_named_step(
    engine: hf.Engine, place: dict[str, Any], again: str
) -> None:
    done: list[str] = []

    @workflow("three")
    async def named() -> str:
        return "".join([await step(name).python(note_of, args=(name,)) for name in "abc"])

    def note_of(name: str) -> str:
        done.append(name)
        return name

    assert engine.run_sync(named(), run_id="r") == "abc"
    done.clear()
    assert engine.resume_sync("r", **place) == "abc"
    assert done == [*again]
    with pytest.raises(hf.CheckpointNotFoundError, match="of step 'x'"):
        engine.resume_sync("r", from_step="x")
    with pytest.raises(ValueError, match="at most one of"):
        engine.resume_sync("r", from_step="a", after_step="b")
    with pytest.raises(ValueError, match="no state to override"):
        engine.resume_sync("r", from_step="a", override={})


def test_questions_of_one_run_and_of_all(engine: hf.Engine) -> None:
    for n in range(120):
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(asking(), run_id=f"r{n}")
    assert len(list(engine.questions_sync())) == 120
    assert [q.prompt for q in engine.questions_sync("r7")] == ["May I?"]
    assert list(engine.questions_sync("r7", overdue=True)) == []


def test_events_of_a_stream_come_as_the_run_goes_on(engine: hf.Engine) -> None:
    seen = [type(event) for event in engine.stream_sync(doubled(1))]
    assert seen[0] is RunStarted
    assert StepStarted in seen
    assert seen[-1] is RunCompleted


def test_a_dropped_stream_does_not_keep_a_closed_engine_open(tmp_path: Path) -> None:
    engine = hf.Engine(tmp_path / "runs.db")

    async def main() -> None:
        stream = engine.stream(doubled(1), run_id="r")
        await anext(stream)
        await engine.close()
        del stream

    asyncio.run(main())
    gc.collect()
    with pytest.raises(hf.StoreClosedError):
        engine.checkpointer.store.read("r")


@pytest.mark.parametrize(
    "shown",
    [step, ask, approve, Graph.add_node, Graph.add_question, Pipeline.from_dict, Pipeline.resume],
)
def test_help_shows_the_options_of_everything_that_takes_some(shown: Callable[..., Any]) -> None:
    parameters = inspect.signature(shown).parameters.values()
    assert len(parameters) > 5
    assert not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
