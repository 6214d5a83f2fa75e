"""What a state may be, what a node may return, and that nobody shares a state with anybody."""

from __future__ import annotations

import asyncio
import copy
import os
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, TypedDict, TypeVar

import pydantic
import pytest

import holdfast as hf
from holdfast.engine.context import current_step
from holdfast.engine.events import StepCompleted
from holdfast.graph import END, CompiledGraph, Graph, Retry
from tests.graph.flows import Calls, State, run


@dataclass
class Address:
    city: str
    since: datetime


@dataclass
class Person:
    name: str = "ann"
    homes: list[Address] = field(default_factory=list)
    by_year: dict[int, Address] = field(default_factory=dict)
    pair: tuple[int, str] = (1, "a")
    tags: set[str] = field(default_factory=set)


class Model(pydantic.BaseModel):
    n: int = 0
    inner: list[Address] = []


class Typed(TypedDict, total=False):
    n: int
    home: Address


HOME = Address("Ulm", datetime(2026, 1, 2, tzinfo=UTC))


def chain(kind: Any, *nodes: Any, **options: Any) -> CompiledGraph[Any]:
    graph: Graph[Any] = Graph(kind)
    for index, fn in enumerate(nodes):
        graph.add_node(f"node{index}", fn, **options)
        graph.add_edge(f"node{index}", f"node{index + 1}" if index + 1 < len(nodes) else END)
    return graph.set_entry("node0").compile()


def test_a_nested_dataclass_keeps_its_types_from_node_to_node(cp: hf.SyncCheckpointer) -> None:
    seen: list[Person] = []

    def move(person: Person) -> Person:
        person.homes.append(HOME)
        person.by_year[2026] = HOME
        person.tags.add("moved")
        return person

    def look(person: Person) -> None:
        seen.append(person)

    final = run(chain(Person, move, look).run(Person(), store=cp, run_id="run"))
    assert final == seen[0] == Person("ann", [HOME], {2026: HOME}, (1, "a"), {"moved"})
    saved = cp.load("run", as_type=Person)
    assert saved is not None
    assert saved.state == final


def test_a_pydantic_model_is_validated_between_nodes(cp: hf.SyncCheckpointer) -> None:
    seen: list[Model] = []

    def note(model: Model) -> dict[str, Any]:
        return {"n": "5", "inner": [{"city": "Ulm", "since": HOME.since}]}

    final = run(chain(Model, note, seen.append).run(Model(), store=cp, run_id="run"))
    assert final == seen[0] == Model(n=5, inner=[HOME])


def test_a_model_refuses_what_does_not_fit_and_the_node_fails(cp: hf.SyncCheckpointer) -> None:
    with pytest.raises(hf.StepFailedError, match=r"node0.*ReviveError.*state"):
        run(chain(Model, lambda _: {"n": "many"}).run(Model(), store=cp, run_id="run"))


def test_an_error_says_which_node_returned_what_is_no_state(cp: hf.SyncCheckpointer) -> None:
    for state in (Model(), Person()):
        app: Any = chain(type(state), lambda _: 7)
        with pytest.raises(hf.StepFailedError, match="; node 'node0' returned it; return a state"):
            run(app.run(state, store=cp, run_id=type(state).__name__))
    with pytest.raises(hf.ReviveError, match=r"state: expected Person, found int$"):
        app(7)


def test_a_typed_dict_keeps_its_types_and_the_fields_that_a_node_leaves_out(
    cp: hf.SyncCheckpointer,
) -> None:
    app = chain(Typed, lambda _: {"home": HOME}, lambda state: {"n": state["n"] + 1})
    assert run(app.run({"n": 1}, store=cp, run_id="run")) == {"n": 2, "home": HOME}


def test_a_plain_dict_may_have_any_fields(cp: hf.SyncCheckpointer) -> None:
    def forget(state: dict[str, Any]) -> None:
        del state["old"]

    app = chain(dict, lambda state: {"new": state["old"] + 1}, forget)
    assert run(app.run({"old": 1}, store=cp, run_id="run")) == {"new": 2}


