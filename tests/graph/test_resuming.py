"""Going on with a run: after a crash, a failure, a timeout, another version of the graph."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.context import current_step
from holdfast.engine.events import CheckpointSaved, RunStarted
from holdfast.graph import END, CheckpointStrategy, CompiledGraph, Graph, Retry
from tests.graph.flows import Calls, State, join, run
from tests.holders import dying


async def crash_after(app: CompiledGraph[Any], saves: int, state: Any, **where: Any) -> None:
    """Leave a run as a crash would after so many checkpoints."""
    async with app.stream(state, **where) as events:
        async for event in events:
            saves -= isinstance(event, CheckpointSaved)
            if not saves:
                return


# --- where it stopped


@pytest.mark.parametrize("saves", [1, 2, 3])
def test_a_run_resumes_after_the_last_checkpoint(saves: int, cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = calls.line("abcd").compile()
    run(crash_after(app, saves, State(), store=cp, run_id="run"))
    assert sum(calls.values()) == saves
    assert run(app.resume("run", store=cp)) == State(4, list("abcd"))
    assert set(calls.values()) == {1}
    info = cp.run("run")
    assert info is not None
    assert info.status == "completed"


def test_a_crash_in_the_first_node_starts_over(kept_url: str) -> None:
    calls = Calls()

    async def slow(state: State) -> State:
        calls["slow"] += 1
        if calls["slow"] == 1:
            await asyncio.sleep(3600)
        return state

    app = Graph(State).add_node("slow", slow).add_edge("slow", END).set_entry("slow").compile()

    async def main() -> State:
        task = asyncio.create_task(app.run(State(5), store=kept_url, run_id="run"))
        while not calls["slow"]:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await app.resume("run", store=kept_url)

    assert run(main()) == State(5)


def test_a_failed_node_is_run_again_on_the_state_before_it(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    calls.failing.add("b")
    app = calls.line("abc").compile()
    with pytest.raises(hf.StepFailedError, match="b is broken") as caught:
        run(app.run(State(), store=cp, run_id="run"))
    assert caught.value.state == State(1, ["a"])
    assert isinstance(caught.value.__cause__, RuntimeError)
    calls.failing.clear()
    assert run(app.resume("run", store=cp)) == State(3, list("abc"))
    assert calls == {"a": 1, "b": 2, "c": 1}


def test_a_run_that_is_not_there_or_is_over_is_not_resumed(cp: hf.SyncCheckpointer) -> None:
    app = Calls().line("ab").compile()
    with pytest.raises(hf.CheckpointNotFoundError, match="'nobody'"):
        run(app.resume("nobody", store=cp))
    with pytest.raises(hf.CheckpointNotFoundError, match="'nobody'"):
        run(app.resume("nobody", store=cp, from_node="a"))
    run(app.run(State(), store=cp, run_id="run"))
    with pytest.raises(hf.RunFinishedError, match="completed"):
        run(app.resume("run", store=cp))
    with pytest.raises(hf.RunFinishedError, match="completed"):
        run(app.resume("run", store=cp, override={"n": 5}))
    with pytest.raises(hf.RunFinishedError, match="completed"):
        run(app.resume("run", store=cp, validate=lambda s: True))
    current = cp.load("run")
    assert current is not None
    assert current.state == {"n": 2, "log": ["a", "b"]}


def test_ids_are_needed_with_a_store_and_used_once(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = calls.line("a").compile()
    with pytest.raises(hf.RunIdRequiredError, match="run_id"):
        run(app.run(State(), store=cp))
    with pytest.raises(hf.RunIdRequiredError, match="run_id"):
        app.stream(State(), store=cp)
    assert not calls
    run(app.run(State(), store=cp, run_id="run"))
    with pytest.raises(hf.RunExistsError, match="'run'"):
        run(app.run(State(), store=cp, run_id="run"))
    assert calls["a"] == 1


def test_without_a_store_a_run_comes_to_the_same(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    graph = calls.line("abc", merge=join).add_node("x", calls.node("x"))
    app = graph.add_edge("a", "x").add_edge("x", "c").compile()
    kept = run(app.run(State(), store=cp, run_id="run"))
    assert run(app.run(State())) == run(app.run(State(), run_id="run")) == kept
    assert app.run_sync(State()) == kept


def test_a_run_that_another_flow_began_is_refused(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    run(crash_after(calls.line("ab").compile(), 1, State(), store=cp, run_id="run"))
    cp.save("by hand", {"n": 1})
    with pytest.raises(hf.FlowChangedError, match="began as 'graph', not 'other'"):
        run(calls.line("ab", name="other").compile().resume("run", store=cp))
    for override in (None, {"n": 2}):
        with pytest.raises(hf.FlowChangedError, match="not started by a flow"):
            run(calls.line("ab").compile().resume("by hand", store=cp, override=override))


# --- loops and attempts


def looping(calls: Calls, rounds: int) -> Graph[State]:
    graph = Graph(State).add_node("a", calls.node("a")).add_node("b", calls.node("b"))
    graph.add_edge("a", "b").add_conditional_edge(
        "b", lambda s: "a" if s.n < 2 * rounds else END, ["a", END]
    )
    return graph.set_entry("a")


def test_a_loop_runs_until_its_route_says_so(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = looping(calls, 3).compile()
    assert run(app.run(State(), store=cp, run_id="run")).log == list("ababab")
    found = reversed(run(app.checkpoints("run", store=cp)))
    assert [(c.node_id, c.iteration, c.step_index) for c in found] == [
        ("a", 1, 0), ("b", 1, 1), ("a", 2, 2), ("b", 2, 3), ("a", 3, 4), ("b", 3, 5),
    ]  # fmt: skip


def test_a_loop_without_end_is_stopped_and_may_continue_with_a_higher_limit(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    graph = looping(calls, 10)
    with pytest.raises(
        hf.LoopLimitError, match="run 'run' stopped before 'b': it made 7"
    ) as caught:
        run(graph.compile(max_steps=7).run(State(), store=cp, run_id="run"))
    assert caught.value.state == State(7, list("abababa"))
    with pytest.raises(hf.LoopLimitError):
        run(graph.compile(max_steps=7).resume("run", store=cp))
    assert sum(calls.values()) == 7
    assert run(graph.compile(max_steps=20).resume("run", store=cp)).n == 20
    assert sum(calls.values()) == 20


def test_a_crash_does_not_reset_the_guard(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = looping(calls, 10).compile(max_steps=8)
    run(crash_after(app, 3, State(), store=cp, run_id="run"))

    async def again() -> None:
        async with app.resume_stream("run", store=cp) as events:
            async for event in events:
                if isinstance(event, CheckpointSaved) and event.seq > 8:
                    break

    run(again())
    with pytest.raises(hf.LoopLimitError):
        run(app.resume("run", store=cp))
    assert sum(calls.values()) == 8


def test_attempts_that_a_crash_cut_short_count(cp: hf.SyncCheckpointer) -> None:
    attempts: list[int] = []

    async def hangs(state: State) -> State:
        attempts.append(current_step().attempt)
        await asyncio.sleep(3600)
        return state

    graph = Graph(State).add_node("hangs", hangs, retry=Retry(3, backoff=0, crashes=2))
    app = graph.add_edge("hangs", END).set_entry("hangs").compile()

    async def crash(made: Any) -> None:
        with dying(cp.core):
            task, before = asyncio.create_task(made), len(attempts)
            while len(attempts) == before:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(crash(app.run(State(), store=cp, run_id="run")))
    run(crash(app.resume("run", store=cp)))
    run(crash(app.resume("run", store=cp)))
    with pytest.raises(hf.StepFailedError, match="died 3 times"):
        run(app.resume("run", store=cp))
    assert attempts == [1, 2, 3]


def test_a_node_that_takes_too_long_is_tried_again_and_then_fails(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()

    async def slow(state: State) -> State:
        calls["slow"] += 1
        if calls["slow"] < 4:
            await asyncio.sleep(3600)
        return state

    graph = Graph(State).add_node("slow", slow, timeout=0.01, retry=Retry(2, backoff=0))
    app = graph.add_edge("slow", END).set_entry("slow").compile()
    with pytest.raises(hf.StepFailedError, match=r"longer than 0\.01 s") as caught:
        run(app.run(State(3), store=cp, run_id="run"))
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert (caught.value.attempts, caught.value.state) == (2, State(3))
    assert run(app.resume("run", store=cp)) == State(3)
    assert calls["slow"] == 4


def test_a_run_that_takes_too_long_says_how_far_it_came_and_resumes(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()

    async def slow(state: State) -> State:
        calls["slow"] += 1
        if calls["slow"] == 1:
            await asyncio.Event().wait()
        return state

    graph = Graph(State).add_node("a", calls.node("a")).add_node("slow", slow)
    app = graph.add_edge("a", "slow").add_edge("slow", END).set_entry("a").compile()
    while not calls["slow"]:  # on a busy machine, its time may be over before
        with pytest.raises(hf.RunTimeoutError, match=r"longer than 0\.05 s") as caught:
            run(app.run(State(), store=cp, run_id="run", resume=True, timeout=0.05))
    assert caught.value.state == State(1, ["a"])
    before = calls["a"]
    assert run(app.resume("run", store=cp, timeout=60)) == State(1, ["a"])
    assert calls == {"a": before, "slow": 2}


# --- another version


def test_a_changed_graph_is_refused_with_what_changed(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    run(crash_after(calls.line("abc").compile(), 1, State(), store=cp, run_id="run"))

    def changes(graph: Graph[State], **options: Any) -> tuple[str, ...]:
        with pytest.raises(hf.FlowChangedError) as caught:
            run(graph.compile().resume("run", store=cp, **options))
        return caught.value.changes

    assert changes(calls.line("abd")) == (
        "node 'c' is gone",
        "node 'd' is new",
        "the edges of 'b' changed from ['c'] to ['d']",
    )
    assert changes(calls.line("acb"))[0] == "the edges of 'a' changed from ['b'] to ['c']"
    other = calls.line("abc").add_node("z", calls.node("z")).add_edge("z", "a").set_entry("z")
    assert changes(other) == ("node 'z' is new", "it begins with 'z' instead of 'a'")
    assert changes(other, override={"n": 7}) == changes(other, from_node="a") == changes(other)
    routed = Graph(State)
    for name in "abc":
        routed.add_node(name, calls.node(name))
    routed.add_edge("a", "b").add_conditional_edge("b", lambda s: "c", ["c", END])
    routed.add_edge("c", END).set_entry("a")
    assert changes(routed) == (
        "the edges of 'b' changed from ['c'] to None",
        "the conditional edge of 'b' changed from None to ['__end__', 'c']",
    )
    assert run(calls.line("abc").compile().resume("run", store=cp)).n == 3, "it stayed as it was"


def test_another_version_needs_a_migration(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    run(crash_after(calls.line("ab").compile(), 1, State(), store=cp, run_id="run"))
    with pytest.raises(hf.FlowChangedError, match="it ran version 1 of 'graph', and this is 2"):
        run(calls.line("ab").compile(version=2).resume("run", store=cp))
    app = calls.line("ab").compile(migrate=hf.Migrations(2, {1: None}))
    assert run(app.resume("run", store=cp)).log == ["a", "b"]


def total(state: dict[str, Any]) -> dict[str, Any]:
    """From version 1, a State, to version 2, which only counts."""
    return {"total": state["n"]}


def counting(calls: Calls) -> Graph[Any]:
    graph: Graph[Any] = Graph(dict)

    def count(name: str) -> Any:
        def fn(state: dict[str, Any]) -> dict[str, Any]:
            calls[name] += 1
            if name in calls.failing:
                raise RuntimeError(f"{name} is broken")
            return {"total": state["total"] + 1}

        return fn

    for name in "axyz":
        graph.add_node(name, count(name))
    graph.add_edge("a", "x").add_edge("x", "y").add_edge("y", "z").add_edge("z", END)
    return graph.set_entry("a")


@pytest.mark.parametrize("saves", [0, 1, 2])
def test_a_migration_turns_the_state_and_renames_the_nodes(
    saves: int, cp: hf.SyncCheckpointer
) -> None:
    calls, later = Calls(), Calls()
    old = calls.line("abc").compile()
    if saves:
        run(crash_after(old, saves, State(), store=cp, run_id="run"))
    else:
        calls.failing.add("a")
        after = CheckpointStrategy.ON_SUCCESS
        with pytest.raises(hf.StepFailedError):
            run(old.run(State(), store=cp, run_id="run", checkpoint_after=after))
    new = counting(later).compile(migrate=hf.Migrations(2, {1: total}), rename={"b": "x", "c": "y"})
    assert run(new.resume("run", store=cp)) == {"total": 4}
    assert "".join(later) == "axyz"[saves:]


def test_a_migrated_run_continues_as_the_new_version(cp: hf.SyncCheckpointer) -> None:
    calls, later = Calls(), Calls()
    run(crash_after(calls.line("abc").compile(), 1, State(), store=cp, run_id="run"))
    options: dict[str, Any] = {"rename": {"b": "x", "c": "y"}}
    new = counting(later).compile(**options, migrate=hf.Migrations(2, {1: total}))
    later.failing.add("x")
    for _ in range(2):
        with pytest.raises(hf.StepFailedError, match="x is broken"):
            run(new.resume("run", store=cp))
    later.failing = {"z"}
    with pytest.raises(hf.StepFailedError, match="z is broken"):
        run(new.resume("run", store=cp))
    later.failing.clear()
    plain = counting(later).compile(version=2)
    assert run(plain.resume("run", store=cp)) == {"total": 4}, "no old state is left to migrate"
    with pytest.raises(hf.FlowChangedError, match="version 2"):
        run(calls.line("abc").compile().resume("run", store=cp, from_node="b"))


def test_a_run_that_was_claimed_by_a_new_version_still_needs_the_migration(
    cp: hf.SyncCheckpointer,
) -> None:
    calls, later = Calls(), Calls()
    run(crash_after(calls.line("abc").compile(), 1, State(), store=cp, run_id="run"))
    new = counting(later).compile(migrate=hf.Migrations(2, {1: total}), rename={"b": "x"})

    async def claim() -> None:
        async with new.resume_stream("run", store=cp) as events:
            async for event in events:
                if isinstance(event, RunStarted):
                    break

    run(claim())
    with pytest.raises(hf.FlowChangedError, match="it ran version 1"):
        run(counting(later).compile(version=2).resume("run", store=cp))
    assert run(new.resume("run", store=cp)) == {"total": 4}


def test_going_back_to_a_state_of_the_old_version_migrates_it(cp: hf.SyncCheckpointer) -> None:
    calls, later = Calls(), Calls()
    run(calls.line("abc").compile().run(State(), store=cp, run_id="run"))
    new = counting(later).compile(migrate=hf.Migrations(2, {1: total}), rename={"b": "x", "c": "y"})
    assert run(new.replay("run", "x", store=cp)) == {"total": 2}
    seen: list[Any] = []
    back = new.resume(
        "run", store=cp, from_node="x", override=lambda s: {"total": s["total"] + 10},
        validate=lambda s: seen.append(s),
    )  # fmt: skip
    assert run(back) == {"total": 14}
    assert seen == [{"total": 11}]


def test_branches_of_the_old_version_are_found_under_their_new_names(
    cp: hf.SyncCheckpointer,
) -> None:
    def graph(calls: Calls, first: str, second: str) -> Graph[State]:
        made = Graph(State, merge=join)
        for name in ("a", first, second, "d"):
            made.add_node(name, calls.node(name))
        made.add_edge("a", first).add_edge("a", second).add_edge(first, "d").add_edge(second, "d")
        return made.add_edge("d", END).set_entry("a")

    calls, later = Calls(), Calls()
    calls.failing.add("c")
    with pytest.raises(hf.StepFailedError):
        run(graph(calls, "b", "c").compile().run(State(), store=cp, run_id="run"))
    rename = {"b": "left", "c": "right"}
    new = graph(later, "left", "right").compile(migrate=hf.Migrations(2, {1: None}), rename=rename)
    assert run(new.resume("run", store=cp)).log == ["a", "b", "right", "d"]
    assert later == {"right": 1, "d": 1}


def test_a_node_that_is_next_and_gone_must_be_renamed(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    run(crash_after(calls.line("abc").compile(), 1, State(), store=cp, run_id="run"))
    app = calls.line("axc").compile(migrate=hf.Migrations(2, {1: None}))
    with pytest.raises(hf.FlowChangedError, match=r"node 'b', which is next, is gone.*rename="):
        run(app.resume("run", store=cp))


# --- start it, or go on


@pytest.mark.parametrize("blocking", [False, True])
def test_run_with_resume_starts_resumes_and_returns_what_was_recorded(
    cp: hf.SyncCheckpointer, blocking: bool
) -> None:
    calls = Calls()
    calls.failing.add("b")
    app = calls.line("abc").compile()

    def go(state: State) -> State:
        where: dict[str, Any] = {"store": cp, "run_id": "run", "resume": True}
        return app.run_sync(state, **where) if blocking else run(app.run(state, **where))

    with pytest.raises(hf.StepFailedError):
        go(State(5))
    calls.failing.clear()
    assert go(State(5)) == State(8, list("abc"))
    assert go(State(5)) == State(8, list("abc")), "as it was recorded"
    assert calls == {"a": 1, "b": 2, "c": 1}
    with pytest.raises(hf.InputMismatchError):
        go(State(6))
    with pytest.raises(hf.RunExistsError):
        app.run_sync(State(5), store=cp, run_id="run")


def test_run_with_resume_does_not_revive_what_was_cancelled(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    calls.failing.add("a")
    app = calls.line("a").compile()
    with pytest.raises(hf.StepFailedError):
        app.run_sync(State(), store=cp, run_id="run", resume=True)
    app.cancel_sync("run", store=cp)
    with pytest.raises(hf.RunFinishedError):
        app.run_sync(State(), store=cp, run_id="run", resume=True)


def test_run_with_resume_continues_a_run_of_another_version(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    calls.failing.add("b")
    with pytest.raises(hf.StepFailedError):
        calls.line("ab").compile().run_sync(State(), store=cp, run_id="run", resume=True)
    calls.failing.clear()
    app = calls.line("ab").compile(migrate=hf.Migrations(2, {1: lambda data: data | {"n": 10}}))
    with pytest.raises(hf.InputMismatchError, match="n was 10 and is 99"):
        app.run_sync(State(99), store=cp, run_id="run", resume=True)
    assert app.run_sync(State(10), store=cp, run_id="run", resume=True) == State(11, ["a", "b"])


def test_options_that_there_are_not_are_named_in_public_words() -> None:
    app = Calls().line("a").compile()
    for call in (
        lambda: app.run_sync(State(), resum=True),  # type: ignore[call-arg]
        lambda: app.resume_sync("run", from_nod="a"),  # type: ignore[call-arg]
        lambda: app.resume_stream("run", from_nod="a"),  # type: ignore[call-arg]
    ):
        with pytest.raises(
            TypeError, match=r"(run|resume|resume_stream) has no option '.*; did you mean"
        ) as told:
            call()
        assert "._" not in str(told.value)
        assert "Wanted" not in str(told.value)
