"""A store of somebody who wants scripts of theirs to run in the browsers of others.

    python -m tests.web.hostile evil && cd evil && holdfast ui --store runs.db --open

Every text that a store can hold has a part of a page in it: a tag that HTML does not know, so that
a test finds it if a browser took it for one, and scripts in the ways that pages are attacked with.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner

import holdfast as hf
from holdfast.cli.main import holdfast
from holdfast.evidence import Evidence
from holdfast.graph import END, Graph
from holdfast.workflow import ask, for_each, step, workflow

NAME: Final = "runs.db"
TAG: Final = "xss-probe"
"""No page has such an element."""

_HOW: Final = (
    "'\"><script>hacked=1</script>",
    "'\"></script></textarea></title></style><img src=x onerror=hacked=1>",
    "' onmouseover=hacked=1 autofocus onfocus=hacked=1 hx-on:load=hacked=1 x='",
    "javascript:hacked=1",
    "<svg/onload=hacked=1>{{7*7}}${7*7}<%7*7%>",
    "]]>--><!--<iframe srcdoc='<script>parent.hacked=1</script>'>",
)


def evil(what: str, how: int = 0) -> str:
    """A text for this field."""
    return f"{what}<{TAG}>{_HOW[how % len(_HOW)]}</{TAG}>"


RUN: Final = evil("run")
ASKS: Final = evil("asks", 1)
DONE: Final = evil("done", 2)
GRAPH: Final = evil("graph", 3)
CANCELLED: Final = evil("cancelled", 4)
FORK: Final = evil("fork", 5)
CHAT: Final = evil("chat", 1)
PLAIN: Final = evil("plain", 2)
RUNS: Final = (RUN, ASKS, DONE, GRAPH, CANCELLED, FORK, CHAT, PLAIN)

_FILE: Final = Path(evil("path").replace("/", "\\"))


def _raise() -> None:
    error = type(evil("type", 1), (Exception,), {})
    code = compile(f"raise error({evil('message')!r})", evil("file.py", 4), "exec")
    exec(code, {"error": error})


def _state() -> dict[str, Any]:
    return {
        evil("key", number): [evil("value", number), {evil("inner"): evil("deep")}]
        for number in range(len(_HOW))
    }


def _emit() -> dict[str, Any]:
    hf.current_step().emit(evil("output"), record=True)
    return _state()


def _write() -> dict[str, Any]:
    _FILE.write_text("")
    return _state()


def _claims(value: Any) -> Any:
    return [Evidence("artifact_exists", evil("claim", 4), {"path": str(_FILE)})]


@workflow(evil("child"))
async def child(item: str) -> str:
    return await step(evil("inner step", 2)).python(str.upper, args=(item,))


@workflow(evil("flow"))
async def fails(**inputs: Any) -> None:
    await step(evil("step")).python(_emit)
    await step(evil("claims", 5)).python(_write).evidence(_claims)
    await for_each([evil("item"), evil("item", 1)], child)
    await step(evil("failing", 1)).python(_raise).retry(2, backoff=0.0)


_SCHEMA: Final = {
    "type": "object",
    "title": evil("title"),
    "description": evil("description", 1),
    "properties": {
        "choice": {"enum": [evil("choice"), evil("choice", 1)], "title": evil("field", 2)},
        evil("name", 3): {"type": "string", "default": evil("default", 4), "title": evil("label")},
        "amount": {"type": "integer", "description": evil("about", 5)},
    },
    "required": ["choice"],
}


@workflow(evil("asking", 2))
async def asks(name: str) -> Any:
    return await ask(
        evil("prompt"),
        name=evil("question", 4),
        schema=_SCHEMA,
        assignees=[evil("assignee"), "ann"],
        show={evil("shown"): evil("told", 1)},
        deadline=86_400,
        default={"choice": evil("choice")},
    )


@dataclass
class State:
    text: str = ""
    turns: int = 0


def _turn(state: State) -> dict[str, Any]:
    return {"text": evil("text", state.turns), "turns": state.turns + 1}


graph = (
    Graph(State, name=evil("graph flow"))
    .add_node(evil("node"), _turn)
    .add_node(evil("other node", 4), _turn)
    .add_edge(evil("node"), evil("other node", 4))
    .add_edge(evil("other node", 4), END)
    .set_entry(evil("node"))
    .compile()
)

FLOWS: Final[list[Any]] = [fails, asks, graph, child]


def build(directory: Path) -> None:
    """Make the store; blocks."""
    directory.mkdir(parents=True, exist_ok=True)
    os.chdir(directory)
    host = evil("host", 4)
    socket.gethostname = lambda: host
    asyncio.run(_runs())
    if find_spec("langgraph"):
        _talk()
    with hf.SyncCheckpointer(NAME) as cp:
        cp.save(PLAIN, _state(), step=evil("plain step"), owner=evil("owner"))
        cp.save(PLAIN, {evil("key"): 1}, step=evil("plain step", 1), owner=evil("owner"))
        cp.fork(PLAIN, seq=1, run_id=FORK)
    _FILE.unlink()
    CliRunner().invoke(holdfast, ["verify", RUN, "--store", NAME])


async def _runs() -> None:
    labels = {evil("label", 3).replace("=", ""): evil("labelled", 1)}
    names = {"owner": evil("owner"), "thread_id": evil("thread", 3), "labels": labels}
    async with hf.Checkpointer(NAME) as cp:
        engine = hf.Engine(cp, flows=FLOWS)
        with suppress(hf.StepFailedError):
            given = {evil("input", 1): evil("given", 4)}
            await engine.run(fails(**given), run_id=RUN, **names)  # type: ignore[arg-type]
        for run_id in (ASKS, DONE, CANCELLED):
            with suppress(hf.RunPausedError):
                await engine.run(asks(evil("name")), run_id=run_id, owner=evil("owner"))
        await engine.answer(DONE, {"choice": evil("choice")}, by=evil("assignee"))
        await engine.resume(DONE)
        await engine.cancel(CANCELLED, evil("reason", 4), by=evil("somebody", 1))
        await engine.run(graph(State()), run_id=GRAPH)


def _talk() -> None:
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph import START, MessagesState, StateGraph

    from holdfast.integrations.langgraph import HoldfastSaver

    def reply(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(evil("reply", 4), name=evil("who"))]}

    built = StateGraph(MessagesState)
    built.add_node("reply", reply)
    built.add_edge(START, "reply")
    with HoldfastSaver(NAME) as saver:
        thread: RunnableConfig = {"configurable": {"thread_id": CHAT}}
        said: MessagesState = {"messages": [HumanMessage(evil("message", 1))]}
        built.compile(checkpointer=saver).invoke(said, thread, durability="sync")


if __name__ == "__main__":
    build(Path(sys.argv[1]))
