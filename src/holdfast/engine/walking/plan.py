"""A walking flow as it runs: nodes, edges, and where parallel branches meet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple

from holdfast.engine.people.questions import Inquiry
from holdfast.engine.policy import StepPolicy
from holdfast.engine.program import FlowInfo
from holdfast.engine.walking.states import revived
from holdfast.migrations import Migrations

END: Final = "__end__"
"""Where a flow ends: the target of its last edge."""

Merge = Callable[[Any, dict[str, Any]], Any]


class Node(NamedTuple):
    """A function that turns the state into the next one."""

    name: str
    fn: Callable[..., Any]
    policy: StepPolicy
    merge: Merge | None
    question: Asking | None = None  # ask people first; the function is given the answer, too


class Asking(NamedTuple):
    """What a node asks people about the state it is given."""

    inquiry: Callable[[Any], Inquiry]
    returns: Any  # the type of the answer; None: as it is stored
    problems: tuple[str, ...] = ()  # error messages


class Route(NamedTuple):
    """A function that says where to go, and what it may say."""

    fn: Callable[[Any], Any]
    targets: tuple[str, ...] | None
    mapping: Mapping[Any, str] | None


@dataclass(frozen=True)
class Plan:
    """A flow that is complete and immutable."""

    flow: str
    version: str
    state: Any
    nodes: Mapping[str, Node]
    edges: Mapping[str, tuple[str, ...]]
    routes: Mapping[str, Route]
    entry: str
    merge: Merge | None
    migrate: Migrations | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    max_steps: int = 10_000
    ends: tuple[str, ...] = (END,)  # where the run ends

    flow_word: ClassVar[str] = "graph"
    node_word: ClassVar[str] = "node"
    edge_word: ClassVar[str] = "edge"
    making: ClassVar[str] = "Compile it with"
    branches_have_states: ClassVar[bool] = True  # rather than outputs

    def fit(self, state: Any) -> None:
        """Raise `ReviveError` unless plain data can be a state of this flow."""
        revived(state, self.state)

    def known_targets(self) -> dict[str, tuple[str, ...]]:
        """Where each node leads, as far as it is known."""
        return {
            **self.edges,
            **{source: route.targets or () for source, route in self.routes.items()},
        }

    def possible_targets(self, name: str) -> tuple[str, ...]:
        """Where a node may lead: anywhere, if its route does not declare targets."""
        route = self.routes.get(name)
        if route is None:
            return self.edges.get(name, ())
        return (*self.nodes, END) if route.targets is None else route.targets

    def ways_on(self, name: str) -> tuple[str, ...]:
        """Where a node may lead, as far as that says where branches meet."""
        return self.possible_targets(name)

    def is_place(self, name: str) -> bool:
        """Whether a run can reach it."""
        return name in self.nodes or name in self.ends

    def reachable(self) -> set[str]:
        """The nodes that a run may reach."""
        return self.reachable_from([self.entry])

    def reachable_from(self, names: Iterable[str]) -> set[str]:
        """The nodes that may be run from these on."""
        found: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in found and name not in self.ends:
                found.add(name)
                todo += self.possible_targets(name)
        return found

    def leading_to_end(self) -> set[str]:
        """The nodes from which a run can reach its end."""
        found = set(self.ends)
        while True:
            more = {
                name
                for name in self.nodes
                if name not in found and found.intersection(self.possible_targets(name))
            }
            if not more:
                return found
            found |= more

    @cached_property
    def loops(self) -> frozenset[str]:
        """The nodes that a run may visit more than once."""
        return frozenset(
            name for name in self.nodes if name in self.reachable_from(self.possible_targets(name))
        )

    def join_of(self, targets: Iterable[str]) -> str:
        """Where branches that begin with these meet: the first node that all must reach."""
        after = self._must_pass
        common = set.intersection(*(after[t] | {t} for t in targets))
        # Of the nodes that all branches pass, the first is the one that the others come after.
        return max(common, key=lambda node: len(after[node]), default=END)

    @cached_property
    def _must_pass(self) -> dict[str, set[str]]:
        """For each node, those that every path from it to END passes, END included."""
        names = [*self.nodes, END]
        after = {name: set(names) for name in names}
        after[END] = set()
        changed = True
        while changed:
            changed = False
            for name in self._last_first:
                ways = [after[t] | {t} for t in self.ways_on(name)]
                passed = set.intersection(*ways) if ways else set()
                if passed != after[name]:
                    after[name] = passed
                    changed = True
        return after

    @cached_property
    def _last_first(self) -> list[str]:
        """The nodes, each after those it leads to, as far as there is such an order."""
        order: dict[str, None] = {}
        entered: set[str] = set()
        for first in self.nodes:
            todo = [(first, False)]
            while todo:
                name, left = todo.pop()
                if left:
                    order[name] = None
                elif name in self.nodes and name not in entered:
                    entered.add(name)
                    todo.append((name, True))
                    todo += [(target, False) for target in self.ways_on(name)]
        return list(order)

    def merge_at(self, join: str) -> Merge | None:
        """How the states of branches are merged there."""
        node = self.nodes.get(join)
        return (node.merge if node is not None else None) or self.merge

    @cached_property
    def info(self) -> FlowInfo:
        """What the engine knows about the flow."""
        stamp = {"flow_version": self.version, "shape": self.shape}
        return FlowInfo(self.flow, self.version, self.structure, stamp, False, {})

    @cached_property
    def structure(self) -> dict[str, Any]:
        """What the flow is made of, as JSON."""
        return {
            "entry": self.entry,
            "nodes": sorted(self.nodes),
            "edges": {source: list(targets) for source, targets in sorted(self.edges.items())},
            "routes": {
                source: None if route.targets is None else sorted(route.targets)
                for source, route in sorted(self.routes.items())
            },
        }

    @cached_property
    def shape(self) -> str:
        """Changes when the structure does."""
        text = json.dumps(self.structure, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def changes(plan: Plan, old: Mapping[str, Any]) -> list[str]:
    """What is different about a plan and a structure that was recorded, in the plan's words."""
    found = []
    new, node, edge = plan.structure, plan.node_word, plan.edge_word
    before, after = set(old.get("nodes", ())), set(new["nodes"])
    found += [f"{node} {name!r} is gone" for name in sorted(before - after)]
    found += [f"{node} {name!r} is new" for name in sorted(after - before)]
    if old.get("entry") != new["entry"]:
        found.append(f"it begins with {new['entry']!r} instead of {old.get('entry')!r}")
    for kind, word in (("edges", f"{edge}s"), ("routes", f"conditional {edge}")):
        for name in sorted(before & after):
            was, now = old.get(kind, {}).get(name), new[kind].get(name)
            if was != now:
                found.append(f"the {word} of {name!r} changed from {was} to {now}")
    return found
