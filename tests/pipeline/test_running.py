"""What runs, what it is given, and what a run comes to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine import events as ev
from holdfast.model import Entry
from holdfast.pipeline import Pipeline, PipelineResult, Registry, ServiceRegistry, Step
from holdfast.store import ANY_HEAD, Behind
from holdfast.stores.memory import MemoryStore
from tests.pipeline.flows import Calls, follow, line, one, path, run, when


class Upper(Step):
    async def run(self, data: Any) -> Any:
        return {"text": data["text"].upper()}


def count(data: Any) -> Any:
    return {"n": len(data["text"])}


def test_a_step_is_given_what_the_one_before_it_returned_and_the_first_the_input() -> None:
    calls = Calls()
    result = run(calls.line("a", "b", "c").run({"x": 1}))
    assert calls.given == {"a": {"x": 1}, "b": {"by": "a", "call": 1}, "c": {"by": "b", "call": 1}}
    assert list(result) == ["a", "b", "c"]
    assert result.output == result["c"]


def test_steps_are_classes_or_functions_sync_or_async() -> None:
    pipeline = Pipeline(
        [Upper("upper"), {"id": "count", "function": count}], line("upper", "count")
    )
    result = run(pipeline.run({"text": "hello"}))
    assert result == {"upper": {"text": "HELLO"}, "count": {"n": 5}}
    assert (result.status, result.question, result.output) == ("completed", None, {"n": 5})
    assert isinstance(result, dict)
    assert json.loads(json.dumps(result)) == result
    assert "completed" in repr(result)


def test_without_an_event_loop_a_pipeline_runs_all_the_same() -> None:
    with hf.SyncCheckpointer("memory://") as cp:
        pipeline = Pipeline([Upper("upper")], line("upper"), checkpointer=cp)
        assert pipeline.run_sync({"text": "a"}, "t") == {"upper": {"text": "A"}}
        with pytest.raises(hf.RunFinishedError):
            pipeline.resume_sync("t")


def test_a_state_is_the_input_and_the_outputs(cp: hf.SyncCheckpointer) -> None:
    result = run(Calls().line("a", "b", checkpointer=cp).run({"x": 1}, "t"))
    states = [cp.load(result.run_id, step=name) for name in "ab"]
    assert [s.state for s in states if s] == [
        {"pipeline_input": {"x": 1}, "steps": {"a": {"by": "a", "call": 1}}},
        {"pipeline_input": {"x": 1}, "steps": dict(result)},
    ]
    first = states[0]
    assert first is not None
    assert (first.flow, first.thread_id, first.step_index) == ("pipeline", "t", 0)
    assert first.next_steps == ("b",)


def test_what_a_step_changes_of_its_data_is_its_own_business() -> None:
    def spoil(data: Any) -> Any:
        data["text"] = "spoiled"
        return {}

    pipeline = Pipeline(
        [Upper("upper"), {"id": "spoil", "function": spoil}, {"id": "count", "function": count,
          "inputs": "{{ steps.upper.output }}"}],
        line("upper", "spoil", "count"),
    )  # fmt: skip
    assert run(pipeline.run({"text": "hello"}))["count"] == {"n": 5}


def test_a_step_finds_its_config_and_the_services() -> None:
    class Greet(Step):
        def run(self, data: Any) -> Any:
            assert self.services.has("words")
            assert "words" in self.services
            assert self.services.get("nothing", 3) == 3
            with pytest.raises(KeyError, match="did you mean 'words'"):
                self.services["word"]
            return self.services["words"][self.config["language"]]

    greet = Greet("greet", {"language": "de"})
    words = ServiceRegistry()
    words.register("words", {"de": "Moin"})
    assert run(Pipeline([greet], line("greet"), words).run())["greet"] == "Moin"
    other = Greet("greet", {"language": "de"})
    given = {"words": {"de": "Servus"}}
    assert run(Pipeline([other], line("greet"), given).run())["greet"] == "Servus"
    with pytest.raises(hf.InvalidFlowError, match="other services"):
        Pipeline([other], line("greet"), words)


def test_a_step_without_run_says_so() -> None:
    with pytest.raises(hf.StepFailedError, match="must define run"):
        run(Pipeline([Step("a")], line("a")).run())


def test_steps_may_be_functions_by_registered_names() -> None:
    registry = Registry()
    registry(count)
    assert list(registry) == ["count"]
    pipeline = Pipeline([{"id": "c", "function": "count"}], line("c"), registry=registry)
    assert run(pipeline.run({"text": "ab"})) == {"c": {"n": 2}}
    with pytest.raises(ValueError, match="there is another 'count'"):
        registry.register("count", len)
    with pytest.raises(TypeError, match="must be a function"):
        registry.register("x", 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a name must be text"):
        registry.register(3, len)  # type: ignore[arg-type]


def test_only_what_belongs_to_an_allowed_module_can_be_imported() -> None:
    registry = Registry(imports=["tests.pipeline"])
    assert registry.function("tests.pipeline.flows.run") is run
    assert registry.function("tests.pipeline.flows:run") is run
    for path_, words in [
        ("tests.pipeline.flows:asyncio", "not a function or class"),
        ("tests.pipeline.flows:Counter", "not a function or class"),  # of collections
        ("tests.pipeline.flows:nothing", "can't be imported"),
        ("tests.pipeline.nowhere:x", "can't be imported"),
        ("tests.pipelines:x", "may not be imported"),
        ("os:system", "may not be imported"),
        ("tests.pipeline.flows:__name__", "nothing is registered"),
        ("tests.pipeline.flows.run.__globals__", "nothing is registered"),
    ]:
        with pytest.raises(ValueError, match=words):
            registry.function(path_)
    with pytest.raises(ValueError, match="must be a function or the name"):
        registry.function(3)
    with pytest.raises(TypeError, match="list of prefixes"):
        Registry(imports="os")
    with pytest.raises(ValueError, match="not the name of a package"):
        Registry(imports=["a b"])


def test_the_first_path_whose_condition_holds_is_taken() -> None:
    calls = Calls()
    steps = [calls.step(name) for name in "abc"]
    paths = [
        path("a", "b", when("pipeline_input.n", ">", 3)),
        path("a", "c", when("pipeline_input.n", ">", 1)),
        path("a", "end"),
        path("b", "end"),
        path("c", "end"),
    ]
    pipeline = Pipeline(steps, {"start_at": "a", "paths": paths})
    for n, last in [(5, "b"), (2, "c"), (0, "a")]:
        assert list(run(pipeline.run({"n": n})))[-1] == last


def test_an_end_with_failure_is_a_result_and_not_an_error(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    paths = [
        path("a", "end_with_failure", when("pipeline_input", "equals", "bad")),
        path("a", "end"),
    ]
    flow = {"start_at": "a", "paths": paths}
    pipeline = Pipeline([calls.step("a")], flow, checkpointer=cp)
    result = run(pipeline.run("bad", "t"))
    assert (result.status, result.output) == ("failed", {"by": "a", "call": 1})
    assert [info.status for info in cp.runs()] == ["failed"]
    again = run(pipeline.resume("t"))
    assert again == result
    assert again.status == "failed"
    assert calls["a"] == 1
    assert run(pipeline.run("good", "t")).status == "completed"


def test_no_matching_path_is_an_error_and_the_step_is_kept(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    steps = [calls.step("a"), calls.step("b")]

    def pipeline(limit: int) -> Pipeline:
        paths = [path("a", "b", when("a.call", "greater_than", limit)), path("b", "end")]
        return Pipeline(steps, {"start_at": "a", "paths": paths}, checkpointer=cp)

    with pytest.raises(
        hf.NoPathError, match=r"no path from 'a': none of these conditions is true: a\.call"
    ):
        run(pipeline(5).run(1, "t"))
    with pytest.raises(hf.NoPathError):
        run(pipeline(5).resume("t"))
    result = run(pipeline(0).resume("t"))
    assert list(result) == ["a", "b"]
    assert calls == {"a": 1, "b": 1}


def test_what_was_decided_at_a_resume_is_not_decided_again(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    said: list[bool] = []

    def is_ready(state: Any) -> bool:
        return said.pop()

    condition = {"type": "function", "config": {"function": is_ready}}
    for fork in ([], [path("a", ["b", "x"]), path("x", "end")]):
        calls.clear()
        said[:] = [False, False]
        paths = [path("a", "b"), *fork, path("b", "c", condition), path("c", "end")]
        steps = [calls.step(name) for name in ("abcx" if fork else "abc")]
        flow = {"start_at": "a", "paths": paths[1:] if fork else paths}
        pipeline = Pipeline(steps, flow, checkpointer=cp)
        with pytest.raises(hf.NoPathError):
            run(pipeline.run(1, "t"))
        said[:] = [True]

        async def dropped(pipeline: Pipeline = pipeline) -> None:
            async with pipeline.resume_stream("t") as events:
                async for event in events:
                    if isinstance(event, ev.StepStarted) and event.name == "c":
                        return

        run(dropped())
        assert said == []
        assert run(pipeline.resume("t")).status == "completed"
        assert (calls["a"], calls["b"]) == (1, 1)


class Colour(Enum):
    RED = "red"


def test_conditions_see_what_a_resume_would_see() -> None:
    paths = [path("a", "end", when("a", "equals", "red")), path("a", "end_with_failure")]
    flow = {"start_at": "a", "paths": paths}
    pipeline = Pipeline([{"id": "a", "function": lambda data: Colour.RED}], flow)
    result = run(pipeline.run())
    assert (result["a"], result.status) == ("red", "completed")


def test_events_show_each_step_and_its_output() -> None:
    events = run(follow(Calls().line("a", "b").stream({"x": 1})))
    done = [(e.name, e.value) for e in events if isinstance(e, ev.StepCompleted)]
    assert done == [("a", {"by": "a", "call": 1}), ("b", {"by": "b", "call": 1})]
    assert isinstance(events[0], ev.RunStarted)
    assert isinstance(events[-1], ev.RunCompleted)


def test_a_stream_ends_with_the_failure_of_its_run() -> None:
    calls = Calls()
    calls.failing = {"b"}
    with pytest.raises(hf.StepFailedError, match="b is broken") as caught:
        run(follow(calls.line("a", "b").stream({"x": 1})))
    assert caught.value.state == {
        "pipeline_input": {"x": 1}, "steps": {"a": {"by": "a", "call": 1}},
    }  # fmt: skip


def test_without_a_checkpointer_nothing_is_kept_and_nothing_can_be_resumed() -> None:
    pipeline = Calls().line("a")
    assert run(pipeline.run(1)).status == "completed"
    assert run(pipeline.run(1, "t")).status == "completed"
    with pytest.raises(ValueError, match="give it checkpointer="):
        run(pipeline.resume("t"))


def test_what_can_not_be_stored_fails_its_step() -> None:
    pipeline = one(lambda data: {"x": object()}, checkpointer="memory://")
    with pytest.raises(hf.StepFailedError) as caught:
        run(pipeline.run(1))
    assert "SerializeError" in caught.value.error_type


def test_a_run_may_take_only_so_long_and_resumes_later(cp: hf.SyncCheckpointer) -> None:
    async def forever(data: Any) -> Any:
        if data == 1:
            await asyncio.sleep(3600)

    steps = [{"id": "a", "function": lambda data: data}, {"id": "b", "function": forever}]
    pipeline = Pipeline(steps, line("a", "b"), checkpointer=cp)
    with pytest.raises(hf.RunTimeoutError):
        run(pipeline.run(1, "t", timeout=0.05))
    assert [info.status for info in cp.runs()] == ["paused"]


def test_steps_run_on_the_executor_they_are_given() -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as executor:

        class Where(Step):
            def run(self, data: Any) -> Any:
                import threading

                return threading.current_thread().name

        assert run(Pipeline([Where("a", run_on=executor)], line("a")).run())["a"].startswith("mine")


def test_many_runs_at_once_share_a_pipeline_and_nothing_else(cp: hf.SyncCheckpointer) -> None:
    async def echo(data: Any) -> Any:
        await asyncio.sleep(0)
        return data

    steps = [{"id": name, "function": echo} for name in "abcd"]
    paths = [path("a", ["b", "c"]), path("b", "d"), path("c", "d"), path("d", "end")]
    pipeline = Pipeline(steps, {"start_at": "a", "paths": paths}, checkpointer=cp)

    async def all_of_them() -> list[PipelineResult]:
        return await asyncio.gather(*(pipeline.run(n, f"t{n}") for n in range(100)))

    for n, result in enumerate(run(all_of_them())):
        assert result == {"a": n, "b": n, "c": n, "d": {"b": n, "c": n}}


def test_a_pipeline_is_drawn_with_its_conditions() -> None:
    calls = Calls()
    paths = [
        path("a", ["b", "c"], when("a.call", ">", 1)), path("a", "end_with_failure"),
        path("b", "end"), path("c", "end"),
    ]  # fmt: skip
    pipeline = Pipeline([calls.step(name) for name in "abc"], {"start_at": "a", "paths": paths})
    assert pipeline.mermaid() == (
        "flowchart TD\n"
        '    start(["start"])\n'
        '    n0["a"]\n    n1["b"]\n    n2["c"]\n'
        '    n3(["end"])\n    n4(["end_with_failure"])\n'
        "    start --> n0\n"
        '    n0 -.->|"a.call #62; 1"| n1\n'
        '    n0 -.->|"a.call #62; 1"| n2\n'
        "    n0 -.-> n4\n"
        "    n1 --> n3\n    n2 --> n3\n"
    )
    bundle = pipeline._repr_mimebundle_()
    assert bundle["text/vnd.mermaid"] == pipeline.mermaid()
    assert bundle["text/plain"] == "<pipeline 'pipeline' version 1: a, b, c>"
    assert list(pipeline.steps) == ["a", "b", "c"]


def test_a_resume_runs_a_step_again_whose_file_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cp: hf.SyncCheckpointer
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = Calls()

    def write(data: Any) -> Any:
        calls["write"] += 1
        Path("report.txt").write_text("kelp")
        return "report.txt"

    step = {"id": "write", "function": write, "outputs": ["report.txt"]}
    calls.failing = {"send"}
    pipeline = Pipeline([step, calls.step("send")], line("write", "send"), checkpointer=cp)
    with pytest.raises(hf.StepFailedError):
        run(pipeline.run(1, "t"))
    calls.failing = set()
    Path("report.txt").unlink()
    assert run(pipeline.resume("t")).status == "completed"
    assert calls == {"write": 2, "send": 2}
    Path("report.txt").unlink()
    with pytest.raises(hf.RunFinishedError):
        run(pipeline.resume("t", trust="skip"))
    assert run(pipeline.resume("t"))["write"] == "report.txt"


def test_a_branch_whose_file_is_gone_is_run_again_and_joined_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cp: hf.SyncCheckpointer
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = Calls()
    calls.failing = {"d"}

    def write(data: Any) -> Any:
        calls["b"] += 1
        Path("b.txt").write_text("kelp")
        return calls["b"]

    steps = [
        calls.step("a"),
        {"id": "b", "function": write, "outputs": "b.txt"},
        calls.step("c"),
        calls.step("d"),
    ]
    paths = [path("a", ["b", "c"]), path("b", "d"), path("c", "d"), path("d", "end")]
    pipeline = Pipeline(steps, {"start_at": "a", "paths": paths}, checkpointer=cp)
    with pytest.raises(hf.StepFailedError):
        run(pipeline.run(1, "t"))
    calls.failing = set()
    Path("b.txt").unlink()
    result = run(pipeline.resume("t"))
    assert (calls["a"], calls["b"], calls["d"]) == (1, 2, 2)
    assert calls.given["d"] == {"b": 2, "c": result["c"]}


def test_orphaned_runs_are_resumed(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    pipeline = calls.line("a", "b", checkpointer=cp)
    assert run(pipeline.recover()) == {}
    run(pipeline.run(1, "t"))
    assert run(pipeline.recover()) == {}
    assert calls == {"a": 1, "b": 1}


def test_a_result_says_whether_the_end_of_its_run_is_saved() -> None:
    class Unreliable(MemoryStore):
        inline = False
        down = False

        def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
            if self.down:
                raise hf.StoreUnavailableError("the store is down")
            return super().append(entries, behind)

    store = Unreliable()
    with hf.SyncCheckpointer(store, deadline=0.05, on_save_failure="warn") as cp:
        pipeline = Pipeline(
            steps=[{"id": "last", "function": lambda down: setattr(store, "down", down)}],
            flow={"start_at": "last", "paths": [{"from": "last", "to": "end"}]},
            checkpointer=cp,
        )
        assert pipeline.run_sync(False, "fine").saved
        with pytest.warns(hf.UnsavedWarning):
            assert not pipeline.run_sync(True, "lost").saved
        store.down = False
