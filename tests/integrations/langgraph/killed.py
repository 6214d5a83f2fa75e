"""An agent that is killed.

It notes each node that it executes in the file `log`, and kills itself in the node `where`.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph

from holdfast.integrations.langgraph import HoldfastSaver
from tests.integrations.langgraph.agents import Log
from tests.waiting import wait_until

THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}


def agent(saver: HoldfastSaver, log: Path, where: str) -> Any:
    """Three nodes, the second beside another one, which waits until that has finished."""

    def node(name: str) -> Any:
        def execute(_: Log) -> dict[str, Any]:
            if name == "slow":
                wait_until(lambda: (found := saver.get_tuple(THREAD)) and found.pending_writes)
            with log.open("a") as file:
                file.write(f"{name}\n")
            if name == where:
                os.kill(os.getpid(), signal.SIGKILL)
            return {"log": [name]}

        return execute

    builder = StateGraph(Log)
    for name in ("plan", "quick", "slow", "end"):
        builder.add_node(name, node(name))
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "quick")
    builder.add_edge("plan", "slow")
    builder.add_edge(["quick", "slow"], "end")
    return builder.compile(checkpointer=saver)


def main(url: str, log: str, where: str) -> None:
    with HoldfastSaver(url) as saver:
        graph = agent(saver, Path(log), where)
        begun = saver.get_tuple(THREAD) is not None
        done = graph.invoke(None if begun else {"log": []}, THREAD, durability="sync")
        print(",".join(done["log"]))
