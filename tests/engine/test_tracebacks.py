"""The tracebacks that users see: their own frames, and few of the engine's."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine import tracebacks
from holdfast.engine.run.record import Recorder
from holdfast.graph import END, Graph
from holdfast.pipeline import Pipeline
from holdfast.workflow import ask, step, workflow

OURS = str(Path(hf.__file__).parent)


def helper() -> None:
    raise ValueError("no luck")


def fails(*_: Any) -> None:
    helper()


@workflow
def failing() -> Any:
    yield step("bad").python(fails)


@workflow
def wrong() -> Any:
    yield step("good").python(lambda: 1)
    helper()


@workflow
def asking() -> Any:
    yield ask("Well?")


def shown(error: BaseException | None) -> list[str]:
    """The functions in an error's traceback; those of holdfast with their module before them."""
    assert error is not None
    return [
        f"holdfast:{frame.name}" if frame.filename.startswith(OURS) else frame.name
        for frame in traceback.extract_tb(error.__traceback__)
    ]


def engine_calls(error: BaseException) -> int:
    return sum(name.startswith("holdfast:") for name in shown(error))


def run(flow: Any) -> hf.HoldfastError | ValueError:
    with hf.Engine("memory://") as engine:
        try:
            engine.run_sync(flow(), run_id="r")
        except (hf.HoldfastError, ValueError) as error:
            return error
    raise AssertionError("it did not fail")


def test_a_failed_step_shows_the_call_the_flow_and_the_step() -> None:
    error = run(failing)
    assert shown(error) == ["run", "failing"]
    assert shown(error.__cause__) == ["fails", "helper"]
    assert "direct cause" in "".join(traceback.format_exception(error))


def test_an_error_of_the_flow_itself_shows_where_the_flow_raised_it() -> None:
    assert shown(run(wrong)) == ["run", "wrong", "helper"]


def test_a_paused_run_shows_only_the_call() -> None:
    error = run(asking)
    assert isinstance(error, hf.RunPausedError)
    assert shown(error) == ["run"]


def test_async_calls_and_events_show_few_frames_of_the_engine() -> None:
    async def main() -> None:
        async with hf.Engine("memory://") as engine:
            with pytest.raises(hf.StepFailedError) as awaited:
                await engine.run(failing(), run_id="a")
            assert engine_calls(awaited.value) <= 2
            assert shown(awaited.value)[-1] == "failing"
            with pytest.raises(hf.StepFailedError) as streamed:
                async for _ in engine.stream(failing(), run_id="b"):
                    pass
            assert engine_calls(streamed.value) == 0
            assert shown(streamed.value.__cause__) == ["fails", "helper"]

    asyncio.run(main())


def test_graphs_and_pipelines_show_no_frames_of_the_engine() -> None:
    app = Graph(dict).add_node("bad", fails).add_edge("bad", END).set_entry("bad").compile()
    pipeline = Pipeline(
        steps=[{"id": "bad", "function": fails}],
        flow={"start_at": "bad", "paths": [{"from": "bad", "to": "end"}]},
    )
    for call in (lambda: app.run_sync({}), lambda: pipeline.run_sync({})):
        with pytest.raises(hf.StepFailedError) as caught:
            call()
        assert engine_calls(caught.value) == 0
        assert shown(caught.value.__cause__) == ["fails", "helper"]


def interrupted_here() -> None:
    signal.raise_signal(signal.SIGINT)


async def interrupted_soon() -> None:
    """Ctrl-C while the event loop waits."""
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    await asyncio.sleep(20)


def test_ctrl_c_shows_the_call_and_where_it_struck_in_the_users_code() -> None:
    @workflow
    async def flow(striking: str) -> None:
        await step("work").python({"here": interrupted_here, "soon": interrupted_soon}[striking])

    with hf.Engine("memory://") as engine:
        with pytest.raises(KeyboardInterrupt) as caught:
            engine.run_sync(flow("here"))
        assert engine_calls(caught.value) == 0
        assert shown(caught.value)[-1] == "interrupted_here"
        with pytest.raises(KeyboardInterrupt) as caught:
            engine.run_sync(flow("soon"))
        assert len(shown(caught.value)) == 1, "nothing but the call"


class Unknown:
    pass


def returns_what_can_not_be_stored() -> Any:
    return Unknown()


@step
async def nothing() -> None:
    pass


def forgets() -> None:
    nothing()


@workflow
async def forgetful() -> None:
    nothing()


