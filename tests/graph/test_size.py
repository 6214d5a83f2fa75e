"""A long conversation stays small on disk."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast.graph import END, Graph
from tests.graph.flows import run

TURNS = 300
WORDS = [f"word{n}" for n in range(2000)]


def say(seed: int) -> str:
    """About 380 characters that no turn repeats."""
    return " ".join(random.Random(seed).choices(WORDS, k=50))


def chat(turns: int) -> Any:
    """Two nodes in a loop over a list of messages that grows by two in each turn."""
    graph: Graph[dict[str, Any]] = Graph(dict)

    def ask(state: dict[str, Any]) -> None:
        state["messages"].append({"role": "user", "text": say(2 * len(state["messages"]))})

    def reply(state: dict[str, Any]) -> None:
        state["messages"].append({"role": "model", "text": say(2 * len(state["messages"]) + 1)})

    def more(state: dict[str, Any]) -> str:
        return "ask" if len(state["messages"]) < 2 * turns else END

    graph.add_node("ask", ask, inline=True).add_node("reply", reply, inline=True)
    graph.add_edge("ask", "reply")
    graph.add_conditional_edge("reply", more, ["ask", END])
    return graph.set_entry("ask").compile(max_steps=100_000)


def stored(tmp_path: Path, turns: int) -> hf.Stats:
    with hf.SyncCheckpointer(f"sqlite:///{tmp_path}/{turns}.db", survives="process-crash") as cp:
        final = run(chat(turns).run({"messages": []}, store=cp, run_id="chat"))
        assert len(final["messages"]) == 2 * turns
        assert cp.verify("chat").ok
        return cp.stats("chat")


def test_a_long_conversation_grows_by_what_is_said(tmp_path: Path) -> None:
    half, whole = stored(tmp_path, TURNS // 2), stored(tmp_path, TURNS)
    said = 2 * TURNS * 380
    assert whole.checkpoints == 2 * TURNS
    assert whole.state_bytes > 50 * said, "were each state stored whole"
    assert whole.stored_bytes < 4 * said
    assert whole.stored_bytes < 2.5 * half.stored_bytes, "bytes grow as the turns do"
