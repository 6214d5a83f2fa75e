"""Putting a graph together, and seeing that it can run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    NoReturn,
    Self,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
)

from holdfast.engine.blocking import check_options
from holdfast.engine.claims import PathLike
from holdfast.engine.command import Argv, Command
from holdfast.engine.effects import Effect
from holdfast.engine.functions import hints_of, is_async
from holdfast.engine.people.questions import FAIL, QuestionOptions
from holdfast.engine.policy import StepOptions, policy_of
from holdfast.engine.signatures import shows
from holdfast.engine.timers import Duration, Sleep
from holdfast.engine.walking.plan import END, Node, Plan, Route
from holdfast.errors import InvalidFlowError
from holdfast.errors.base import meant
from holdfast.graph import question_nodes
from holdfast.migrations import Migrations, refuse_inputs, version_of
from holdfast.model import check_id

if TYPE_CHECKING:
    from holdfast.evidence import EvidenceVerifier
    from holdfast.graph.compiled import CompiledGraph

S = TypeVar("S")

MAX_STEPS: Final = 10_000


class Graph(Generic[S]):
    """Nodes that each turn the state into the next one, and the edges between them.

    The state is a dataclass, a pydantic model, a TypedDict or a dict. A node is a function, sync
    or async, that is given the state and returns the new one, a dict of the fields that change,
    or nothing if it changed the one it was given. `compile` makes it runnable.
    """

    def __init__(
        self,
        state: type[S],
        *,
        name: str = "graph",
        merge: Callable[[S, dict[str, S]], Any] | None = None,
    ) -> None:
        """`merge(before, branches)` joins the states of parallel branches, by their first nodes.

        It returns what a node may return.
        """
        self._state = state
        self._name = check_id("flow", name)
        self._merge = merge
        self._nodes: dict[str, Node] = {}
        self._edges: dict[str, list[str]] = {}
        self._routes: dict[str, Route] = {}
        self._entry: str | None = None

    @shows(StepOptions)
    def add_node(
        self,
        name: str,
        fn: Callable[..., Any],
        *,
        commit: Callable[[Any, S], object] | None = None,
        checkpoint: bool = False,
        merge: Callable[[S, dict[str, S]], Any] | None = None,
        **options: Unpack[StepOptions],
    ) -> Self:
        """Add a node. `merge` joins the branches that meet at it; `checkpoint` marks it.

        With `commit`, `commit(cursor, state)` writes to tables in the store's own database, in
        one transaction with the checkpoint: exactly once.

        It takes `retry`, `timeout`, `run_on`, `inline`, and what it claims about the world:
        `outputs` are the files that it writes, `reads` those that it reads, `removes` those that
        are gone when it is finished, `evidence` any other claims. They may be functions: of what
        the node returned, which may be None, and of the state it was given, if they have a second
        parameter; for `reads`, of the state. A node fails if its claims do not verify; a resume
        runs it again if they do not verify any more.
        """
        check_id("node", name)
        if name == END:
            raise ValueError(f"{END!r} is the end of every graph, not a node")
        if name in self._nodes:
            raise ValueError(f"there is a node {name!r} already")
        if not callable(fn):
            kind = type(fn)
            if isinstance(fn, Effect):
                fn.use()  # no warning that it was never awaited: that would be no remedy
            hint = ": use holdfast.graph.command" if "workflow" in kind.__module__ else ""
            raise TypeError(f"node {name!r} needs a function, not a {kind.__name__}{hint}")
        policy = policy_of("add_node", options, commit=commit, marked=checkpoint)
        if policy.executor is not None and not is_async(fn):
            fn = partial(_with_its_changes, fn)
        self._nodes[name] = Node(name, fn, policy, merge)
        return self

    @shows(QuestionOptions, default=FAIL)
    def add_question(
        self,
        name: str,
        prompt: str | Callable[[S], str],
        *,
        into: str | Callable[[S, Any], Any] | None = None,
        edit: Iterable[str] = (),
        show: Iterable[str] | Callable[[S], Any] = (),
        merge: Callable[[S, dict[str, S]], Any] | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Self:
        """Add a node that asks people, and continues with their answer, even days later.

        The answer goes `into` a field of the state, or `into(state, answer)` says what a node
        may return. With `edit` it is a dict of the fields to change. It must be of the type
        `returns`, fit the JSON `schema`, or be one of the `choices`; by default it is of the type
        of its field. Only `assignees` may give it; without them anyone may. When the `deadline`
        passes (a timedelta or seconds from asking, or a datetime), `default` is the answer;
        without one the run fails with `UnansweredError`, and asks again when it is resumed. People
        see the fields that `show` and `edit` name, or what `show(state)` returns, and nothing else
        of the state.
        """
        fn = question_nodes.answered(into, edit)
        self.add_node(name, fn, inline=True, merge=merge)
        asked = question_nodes.question(self._state, prompt, into, edit, show, options)
        self._nodes[name] = self._nodes[name]._replace(question=asked)
        return self

    def add_sleep(
        self,
        name: str,
        duration: timedelta | float | None = None,
        *,
        until: datetime | None = None,
        merge: Callable[[S, dict[str, S]], Any] | None = None,
        **parts: Unpack[Duration],
    ) -> Self:
        """Add a node that waits, `add_sleep("cool_down", hours=2)`, and leaves the state as it is.

        Takes a timedelta or seconds, `days`, `hours`, `minutes` and `seconds`, or a moment: a naive
        datetime is local time. When to wake up is recorded first, so that a resumed run waits only
        for the rest. A worker leaves the run meanwhile, and continues it when it is due.
        """
        check_options("add_sleep", parts, Duration.__annotations__)
        return self.add_node(name, Sleep(duration, until=until, **parts), merge=merge)

    def add_edge(self, source: str, target: str) -> Self:
        """Go from one node to another, or to END. Several from one node run side by side."""
        check_id("node", source)
        check_id("node", target)
        targets = self._edges.setdefault(source, [])
        if target not in targets:
            targets.append(target)
        return self

    def add_conditional_edge(
        self,
        source: str,
        route: Callable[[S], str | Iterable[str]],
        targets: Iterable[str] | Mapping[Any, str] | None = None,
    ) -> Self:
        """Ask `route(state)` after the node where to go: the name of a node, END, or several.

        `targets` names what it may say, or maps what it says to nodes; a return annotation of
        `Literal["a", "b"]` does the same. What it returned is recorded with the checkpoint.
        """
        if source in self._routes:
            raise ValueError(f"node {source!r} has a conditional edge already")
        if not callable(route):
            raise TypeError(f"the route after {source!r} must be a function, not {route!r}")
        if is_async(route):
            raise TypeError(
                f"the route after {source!r} can't be async: let a node find out what it needs"
            )
        if isinstance(targets, str):
            targets = (targets,)
        mapping = dict(targets) if isinstance(targets, Mapping) else None
        known = tuple(mapping.values()) if mapping is not None else targets
        if known is None:
            known = _literals(hints_of(route).get("return"))
        self._routes[source] = Route(route, None if known is None else tuple(known), mapping)
        return self

    def set_entry(self, name: str) -> Self:
        """Say which node runs first."""
        check_id("node", name)
        self._entry = name
        return self

    if not TYPE_CHECKING:

        def __call__(self, *_: object) -> NoReturn:
            """Refuse, with advice."""
            raise TypeError("a graph is compiled before it runs: app = graph.compile(); app(state)")

    def compile(
        self,
        *,
        name: str | None = None,
        version: str | int | None = None,
        migrate: Migrations | None = None,
        rename: Mapping[str, str] | None = None,
        merge: Callable[[S, dict[str, S]], Any] | None = None,
        max_steps: int = MAX_STEPS,
        verifier: EvidenceVerifier | None = None,
    ) -> CompiledGraph[S]:
        """The graph, checked and unchangeable. Raises `InvalidFlowError` with all that is wrong.

        Give it a higher version when you change it, and say what becomes of runs that are under
        way: `migrate=hf.Migrations(version=2)` has the version, and functions that turn older
        states into new ones; `rename` maps the nodes of older versions to new ones. Without
        `migrate` the `version` is any text or number, and 1 unless given.

        `verifier` checks what the nodes claim about the world, within its policy.
        """
        from holdfast.graph.compiled import CompiledGraph

        flow = self._name if name is None else check_id("flow", name)
        plan = Plan(
            flow=flow,
            version=version_of(version, refuse_inputs(migrate, "graph")),
            state=self._state,
            nodes=dict(self._nodes),
            edges={source: tuple(targets) for source, targets in self._edges.items()},
            routes=dict(self._routes),
            entry=self._entry or "",
            merge=merge or self._merge,
            migrate=migrate,
            rename=dict(rename or {}),
            max_steps=max_steps,
        )
        problems = find_problems(plan)
        if problems:
            raise InvalidFlowError(f"graph {flow!r}", tuple(problems))
        return CompiledGraph(plan, verifier)


def find_problems(plan: Plan) -> list[str]:
    """Everything that keeps a graph from running."""
    if not plan.nodes:
        return ["it has no nodes"]
    problems = []
    if not plan.entry:
        problems.append("it has no entry: call set_entry")
    elif plan.entry not in plan.nodes:
        problems.append(f"its entry {plan.entry!r} is not a node{_nearest(plan, plan.entry)}")
    problems += [
        f"an edge leaves {source!r}, which is not a node{_nearest(plan, source)}"
        for source in sorted({*plan.edges, *plan.routes} - set(plan.nodes))
    ]
    problems += [
        f"an edge from {source!r} leads to {target!r}, which is not a node{_nearest(plan, target)}"
        for source, targets in plan.known_targets().items()
        for target in targets
        if target != END and target not in plan.nodes
    ]
    problems += [
        f"{source!r} has both edges and a conditional edge: put all into the route"
        for source in sorted(set(plan.edges) & set(plan.routes))
    ]
    problems += [
        f"{name!r} {problem}"
        for name, node in plan.nodes.items()
        if node.question is not None
        for problem in node.question.problems
    ]
    return problems or [*_dead_ends(plan), *_lost_results(plan)]


def _dead_ends(plan: Plan) -> list[str]:
    problems = []
    leads_to_end = plan.leading_to_end()
    for name in plan.nodes:
        if name not in plan.edges and name not in plan.routes:
            problems.append(f"{name!r} leads nowhere: add an edge to END or to another node")
        elif name not in leads_to_end:
            problems.append(f"there is no path from {name!r} to END")
    reached = plan.reachable()
    problems += [f"{name!r} can't be reached" for name in plan.nodes if name not in reached]
    return problems


def _lost_results(plan: Plan) -> list[str]:
    problems = []
    for source, targets in plan.edges.items():
        if len(targets) < 2:
            continue
        unknown = [
            name
            for name in plan.reachable_from(targets)
            if name in plan.routes and plan.routes[name].targets is None
        ]
        if unknown:
            problems.append(
                f"{source!r} forks, and nobody can tell where its branches meet: give the "
                f"conditional edge of {unknown[0]!r} its targets="
            )
        elif plan.merge_at(plan.join_of(targets)) is None:
            names = ", ".join(map(repr, targets))
            problems.append(
                f"{source!r} forks to {names}, and without a merge all but one result would be "
                "lost: give the graph, or the node where they meet, merge="
            )
    return problems


def _with_its_changes(fn: Callable[[Any], Any], state: Any) -> Any:
    """What a node returns, or the state it changed: another process changes a copy."""
    returned = fn(state)
    return state if returned is None else returned


def _nearest(plan: Plan, name: object) -> str:
    if not isinstance(name, str):
        return ""
    if name.strip("_").lower() == "end":
        return "; did you mean holdfast.graph.END?"
    return meant(name, plan.nodes)


def _literals(hint: Any) -> tuple[str, ...] | None:
    """The names that a route's annotation says it may return."""
    if get_origin(hint) is Literal:
        return tuple(get_args(hint))
    if get_origin(hint) in (list, tuple, set) and get_args(hint):
        return _literals(get_args(hint)[0])
    return None


def command(
    argv: Argv | Callable[[Any], Argv],
    *,
    into: str | None = None,
    cwd: PathLike | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    exit_codes: Collection[int] = (0,),
    tail: int = 65_536,
) -> Callable[[Any], Any]:
    """A node that runs a command: `add_node("report", command(["make", "report"]), outputs=...)`.

    `argv` may be a function of the state. The state stays as it is, but for the field `into`,
    which is given a dict: `exit_code`, `duration`, and of `stdout` and `stderr` the last `tail`
    bytes, in whole lines; `truncated` says whether there was more. Its exit code is recorded as
    evidence; another one than `exit_codes` fails the node. No shell is used.
    """
    runs = Command(argv, cwd, env, timeout, exit_codes, tail)

    def node(state: Any) -> Any:
        result = runs.run(*((state,) if callable(argv) else ()))
        return state if into is None else {into: asdict(result)}

    return node