T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    item: T
    count: int = 0


def test_a_generic_state_may_be_named_with_its_parameter(cp: hf.SyncCheckpointer) -> None:
    app = chain(Box[Address], lambda box: {"count": 1}, lambda box: None)
    final = run(app.run(Box(HOME), store=cp, run_id="run"))
    assert final == Box(HOME, 1)


def test_a_node_returns_a_whole_state_some_fields_or_nothing(cp: hf.SyncCheckpointer) -> None:
    def in_place(state: State) -> None:
        state.log.append("in place")

    app = chain(
        State, lambda s: State(s.n + 1, [*s.log, "whole"]), lambda s: {"n": s.n + 1}, in_place
    )
    final = run(app.run(State(), store=cp, run_id="run"))
    assert final == State(2, ["whole", "in place"])


@pytest.mark.parametrize(
    ("kind", "start"), [(State, State()), (Model, Model()), (Typed, {"n": 1})], ids=str
)
def test_a_field_that_the_state_does_not_have_is_an_error_with_its_name(
    kind: Any, start: Any
) -> None:
    with pytest.raises(hf.StepFailedError, match=f"{kind.__name__} has no field 'nn'") as caught:
        run(chain(kind, lambda _: {"nn": 1}).run(start))
    assert caught.value.error_type == "TypeError"
    assert caught.value.state == start


def test_something_that_is_no_state_fails_the_node() -> None:
    with pytest.raises(hf.StepFailedError, match="node0"):
        run(chain(State, lambda _: 7).run(State()))


def test_a_state_that_does_not_fit_begins_no_run(cp: hf.SyncCheckpointer) -> None:
    wrong: Any = {"n": "many"}
    with pytest.raises(hf.ReviveError, match=r"state\.n"):
        run(chain(State, lambda s: s).run(wrong, store=cp, run_id="run"))
    assert cp.runs() == []


def test_the_state_that_a_run_begins_with_is_revived_once(cp: hf.SyncCheckpointer) -> None:
    made = []

    @dataclass
    class Counted:
        n: int

        def __post_init__(self) -> None:
            made.append(self.n)

    def again(state: Counted) -> Counted:
        state.n += 1
        return state

    app = Graph(Counted).add_node("a", again).add_edge("a", END).set_entry("a").compile()
    start = Counted(1)
    made.clear()
    assert app.run_sync(start, store=cp, run_id="r").n == 2
    assert made == [1, 2], "for the node, and what it made"
    assert start.n == 1


def test_a_state_that_cannot_be_stored_is_refused_with_the_path_to_it(
    cp: hf.SyncCheckpointer,
) -> None:
    app = chain(dict, lambda _: {"items": [1, {"callback": print}]})
    with pytest.raises(hf.SerializeError, match=r"inputs\.callback"):
        run(app.run({"callback": print}, store=cp, run_id="run"))
    assert cp.runs() == []
    with pytest.raises(hf.StepFailedError, match=r"state\.items\[1\]\.callback") as caught:
        run(app.run({"fine": 1}, store=cp, run_id="run"))
    assert isinstance(caught.value.__cause__, hf.SerializeError)
    assert caught.value.state == {"fine": 1}


# --- nobody shares


def test_the_callers_state_stays_as_it_is(cp: hf.SyncCheckpointer) -> None:
    mine = State(0, ["mine"])
    final = run(Calls().line("ab").compile().run(mine, store=cp, run_id="run"))
    assert mine == State(0, ["mine"])
    final.log.clear()
    saved = cp.load("run", as_type=State)
    assert saved is not None
    assert saved.state.log == ["mine", "a", "b"]


def test_a_node_that_keeps_its_state_cannot_change_what_others_are_given() -> None:
    kept: list[State] = []

    def keep(state: State) -> State:
        for old in kept:
            old.log.append("late")
        kept.append(state)
        return state

    assert run(chain(State, keep, keep, keep).run(State(0, ["x"]))) == State(0, ["x"])


