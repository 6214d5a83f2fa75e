"""Going back in a run, with another state if wanted; replaying a node; forks and rollbacks."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast as hf
from holdfast.codec import envelope
from holdfast.codec.meta import Meta, dump_meta
from holdfast.engine.context import current_step
from holdfast.engine.events import CheckpointSaved
from holdfast.graph import END, CompiledGraph, Graph, Retry
from holdfast.stores import MemoryStore
from tests.graph.flows import Calls, State, join, run
from tests.graph.test_forks import forked
from tests.graph.test_resuming import crash_after, looping


def steps(cp: hf.SyncCheckpointer, run_id: str = "run") -> list[str | None]:
    return [info.step for info in cp.list_checkpoints(run_id, oldest_first=True)]


def finished(calls: Calls, cp: hf.SyncCheckpointer, names: str = "abc") -> CompiledGraph[State]:
    app = calls.line(names).compile()
    run(app.run(State(), store=cp, run_id="run"))
    calls.clear()
    return app


@pytest.mark.parametrize(
    ("where", "ran"),
    [
        ({"from_node": "a"}, "abc"),
        ({"from_node": "b"}, "bc"),
        ({"from_node": "c"}, "c"),
        ({"after_node": "a"}, "bc"),
        ({"after_node": "b"}, "c"),
        ({"after_node": "c"}, ""),
        ({"replay": True}, "c"),
    ],
)
def test_a_finished_run_continues_from_any_point_with_the_state_of_that_point(
    where: dict[str, Any], ran: str, cp: hf.SyncCheckpointer
) -> None:
    calls = Calls()
    app = finished(calls, cp)
    before = steps(cp)
    assert run(app.resume("run", store=cp, **where)) == State(3, list("abc"))
    assert "".join(calls) == ran
    assert steps(cp) == [*before, *ran], "history is kept"
    info = cp.run("run")
    assert info is not None
    assert info.status == "completed"


@pytest.mark.parametrize("override", [{"n": 10}, State(10, ["a"]), lambda s: State(10, s.log)])
def test_the_state_may_be_overridden_by_fields_a_function_or_a_whole_one(
    override: Any, cp: hf.SyncCheckpointer
) -> None:
    app = finished(Calls(), cp)
    assert run(app.resume("run", store=cp, from_node="b", override=override)) == State(
        12, list("abc")
    )


def test_an_override_may_change_the_state_in_place_or_give_fields(cp: hf.SyncCheckpointer) -> None:
    app = finished(Calls(), cp)

    def in_place(state: State) -> Any:
        state.n = 20

    assert run(app.resume("run", store=cp, from_node="c", override=in_place)).n == 21
    fields: Any = lambda s: {"n": s.n * 100}  # noqa: E731
    assert run(app.resume("run", store=cp, from_node="c", override=fields)).n == 2001


def test_the_first_node_may_be_given_another_state(cp: hf.SyncCheckpointer) -> None:
    app = finished(Calls(), cp)
    again = app.resume("run", store=cp, from_node="a", override={"n": 10})
    assert run(again) == State(13, list("abc"))
    assert run(app.resume("run", store=cp, from_node="b")) == State(13, list("abc"))
    assert run(app.replay("run", "a", store=cp)) == State(11, ["a"])


def test_a_node_is_never_run_on_its_own_output(cp: hf.SyncCheckpointer) -> None:
    """An edited checkpoint stands behind a node, and is not what that node made."""
    app = finished(Calls(), cp)
    run(app.resume("run", store=cp, after_node="b", override={"n": 50}))
    assert run(app.replay("run", "b", store=cp)) == State(2, ["a", "b"])
    assert run(app.resume("run", store=cp, from_node="b")) == State(3, list("abc"))


def test_an_override_that_does_not_fit_changes_nothing(cp: hf.SyncCheckpointer) -> None:
    app = finished(Calls(), cp)
    bad: list[tuple[Any, type[Exception]]] = [
        ({"nn": 1}, TypeError),
        ({"n": "many"}, hf.ReviveError),
        ({"log": [print]}, hf.SerializeError),
        (lambda s: 1 / 0, ZeroDivisionError),
    ]
    before = cp.run("run")
    for override, error in bad:
        with pytest.raises(error):
            run(app.resume("run", store=cp, from_node="b", override=override))
    assert cp.run("run") == before


def test_validate_sees_the_state_first_and_may_refuse(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = finished(calls, cp)
    before = cp.run("run")
    with pytest.raises(ValueError, match="validate= refused"):
        run(app.resume("run", store=cp, from_node="b", validate=lambda s: s.n > 5))

    def check(state: State) -> None:
        raise LookupError(f"n is {state.n}")

    with pytest.raises(LookupError, match="n is 7"):
        run(app.resume("run", store=cp, from_node="b", override={"n": 7}, validate=check))
    assert not calls
    assert cp.run("run") == before
    seen: list[State] = []
    run(app.resume("run", store=cp, from_node="b", validate=seen.append))
    assert seen == [State(1, ["a"])]


def test_validate_alone_looks_at_where_the_run_stands(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = calls.line("abc").compile()
    run(crash_after(app, 2, State(), store=cp, run_id="run"))
    seen: list[State] = []
    assert run(app.resume("run", store=cp, validate=seen.append)).n == 3
    assert seen == [State(2, ["a", "b"])]
    assert set(calls.values()) == {1}


def test_only_one_place_can_be_gone_to_and_it_must_be_there(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = finished(calls, cp)
    with pytest.raises(ValueError, match="at most one"):
        run(app.resume("run", store=cp, from_node="a", replay=True))
    with pytest.raises(ValueError, match="'x' is not a node of 'graph'"):
        run(app.resume("run", store=cp, after_node="x"))
    run(crash_after(app, 1, State(), store=cp, run_id="new"))
    with pytest.raises(hf.CheckpointNotFoundError, match="after node 'c'"):
        run(app.resume("new", store=cp, after_node="c"))


def test_a_run_that_stopped_may_skip_to_a_node_that_never_ran(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    calls.failing.add("b")
    app = calls.line("abc").compile()
    with pytest.raises(hf.StepFailedError):
        run(app.run(State(), store=cp, run_id="run"))
    assert run(app.resume("run", store=cp, from_node="c")).log == ["a", "c"]


def test_after_a_failure_the_failed_node_is_the_last_one(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    seen = []
    for where in ({"from_node": "b"}, {"replay": True}, {"override": {"log": ["x"]}}):
        name = f"run {where}"
        calls.clear()
        original = calls.node("b")
        calls.failing.clear()

        def route(state: State, original: Any = original) -> State:
            if state.n == 3 and calls.failing:
                raise RuntimeError("broken")
            made: State = original(state)
            return made

        graph = Graph(State).add_node("a", calls.node("a")).add_node("b", route)
        graph.add_edge("a", "b").add_conditional_edge(
            "b", lambda s: "a" if s.n < 6 else END, ["a", END]
        )
        app = graph.set_entry("a").compile()
        calls.failing.add("nobody")
        with pytest.raises(hf.StepFailedError, match="broken") as caught:
            run(app.run(State(), store=cp, run_id=name))
        assert caught.value.state == State(3, list("aba"))
        calls.failing.clear()
        final = run(app.resume(name, store=cp, **where))
        seen.append("".join(final.log))
        assert (calls["a"], calls["b"]) == (3, 3)
    assert seen == ["ababab", "ababab", "xbab"]


def test_in_a_loop_the_newest_visit_is_gone_back_to(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = looping(calls, 3).compile()
    run(app.run(State(), store=cp, run_id="run"))
    calls.clear()
    assert run(app.resume("run", store=cp, from_node="a")).log == list("ababab")
    assert calls == {"a": 1, "b": 1}
    assert run(app.resume("run", store=cp, after_node="a", override={"n": 3})).n == 6
    found = run(app.checkpoints("run", store=cp))
    assert [(c.node_id, c.iteration) for c in found[:4]] == [
        ("b", 4), ("a", 4), ("b", 3), ("a", None),
    ]  # fmt: skip


def test_going_back_gives_new_idempotency_keys_that_survive_a_crash(
    cp: hf.SyncCheckpointer,
) -> None:
    keys: list[tuple[str, str]] = []

    def note(state: State) -> None:
        info = current_step()
        keys.append((info.name, info.idempotency_key))
        if info.name == "c" and len(keys) == 5:
            raise RuntimeError("a crash in c")

    graph = Graph(State)
    for name in "abc":
        graph.add_node(name, note)
    graph.add_edge("a", "b").add_edge("b", "c").add_edge("c", END)
    app = graph.set_entry("a").compile()
    run(app.run(State(), store=cp, run_id="run"))
    with pytest.raises(hf.StepFailedError):
        run(app.resume("run", store=cp, from_node="b"))
    run(app.resume("run", store=cp))
    assert [name for name, _ in keys] == list("abcbcc")
    assert keys[4] == keys[5], "the same step, tried again"
    assert len(set(keys)) == 5


def test_a_run_under_way_here_is_left_alone(cp: hf.SyncCheckpointer) -> None:
    app = Calls().line("abc").compile()

    async def main() -> None:
        async for event in app.stream(State(), store=cp, run_id="run"):
            if isinstance(event, CheckpointSaved):
                with pytest.raises(hf.RunActiveError):
                    await app.resume("run", store=cp)
                with pytest.raises(hf.RunActiveError):
                    await app.resume("run", store=cp, from_node="a")

    run(main())
    info = cp.run("run")
    assert info is not None
    assert info.status == "completed"


# --- parallel branches

WIDE = "ab bc ad de cf ef f."


def crashed_in_fork(calls: Calls, cp: hf.SyncCheckpointer) -> CompiledGraph[State]:
    calls.failing.add("e")
    app = forked(calls, WIDE).compile()
    with pytest.raises(hf.StepFailedError, match="e is broken"):
        run(app.run(State(), store=cp, run_id="run"))
    calls.failing.clear()
    calls.clear()
    return app


def test_an_override_in_the_middle_of_a_fork_changes_what_was_forked(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    app = crashed_in_fork(calls, cp)
    seen: list[State] = []
    final = run(app.resume("run", store=cp, override={"log": ["x"]}, validate=seen.append))
    assert final.log == list("xbcdef")
    assert seen == [State(1, ["x"])]


def test_validate_in_the_middle_of_a_fork_repeats_nothing(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = crashed_in_fork(calls, cp)
    seen: list[State] = []
    assert run(app.resume("run", store=cp, validate=seen.append)).log == list("abcdef")
    assert seen == [State(1, ["a"])]
    assert set(calls) <= {"c", "e", "f"}


@pytest.mark.parametrize("node", ["b", "c", "d", "e"])
def test_a_node_of_a_branch_is_run_again_on_what_it_was_given(
    node: str, cp: hf.SyncCheckpointer
) -> None:
    calls = Calls()
    app = forked(calls, WIDE).compile()
    run(app.run(State(), store=cp, run_id="run"))
    calls.clear()
    given = {"b": "a", "c": "ab", "d": "a", "e": "ad"}[node]
    assert run(app.replay("run", node, store=cp)).log == [*given, node]
    assert calls == {node: 1}
    calls.clear()
    seen: list[State] = []
    final = run(app.resume("run", store=cp, from_node=node, validate=seen.append))
    assert final.log == list("abcdef")
    assert seen == [State(len(given), list(given))]
    assert calls[node] == calls["f"] == 1
    assert calls["a"] == 0
    calls.clear()
    assert run(app.resume("run", store=cp, after_node=node)).log == list("abcdef")
    assert (calls[node], calls["a"], calls["f"]) == (0, 0, 1)


def test_nested_branches_are_given_what_their_own_fork_had(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = forked(calls, "ab ac bd be df ef fg cg g.").compile()
    run(app.run(State(), store=cp, run_id="run"))
    assert run(app.replay("run", "d", store=cp)).log == list("abd")
    assert run(app.replay("run", "f", store=cp)).log == list("abdef")
    assert run(app.replay("run", "g", store=cp)).log == list("abdefcg")


def test_what_a_branch_is_given_cannot_be_overridden(cp: hf.SyncCheckpointer) -> None:
    app = forked(Calls(), WIDE).compile()
    run(app.run(State(), store=cp, run_id="run"))
    before = cp.run("run")
    with pytest.raises(ValueError, match="continue after the node that forks"):
        run(app.resume("run", store=cp, from_node="c", override={"n": 1}))
    assert cp.run("run") == before
    assert run(app.resume("run", store=cp, after_node="a", override={"log": ["x"]})).log == list(
        "xbcdef"
    )


def test_a_merge_is_replayed_without_its_branches(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    calls.failing.add("f")
    graph = forked(calls, WIDE)
    merged: list[int] = []

    def merge(before: State, branches: dict[str, State]) -> State:
        merged.append(1)
        return join(before, branches)

    app = graph.compile(merge=merge)

    async def crash() -> None:
        async with app.stream(State(), store=cp, run_id="run") as events:
            async for event in events:
                if isinstance(event, CheckpointSaved) and event.step == "a>merge":
                    break

    run(crash())
    calls.failing.clear()
    calls.clear()
    assert run(app.resume("run", store=cp, replay=True)).log == list("abcdef")
    assert (calls, len(merged)) == ({"f": 1}, 2)


# --- replaying one node


def test_replay_gives_a_node_its_input_and_records_nothing(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = looping(calls, 2).compile()
    run(app.run(State(), store=cp, run_id="run"))
    before = cp.run("run")
    assert run(app.replay("run", "b", store=cp)) == State(4, list("abab"))
    first = run(app.checkpoints("run", store=cp))[-2]
    assert first.node_id == "b"
    assert run(app.replay("run", "b", store=cp, seq=first.seq)) == State(2, list("ab"))
    assert cp.run("run") == before
    with pytest.raises(hf.CheckpointNotFoundError):
        run(app.replay("run", "a", store=cp, seq=first.seq))
    with pytest.raises(ValueError, match="not a node"):
        run(app.replay("run", "x", store=cp))
    with pytest.raises(hf.CheckpointNotFoundError):
        run(app.replay("nobody", "a", store=cp))


def test_a_failed_node_can_be_replayed_to_find_out_why(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    calls.failing.add("b")
    app = calls.line("ab").compile()
    with pytest.raises(hf.StepFailedError):
        run(app.run(State(), store=cp, run_id="run"))
    with pytest.raises(RuntimeError, match="b is broken"):
        run(app.replay("run", "b", store=cp))
    calls.failing.clear()
    assert run(app.replay("run", "b", store=cp)).log == ["a", "b"]


def test_a_replayed_node_may_ask_about_its_step(cp: hf.SyncCheckpointer) -> None:
    async def note(state: State) -> None:
        state.log.append(current_step().name)

    graph = Graph(State).add_node("a", note, retry=Retry(2)).add_edge("a", END)
    app = graph.set_entry("a").compile()
    run(app.run(State(), store=cp, run_id="run"))
    assert run(app.replay("run", "a", store=cp)).log == ["a"]


# --- what the checkpointer does


def test_a_fork_with_an_edited_state_goes_its_own_way(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = finished(calls, cp, "abcd")
    second = cp.list_checkpoints("run", oldest_first=True)[1]
    cp.fork("run", seq=second.seq, run_id="fork", state=State(10, ["x"]))
    assert run(app.resume("fork", store=cp)) == State(12, ["x", "c", "d"])
    assert calls == {"c": 1, "d": 1}
    current = cp.load("run", as_type=State)
    assert current is not None
    assert current.state == State(4, list("abcd")), "the origin is as it was"
    assert run(app.resume("fork", store=cp, from_node="c")).log == ["x", "c", "d"]
    with pytest.raises(hf.CheckpointNotFoundError, match="before node 'b'"):
        run(app.resume("fork", store=cp, from_node="b"))


def test_a_fork_from_within_a_branch_repeats_nothing_before_it(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    crashed_in_fork(calls, cp)
    app = forked(calls, WIDE).compile()
    newest = cp.list_checkpoints("run", limit=1)[0]
    cp.fork("run", seq=newest.seq, run_id="fork")
    assert run(app.resume("fork", store=cp)).log == list("abcdef")
    assert calls["a"] == calls["b"] == calls["d"] == 0


def test_a_rolled_back_run_continues_from_there(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = finished(calls, cp)
    first, second, third = cp.list_checkpoints("run", oldest_first=True)
    cp.rollback("run", seq=first.seq)
    assert run(app.resume("run", store=cp)).log == list("abc")
    assert calls == {"b": 1, "c": 1}
    cp.rollback("run", seq=second.seq)  # on the branch that was left
    assert run(app.resume("run", store=cp)).log == list("abc")
    assert calls == {"b": 1, "c": 2}
    cp.rollback("run", seq=third.seq)
    assert run(app.resume("run", store=cp)).log == list("abc")
    assert calls == {"b": 1, "c": 2}


def test_a_state_that_was_pruned_cannot_be_gone_back_to(cp: hf.SyncCheckpointer) -> None:
    app = finished(Calls(), cp)
    cp.prune("run", keep_latest=1)
    with pytest.raises(hf.CheckpointNotFoundError, match="before node 'c'"):
        run(app.resume("run", store=cp, from_node="c"))
    with pytest.raises(hf.CheckpointNotFoundError, match="before node 'c'"):
        run(app.replay("run", "c", store=cp))


def test_visits_that_are_no_numbers_are_damage_of_their_checkpoint() -> None:
    app = looping(Calls(), 2).compile()
    store, altered = MemoryStore(), MemoryStore()
    run(app.run(State(), store=store, run_id="run"))
    *before, last = store.read("run", limit=4)
    flags, content, *_ = envelope.check(last)
    packed = envelope.Packed(flags, content, envelope.prove(flags, content))
    last = last._replace(meta=dump_meta({**Meta(last).fields, "visits": {"a": "x", "b": "x"}}))
    altered.append([*before, envelope.seal(last[:6], last[7:18], before[-1].digest, packed)])
    with pytest.raises(hf.CheckpointCorruptedError, match="visits"):
        run(app.run(State(), store=altered, run_id="run", resume=True, take_over=True))
