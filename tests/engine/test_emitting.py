"""Partial output of a step: `current_step().emit`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

import holdfast as hf
from holdfast.codec import readable
from holdfast.documents.workflow_results import result_of
from holdfast.events import Event, StepCompleted, StepOutput, StepStarted
from holdfast.graph import END, Graph
from holdfast.workflow import parallel, step, workflow
from tests.waiting import join

TOKENS = ["to", "be", "or", "not"]


def say(*_: Any) -> dict[str, str]:
    for token in TOKENS:
        hf.current_step().emit(token)
    return {"text": " ".join(TOKENS)}


async def say_async(*_: Any) -> dict[str, str]:
    for token in TOKENS:
        hf.current_step().emit(token)
        await asyncio.sleep(0)
    return {}


def say_in_a_loop_of_its_own() -> None:
    asyncio.run(say_async())


def say_in_another_thread() -> None:
    here = hf.current_step()

    def talk() -> None:
        for token in TOKENS:
            here.emit(token)

    thread = threading.Thread(target=talk)
    thread.start()
    join(thread)


def remember() -> str:
    hf.current_step().emit("unheard")
    try:
        hf.current_step().emit(1, record=True)
    except RuntimeError as error:
        return str(error)
    return ""


async def events_of(flow: Any, store: str = "memory://") -> list[Event]:
    async with hf.Engine(store) as engine:
        return [event async for event in engine.stream(flow(), run_id="r")]


def outputs(events: list[Event]) -> list[Any]:
    return [event.value for event in events if isinstance(event, StepOutput)]


@pytest.mark.parametrize(
    ("work", "inline"),
    [
        (say, False),
        (say, True),
        (say_async, False),
        (say_async, True),
        (say_in_another_thread, False),
        (say_in_another_thread, True),
        (say_in_a_loop_of_its_own, False),
    ],
)
def test_whoever_follows_the_run_gets_what_a_step_emits(
    work: Callable[[], Any], inline: bool
) -> None:
    @workflow
    def flow() -> Any:
        made = step("say").python(work)
        yield made.inline() if inline else made

    events = asyncio.run(events_of(flow))
    assert outputs(events) == TOKENS
    kinds = [type(event) for event in events]
    first, last = kinds.index(StepOutput), len(kinds) - 1 - kinds[::-1].index(StepOutput)
    assert kinds.index(StepStarted) < first
    assert last < kinds.index(StepCompleted)
    assert events[first] == StepOutput("r", "say", "say", "to")


def test_what_a_child_run_emits_reaches_whoever_follows_the_parent() -> None:
    @workflow
    def inner() -> Any:
        yield parallel(step("a").python(say), step("b").python(say_async))

    @workflow
    def outer() -> Any:
        yield step("part").subworkflow(inner)

    events = asyncio.run(events_of(outer))
    heard = [event for event in events if isinstance(event, StepOutput)]
    assert {event.run_id for event in heard} == {"r//part"}
    for name in ("a", "b"):
        assert [event.value for event in heard if event.name == name] == TOKENS


def test_graphs_emit_too() -> None:
    app = Graph(dict).add_node("say", say).add_edge("say", END).set_entry("say").compile()

    async def main() -> list[Event]:
        return [event async for event in app.stream({}, store="memory://", run_id="g")]

    assert outputs(asyncio.run(main())) == TOKENS


def test_nobody_needs_to_listen() -> None:
    @workflow
    def flow() -> Any:
        return (yield step("say").python(say))

    with hf.Engine("memory://") as engine:
        assert engine.run_sync(flow(), run_id="r") == {"text": "to be or not"}
        kinds = [moment.kind for moment in timeline(engine)]
    assert kinds == ["open", "result", "complete"]


def test_a_slow_consumer_loses_nothing_and_holds_nobody_up() -> None:
    said = threading.Event()

    def talk() -> None:
        for number in range(1000):
            hf.current_step().emit(number)
        said.set()

    @workflow
    def flow() -> Any:
        yield step("talk").python(talk)

    async def main() -> list[Any]:
        heard = []
        async with hf.Engine("memory://") as engine:
            async for event in engine.stream(flow(), run_id="r"):
                if isinstance(event, StepOutput):
                    await asyncio.to_thread(said.wait)  # the step is done before we look on
                    heard.append(event.value)
        return heard

    assert asyncio.run(main()) == list(range(1000))


def test_the_follower_gets_the_value_as_it_was() -> None:
    def grow() -> None:
        words: list[str] = []
        for token in TOKENS:
            words.append(token)
            hf.current_step().emit(words)
        hf.current_step().emit(threading.Lock())  # can't be copied, nor stored

    @workflow
    def flow() -> Any:
        yield step("grow").python(grow)

    events = asyncio.run(events_of(flow))
    *grown, lock = outputs(events)
    assert [len(words) for words in grown] == [1, 2, 3, 4]
    shown = next(e for e in reversed(events) if isinstance(e, StepOutput)).to_dict()
    assert shown["value"] == repr(lock)


def timeline(engine: hf.Engine, run_id: str = "r") -> list[Any]:
    with hf.SyncCheckpointer(engine.checkpointer.store) as cp:
        return list(cp.timeline(run_id))


def recorded(engine: hf.Engine) -> list[tuple[str, Any]]:
    return [
        (moment.step, readable.loads(moment.note))
        for moment in timeline(engine)
        if moment.kind == "output"
    ]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_recorded_output_is_in_the_timeline_and_changes_nothing_else(
    tmp_path: Any, durability: Any
) -> None:
    calls: list[str] = []
    broken = True

    def work(name: str) -> str:
        calls.append(name)
        hf.current_step().emit({"part": name, "bytes": b"\0"}, record=True)
        if broken and name == "b":
            raise ValueError("no luck")
        return name

    @workflow
    def flow() -> Any:
        a = yield step("a").python(work, args=("a",))
        return a + (yield step("b").python(work, args=("b",)).retry(2, backoff=0))

    cp = hf.Checkpointer(tmp_path / "runs.db", durability=durability)
    with hf.Engine(cp) as engine:
        with pytest.raises(hf.StepFailedError):
            engine.run_sync(flow(), run_id="r")
        broken = False
        assert engine.run_sync(flow(), run_id="r", resume=True) == "ab"
        assert calls == ["a", "b", "b", "b"]
        assert recorded(engine) == [
            (name, {"part": name, "bytes": "<bytes 00>"}) for name in ("a", "b", "b", "b")
        ]
        assert [one.name for one in result_of(engine.checkpointer.core, "r").steps] == ["a", "b"]
        with hf.SyncCheckpointer(cp.store) as reader:
            loaded = reader.load("r")
            assert loaded is not None
            assert loaded.state == {"a": "a", "b": "b"}
            assert len(list(reader.list_checkpoints("r"))) == 2
            assert reader.verify("r").ok
            reader.fork("r", run_id="copy")
        assert engine.run_sync(flow(), run_id="copy", resume=True) == "ab"
        assert calls == ["a", "b", "b", "b"]
    asyncio.run(cp.close())


def test_output_that_cannot_be_stored_fails_the_step_that_records_it() -> None:
    @workflow
    def flow() -> Any:
        yield step("bad").python(lambda: hf.current_step().emit(object(), record=True))

    with (
        hf.Engine("memory://") as engine,
        pytest.raises(hf.StepFailedError, match="output of bad") as caught,
    ):
        engine.run_sync(flow(), run_id="r")
    assert isinstance(caught.value.__cause__, hf.SerializeError)


def test_in_another_process_nobody_hears_and_nothing_is_recorded() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as pool:

        @workflow
        def flow() -> Any:
            return (yield step("far").python(remember).run_on(pool))

        events = asyncio.run(events_of(flow))
    assert outputs(events) == []
    (done,) = (event.value for event in events if isinstance(event, StepCompleted))
    assert "run the step in a thread" in done
