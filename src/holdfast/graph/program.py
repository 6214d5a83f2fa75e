"""Graphs for the engine: walks from node to node, and side by side where the graph forks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from holdfast.codec.revive import revive
from holdfast.engine.history import History
from holdfast.engine.program import PLAIN, Program, Record, Stored, Task
from holdfast.engine.questions import FAIL
from holdfast.errors import FlowChangedError, LoopLimitError, StepFailedError, UnansweredError
from holdfast.graph import versions
from holdfast.graph.plan import END, Node, Plan
from holdfast.graph.states import revived, stored_form, updated
from holdfast.model import CARRY_STATE, Kind, Status


class Walk:
    """One way through the graph: the main one, or a branch up to where branches meet."""

    def __init__(self, state: Stored, path: str = "", fork: Fork | None = None, name: str = ""):
        self.state = state
        self.path = path
        self.fork = fork
        self.name = name  # of a branch: its first node
        self.visits: dict[str, int] = {}  # how often it came to each node
        self.at_hand: Any = None  # the state, revived, for the next node alone

    @property
    def stop(self) -> str:
        """Where it ends."""
        return END if self.fork is None else self.fork.join


class Fork:
    """Branches under way, and what the ones that have arrived came to."""

    def __init__(self, walk: Walk, key: str, join: str, targets: list[str]) -> None:
        self.walk = walk  # the one that forked, and goes on at the join
        self.key = key
        self.join = join
        self.targets = targets
        self.arrived: dict[str, Stored] = {}


class GraphProgram(Program):
    """One execution of a graph."""

    replays: ClassVar[bool] = False

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.flow = plan.flow
        self.version = plan.version
        self.metas = plan.metas
        self._walks: list[tuple[Walk, list[str], str]] = []  # to go on: where to, and after what
        self._busy: dict[str, tuple[Walk, Fork | None]] = {}
        self._next: dict[str, list[str]] = {}
        self._stored: dict[str, Stored] = {}
        self._recorded: dict[str, tuple[Stored, list[str]]] = {}
        self._steps = 0
        self._notes: list[Record] = []  # questions that are to be recorded
        self._asked: dict[str, tuple[Walk, str]] = {}  # by key: who waits for an answer, and where
        self._known: set[str] = set()  # what was asked before
        self._answers: dict[str, Any] = {}
        self._end: Stored | None = None
        self._main: Walk | None = None

    # --- Program

    def structure(self) -> dict[str, Any]:
        return self._plan.structure()

    @property
    def stamp(self) -> dict[str, Any]:
        return {"flow_version": self.version, "shape": self._plan.shape}

    def check(self, run_id: str, history: History) -> None:
        versions.check(self._plan, history)

    def begin(self, inputs: Stored) -> None:
        self._main = Walk(inputs)
        self._walks.append((self._main, [self._plan.entry], ""))

    def restore(self, history: History) -> int:
        self.run_id = history.run
        plan = self._plan
        state, targets, after = versions.state_of(plan, history, None), [plan.entry], ""
        visits: dict[str, int] = {}
        for entry in history.entries:
            if entry.kind == Kind.QUESTION:
                self._known.add(str(entry.step))
            elif entry.kind == Kind.ANSWER:
                self._known.discard(str(entry.step))  # where it is asked again, that is recorded
            if entry.kind not in CARRY_STATE:
                continue
            stored, then = versions.state_of(plan, history, entry), versions.next_of(plan, entry)
            if entry.kind == Kind.RESULT:
                self._recorded[versions.key_of(plan, entry)] = (stored, then)
                self._steps = max(self._steps, (entry.step_index or 0) + 1)
            else:
                state, targets, after = stored, then, str(versions.node_of(plan, entry))
                self._recorded.clear()
                visits = versions.visits_of(plan, entry)
                counted = entry.step_index is not None and entry.status != Status.FAILED
                self._steps = (entry.step_index or 0) + counted
        gone = [name for name in targets if name != END and name not in self._plan.nodes]
        if gone:
            raise FlowChangedError(
                history.run, (f"node {gone[0]!r}, which is next, is gone",), "Map it with rename=."
            )
        self._main = Walk(state)
        self._main.visits = visits
        self._walks.append((self._main, targets, after))
        return self._steps

    def _visits_of(self, walk: Walk) -> dict[str, Any]:
        """How often the walk came to the nodes that it may come to again."""
        if not self._plan.loops:
            return {}
        visits = {name: count for name, count in walk.visits.items() if name in self._plan.loops}
        return {"visits": visits} if visits else {}

    def ready(self) -> list[Task]:
        tasks: list[Task] = []
        while self._walks:
            walk, targets, after = self._walks.pop(0)
            task = self._go(walk, targets, after)
            if task is not None:
                tasks.append(task)
        return tasks

    def take_records(self) -> list[Record]:
        notes, self._notes = self._notes, []
        return notes

    def questions(self) -> list[str]:
        return list(self._asked)

    def answer(self, key: str, value: Any) -> None:
        self._answers[key] = value
        if key in self._asked:
            walk, name = self._asked.pop(key)
            walk.visits[name] -= 1  # it comes there once more
            self._walks.append((walk, [name], ""))

    def record(self, task: Task, value: Any) -> Record:
        walk, fork = self._busy[task.key]
        state = updated(self._plan.state, task.args[0], value)
        targets = [fork.join] if fork is not None else self._targets(task.name, state)
        self._next[task.key] = targets
        index, self._steps = self._steps, self._steps + 1
        facts: dict[str, Any] = {"next_steps": tuple(targets)}
        if walk.path:
            return Record(Kind.RESULT, task.key, state, facts, task.name, index)
        if task.name in self._plan.loops:
            facts["iteration"] = walk.visits[task.name]
        facts |= self._visits_of(walk)
        return Record(Kind.CHECKPOINT, task.name, state, facts, index=index)

    def revive(self, task: Task, stored: Stored) -> Any:
        self._stored[task.key] = stored
        return revived(stored.value(), self._plan.state)

    def show(self, task: Task, stored: Stored) -> Callable[[], Any]:
        return lambda: revived(stored.value(), self._plan.state)

    def accept(self, task: Task, value: Any) -> None:
        walk, _ = self._busy.pop(task.key)
        walk.state = self._stored.pop(task.key)
        walk.at_hand = value
        self._walks.append((walk, self._next.pop(task.key), task.name))

    def refuse(self, task: Task, error: StepFailedError) -> None:
        raise error

    def at_failure(self, task: Task | None) -> list[Record]:
        if task is None or task.key not in self._busy:
            return []
        walk, fork = self._busy[task.key]
        if fork is not None or walk.path:
            return []  # the branches' own results say where to go on
        walk.visits[task.name] -= 1
        facts: dict[str, Any] = {"next_steps": [task.name], **self._visits_of(walk)}
        before = walk.state.value()
        failed = Record(Kind.CHECKPOINT, task.name, before, facts, index=self._steps)
        return [replace(failed, status=Status.FAILED)]

    @property
    def done(self) -> bool:
        return self._end is not None

    @property
    def result(self) -> Any:
        if self._end is None:
            self.ready()
        assert self._end is not None
        return revived(self._end.value(), self._plan.state)

    @property
    def keeps_result(self) -> bool:
        return False

    def revive_result(self, data: Any) -> Any:
        return revived(data, self._plan.state)

    @property
    def state(self) -> Any:
        assert self._main is not None
        return revived(self._main.state.value(), self._plan.state)

    # --- walking

    def _go(self, walk: Walk, targets: list[str], after: str) -> Task | None:
        """Take a walk on to its next node; None if it arrived, or has to wait for branches."""
        while True:
            if len(targets) > 1:
                self._fork(walk, targets, after)
                return None
            (name,) = targets
            if name == walk.stop or name == END:
                return self._arrive(walk)
            walk.visits[name] = walk.visits.get(name, 0) + 1
            key = _key(walk, name)
            known = self._recorded.pop(key, None)
            if known is None:
                if self._steps + len(self._busy) >= self._plan.max_steps:
                    raise LoopLimitError(self.run_id, name, self._plan.max_steps)
                node = self._plan.nodes[name]
                if node.question is not None and key not in self._answers:
                    self._ask(walk, key, node)
                    return None
                self._busy[key] = (walk, None)
                arguments = self._arguments(walk.state, key, node)
                at_hand, walk.at_hand = walk.at_hand, None
                plain = at_hand is not None and node.question is None
                first = (at_hand,) if plain else arguments()
                return Task(key, name, node.fn, first, policy=node.policy, fresh=arguments)
            walk.state, targets = known
            after = name

    def _ask(self, walk: Walk, key: str, node: Node) -> None:
        """Have a walk wait for the answer to its node's question."""
        assert node.question is not None
        if key not in self._known:
            state = revived(walk.state.value(), self._plan.state)
            self._notes.append(node.question.inquiry(state).record(key, node.name))
            self._known.add(key)
        self._asked[key] = (walk, node.name)

    def _arguments(self, state: Stored, key: str, node: Node) -> Callable[[], tuple[Any, ...]]:
        """Makes what a node is given: the state, and the answer to what it asked."""
        kind, asking = self._plan.state, node.question
        if asking is None:
            return lambda: (revived(state.value(), kind),)
        answer = self._answers[key]
        if answer is FAIL:
            raise UnansweredError(self.run_id, key)

        def arguments() -> tuple[Any, ...]:
            value = copy.deepcopy(answer)
            if asking.returns is not None:
                value = revive(value, asking.returns, root=f"answer to {key}")
            return revived(state.value(), kind), value

        return arguments

    def _fork(self, walk: Walk, targets: list[str], after: str) -> None:
        key = _key(walk, after)
        fork = Fork(walk, key, self._plan.join_of(targets), targets)
        for target in targets:
            branch = Walk(walk.state, f"{key}>{versions.escaped(target)}", fork, target)
            self._walks.append((branch, [target], ""))

    def _arrive(self, walk: Walk) -> Task | None:
        fork = walk.fork
        if fork is None:
            self._end = walk.state
            return None
        fork.arrived[walk.name] = walk.state
        if len(fork.arrived) < len(fork.targets):
            return None
        merge = self._plan.merge_at(fork.join)
        assert merge is not None, "compile and _targets see to that"
        key = f"{fork.key}>merge"
        known = self._recorded.pop(key, None)
        if known is not None:
            fork.walk.state, targets = known
            self._walks.append((fork.walk, targets, key))
            return None
        self._busy[key] = (fork.walk, fork)

        def arguments() -> tuple[Any, dict[str, Any]]:
            state = self._plan.state
            branches = {n: revived(fork.arrived[n].value(), state) for n in fork.targets}
            return revived(fork.walk.state.value(), state), branches

        return Task(key, key, merge, arguments(), policy=PLAIN, fresh=arguments)

    def _targets(self, name: str, state: Any) -> list[str]:
        """Where to go after a node."""
        route = self._plan.routes.get(name)
        if route is None:
            return list(self._plan.edges[name])
        said = route.fn(stored_form(state, self._plan.state))  # what the next node will be given
        targets = _names(name, said, route.mapping)
        for target in targets:
            if target not in (*self._plan.nodes, END) or (
                route.targets is not None and target not in route.targets
            ):
                known = ", ".join(map(repr, route.targets or (*self._plan.nodes, END)))
                raise ValueError(f"the route after {name!r} said {target!r}, not one of {known}")
        if len(targets) > 1 and self._plan.merge_at(self._plan.join_of(targets)) is None:
            raise ValueError(
                f"the route after {name!r} forks, and without a merge all but one result would be "
                "lost: give the graph merge="
            )
        return targets


def _key(walk: Walk, name: str) -> str:
    """Names one visit of one walk to a node: `a`, `a#2` the second time, `a>b/c` in a branch."""
    key = f"{walk.path}/{versions.escaped(name)}" if walk.path else versions.escaped(name)
    count = walk.visits.get(name, 1)
    return key if count == 1 else f"{key}#{count}"


def _names(name: str, said: Any, mapping: Mapping[Any, str] | None) -> list[str]:
    """The nodes that a route named, or whose words it said."""
    single = isinstance(said, str) or not isinstance(said, Iterable)
    words = [said] if single else list(said)
    if not words:
        raise ValueError(f"the route after {name!r} said nothing; return END to end the run")
    if mapping is not None:
        for word in words:
            if word not in mapping:
                known = ", ".join(map(repr, mapping))
                raise ValueError(f"the route after {name!r} said {word!r}, not one of {known}")
        words = [mapping[word] for word in words]
    elif single and not isinstance(said, str):
        raise TypeError(f"the route after {name!r} said {said!r}: no name of a node")
    return list(dict.fromkeys(words))
