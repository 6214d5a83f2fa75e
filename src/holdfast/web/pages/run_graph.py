"""The tab "Graph" of a run: its steps, and from which to which it went."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.views import words
from holdfast.views.step_graph import Edge, Node, StepGraph, graph_of
from holdfast.web.pages.known_steps import shown_steps
from holdfast.web.pages.run_rows import CHIPS
from holdfast.web.pages.shown_run import ShownRun, Tab
from holdfast.web.rendering import run_path
from holdfast.web.site import Site

MOST: Final = 500
"""Nodes that are drawn unless somebody asks for more."""

_LISTED: Final = 500  # rows of the table


class Place(NamedTuple):
    """A node, as it is drawn and listed."""

    name: str
    chip: str
    status: str
    told: str  # how often, and how long
    path: str
    then: str


def render(site: Site, run: ShownRun) -> dict[str, Any]:
    """What the tab shows."""
    known = shown_steps(site, *run[1:])
    graph = graph_of(known.steps, known.groups)
    drawn = len(graph.nodes) <= MOST or run.asked("all") is not None
    names = {node.id: node.name for node in graph.nodes}
    then: dict[str, list[str]] = {}
    for edge in graph.edges[: 20 * _LISTED]:
        then.setdefault(edge.source, []).append(_way(edge, names))
    places = [
        _place(run, node, then) for node in graph.nodes if node.status not in ("start", "end")
    ]
    return {
        "graph": graph,
        "places": places[:_LISTED],
        "hidden": max(0, len(places) - _LISTED),
        "drawing": _drawing(run, graph) if drawn else None,
        "draw_all": run_path(run.run_id, tab="graph", all=1),
    }


def _way(edge: Edge, names: Mapping[str, str]) -> str:
    name = names.get(edge.target, edge.target)
    return f"{name} ({edge.times:,} times)" if edge.times > 1 else name


def _place(run: ShownRun, node: Node, then: Mapping[str, Sequence[str]]) -> Place:
    return Place(
        node.name,
        CHIPS.get(node.status, "can"),
        node.status,
        _told(node),
        run_path(run.run_id, tab="timeline", step=node.id) if node.times else "",
        ", ".join(then.get(node.id, ())),
    )


def _told(node: Node) -> str:
    parts = [f"{node.times:,} {node.unit}"] if node.unit else []
    if node.took is not None and node.status != "asks":  # how long earlier rounds were open
        parts.append(words.span(node.took))
    return ", ".join(parts)


def _drawing(run: ShownRun, graph: StepGraph) -> str:
    """What the script draws, as JSON."""
    nodes = [
        {
            "id": node.id,
            "name": node.name,
            "kind": node.status if node.status in ("start", "end") else "step",
            "chip": CHIPS.get(node.status, "can"),
            "status": node.status,
            "told": _told(node) or node.status,
            "href": run_path(run.run_id, tab="timeline", step=node.id) if node.times else None,
        }
        for node in graph.nodes
    ]
    edges = [edge._asdict() for edge in graph.edges]
    return json.dumps({"nodes": nodes, "edges": edges})


TAB: Final = Tab(
    "graph", "Graph", render, scripts=("vendor/dagre.min.js", "graph.js"), styles=("graph.css",)
)
