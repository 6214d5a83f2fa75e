"""Putting a graph together, what compiling refuses, and how a graph is drawn."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest

import holdfast as hf
from holdfast.graph import END, CompiledGraph, Graph, merge_changes
from tests.graph.flows import Calls, State, join, run


def same(state: State) -> State:
    return state


def graph(nodes: str, *edges: tuple[str, str], entry: str | None = "a", **options: Any) -> Any:
    made: Graph[State] = Graph(State, **options)
    for name in nodes:
        made.add_node(name, same)
    for source, target in edges:
        made.add_edge(source, target)
    return made if entry is None else made.set_entry(entry)


def problems(made: Graph[Any]) -> tuple[str, ...]:
    with pytest.raises(hf.InvalidFlowError) as caught:
        made.compile()
    return caught.value.problems


def test_a_graph_without_nodes_cannot_run() -> None:
    assert problems(Graph(State)) == ("it has no nodes",)


def test_an_entry_must_be_set_and_be_a_node() -> None:
    assert problems(graph("a", ("a", END), entry=None)) == ("it has no entry: call set_entry",)
    made = Graph(State).add_node("fetch", same).add_edge("fetch", END).set_entry("fetsh")
    assert problems(made) == ("its entry 'fetsh' is not a node; did you mean 'fetch'?",)


def test_an_edge_to_or_from_an_unknown_node_is_named_with_the_nearest_one() -> None:
    made = Graph(State).add_node("fetch", same).add_node("store", same).set_entry("fetch")
    made.add_edge("fetch", "stroe").add_edge("stor", END).add_edge("store", END)
    assert problems(made) == (
        "an edge leaves 'stor', which is not a node; did you mean 'store'?",
        "an edge from 'fetch' leads to 'stroe', which is not a node; did you mean 'store'?",
    )


def test_the_word_end_is_not_the_end() -> None:
    assert problems(graph("a", ("a", "END"))) == (
        "an edge from 'a' leads to 'END', which is not a node; did you mean holdfast.graph.END?",
    )


def test_a_route_to_an_unknown_node_is_named() -> None:
    made = graph("ab", ("b", END)).add_conditional_edge("a", lambda s: "b", ["b", "cc"])
    assert problems(made) == ("an edge from 'a' leads to 'cc', which is not a node",)
    made = graph("ab", ("b", END)).add_conditional_edge("a", bool, {True: "b", False: "x"})
    assert problems(made) == ("an edge from 'a' leads to 'x', which is not a node",)


def test_an_annotation_that_names_no_node_is_a_problem_too() -> None:
    def route(state: State) -> Literal["b", "gone", 3]:
        return "b"

    made = graph("ab", ("b", END)).add_conditional_edge("a", route)
    assert problems(made) == (
        "an edge from 'a' leads to 'gone', which is not a node",
        "an edge from 'a' leads to 3, which is not a node",
    )


def test_every_node_must_lead_to_the_end_and_be_reached() -> None:
    made = graph("abcd", ("a", END), ("b", "c"), ("c", "b"))
    assert set(problems(made)) == {
        "there is no path from 'b' to END",
        "there is no path from 'c' to END",
        "'d' leads nowhere: add an edge to END or to another node",
        "'b' can't be reached",
        "'c' can't be reached",
        "'d' can't be reached",
    }


def test_a_route_that_may_lead_anywhere_reaches_everything() -> None:
    made = graph("abc", ("b", END), ("c", "b")).add_conditional_edge("a", lambda s: "c")
    assert isinstance(made.compile(), CompiledGraph)


def test_edges_and_a_route_cannot_both_leave_a_node() -> None:
    made = graph("ab", ("a", "b"), ("b", END)).add_conditional_edge("a", lambda s: "b", ["b"])
    assert problems(made) == ("'a' has both edges and a conditional edge: put all into the route",)


def test_a_fork_without_a_merge_would_lose_results() -> None:
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", END)]
    (problem,) = problems(graph("abcd", *edges))
    assert problem.startswith("'a' forks to 'b', 'c', and without a merge")
    graph("abcd", *edges, merge=join).compile()
    graph("abcd", *edges).compile(merge=join)
    made = graph("abc", *edges).add_node("d", same, merge=join)
    assert isinstance(made.compile(), CompiledGraph)


def test_a_fork_whose_branches_may_go_anywhere_is_refused() -> None:
    made = graph("abcd", ("a", "b"), ("a", "c"), ("c", "d"), ("d", END), merge=join)
    made.add_conditional_edge("b", lambda s: "d")
    (problem,) = problems(made)
    assert "'a' forks" in problem
    assert "'b' its targets=" in problem


def test_names_are_used_once_and_the_end_is_no_node() -> None:
    made = graph("a", ("a", END))
    with pytest.raises(ValueError, match="'a' already"):
        made.add_node("a", same)
    with pytest.raises(ValueError, match="end of every graph"):
        made.add_node(END, same)
    with pytest.raises(ValueError, match="conditional edge already"):
        made.add_conditional_edge("b", same).add_conditional_edge("b", same)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 600, 3, None])
def test_a_name_that_no_store_could_keep_is_refused(name: Any) -> None:
    made: Graph[State] = Graph(State)
    with pytest.raises(hf.InvalidIdError, match="node"):
        made.add_node(name, same)
    with pytest.raises(hf.InvalidIdError, match="node"):
        made.add_edge("a", name)
    with pytest.raises(hf.InvalidIdError, match="node"):
        made.add_edge(name, "a")
    with pytest.raises(hf.InvalidIdError, match="node"):
        made.set_entry(name)


def test_what_cannot_be_called_is_refused_at_once() -> None:
    made: Any = Graph(State)
    with pytest.raises(TypeError, match="'a' needs a function"):
        made.add_node("a", 3)
    with pytest.raises(TypeError, match="route after 'a'"):
        made.add_conditional_edge("a", "b")

    async def route(state: State) -> str:
        return "b"

    with pytest.raises(TypeError, match="can't be async"):
        made.add_conditional_edge("a", route)
    with pytest.raises(ValueError, match="timeout"):
        made.add_node("a", same, timeout=0)
    with pytest.raises(ValueError, match="attempts"):
        made.add_node("a", same, retry=0)


def test_what_was_compiled_stays_as_it_was() -> None:
    calls = Calls()
    made = calls.line("ab")
    app = made.compile()
    made.add_node("c", calls.node("c")).add_edge("b", "c").add_edge("c", END).set_entry("b")
    assert run(app.run(State())).log == ["a", "b"]
    assert '"c"' not in app.mermaid()


# --- routes


def routed(route: Any, targets: Any = None, **options: Any) -> CompiledGraph[State]:
    calls = Calls()
    made = Graph(State, **options)
    for name in "abc":
        made.add_node(name, calls.node(name))
    made.add_conditional_edge("a", route, targets).add_edge("b", END).add_edge("c", END)
    return made.set_entry("a").compile()


def literal(state: State) -> Literal["b", "c"]:
    return "c"


def literals(state: State) -> list[Literal["b", "c"]]:
    return ["c"]


def undecided(state: State) -> Literal["b", "c"]:
    answer: Any = "a"
    return answer  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("route", "targets"),
    [
        (lambda s: "c", None),
        (lambda s: ["c"], None),
        (lambda s: "c", ["b", "c"]),
        (lambda s: ("c", "c"), ["b", "c"]),
        (lambda s: s.n > 0, {True: "c", False: "b"}),
        (lambda s: [s.n > 0], {True: "c", False: "b"}),
        (lambda s: None, {None: "c", 0: "b"}),
        (literal, None),
        (literals, None),
    ],
)
def test_a_route_says_names_or_words_for_them(route: Any, targets: Any) -> None:
    assert run(routed(route, targets).run(State())).log == ["a", "c"]


@pytest.mark.parametrize(
    ("route", "targets", "words"),
    [
        (lambda s: "d", None, "returned 'd', not one of 'a', 'b', 'c'"),
        (lambda s: "a", ["b", "c"], "returned 'a', not one of 'b', 'c'"),
        (lambda s: 2, {True: "b", None: "c"}, "returned 2, not one of True, None"),
        (lambda s: None, None, "returned None, not the name of a node"),
        (lambda s: [], None, "returned nothing; return END"),
        (lambda s: [3], ["b", "c"], "returned 3, not one of"),
        (lambda s: [][0], None, "IndexError"),
        (undecided, None, "returned 'a', not one of 'b', 'c'"),
        (lambda s: ["b", "c"], ["b", "c"], "without a merge"),
    ],
)
def test_a_route_that_says_anything_else_fails_the_node_and_is_asked_again(
    route: Any, targets: Any, words: str, cp: hf.SyncCheckpointer
) -> None:
    app = routed(route, targets)
    with pytest.raises(hf.StepFailedError, match=re.escape(words)) as caught:
        run(app.run(State(), store=cp, run_id="run"))
    assert caught.value.step == "a"
    assert caught.value.state == State()
    answer = None if isinstance(targets, dict) else "c"
    mended = routed(lambda s: answer, targets or (["b", "c"] if route is undecided else None))
    assert run(mended.resume("run", store=cp)).log == ["a", "c"]


def test_the_only_target_of_a_route_may_be_given_by_its_name() -> None:
    made = Calls().line("abc").add_node("last", same).add_edge("last", END)
    made.add_node("first", same).add_conditional_edge("first", lambda s: "last", "last")
    with pytest.raises(hf.InvalidFlowError, match="'a' can't be reached"):
        made.set_entry("first").compile()


def test_a_route_may_end_the_run() -> None:
    assert run(routed(lambda s: END).run(State())).log == ["a"]


# --- drawing

HOSTILE = [
    'end"] --> evil["x',
    "</div><script>alert(1)</script>",
    "a`b#59;c",
    "grün 😀",
    "%%{init}%%",
]


def test_a_graph_is_drawn_with_its_routes_dashed() -> None:
    app = routed(lambda s: s.n > 0, {True: "c", False: "b"})
    assert app.mermaid() == (
        "flowchart TD\n"
        '    start(["start"])\n'
        '    n0["a"]\n    n1["b"]\n    n2["c"]\n'
        '    n3(["end"])\n'
        "    start --> n0\n    n1 --> n3\n    n2 --> n3\n"
        '    n0 -.->|"True"| n2\n    n0 -.->|"False"| n1\n'
    )
    assert '-.-> anyn0["anywhere"]' in routed(lambda s: "c").mermaid()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_cannot_break_out_of_its_place_in_the_drawing(name: str) -> None:
    made = Graph(State).add_node("a", same).add_node(name, same).add_edge(name, END)
    app = made.add_conditional_edge("a", lambda s: name, {name: name}).set_entry("a").compile()
    for line in app.mermaid().splitlines()[1:]:
        assert re.fullmatch(
            r'    \w+(\(?\["[\w #;.:,+/-]*"\]\)?)?( (-->|-\.->)(\|"[\w #;.:,+/-]*"\|)? \w+(\["anywhere"\])?)?',
            line,
        ), line
    assert not re.search("[<>`%\"']", app.mermaid().splitlines()[3][6:-2].strip('["]'))


def test_words_that_lead_to_one_node_are_all_drawn() -> None:
    app = routed(lambda s: 1, {1: "b", 2: "b", 3: "c"})
    assert '|"1, 2"| n1' in app.mermaid()


def test_a_notebook_shows_the_graph() -> None:
    app = Calls().line("ab", name="letters").compile(version=3)
    bundle = app._repr_mimebundle_(include=None, exclude=None)
    assert bundle == {
        "text/html": app._repr_html_(),
        "text/vnd.mermaid": app.mermaid(),
        "text/plain": "<graph 'letters' version 3: a, b>",
    }


# --- merging


def test_merge_changes_takes_each_field_from_who_changed_it() -> None:
    before = {"a": 1, "b": [1], "c": float("nan"), "d": 1, "e": {1, 2}}
    assert merge_changes(
        before,
        {
            "x": before | {"a": 2, "c": float("nan"), "new": 7},
            "y": before | {"b": [1, 2], "d": True, "e": {2, 1}},
        },
    ) == before | {"a": 2, "b": [1, 2], "d": True, "new": 7}


def test_merge_changes_forgets_what_a_branch_forgot() -> None:
    assert merge_changes({"a": 1, "b": 2}, {"x": {"a": 1}, "y": {"a": 3, "b": 2}}) == {"a": 3}


def test_merge_changes_refuses_what_two_branches_changed_in_different_ways() -> None:
    before = State(1, ["x"])
    assert merge_changes(before, {"x": State(2, ["x"]), "y": State(2, ["x"])}) == State(2, ["x"])
    with pytest.raises(ValueError, match="'x' and 'y' both changed 'n'"):
        merge_changes(before, {"x": State(2), "y": State(3)})
