"""The steps of a run as a graph: what its flow was made of, or the order in which they ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from holdfast.views.step_groups import Group
from holdfast.views.step_names import ways_of
from holdfast.views.steps import Steps

START: Final = "start"
_ENDS: Final = {"__end__": "end", "end": "end", "end_with_failure": "end with failure"}


class Node(NamedTuple):
    """A step, or a place where the run begins or ends."""

    id: str
    name: str
    status: str  # of the step; "start" or "end"
    times: int = 0  # how often it was executed
    took: float | None = None
    unit: str = ""  # what was counted: "items", "rounds", "parts"
    child: str | None = None


class Edge(NamedTuple):
    """A way from one step to another."""

    source: str
    target: str
    times: int = 0  # how often the run went it
    decided: bool = False  # it depended on a decision


class StepGraph(NamedTuple):
    """Nodes and edges; `recorded` if the flow said what it is made of when the run began."""

    nodes: list[Node]
    edges: list[Edge]
    recorded: bool


def graph_of(steps: Steps, groups: Sequence[Group]) -> StepGraph:
    """The graph of a run. Rounds of loops and items are one node."""
    gone = _gone(steps)
    nodes = {group.name: _node(group) for group in groups if group.only.kind != "damage"}
    if isinstance(steps.structure.get("nodes"), list):
        return _recorded(steps, nodes, gone)
    edges = [
        Edge(source, target, times)
        for (source, target), times in gone.items()
        if source != target and target in nodes
    ]
    if nodes:
        begin = Node(START, "start", "start")
        return StepGraph([begin, *nodes.values()], edges, recorded=False)
    return StepGraph([], [], recorded=False)


def _recorded(steps: Steps, nodes: dict[str, Node], gone: Counter[tuple[str, str]]) -> StepGraph:
    listed = steps.structure.get("nodes")
    routes = steps.structure.get("routes")
    decided = set(routes) if isinstance(routes, dict) else set()
    for name in listed if isinstance(listed, list) else ():
        nodes.setdefault(str(name), Node(str(name), str(name), "not started"))
    edges = [Edge(START, str(steps.structure.get("entry", "")), 1 if gone else 0)]
    for source, target in ways_of(steps.structure):
        if target not in nodes:
            nodes[target] = Node(target, _ENDS.get(target, target), "end")
        times = gone[source, target]
        if nodes[target].status == "end" and steps.status == "completed":
            times = 1 if _last(steps) == source else 0
        edges.append(Edge(source, target, times, source in decided))
    begin = Node(START, "start", "start")
    shown = {START, *(each for edge in edges for each in edge[:2])}
    found = [begin, *(node for node in nodes.values() if node.id in shown)]
    return StepGraph(found, [edge for edge in edges if edge.target in nodes], recorded=True)


def _gone(steps: Steps) -> Counter[tuple[str, str]]:
    """How often the run went from one group to another, as the order of its entries says."""
    found: Counter[tuple[str, str]] = Counter()
    before = START
    for one in steps.executions:
        if one.kind == "damage" or not one.current or one.status == "not started":
            continue
        found[before, one.group] += 1
        before = one.group
    return found


def _last(steps: Steps) -> str:
    ended = [one.group for one in steps.executions if one.current and one.seq is not None]
    return ended[-1] if ended else ""


def _node(group: Group) -> Node:
    one = group.only
    times = 0 if one.status == "not started" else len(group.members)
    if group.kind == "items":
        times = group.items
    unit = {"items": "items", "rounds": "rounds", "parts": "parts"}.get(group.kind, "")
    return Node(group.name, group.name, group.status, times, group.took, unit, one.child)
