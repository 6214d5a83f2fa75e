"""The events of a run, stopping to listen to them, and what others may ask of a run."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.context import current_step
from holdfast.engine.events import (
    CheckpointSaved,
    Event,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunStarted,
    StepCompleted,
    StepProgress,
    StepStarted,
)
from holdfast.graph import END, CompiledGraph, Graph, Retry
from tests.graph.flows import Calls, State, run, told
from tests.graph.test_forks import forked
from tests.holders import as_another_process


async def collect(stream: Any) -> list[Event]:
    return [event async for event in stream]


async def read_into(events: list[Event], stream: Any) -> None:
    async for event in stream:
        events.append(event)


def open_files() -> int:
    handles = Path("/proc/self/fd")
    return len(list(handles.iterdir())) if handles.exists() else 0


def test_a_stream_tells_everything_in_order(cp: hf.SyncCheckpointer) -> None:
    events = run(collect(Calls().line("ab").compile().stream(State(), store=cp, run_id="run")))
    assert told(events) == [
        "RunStarted",
        "StepStarted a",
        "StepCompleted a",
        "CheckpointSaved",
        "StepStarted b",
        "StepCompleted b",
        "CheckpointSaved",
        "RunCompleted",
    ]
    assert {event.run_id for event in events} == {"run"}
    assert isinstance(events[0], RunStarted)
    assert not events[0].resumed
    assert isinstance(events[2], StepCompleted)
    assert events[2].value == State(1, ["a"])
    assert isinstance(events[-1], RunCompleted)
    assert events[-1].result == State(2, ["a", "b"])
    saved = [e.checkpoint_id for e in events if isinstance(e, CheckpointSaved)]
    assert saved == [i.checkpoint_id for i in cp.list_checkpoints("run", oldest_first=True)]


def test_without_a_store_there_is_no_word_of_checkpoints() -> None:
    events = run(collect(Calls().line("a").compile().stream(State())))
    assert told(events) == ["RunStarted", "StepStarted a", "StepCompleted a", "RunCompleted"]


def test_a_resumed_stream_says_what_is_spared(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    calls.failing.add("c")
    app = calls.line("abc").compile()

    async def fails() -> list[Event]:
        events: list[Event] = []
        stream = app.stream(State(), store=cp, run_id="run")
        with pytest.raises(hf.StepFailedError, match="c is broken"):
            await read_into(events, stream)
        return events

    events = run(fails())
    assert told(events)[-3:] == ["StepFailed c", "CheckpointSaved", "RunFailed"]
    assert isinstance(events[-1], RunFailed)
    assert (events[-1].step, events[-1].error.state) == ("c", State(2, ["a", "b"]))  # type: ignore[attr-defined]
    calls.failing.clear()
    events = run(collect(app.resume_stream("run", store=cp)))
    assert isinstance(events[0], RunStarted)
    assert (events[0].resumed, events[0].restored) == (True, 2)
    assert told(events, StepStarted) == ["StepStarted c"]
    events = run(collect(app.resume_stream("run", store=cp, from_node="b", override={"n": 5})))
    assert told(events, StepStarted) == ["StepStarted b", "StepStarted c"]
    with pytest.raises(hf.RunFinishedError):
        run(collect(app.resume_stream("run", store=cp)))


def test_branches_attempts_and_progress_are_reported(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()

    def flaky(state: State) -> State:
        current_step().progress(0.5, "half")
        calls["b"] += 1
        if calls["b"] == 1:
            raise OSError("again")
        return state

    graph = forked(calls, "ac cd d.").add_node("b", flaky, retry=Retry(2, backoff=0))
    app = graph.add_edge("a", "b").add_edge("b", "d").compile()
    events = run(collect(app.stream(State(), store=cp, run_id="run")))
    words = told(events)
    assert words.count("StepStarted b") == words.count("StepProgress b") == 2
    assert words.count("StepRetrying b") == words.count("StepCompleted b") == 1
    assert words.count("StepCompleted a>merge") == 1
    by_step = {e.step for e in events if isinstance(e, StepCompleted)}
    assert by_step == {"a", "a>b/b", "a>c/c", "a>merge", "d"}
    assert {e.fraction for e in events if isinstance(e, StepProgress)} == {0.5}


# --- no longer listening


@pytest.mark.parametrize("edges", ["ab bc c.", "ab ac bd cd d."])
@pytest.mark.parametrize("after", range(1, 9))
def test_a_stream_that_is_dropped_leaves_the_run_to_be_resumed(
    edges: str, after: int, kept_url: str
) -> None:
    calls = Calls()
    app = forked(calls, edges).compile()
    before = open_files()

    async def drop() -> None:
        count = 0
        async for _ in app.stream(State(), store=kept_url, run_id="run"):
            count += 1
            if count == after:
                break

    run(drop())
    gc.collect()
    assert open_files() <= before, "nothing is left open"
    final = run(app.resume("run", store=kept_url))
    assert "".join(final.log) == ("abc" if edges == "ab bc c." else "abcd")


def test_a_closed_stream_has_let_go_of_its_store(tmp_path: Path) -> None:
    app = Calls().line("abc").compile()

    async def main() -> State:
        stream = app.stream(State(), store=f"sqlite:///{tmp_path}/runs.db", run_id="run")
        async for event in stream:
            if isinstance(event, CheckpointSaved):
                break
        await stream.aclose()
        await stream.aclose()
        assert [event async for event in stream] == []
        (tmp_path / "runs.db").rename(tmp_path / "moved.db")  # nothing in it is open any more
        assert sorted(path.name for path in tmp_path.iterdir()) == ["moved.db"]
        return await app.resume("run", store=f"sqlite:///{tmp_path}/moved.db")

    assert run(main()).log == list("abc")


def test_a_stream_that_nobody_listened_to_ran_nothing(tmp_path: Path) -> None:
    calls = Calls()
    stream = calls.line("a").compile().stream(State(), store=tmp_path / "runs.db", run_id="run")
    del stream
    gc.collect()
    assert not calls


def test_the_time_a_listener_takes_is_not_the_runs(cp: hf.SyncCheckpointer) -> None:
    """Nor is the listener cancelled, in whose task the run goes on."""
    app = Calls().line("abc").compile()

    async def main() -> list[str]:
        words = []
        async for event in app.stream(State(), store=cp, run_id="run", timeout=0.3):
            words += told([event])
            if isinstance(event, StepStarted):
                await asyncio.sleep(0.2)
        return words

    with pytest.raises(hf.RunTimeoutError) as caught:
        run(main())
    assert isinstance(caught.value.state, State)
    assert caught.value.state.log == list("abc")[: caught.value.state.n]
    assert run(app.resume("run", store=cp)).log == list("abc")


# --- pause and cancel


def hanging(calls: Calls, name: str = "b") -> CompiledGraph[State]:
    """a, b, c, of which one does not end the first time."""

    async def hang(state: State) -> State:
        made = calls.node(name)(state)
        if calls[name] == 1:
            await asyncio.sleep(3600)
        return made

    graph = Graph(State)
    for node in "abc":
        graph.add_node(node, hang if node == name else calls.node(node))
    graph.add_edge("a", "b").add_edge("b", "c").add_edge("c", END)
    return graph.set_entry("a").compile()


async def reached(calls: Calls, name: str) -> None:
    while not calls[name]:
        await asyncio.sleep(0.001)


def test_a_run_is_cancelled_from_another_task(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = hanging(calls)

    async def main() -> None:
        task = asyncio.create_task(app.run(State(), store=cp, run_id="run"))
        await reached(calls, "b")
        await app.cancel("run", store=cp, reason="not needed")
        with pytest.raises(hf.RunCancelledError) as caught:
            await task
        assert caught.value.state == State(1, ["a"])
        with pytest.raises(hf.RunFinishedError, match="cancelled"):
            await app.resume("run", store=cp)
        with pytest.raises(hf.RunFinishedError):
            await app.cancel("run", store=cp)
        assert (await app.resume("run", store=cp, from_node="b")).log == list("abc")

    run(main())


def test_a_cancelled_stream_ends_with_that_word(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = hanging(calls)

    async def main() -> list[Event]:
        task = asyncio.create_task(collect(app.stream(State(), store=cp, run_id="run")))
        await reached(calls, "b")
        await app.cancel("run", store=cp)
        return await task

    assert isinstance(run(main())[-1], RunCancelled)


def test_whoever_listens_is_not_cancelled_with_the_run(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()

    async def quick(state: State) -> State:
        return calls.node("a")(state)

    graph = Graph(State).add_node("a", quick).add_edge("a", END)
    app = graph.set_entry("a").compile()

    async def main() -> list[str]:
        words = []
        async for event in app.stream(State(), store=cp, run_id="run"):
            words += told([event])
            if isinstance(event, StepStarted):
                cancelling = asyncio.create_task(app.cancel("run", store=cp))
                await asyncio.sleep(0.05)  # the listener's own business
                await cancelling
        return words

    assert run(main()) == ["RunStarted", "StepStarted a", "RunCancelled"]
    assert not calls


def test_a_run_is_paused_after_the_node_under_way(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    go_on = asyncio.Event()

    async def slow(state: State) -> State:
        made = calls.node("b")(state)
        await go_on.wait()
        return made

    graph = Graph(State).add_node("a", calls.node("a")).add_node("b", slow)
    graph.add_node("c", calls.node("c")).add_edge("a", "b").add_edge("b", "c").add_edge("c", END)
    app = graph.set_entry("a").compile()

    async def main() -> State:
        task = asyncio.create_task(app.run(State(), store=cp, run_id="run"))
        await reached(calls, "b")
        await app.pause("run", store=cp)
        go_on.set()
        with pytest.raises(hf.RunPausedError) as caught:
            await task
        assert caught.value.state == State(2, ["a", "b"])
        info = cp.run("run")
        assert info is not None
        assert info.status == "paused"
        return await app.resume("run", store=cp)

    assert run(main()).log == list("abc")
    assert set(calls.values()) == {1}


@pytest.mark.parametrize("action", ["pause", "cancel"])
@pytest.mark.parametrize("edges", ["ab bc c.", "ab ac bd cd d."])
def test_another_process_may_ask_and_no_finished_node_is_lost(
    action: str, edges: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    calls = Calls()
    app = forked(calls, edges).compile()

    async def main(elsewhere: hf.SyncCheckpointer) -> list[Event]:
        events: list[Event] = []
        async for event in app.stream(State(), store=url, run_id="run"):
            events.append(event)
            if isinstance(event, StepStarted) and event.name == "b":
                ask = app.pause if action == "pause" else app.cancel
                await ask("run", store=elsewhere)
        return events

    with hf.SyncCheckpointer(url) as elsewhere:
        as_another_process(elsewhere.core)
        events = run(main(elsewhere))
    ending = RunPaused if action == "pause" else RunCancelled
    assert isinstance(events[-1], ending)
    done = {e.name for e in events if isinstance(e, StepCompleted)}
    assert "b" in done
    if action == "pause":
        final = run(app.resume("run", store=url))
        assert "".join(final.log) == ("abc" if edges == "ab bc c." else "abcd")
    else:
        with pytest.raises(hf.RunFinishedError, match="cancelled"):
            run(app.resume("run", store=url))
    assert set(calls.values()) == {1}


def test_a_run_that_nobody_executes_is_cancelled_at_once(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    app = calls.line("abc").compile()

    async def main() -> None:
        async with app.stream(State(), store=cp, run_id="run") as events:
            async for event in events:
                if isinstance(event, CheckpointSaved):
                    break
        await app.cancel("run", store=cp)
        with pytest.raises(hf.RunFinishedError, match="cancelled"):
            await app.resume("run", store=cp)
        with pytest.raises(hf.CheckpointNotFoundError):
            await app.pause("nobody", store=cp)

    run(main())
    assert calls == {"a": 1}


@pytest.mark.parametrize("edges", ["ab bc c.", "ab ac bd cd d."])
def test_whoever_lost_a_run_to_another_stops(edges: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    calls = Calls()
    app = forked(calls, edges).compile()

    final: list[State] = []

    async def main(elsewhere: hf.SyncCheckpointer) -> None:
        async for event in app.stream(State(), store=url, run_id="run"):
            if isinstance(event, StepStarted) and event.name == "b" and not final:
                with pytest.raises(hf.RunActiveError):
                    await app.resume("run", store=elsewhere)
                final.append(await app.resume("run", store=elsewhere, take_over=True))

    with hf.SyncCheckpointer(url) as elsewhere:
        as_another_process(elsewhere.core)
        with pytest.raises(hf.LeaseLostError):
            run(main(elsewhere))
    assert "".join(final[0].log) == ("abc" if edges == "ab bc c." else "abcd")
    with hf.SyncCheckpointer(url) as cp:
        assert cp.verify("run").ok
        current = cp.load("run", as_type=State)
        assert current is not None
        assert "".join(current.state.log) in ("abc", "abcd")
