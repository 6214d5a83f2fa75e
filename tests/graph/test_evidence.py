"""Verified resumes of graphs: what nodes claimed about the world is checked before it is trusted."""

from __future__ import annotations

import gc
import os
import sys
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.events import CheckpointRejected, Event, RunStarted, StepCompleted
from holdfast.evidence import (
    Context,
    Evidence,
    EvidenceVerifier,
    Policy,
    Verdict,
    inconclusive,
    verified,
)
from holdfast.graph import END, CheckpointStrategy, CompiledGraph, Graph, Retry, command
from holdfast.model import Kind
from holdfast.operations import forking as forking_module
from tests.engine.desk import Desk, entries, kinds, reasons, rejected, there
from tests.holders import held_here

from .flows import State, join, run


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    place = tmp_path / "desk"
    place.mkdir()
    return Desk(place)


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hf.Store]:
    kind = getattr(request, "param", "sqlite")
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/runs.db"}[kind]
    opened = hf.open_store(url)
    gc.freeze()  # the collector need not look at what earlier tests left alive
    yield opened
    gc.collect()
    assert not held_here(), "a run is still held to be carried out here"
    with hf.SyncCheckpointer(opened) as checkpointer:
        for found in checkpointer.runs():
            assert checkpointer.verify(found.run_id).ok
    opened.close()


every_store = pytest.mark.parametrize("store", ["memory", "sqlite"], indirect=True)


def node(desk: Desk, name: str) -> Callable[[State], State]:
    def fn(state: State) -> State:
        desk.write(name)
        state.n += 1
        state.log.append(name)
        return state

    return fn


def line(desk: Desk, names: str = "abc", **options: Any) -> Graph[State]:
    """One node after another, each of which writes a file."""
    graph = Graph(State)
    for name in names:
        graph.add_node(name, node(desk, name), outputs=desk / name, **options)
    for source, target in zip(names, [*names[1:], END], strict=True):
        graph.add_edge(source, target)
    return graph.set_entry(names[0])


async def until(app: CompiledGraph[State], store: hf.Store, last: str, **options: Any) -> None:
    """Carry a run out until a node is finished, and leave it there as a process that dies does."""
    async for event in app.stream(State(), store=store, run_id="r", **options):
        if isinstance(event, StepCompleted) and event.name == last:
            return


def stopped(
    app: CompiledGraph[State], store: hf.Store, desk: Desk, last: str, **options: Any
) -> None:
    run(until(app, store, last, **options))
    desk.take()


async def collected(app: CompiledGraph[State], store: hf.Store, **options: Any) -> list[Event]:
    return [event async for event in app.resume_stream("r", store=store, **options)]


Resume = Callable[[CompiledGraph[State], hf.Store], State]


def by_resume(app: CompiledGraph[State], store: hf.Store) -> State:
    return run(app.resume("r", store=store))


def by_resume_sync(app: CompiledGraph[State], store: hf.Store) -> State:
    return app.resume_sync("r", store=store)


def by_stream(app: CompiledGraph[State], store: hf.Store) -> State:
    (*_, last) = run(collected(app, store))
    result: State = last.result  # type: ignore[attr-defined]
    return result


@every_store
@pytest.mark.parametrize("resume", [by_resume, by_resume_sync, by_stream])
@pytest.mark.parametrize(("gone", "again"), [("", "c"), ("a", "abc"), ("b", "bc"), ("ab", "abc")])
def test_a_lost_file_is_made_again_and_what_came_before_it_is_not(
    store: hf.Store, desk: Desk, resume: Resume, gone: str, again: str
) -> None:
    app = line(desk).compile()
    stopped(app, store, desk, "b")
    for name in gone:
        (desk / name).unlink()
    assert resume(app, store) == State(3, ["a", "b", "c"])
    assert desk.take() == list(again)
    assert desk.holds("a", "b", "c")