@pytest.mark.parametrize(
    ("fn", "line"),
    [
        (returns_what_can_not_be_stored, "def returns_what_can_not_be_stored() -> Any:"),
        (partial(returns_what_can_not_be_stored), "def returns_what_can_not_be_stored() -> Any:"),
        (forgets, "nothing()"),
    ],
)
def test_a_recorded_failure_quotes_the_users_line_and_none_of_holdfast(fn: Any, line: str) -> None:
    @workflow
    def flow() -> Any:
        yield step("bad").python(fn)

    with hf.Engine("memory://") as engine, pytest.raises(hf.StepFailedError) as failed:
        engine.run_sync(flow(), run_id="r")
    first, place, quoted, *_ = failed.value.trace.splitlines()
    assert (first, quoted.strip()) == ("Traceback (most recent call last):", line)
    assert __file__ in place
    assert OURS not in failed.value.trace


def test_a_flow_that_forgot_to_await_is_quoted_where_it_did() -> None:
    with hf.Engine("memory://") as engine:
        with pytest.raises(hf.StepNotAwaitedError) as failed:
            engine.run_sync(forgetful(), run_id="r")
        (recorded,) = (e for e in engine.checkpointer.core.journals.trail("r") if e.kind == "fail")
        trace = engine.checkpointer.core.journals.value("r", recorded.seq)["trace"]
    assert trace.splitlines()[2].strip() == "nothing()"
    assert OURS not in trace
    assert pickle.loads(pickle.dumps(failed.value)).made_at == failed.value.made_at


def test_the_environment_asks_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TRACEBACK", "full")
    assert engine_calls(run(failing)) > 5


def test_a_mistake_of_holdfast_keeps_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"__name__": "holdfast.engine.run.record"}
    monkeypatch.setattr(Recorder, "note", eval("lambda *_, **__: {}['a mistake']", ours))
    with hf.Engine("memory://") as engine, pytest.raises(KeyError) as caught:
        engine.run_sync(wrong(), run_id="r")
    assert engine_calls(caught.value) > 3


@step
def one() -> int:
    return 1


@workflow
async def adding() -> Any:
    return one() + 1  # type: ignore[operator]


@workflow
async def gathering() -> Any:
    return await asyncio.gather(one())


@pytest.mark.parametrize("flow", [adding, gathering], ids=["adding", "gathering"])
def test_a_mistake_in_a_workflow_shows_the_line_and_one_frame_of_holdfast(flow: Any) -> None:
    with hf.Engine("memory://") as engine, pytest.raises((TypeError, RuntimeError)) as caught:
        engine.run_sync(flow())
    assert engine_calls(caught.value) == 1
    assert flow.name in shown(caught.value)


def test_a_mistake_in_a_call_shows_the_call_and_one_frame_of_holdfast() -> None:
    with hf.Engine("memory://") as engine, pytest.raises(TypeError, match="is a flow") as caught:
        engine.run_sync(adding)  # type: ignore[arg-type]
    assert len(shown(caught.value)) == 2


def test_notes_causes_and_contexts_stay() -> None:
    first, second, third = ValueError("first"), KeyError("second"), OSError("third")
    second.__context__, third.__cause__ = first, second
    third.add_note("a note")
    tracebacks.fold(third)
    assert third.__cause__ is second
    assert second.__context__ is first
    assert third.__notes__ == ["a note"]
    first.__context__ = third  # even in a circle
    tracebacks.fold(third)


def test_folding_makes_no_reference_cycles() -> None:
    async def main() -> weakref.ref[BaseException]:
        async with hf.Engine("memory://") as engine:
            with contextlib.suppress(hf.RunPausedError):
                await engine.run(asking(), run_id="r")
            try:
                await engine.run(asking(), run_id="r", resume=True)
            except hf.RunPausedError as error:
                return weakref.ref(error)
        raise AssertionError

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(main())() is None
    finally:
        gc.enable()


def test_what_python_prints_is_short(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "import holdfast as hf\nfrom holdfast.workflow import step, workflow\n\n\n"
        "def divide():\n    return 1 / 0\n\n\n"
        "@workflow\ndef flow():\n    yield step('divide').python(divide)\n\n\n"
        "hf.Engine('memory://').run_sync(flow(), run_id='r')\n"
    )
    env = {**os.environ, "HOLDFAST_TRACEBACK": ""}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 1
    assert OURS not in done.stderr
    assert done.stderr.count("\n") < 20
    assert "return 1 / 0" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("holdfast.errors.StepFailedError: step 'divide'")