def test_a_listener_gets_copies_of_its_own(cp: hf.SyncCheckpointer) -> None:
    async def main() -> State:
        async for event in Calls().line("abc").compile().stream(State(), store=cp, run_id="run"):
            if isinstance(event, StepCompleted):
                event.value.log.append("from outside")
        saved = cp.load("run", as_type=State)
        assert saved is not None
        state: State = saved.state
        return state

    assert run(main()).log == ["a", "b", "c"]


def test_a_route_that_changes_the_state_changes_nothing() -> None:
    def route(state: State) -> str:
        state.log.append("from the route")
        return END

    graph = Graph(State).add_node("a", Calls().node("a")).add_conditional_edge("a", route)
    assert run(graph.set_entry("a").compile().run(State())).log == ["a"]


def test_a_route_sees_the_state_as_the_next_node_will() -> None:
    seen: list[Any] = []

    def route(model: Model) -> str:
        seen.append(copy.deepcopy(model))
        return END

    graph = Graph(Model).add_node("a", lambda _: {"n": "5"}).add_conditional_edge("a", route)
    run(graph.set_entry("a").compile().run(Model()))
    assert seen == [Model(n=5)]


def test_another_attempt_is_given_a_fresh_state(cp: hf.SyncCheckpointer) -> None:
    seen: list[list[str]] = []

    def flaky(state: State) -> State:
        seen.append(list(state.log))
        state.log.append("half done")
        if len(seen) < 3:
            raise OSError("again")
        return state

    app = chain(State, flaky, retry=Retry(3, backoff=0))
    assert run(app.run(State(0, ["x"]), store=cp, run_id="run")).log == ["x", "half done"]
    assert seen == [["x"]] * 3


# --- where nodes run


def test_sync_nodes_run_beside_the_loop_async_ones_on_it_and_inline_ones_too() -> None:
    here = threading.get_ident()
    threads: dict[str, int] = {}

    def sync(state: State) -> None:
        threads[current_step().name] = threading.get_ident()

    async def awaits(state: State) -> None:
        await asyncio.sleep(0)
        threads[current_step().name] = threading.get_ident()

    graph = Graph(State).add_node("sync", sync).add_node("awaits", awaits)
    graph.add_node("inline", sync, inline=True).add_node("partial", partial(awaits))
    graph.add_edge("sync", "awaits").add_edge("awaits", "inline").add_edge("inline", "partial")
    run(graph.add_edge("partial", END).set_entry("sync").compile().run(State()))
    assert threads.pop("sync") != here
    assert set(threads.values()) == {here}


def test_a_node_runs_on_the_executor_it_is_given() -> None:
    names: list[str] = []

    def note(state: State) -> None:
        names.append(threading.current_thread().name)
        state.n += 1

    with ThreadPoolExecutor(1, thread_name_prefix="mine") as pool:
        assert run(chain(State, note, run_on=pool).run(State())).n == 1
    assert names[0].startswith("mine")


def elsewhere(state: State) -> None:
    state.log.append(f"{current_step().name} in {os.getpid()}")


def test_what_a_node_changes_in_another_process_is_not_lost() -> None:
    from multiprocessing import get_context

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        final = run(chain(State, elsewhere, run_on=pool).run(State()))
    assert final.log != [f"node0 in {os.getpid()}"]
    assert final.log[0].startswith("node0 in ")


def test_run_sync_calls_sync_nodes_right_here_and_needs_no_loop(cp: hf.SyncCheckpointer) -> None:
    threads: set[int] = set()

    def note(state: State) -> None:
        threads.add(threading.get_ident())
        state.n += 1

    app = chain(State, note, note)
    assert app.run_sync(State(), store=cp, run_id="run").n == 2
    assert threads == {threading.get_ident()}
    with pytest.raises(TypeError, match="'color'"):
        app.run_sync(State(), color="red")  # type: ignore[call-arg]

    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"`await run\(\.\.\.\)`"):
            app.run_sync(State())

    run(main())