def test_each_skipped_checkpoint_is_reported_with_its_reason_after_it_is_recorded(
    store: hf.Store, desk: Desk
) -> None:
    app = line(desk).compile()
    stopped(app, store, desk, "c")
    (desk / "b").write_text("something else")
    events = run(collected(app, store))
    assert [type(event) for event in events[:3]] == [
        RunStarted, CheckpointRejected, CheckpointRejected,
    ]  # fmt: skip
    assert rejected(events) == ["c", "b"]
    told = [(step, reason) for _, step, reason in reasons(store, "r")]
    assert told == [
        (event.step, event.reason) for event in events if isinstance(event, CheckpointRejected)
    ]
    found = kinds(store, "r")
    at = found.index(Kind.ROLLBACK)
    assert found[at + 1] == Kind.CLAIM
    assert Kind.CHECKPOINT in found[at + 2 :]


@every_store
def test_a_completed_run_resumes_only_if_a_claim_does_not_verify_any_more(
    store: hf.Store, desk: Desk
) -> None:
    app = line(desk).compile()
    run(app.run(State(), store=store, run_id="r"))
    desk.take()
    before = entries(store, "r")
    with pytest.raises(hf.RunFinishedError):
        by_resume(app, store)
    assert entries(store, "r") == before
    (desk / "b").unlink()
    assert by_resume(app, store) == State(3, ["a", "b", "c"])
    assert desk.take() == ["b", "c"]
    with pytest.raises(hf.RunFinishedError):
        by_resume(app, store)


@pytest.mark.parametrize("trust", ["stored", "skip"])
def test_whoever_does_not_want_to_look_need_not(store: hf.Store, desk: Desk, trust: Any) -> None:
    app = line(desk).compile()
    stopped(app, store, desk, "b")
    (desk / "a").unlink()
    assert run(app.resume("r", store=store, trust=trust)).log == ["a", "b", "c"]
    assert desk.take() == ["c"]


def test_an_undecided_check_stops_the_resume_as_often_as_it_is_tried(
    store: hf.Store, desk: Desk
) -> None:
    up = [True]

    def answers(evidence: Evidence, context: Context) -> Verdict:
        return verified() if up[0] else inconclusive("nobody answers")

    checker = EvidenceVerifier()
    checker.register_check("answers", answers)
    claim = Evidence("answers", "the service answers", {})
    graph = Graph(State).add_node("a", node(desk, "a"), evidence=claim, outputs=desk / "a")
    graph.add_node("b", node(desk, "b")).add_edge("a", "b").add_edge("b", END).set_entry("a")
    app = graph.compile(verifier=checker)
    stopped(app, store, desk, "a")
    before = entries(store, "r")
    up[0] = False
    for _ in range(3):
        with pytest.raises(hf.VerificationError, match="the service answers"):
            by_resume(app, store)
    assert entries(store, "r") == before
    assert run(app.resume("r", store=store, trust="skip")).log == ["a", "b"]
    assert desk.take() == ["b"]


def test_a_claim_is_compared_with_the_state_that_its_node_leaves(
    store: hf.Store, desk: Desk
) -> None:
    """The same when the node is finished as when it is resumed, whatever the node returns."""

    @dataclass
    class Built:
        exit_code: int | None = None

    def in_place(state: Built) -> None:
        state.exit_code = 0

    def whole(state: Built) -> Built:
        return Built(0)

    def change(state: Built) -> dict[str, Any]:
        return {"exit_code": 0}

    claim = Evidence("command_exit", "it went well", {"exit_code": 0})
    for fn in (in_place, whole, change):
        graph = Graph(Built).add_node("a", fn, evidence=claim).add_edge("a", END)
        app = graph.set_entry("a").compile()
        assert run(app.run(Built(), store=store, run_id=fn.__name__)) == Built(0)
        with pytest.raises(hf.RunFinishedError):
            run(app.resume(fn.__name__, store=store))
    graph = Graph(Built).add_node("a", lambda _: None, evidence=claim).add_edge("a", END)
    with pytest.raises(hf.StepFailedError, match="it went well"):
        run(graph.set_entry("a").compile().run(Built(), store=store, run_id="none"))


