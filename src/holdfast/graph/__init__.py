"""Graphs: nodes that turn a typed state into the next one, saved after each, resumed anywhere.

from holdfast.graph import END, Graph

app = (
    Graph(State)
    .add_node("draft", draft).add_node("review", review)
    .add_edge("draft", "review").add_conditional_edge("review", good_enough)
    .set_entry("draft").compile()
)
final = await app.run(State(), store="sqlite:///runs.db", run_id="run-1")

Here: building and checking a graph, and what a node's result does to its typed state. Not here:
walking, forking and joining (`holdfast.engine.walking`), which pipelines share.
"""

from holdfast.engine.people.questions import FAIL, Approval, Question
from holdfast.engine.retry import Retry
from holdfast.engine.walking.plan import END
from holdfast.engine.walking.states import merge_changes
from holdfast.graph.builder import Graph, command
from holdfast.graph.compiled import CheckpointStrategy, CompiledGraph
from holdfast.graph.graph_checkpoint import GraphCheckpoint

__all__ = [
    "END",
    "FAIL",
    "Approval",
    "CheckpointStrategy",
    "CompiledGraph",
    "Graph",
    "GraphCheckpoint",
    "Question",
    "Retry",
    "command",
    "merge_changes",
]
