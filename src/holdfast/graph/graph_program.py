"""Graphs for the engine: nodes that turn a typed state into the next one."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from holdfast.codec.apart import LARGE
from holdfast.codec.revive import revive
from holdfast.engine.people.questions import ANSWERED
from holdfast.engine.policy import PLAIN
from holdfast.engine.program import Record, Stored, Task
from holdfast.engine.walking.plan import Node, Plan
from holdfast.engine.walking.program import Fork, Walk, WalkingProgram
from holdfast.engine.walking.states import revived, updated
from holdfast.errors import ReviveError, StoreRequiredError

_RETURNED: Final = "node {!r} returned it; return a state of the graph's type, or fields of one"


class GraphProgram(WalkingProgram):
    """One execution of a graph; one that is not kept in a store can't wait for people."""

    by_fields = True

    def __init__(self, plan: Plan, *, kept: bool = True) -> None:
        super().__init__(plan)
        self._kind = plan.state
        self._kept = kept

    # --- Program

    def begin(self, run_id: str, inputs: Stored) -> None:
        super().begin(run_id, inputs)
        assert self._main is not None
        self._main.at_hand = inputs.revived(self._kind)  # raises before anything is recorded

    def revive(self, task: Task, stored: Stored) -> Any:
        try:
            return stored.revived(self._kind)
        except ReviveError as error:
            error.advice = _RETURNED.format(task.name)
            raise

    @property
    def result(self) -> Any:
        if self._end is None:
            self.ready()
        assert self._end is not None
        at_hand, self._at_end = self._at_end, None
        return self._end.revived(self._kind) if at_hand is None else at_hand

    def revive_result(self, data: Any) -> Any:
        return revived(data, self._kind)

    @property
    def state(self) -> Any:
        assert self._main is not None
        return self._main.state.revived(self._kind)

    def record(self, task: Task, value: Any) -> Record:
        walk, _ = self._busy[task.key]
        record = super().record(task, value)
        if len(walk.state.encoding) >= LARGE:
            record.before = walk.state
        return record

    # --- WalkingProgram

    def task(self, walk: Walk, key: str, name: str) -> Task | None:
        node = self._plan.nodes[name]
        self._busy[key] = (walk, None)
        at_hand, walk.at_hand = walk.at_hand, None
        fresh = None
        if node.policy.retry is not None:
            fresh = partial(self._arguments, walk.state, key, node)
        if at_hand is not None and node.question is None:
            first: tuple[Any, ...] = (at_hand,)
        else:
            first = self._arguments(walk.state, key, node)
        return Task(key, name, node.fn, first, policy=node.policy, fresh=fresh)

    def ask(self, walk: Walk, key: str, name: str) -> Task | None:
        if not self._kept:
            raise StoreRequiredError(name)
        return super().ask(walk, key, name)

    def seen(self, walk: Walk) -> Any:
        return walk.state.revived(self._kind)

    def outcome(self, walk: Walk, task: Task, value: Any) -> Any:
        return updated(self._kind, task.args[0], value)

    def targets(self, walk: Walk, task: Task, recorded: Any) -> list[str]:
        plan, name = self._plan, task.name
        route = plan.routes.get(name)
        if route is None:
            return list(plan.edges[name])
        seen = revived(self.stored_form(recorded), self._kind, advice=_RETURNED.format(name))
        returned = route.fn(seen)  # what the next node will be given
        targets = _names(name, returned, route.mapping)
        for target in targets:
            if not plan.is_place(target) or (
                route.targets is not None and target not in route.targets
            ):
                known = ", ".join(map(repr, route.targets or (*plan.nodes, *plan.ends)))
                raise ValueError(
                    f"the route after {name!r} returned {target!r}, not one of {known}"
                )
        if len(targets) > 1 and plan.merge_at(plan.join_of(targets)) is None:
            raise ValueError(
                f"the route after {name!r} forks, and without a merge all but one result would be "
                "lost: give the graph merge="
            )
        return targets

    def join(self, fork: Fork) -> Task | None:
        merge = self._plan.merge_at(fork.join)
        assert merge is not None, "compile and targets see to that"
        key = fork.merge_key
        known = self._recorded.pop(key, None)
        if known is not None:
            fork.walk.state, targets = known
            self._walks.append((fork.walk, targets, key))
            return None
        self._busy[key] = (fork.walk, fork)

        def arguments() -> tuple[Any, dict[str, Any]]:
            states = {name: fork.arrived[name][0].state for name in fork.targets}
            branches = {name: state.revived(self._kind) for name, state in states.items()}
            return fork.walk.state.revived(self._kind), branches

        return Task(key, key, merge, arguments(), policy=PLAIN, fresh=arguments)

    def _arguments(self, state: Stored, key: str, node: Node) -> tuple[Any, ...]:
        """What a node is given: the state, and the answer to what it asked; new each time."""
        asking = node.question
        if asking is None:
            return (state.revived(self._kind),)
        value = copy.deepcopy(self.answered(key))
        if asking.returns is not None:
            value = revive(value, asking.returns, root=f"answer to {key}", advice=ANSWERED)
        return state.revived(self._kind), value


def _names(name: str, returned: Any, mapping: Mapping[Any, str] | None) -> list[str]:
    """The nodes that a route returned, or that its mapping has for what it returned."""
    single = isinstance(returned, str) or not isinstance(returned, Iterable)
    words = [returned] if single else list(returned)
    if not words:
        raise ValueError(f"the route after {name!r} returned nothing; return END to end the run")
    if mapping is not None:
        for word in words:
            if word not in mapping:
                known = ", ".join(map(repr, mapping))
                raise ValueError(f"the route after {name!r} returned {word!r}, not one of {known}")
        words = [mapping[word] for word in words]
    elif single and not isinstance(returned, str):
        raise TypeError(f"the route after {name!r} returned {returned!r}, not the name of a node")
    return list(dict.fromkeys(words))
