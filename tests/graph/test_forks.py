"""Parallel branches: where they meet, what is kept of them, and what is not run again."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.context import current_step
from holdfast.engine.events import CheckpointSaved
from holdfast.graph import END, CompiledGraph, Graph, Retry, merge_changes
from tests.graph.flows import Calls, State, join, run


def forked(calls: Calls, edges: str, entry: str = "a", **options: Any) -> Graph[State]:
    """A graph from words such as "ab ac bd cd d.", where "." is the end."""
    graph = Graph(State, merge=join, **options)
    for name in dict.fromkeys(edges.replace(" ", "").replace(".", "")):
        graph.add_node(name, calls.node(name))
    for edge in edges.split():
        graph.add_edge(edge[0], END if edge[1] == "." else edge[1])
    return graph.set_entry(entry)


DIAMOND = "ab ac bd cd d."


@pytest.mark.parametrize(
    ("edges", "log"),
    [
        (DIAMOND, "abcd"),
        ("ab ac ad be ce de e.", "abcde"),
        ("ab bc ad cf de ef f.", "abcdef"),  # branches of several nodes
        ("ab ac bd be df ef fg cg g.", "abdefcg"),  # a fork within a branch
        ("ab ac bd be df ef cf f.", "abdecf"),  # which ends where the outer one does
        ("ab ac b. c.", "abc"),  # straight to the end
        ("ab a.  b.", "ab"),  # one branch is the end itself
        ("ab ac bc c.", "abc"),  # one branch is the meeting point itself
        ("ab ac bd cd de df eg fg g.", "abcdefg"),  # one after another
    ],
)
def test_branches_meet_and_their_results_are_merged(
    edges: str, log: str, cp: hf.SyncCheckpointer
) -> None:
    calls = Calls()
    final = run(forked(calls, edges).compile().run(State(), store=cp, run_id="run"))
    assert "".join(final.log) == log
    assert set(calls.values()) == {1}


def test_branches_run_side_by_side() -> None:
    async def main() -> State:
        met = asyncio.Barrier(3)

        async def meet(state: State) -> None:
            await met.wait()

        graph = Graph(State, merge=merge_changes).add_node("a", Calls().node("a"))
        for name in "bcd":
            graph.add_node(name, meet).add_edge("a", name).add_edge(name, END)
        return await graph.set_entry("a").compile().run(State())

    assert run(main()).log == ["a"]


def test_a_merge_is_given_the_state_before_and_each_branchs_own() -> None:
    calls = Calls()
    seen: list[Any] = []

    def merge(before: State, branches: dict[str, State]) -> dict[str, Any]:
        seen.append((before, dict(branches)))
        return {"n": 10}

    graph = forked(calls, "ab ac bd").add_edge("c", "d").add_edge("d", END)
    app = graph.compile(merge=merge)
    assert run(app.run(State())) == State(11, ["a", "d"])
    assert seen == [
        (State(1, ["a"]), {"b": State(2, ["a", "b"]), "c": State(2, ["a", "c"])}),
    ]


def test_a_node_may_have_a_merge_of_its_own_and_it_may_be_async() -> None:
    async def merge(before: State, branches: dict[str, State]) -> None:
        await asyncio.sleep(0)
        before.log.append(f"met {''.join(sorted(branches))}")

    calls = Calls()
    graph = forked(calls, "ab ac").add_node("d", calls.node("d"), merge=merge)
    app = graph.add_edge("b", "d").add_edge("c", "d").add_edge("d", END).compile()
    assert run(app.run(State())).log == ["a", "met bc", "d"]


def test_a_merge_that_fails_repeats_no_branch(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    graph = forked(calls, DIAMOND)
    with pytest.raises(hf.StepFailedError, match="'b' and 'c' both changed 'log'"):
        run(graph.compile(merge=merge_changes).run(State(), store=cp, run_id="run"))
    assert run(graph.compile().resume("run", store=cp)).log == list("abcd")
    assert set(calls.values()) == {1}


def test_a_branch_may_loop_and_decide(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    graph = forked(calls, "ab ac ce de e.")
    graph.add_conditional_edge("b", lambda s: "b" if s.n < 4 else "d", ["b", "d"])
    final = run(graph.compile().run(State(), store=cp, run_id="run"))
    assert final.log == list("abbbdce")
    assert (calls["b"], calls["c"]) == (3, 1)
    steps = [info.step for info in cp.list_checkpoints("run", oldest_first=True)]
    assert {"a>b/b", "a>b/b#2", "a>b/b#3", "a>b/d", "a>c/c", "a>merge"} <= set(steps)


def test_a_route_may_fork_to_as_many_as_it_likes(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    graph = forked(calls, "be ce de e.", entry="a").add_node("a", calls.node("a"))
    graph.add_conditional_edge("a", lambda s: ["d", "b"], ["b", "c", "d", END])
    assert run(graph.compile().run(State(), store=cp, run_id="run")).log == list("abde")


def test_a_fork_may_go_round_in_a_loop_and_meet_where_it_began(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    graph = forked(calls, "ba ca", entry="a")
    graph.add_conditional_edge("a", lambda s: ["b", "c"] if s.n < 7 else END, ["b", "c", END])
    assert run(graph.compile().run(State(), store=cp, run_id="run")).log == list("abcabca")
    assert calls == {"a": 3, "b": 2, "c": 2}


def test_names_that_look_like_paths_do_not_mix_up_their_results(cp: hf.SyncCheckpointer) -> None:
    """The second visit to `y` and the first to `y#2` are different steps."""
    calls = Calls()
    names = ["y", "y#2", "x/y", "x>y", "%23"]
    graph = Graph(State, merge=join).add_node("x", calls.node("x")).add_node("z", calls.node("z"))
    for name in names:
        graph.add_node(name, calls.node(name)).add_edge("x", name)
    graph.add_conditional_edge("y", lambda s: "y" if s.n < 3 else "y#2", ["y", "y#2"])
    for name in names[1:]:
        graph.add_edge(name, "z")
    app = graph.add_edge("z", END).set_entry("x").compile()
    calls.failing.add("z")
    with pytest.raises(hf.StepFailedError):
        run(app.run(State(), store=cp, run_id="run"))
    calls.failing.clear()
    final = run(app.resume("run", store=cp))
    assert final.log == ["x", "%23", "x/y", "x>y", "y", "y", "y#2", "y#2", "z"]
    assert {name: calls[name] for name in names} == dict.fromkeys(names, 1) | {"y": 2, "y#2": 2}


# --- one by one


def test_each_branch_is_recorded_when_it_is_done(cp: hf.SyncCheckpointer) -> None:
    app = forked(Calls(), "ab ac ad be ce de e.").compile()
    run(app.run(State(), store=cp, run_id="run"))
    found = run(app.checkpoints("run", store=cp))
    assert sorted(str(info.node_id) for info in found) == ["a", "a>merge", "b", "c", "d", "e"]
    assert run(app.checkpoints("run", store=cp, oldest_first=True)) == found[::-1]
    assert run(app.checkpoints("run", store=cp, limit=2)) == found[:2]
    by_node = {info.node_id: info for info in found}
    assert by_node["a"].next_steps == ("b", "c", "d")
    assert by_node["b"].step == "a>b/b"
    assert (by_node["b"].next_node, by_node["e"].next_node) == ("e", END)


def test_a_crash_in_the_third_branch_does_not_repeat_the_first_two(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    attempts: list[int] = []

    async def slow(state: State) -> State:
        attempts.append(current_step().attempt)
        if len(attempts) == 1:
            await asyncio.sleep(3600)
        return calls.node("d")(state)

    graph = forked(calls, "ab ac be ce e.").add_node("d", slow)
    app = graph.add_edge("a", "d").add_edge("d", "e").compile()

    async def crash() -> None:
        saved = 0
        async with app.stream(State(), store=cp, run_id="run") as events:
            async for event in events:
                saved += isinstance(event, CheckpointSaved)
                if saved == 3:
                    break

    run(crash())
    assert run(app.resume("run", store=cp)).log == list("abcde")
    assert calls == dict.fromkeys("abcde", 1)
    assert len(attempts) == 2


@pytest.mark.parametrize("failing", ["b", "d"])
def test_a_branch_that_fails_does_not_take_the_others_with_it(
    failing: str, cp: hf.SyncCheckpointer
) -> None:
    calls = Calls()
    calls.failing.add(failing)
    app = forked(calls, "ab bc ad de cf ef f.").compile()
    with pytest.raises(hf.StepFailedError, match=f"{failing} is broken") as caught:
        run(app.run(State(), store=cp, run_id="run"))
    assert caught.value.state == State(1, ["a"])
    info = cp.run("run")
    assert info is not None
    assert info.status == "failed"
    before = dict(calls)
    calls.failing.clear()
    assert run(app.resume("run", store=cp)).log == list("abcdef")
    assert calls == dict.fromkeys("abcdef", 1) | {failing: before[failing] + 1}


def test_what_finishes_while_another_branch_fails_is_kept(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    calls.failing.add("b")

    async def slow(state: State) -> State:
        while not calls["b"]:
            await asyncio.sleep(0)
        return calls.node("c")(state)

    graph = forked(calls, "ab bd d.").add_node("c", slow)
    app = graph.add_edge("a", "c").add_edge("c", "d").compile()
    with pytest.raises(hf.StepFailedError, match="b is broken"):
        run(app.run(State(), store=cp, run_id="run"))
    calls.failing.clear()
    assert run(app.resume("run", store=cp)).log == list("abcd")
    assert calls["c"] == 1


def test_a_retry_in_one_branch_leaves_the_others_alone(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    tries: list[int] = []

    def flaky(state: State) -> State:
        tries.append(current_step().attempt)
        if len(tries) < 3:
            raise OSError("again")
        return calls.node("b")(state)

    graph = forked(calls, "ac cd d.").add_node("b", flaky, retry=Retry(3, backoff=0))
    app = graph.add_edge("a", "b").add_edge("b", "d").compile()
    assert run(app.run(State(), store=cp, run_id="run")).log == list("abcd")
    assert (tries, calls["c"]) == ([1, 2, 3], 1)


def test_runs_of_one_graph_do_not_mix(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app: CompiledGraph[State] = forked(calls, "ab bc ad de cf ef f.").compile()

    async def main() -> list[State]:
        return await asyncio.gather(
            *(app.run(State(0, [f"run {n}"]), store=cp, run_id=f"run-{n}") for n in range(20))
        )

    assert [state.log for state in run(main())] == [[f"run {n}", *"abcdef"] for n in range(20)]
    assert set(calls.values()) == {20}


def test_the_guard_counts_every_branch_and_what_they_finish_is_kept(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    graph = forked(calls, "ab ac cd ce de e.").add_conditional_edge(
        "b", lambda s: "b" if s.n < 30 else "e", ["b", "e"]
    )
    with pytest.raises(hf.LoopLimitError) as caught:
        run(graph.compile(max_steps=10).run(State(), store=cp, run_id="run"))
    assert caught.value.run_id == "run"
    before = calls["b"]
    assert run(graph.compile().resume("run", store=cp)).log == [*"a", *"b" * 29, *"cde"]
    assert calls["b"] == 29, f"{before} of them were not run again"


def test_a_guard_that_just_suffices_suffices_after_a_crash_too(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    app = forked(calls, "ab ac b. c.").compile(max_steps=3)

    def fails(before: State, branches: dict[str, State]) -> State:
        raise RuntimeError("not today")

    with pytest.raises(hf.StepFailedError, match="not today"):
        run(forked(calls, "ab ac b. c.").compile(merge=fails).run(State(), store=cp, run_id="run"))
    assert run(app.resume("run", store=cp)).log == list("abc")


# --- found by their names


def test_a_node_of_a_branch_is_loaded_by_its_name(cp: hf.SyncCheckpointer) -> None:
    app = forked(Calls(), "ab ac bd be df ef fg cg g.").compile()
    run(app.run(State(), store=cp, run_id="run"))
    logs = {"a": "a", "b": "ab", "c": "ac", "d": "abd", "e": "abe", "f": "abdef"}
    for name, log in logs.items():
        loaded = cp.load("run", step=name, as_type=State)
        assert loaded is not None
        assert loaded.state == State(len(log), list(log))
        same = cp.load("run", seq=loaded.seq, as_type=State)
        assert same is not None
        assert same.state == loaded.state
        assert [info.seq for info in cp.list_checkpoints("run", step=name)] == [loaded.seq]
    by_path = cp.load("run", step="a>c/c")
    assert by_path == cp.load("run", step="c")


def test_of_several_visits_in_and_outside_of_branches_the_newest_is_loaded(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    graph = forked(calls, "bd cd", entry="c")
    graph.add_conditional_edge("d", lambda s: ["b", "c"] if s.n < 3 else END, ["b", "c", END])
    run(graph.compile().run(State(), store=cp, run_id="run"))
    assert calls == {"c": 2, "d": 2, "b": 1}
    inside, outside = cp.list_checkpoints("run", step="c")
    assert (inside.step, outside.step) == ("d>c/c", "c")
    newest = cp.load("run", step="c", as_type=State)
    assert newest is not None
    assert (newest.seq, newest.state.log) == (inside.seq, ["c", "d", "c"])
    cp.rollback("run", seq=outside.seq)
    before = cp.load("run", step="c", as_type=State)
    assert before is not None
    assert (before.seq, before.state.log) == (outside.seq, ["c"])


def test_names_that_look_like_paths_are_found_as_they_are(cp: hf.SyncCheckpointer) -> None:
    calls = Calls()
    names = ["y", "y#2", "x/y", "x>y", "%23"]
    graph = Graph(State, merge=join).add_node("x", calls.node("x")).set_entry("x")
    for name in names:
        graph.add_node(name, calls.node(name)).add_edge("x", name).add_edge(name, END)
    run(graph.compile().run(State(), store=cp, run_id="run"))
    for name in names:
        loaded = cp.load("run", step=name, as_type=State)
        assert loaded is not None
        assert loaded.state.log == ["x", name]


def test_a_fork_from_within_a_branch_takes_an_edited_state_of_that_branch(
    cp: hf.SyncCheckpointer,
) -> None:
    calls = Calls()
    app = forked(calls, "ab ac bd ce df ef f.").compile()
    run(app.run(State(), store=cp, run_id="run"))
    calls.clear()
    later = max(cp.list_checkpoints("run", step=name)[0].seq for name in "bc")
    inside = cp.load("run", seq=later, as_type=State)
    assert inside is not None
    edited = State(2, ["a", "edited"])
    forked_off = cp.fork("run", seq=later, run_id="fork", state=edited)
    assert forked_off.run_id == "fork"
    final = run(app.resume("fork", store=cp))
    other = "b" if inside.state.log[-1] == "c" else "c"
    assert {"edited", other, "d", "e", "f"} == set(final.log) - {"a"}
    assert calls["a"] == calls["b"] == calls["c"] == 0


def test_another_runs_state_inside_a_branch_is_read_by_the_nodes_name(
    cp: hf.SyncCheckpointer,
) -> None:
    run(forked(Calls(), DIAMOND).compile().run(State(), store=cp, run_id="first"))

    def look(state: State) -> State:
        found: State = hf.state_of("first", step="c", as_type=State)
        return found

    app = Graph(State).add_node("look", look).add_edge("look", END).set_entry("look").compile()
    assert run(app.run(State(), store=cp, run_id="second")) == State(2, ["a", "c"])


def test_a_verified_state_inside_a_branch_is_read_by_the_nodes_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cp: hf.SyncCheckpointer
) -> None:
    monkeypatch.chdir(tmp_path)

    def write(state: State) -> State:
        Path("c.txt").write_text("c")
        return State(state.n + 1, [*state.log, "c"])

    calls = Calls()
    graph = forked(calls, "ab bd").add_node("c", write, outputs=["c.txt"]).add_edge("a", "c")
    run(
        graph.add_edge("c", "d").add_edge("d", END).compile().run(State(), store=cp, run_id="first")
    )

    def look(state: State) -> State:
        found: State = hf.state_of("first", step="c", as_type=State, verified=True)
        return found

    app = Graph(State).add_node("look", look).add_edge("look", END).set_entry("look").compile()
    assert run(app.run(State(), store=cp, run_id="second")) == State(2, ["a", "c"])
    Path("c.txt").unlink()
    with pytest.raises(hf.StepFailedError, match="CheckpointNotFoundError"):
        run(app.run(State(), store=cp, run_id="third"))


@pytest.mark.parametrize("meta", ["{", "[]", '{"next_steps": [], "step_name": 7}'])
def test_a_list_by_name_passes_over_an_entry_with_damaged_metadata(
    tmp_path: Path, meta: str
) -> None:
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        run(forked(Calls(), DIAMOND).compile().run(State(), store=cp, run_id="run"))
        (of_b,), (of_c,) = (cp.list_checkpoints("run", step=name) for name in "bc")
        with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
            db.execute("UPDATE holdfast_entries SET meta = ? WHERE seq = ?", (meta, of_b.seq))
        assert [info.seq for info in cp.list_checkpoints("run", step="c")] == [of_c.seq]
        assert cp.list_checkpoints("run", step="b") == []
        assert [info.seq for info in cp.list_checkpoints("run", step="a>b/b")] == [of_b.seq]
        with pytest.raises(hf.CheckpointCorruptedError):
            cp.load("run", seq=of_b.seq)