def test_a_node_whose_claims_are_not_so_fails(store: hf.Store, desk: Desk) -> None:
    def nothing(state: State) -> State:
        desk.call("nothing")
        return state

    every: list[dict[str, Any]] = [{"outputs": desk / "x"}, {"evidence": there(desk / "x")}]
    for claims in every:
        graph = Graph(State).add_node("a", nothing, retry=Retry(2, 0.001), **claims)
        app = graph.add_edge("a", END).set_entry("a").compile()
        with pytest.raises(hf.StepFailedError, match="x"):
            run(app.run(State(), store=store, run_id=f"r-{len(desk.calls)}"))
    assert len(desk.calls) == 4


# --- loops


def looping(desk: Desk, rounds: int = 4) -> CompiledGraph[State]:
    """A node that rewrites the same file every time round."""

    def work(state: State) -> State:
        state.n += 1
        desk.write("log", "x" * state.n)
        return state

    def again(state: State) -> str:
        return "work" if state.n < rounds else "end"

    graph = Graph(State).add_node("work", work, outputs=desk / "log")
    graph.add_node("end", node(desk, "end"), outputs=desk / "end")
    graph.add_conditional_edge("work", again, ["work", "end"])
    return graph.add_edge("end", END).set_entry("work").compile()


@every_store
def test_a_loop_that_rewrites_a_file_is_no_failure(store: hf.Store, desk: Desk) -> None:
    app = looping(desk)

    async def main() -> None:
        rounds = 0
        async for event in app.stream(State(), store=store, run_id="r"):
            rounds += isinstance(event, StepCompleted)
            if rounds == 3:
                return

    run(main())
    desk.take()
    assert by_resume(app, store).n == 5
    assert desk.take() == ["log", "end"], "three rounds were done"
    (desk / "log").unlink()
    assert by_resume(app, store).n == 5
    assert desk.take() == [*["log"] * 4, "end"]
    assert (desk / "log").read_text() == "xxxx"


def test_a_resume_does_not_hold_all_states_in_memory(tmp_path: Path) -> None:
    size, rounds = 1 << 20, 60

    def grow(state: dict[str, Any]) -> dict[str, Any]:
        return {"n": state["n"] + 1, "noise": os.urandom(size)}

    graph = Graph(dict).add_node("grow", grow).set_entry("grow")
    graph.add_node("stop", lambda state: int("x") if stops else None).add_edge("stop", END)
    graph.add_conditional_edge("grow", lambda s: "grow" if s["n"] < rounds else "stop")
    app = graph.compile()
    url, stops = f"sqlite:///{tmp_path}/runs.db", True
    with pytest.raises(hf.StepFailedError):
        app.run_sync({"n": 0}, store=url, run_id="r")
    stops = False
    tracemalloc.start()
    try:
        assert app.resume_sync("r", store=url)["n"] == rounds
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < rounds * size * 2 / 3


# --- side by side


def on_the_loop(work: Callable[[State], State]) -> Callable[[State], Awaitable[State]]:
    """A node that is over when the run is stopped: one in a thread would run on."""

    async def call(state: State) -> State:
        return work(state)

    return call


def forking(desk: Desk) -> CompiledGraph[State]:
    graph = Graph(State, merge=join)
    for name in ("start", "left", "left2", "right", "after"):
        graph.add_node(name, on_the_loop(node(desk, name)), outputs=desk / name)
    for source, target in (
        ("start", "left"), ("start", "right"), ("left", "left2"), ("left2", "after"),
        ("right", "after"), ("after", END),
    ):  # fmt: skip
        graph.add_edge(source, target)
    return graph.set_entry("start").compile()


@pytest.mark.parametrize("gone", ["left", "left2", "right", "after", "start"])
@pytest.mark.parametrize("last", ["left2", "after"])
def test_what_branches_wrote_is_checked_one_by_one(
    store: hf.Store, desk: Desk, gone: str, last: str
) -> None:
    app = forking(desk)
    whole = ["start", "left", "left2", "right", "after"]
    stopped(app, store, desk, last)
    (desk / gone).unlink(missing_ok=True)
    final = by_resume(app, store)
    assert final == State(5, whole)
    again = desk.take()
    assert last == "left2" or gone in again
    assert len(again) == len(set(again)), "each is run once"
    assert desk.holds(*whole)
    (desk / gone).unlink()
    assert by_resume(app, store) == final
    again = desk.take()
    assert set(again) <= set(whole[0 if gone == "start" else 1 :])
    assert gone in again
    assert ("start" in again) == (gone == "start"), "what holds is not repeated"
    assert desk.holds(*whole)


def test_a_repair_keeps_the_answer_to_what_was_asked_beside_the_node(
    store: hf.Store, desk: Desk
) -> None:
    def price(state: State, n: int) -> State:
        state.log.append(f"price {n}")
        return state

    graph = Graph(State, merge=join).add_question("price", "Price?", into=price, returns=int)
    for name in ("start", "left", "after"):
        graph.add_node(name, node(desk, name), outputs=desk / name)
    for source, target in (
        ("start", "left"), ("start", "price"), ("left", "after"), ("price", "after"), ("after", END),
    ):  # fmt: skip
        graph.add_edge(source, target)
    app = graph.set_entry("start").compile()
    with pytest.raises(hf.RunPausedError):
        run(app.run(State(), store=store, run_id="r"))
    run(app.answer("r", 42, store=store))
    (desk / "left").unlink()
    desk.take()
    assert by_resume(app, store).log == ["start", "left", "price 42", "after"]
    assert desk.take() == ["left", "after"]


# --- strategies and durability


@pytest.mark.parametrize("strategy", [CheckpointStrategy.MARKED, CheckpointStrategy.ON_ERROR])
def test_claims_of_nodes_that_are_not_saved_by_themselves_are_kept(
    store: hf.Store, desk: Desk, strategy: CheckpointStrategy
) -> None:
    """Of the states only the newest is saved, of the claims each."""
    graph = line(desk, "abc").add_node("d", node(desk, "d"), checkpoint=True)
    graph.add_node("e", node(desk, "e"))
    graph._edges["c"] = ["d"]
    app = graph.add_edge("d", "e").add_edge("e", END).compile()
    desk.broken.add("e")
    with pytest.raises(hf.StepFailedError):
        run(app.run(State(), store=store, run_id="r", checkpoint_after=strategy))
    desk.broken.clear()
    desk.take()
    (desk / "b").unlink()
    final = run(app.resume("r", store=store, checkpoint_after=strategy))
    assert final.log == list("abcde")
    assert desk.take() == ["b", "c", "d", "e"]
    assert desk.holds("a", "b", "c")


@pytest.mark.parametrize("strategy", list(CheckpointStrategy))
def test_a_file_rewritten_by_a_node_that_is_not_saved_by_itself_is_no_failure(
    store: hf.Store, desk: Desk, strategy: CheckpointStrategy
) -> None:
    def write(text: str) -> Callable[[State], Any]:
        return lambda _: desk.write("log", text) and None

    graph = Graph(State).add_node("a", write("1"), outputs=desk / "log", checkpoint=True)
    graph.add_node("b", write("2"), outputs=desk / "log")
    app = graph.add_edge("a", "b").add_edge("b", END).set_entry("a").compile()
    run(app.run(State(), store=store, run_id="r", checkpoint_after=strategy))
    desk.take()
    with pytest.raises(hf.RunFinishedError):
        run(app.resume("r", store=store, checkpoint_after=strategy))
    (desk / "log").unlink()
    run(app.resume("r", store=store, checkpoint_after=strategy))
    assert desk.take() == ["log", "log"]


@every_store
@pytest.mark.parametrize("durability", ["exit", "async"])
def test_what_is_saved_later_is_claimed_all_the_same(
    store: hf.Store, desk: Desk, durability: Any
) -> None:
    app = line(desk).compile()

    async def main() -> None:
        async with hf.Checkpointer(store, durability=durability) as cp:
            await app.run(State(), store=cp, run_id="r")
            desk.take()
            (desk / "b").unlink()
            assert (await app.resume("r", store=cp)).log == ["a", "b", "c"]
            assert desk.take() == ["b", "c"]

    run(main())


# --- commands


def test_a_command_is_a_node_whose_exit_code_is_evidence(store: hf.Store, desk: Desk) -> None:
    def words(state: dict[str, Any]) -> list[str]:
        program = "import sys; open(sys.argv[1], 'a').write('x'); print('first\\n' + sys.argv[2])"
        return [sys.executable, "-c", program, str(desk / "report"), state["word"]]

    graph = Graph(dict[str, Any])
    graph.add_node("make", command(words, into="made", tail=8), outputs=desk / "report")
    graph.add_node("end", lambda state: None).add_edge("make", "end").add_edge("end", END)
    app = graph.set_entry("make").compile()
    final = run(app.run({"word": "hello"}, store=store, run_id="r"))
    assert final["made"]["exit_code"] == 0
    assert final["made"]["stdout"] == "hello\n"
    assert final["made"]["truncated"] is True, "of the eight bytes that were asked for"
    with pytest.raises(hf.RunFinishedError):
        run(app.resume("r", store=store))
    (desk / "report").unlink()
    run(app.resume("r", store=store))
    assert (desk / "report").read_text() == "x"


def test_a_step_of_a_workflow_is_no_node_and_the_error_says_what_to_take() -> None:
    from holdfast.workflow import command as of_workflows

    wrong: Any = of_workflows(["make", "report"])
    with pytest.raises(TypeError, match=r"not a Step: use holdfast\.graph\.command") as raised:
        Graph(State).add_node("report", wrong)
    assert len(str(raised.value)) < 120
    del wrong, raised
    gc.collect()  # no warning follows that it was never awaited: that would be no remedy


# --- files that the state names, and files that are gone


def test_paths_may_depend_on_the_state_that_the_node_is_given(store: hf.Store, desk: Desk) -> None:
    (desk / "b.in").write_text("1")

    def write(state: dict[str, Any]) -> None:
        desk.write(state["name"], (desk / f"{state['name']}.in").read_text())

    def remove(state: dict[str, Any]) -> dict[str, Any]:
        desk.call("remove")
        (desk / state["name"]).unlink()
        return {"removed": state["name"]}

    graph = Graph(dict[str, Any])
    graph.add_node(
        "write", write,
        reads=lambda state: desk / f"{state['name']}.in",
        outputs=lambda returned, state: desk / state["name"],
    )  # fmt: skip
    graph.add_node("remove", remove, removes=lambda returned: desk / returned["removed"])
    graph.add_edge("write", "remove").add_edge("remove", END)
    app = graph.set_entry("write").compile()
    run(app.run({"name": "b"}, store=store, run_id="r"))
    with pytest.raises(hf.RunFinishedError):
        run(app.resume("r", store=store))
    assert desk.take() == ["b", "remove"]
    (desk / "b.in").write_text("2")
    run(app.resume("r", store=store))
    assert desk.take() == ["b", "remove"]
    (desk / "b").touch()
    with pytest.raises(hf.StepFailedError, match="b still exists"):
        keeps = Graph(dict[str, Any]).add_node("keep", lambda _: None, removes=desk / "b")
        run(
            keeps.add_edge("keep", END).set_entry("keep").compile().run({}, store=store, run_id="k")
        )


def test_a_node_that_could_never_be_verified_is_not_called(store: hf.Store, desk: Desk) -> None:
    claim = Evidence("artifact_exists", "typed wrongly", {"pth": "x"})
    graph = Graph(State).add_node("a", node(desk, "a"), evidence=claim).add_edge("a", END)
    with pytest.raises(hf.StepFailedError, match="'pth' is not among"):
        run(graph.set_entry("a").compile().run(State(), store=store, run_id="r"))
    assert desk.take() == []


# --- forks, going back, versions, retention


@every_store
def test_a_fork_is_checked_for_the_claims_of_its_origin(store: hf.Store, desk: Desk) -> None:
    app = line(desk, "abcd").compile()
    stopped(app, store, desk, "c")
    with hf.SyncCheckpointer(store) as cp:
        loaded = cp.load("r")
        assert loaded is not None
        cp.fork("r", run_id="same")
        cp.fork("r", run_id="edited", state={**loaded.state, "n": 10})
        cp.fork("same", run_id="again")
    for name in ("same", "edited", "again"):
        final = run(app.resume(name, store=store))
        assert final.n == (11 if name == "edited" else 4)
        assert desk.take() == ["d"]
    (desk / "a").unlink()
    for name in ("same", "edited", "again"):
        assert run(app.resume(name, store=store)).n == 4, "from the very beginning"
        (desk / "a").unlink()
        assert desk.take() == ["a", "b", "c", "d"]


def test_a_fork_that_rewrites_what_its_origin_claimed_is_no_failure(
    store: hf.Store, desk: Desk
) -> None:
    app = looping(desk)

    async def main() -> None:
        async for event in app.stream(State(), store=store, run_id="r"):
            if isinstance(event, StepCompleted):
                return

    run(main())
    desk.take()
    with hf.SyncCheckpointer(store) as cp:
        cp.fork("r", run_id="fork")
    run(app.resume("fork", store=store))
    assert desk.take() == [*["log"] * 3, "end"]
    with pytest.raises(hf.RunFinishedError):
        run(app.resume("fork", store=store))


def test_a_fork_carries_only_the_claims_that_nothing_supersedes(
    store: hf.Store, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(state: State) -> State:
        desk.write("log", "x" * (state.n + 1))
        desk.write(f"part {state.n % 3}")
        return State(state.n + 1)

    def written(state: State) -> list[Path]:
        return [desk / "log", desk / f"part {(state.n - 1) % 3}"]

    app = (
        Graph(State)
        .add_node("work", work, outputs=written)
        .add_conditional_edge("work", lambda state: "work" if state.n < 20 else END)
        .set_entry("work")
        .compile()
    )
    run(app.run(State(), store=store, run_id="r"))
    with hf.SyncCheckpointer(store) as cp:
        for origin, name in (("r", "f"), ("f", "ff"), ("ff", "fff")):
            forked = cp.fork(origin, run_id=name)
            assert len(forked.meta.inherited) == 2, "the other parts"
        for name in ("log", "part 0", "part 1", "part 2"):
            cp.fork("fff", run_id=f"without {name}")
            (desk / name).unlink()
            run(app.resume(f"without {name}", store=store))
            assert (desk / name).exists(), "none of them is forgotten"
        monkeypatch.setattr(forking_module, "MAX_INHERITED", 100)
        with pytest.raises(ValueError, match="fork an earlier checkpoint"):
            cp.fork("r", run_id="too much")
        assert cp.run("too much") is None


def test_going_back_to_a_node_is_going_back_to_what_holds(store: hf.Store, desk: Desk) -> None:
    app = line(desk).compile()
    run(app.run(State(), store=store, run_id="r"))
    desk.take()
    assert run(app.resume("r", store=store, from_node="c")).log == ["a", "b", "c"]
    assert desk.take() == ["c"]
    assert run(app.resume("r", store=store, from_node="b", override={"n": 40})).n == 42
    assert desk.take() == ["b", "c"]
    (desk / "a").unlink()
    events = run(collected(app, store, from_node="c"))
    assert rejected(events) == ["b", "a", "a"], "what someone put there by hand, too"
    assert desk.take() == ["a", "b", "c"]


def test_a_run_of_an_older_version_is_checked_as_well(store: hf.Store, desk: Desk) -> None:
    stopped(line(desk).compile(), store, desk, "b")
    (desk / "b").unlink()
    app = line(desk, "abcd").compile(migrate=hf.Migrations(2, {1: None}))
    assert by_resume(app, store).log == ["a", "b", "c", "d"]
    assert desk.take() == ["b", "c", "d"]


def test_a_pruned_run_never_continues_from_a_file_that_was_tampered_with(
    store: hf.Store, desk: Desk
) -> None:
    """The checkpoint that claimed it is gone: the run goes back to the very beginning."""
    app = line(desk).compile()
    run(app.run(State(), store=store, run_id="r"))
    desk.take()
    with hf.SyncCheckpointer(store) as cp:
        cp.prune("r", keep_latest=1)
    with pytest.raises(hf.RunFinishedError):
        by_resume(app, store)
    (desk / "a").write_text("tampered")
    assert by_resume(app, store) == State(3, ["a", "b", "c"])
    assert desk.take() == ["a", "b", "c"]


def test_a_repaired_node_keeps_its_idempotency_key(store: hf.Store, desk: Desk) -> None:
    keys: list[str] = []

    def work(state: State) -> None:
        keys.append(hf.current_step().idempotency_key)
        desk.write("b")

    graph = Graph(State).add_node("a", node(desk, "a"), outputs=desk / "a")
    graph.add_node("b", work, outputs=desk / "b").add_edge("a", "b").add_edge("b", END)
    app = graph.set_entry("a").compile()
    run(app.run(State(), store=store, run_id="r"))
    (desk / "b").unlink()
    by_resume(app, store)
    assert keys[0] == keys[1]
    run(app.resume("r", store=store, from_node="b"))
    assert keys[2] != keys[1], "done anew on purpose"
    (desk / "a").unlink()
    by_resume(app, store)
    assert keys[3] == keys[2], "and repaired after that"


# --- claims from within, policies


def test_a_node_claims_from_within(store: hf.Store, desk: Desk) -> None:
    async def work(state: State) -> None:
        desk.write("a")
        hf.current_step().claim(there(desk / "a"))

    app = Graph(State).add_node("a", work).add_edge("a", END).set_entry("a").compile()
    run(app.run(State(), store=store, run_id="r"))
    desk.take()
    (desk / "a").unlink()
    by_resume(app, store)
    assert desk.take() == ["a"]


def test_nothing_outside_the_roots_of_the_verifier_can_be_claimed(
    store: hf.Store, desk: Desk, tmp_path: Path
) -> None:
    inside = desk / "inside"
    inside.mkdir()
    verifier = EvidenceVerifier(policy=Policy(roots=(inside,)))
    app = line(desk, "a").compile(verifier=verifier)
    with pytest.raises(hf.StepFailedError, match="EvidencePolicyError"):
        run(app.run(State(), store=store, run_id="r"))
    (inside / "link").symlink_to(desk / "a")

    graph = Graph(State).add_node("a", node(desk, "a"), outputs=inside / "link")
    app = graph.add_edge("a", END).set_entry("a").compile(verifier=verifier)
    with pytest.raises(hf.StepFailedError, match=r"EvidencePolicyError|symlink|symbolic|outside"):
        run(app.run(State(), store=store, run_id="s"))


@dataclass
class Made:
    files: list[str] = field(default_factory=list)


def test_outputs_may_depend_on_what_a_node_returned(store: hf.Store, desk: Desk) -> None:
    def work(made: Made) -> Made:
        desk.write("a")
        return Made(["a"])

    graph = Graph(Made).add_node("a", work, outputs=lambda made: [desk / f for f in made.files])
    app = graph.add_edge("a", END).set_entry("a").compile()
    run(app.run(Made(), store=store, run_id="r"))
    (desk / "a").unlink()
    assert run(app.resume("r", store=store)) == Made(["a"])
    assert desk.take() == ["a", "a"]


def test_nothing_is_kept_where_there_is_no_store(desk: Desk) -> None:
    assert run(line(desk).compile().run(State())).log == ["a", "b", "c"]
