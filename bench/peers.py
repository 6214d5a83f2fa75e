"""The engines of others that holdfast is compared with, and the lists of all."""

from __future__ import annotations

import importlib.util
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Final, TypedDict

from bench.engines import (
    MEMORY,
    NOWHERE,
    Awaiting,
    Engine,
    HoldfastBlocking,
    HoldfastGraph,
    HoldfastWorkflow,
    Job,
    State,
    imported,
    url_of,
)


class Channels(TypedDict):
    """The state of LangGraph's graph."""

    messages: list[State]
    turn: int
    model: str
    number: int


class LangGraph(Awaiting):
    """A `StateGraph`, its nodes in a line; each step is saved before the next begins."""

    needs = ("langgraph.graph", "langgraph.checkpoint.sqlite", "aiosqlite")
    durability: ClassVar[str | None] = "sync"
    followed: ClassVar[bool] = False

    def __init__(self, path: Path, job: Job) -> None:
        super().__init__(path, job)
        self._db: Any = None
        graph = imported("langgraph.graph")
        self.graph = self._built(graph).compile(checkpointer=self.runner.run(self._saver(path)))
        self._options = {} if path == NOWHERE else {"durability": self.durability}

    async def run(self, run: str) -> None:
        await self._invoke(run, {**self.job.start, "number": 0})

    async def resume(self, run: str) -> bool:
        known = bool((await self.graph.aget_state(self._config(run))).next)
        await (self._invoke(run, None) if known else self.run(run))
        return known

    def close(self) -> None:
        if self._db is not None:
            self.runner.run(self._db.close())
        super().close()

    async def _saver(self, path: Path) -> Any:
        if path == NOWHERE:
            return None
        if path == MEMORY:
            return imported("langgraph.checkpoint.memory").InMemorySaver()
        self._db = await imported("aiosqlite").connect(path)
        saver = imported("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver(self._db)
        await saver.setup()  # which sets WAL
        await self._db.execute("PRAGMA synchronous=FULL")
        return saver

    async def _invoke(self, run: str, given: State | None) -> None:
        if self.followed:
            async for _ in self.graph.astream(given, self._config(run), **self._options):
                pass
        else:
            await self.graph.ainvoke(given, self._config(run), **self._options)

    def _config(self, run: str) -> Any:
        return {"configurable": {"thread_id": run}, "recursion_limit": self.job.steps + 10}

    def _built(self, graph: Any) -> Any:
        built = graph.StateGraph(Channels)
        names = [f"node-{number}" for number in range(self.job.steps)]
        for number, name in enumerate(names):
            built.add_node(name, self._node(number))
        for name, following in zip([graph.START, *names], [*names, graph.END], strict=True):
            built.add_edge(name, following)
        return built

    def _node(self, number: int) -> Any:
        async def node(state: Channels) -> State:
            return self.job.work(number)

        return node


class LangGraphFollowed(LangGraph):
    """The same, its events consumed."""

    followed = True


class LangGraphLoop(LangGraph):
    """One node that is run again and again, which costs LangGraph less than a long line of nodes."""

    def _built(self, graph: Any) -> Any:
        async def node(state: Channels) -> State:
            return {**self.job.work(state["number"]), "number": state["number"] + 1}

        def onward(state: Channels) -> Any:
            return "node" if state["number"] < self.job.steps else graph.END

        built = graph.StateGraph(Channels)
        built.add_node("node", node)
        built.add_edge(graph.START, "node")
        built.add_conditional_edges("node", onward, ["node", graph.END])
        return built


class LangGraphLoopDefault(LangGraphLoop):
    """As LangGraph comes: a step is saved while the next one runs."""

    durability = None


class DBOS(Awaiting):
    """A workflow of `DBOS`, on its SQLite system database as it comes."""

    needs = ("dbos",)
    wal: ClassVar[bool] = False

    def __init__(self, path: Path, job: Job) -> None:
        super().__init__(path, job)
        self._dbos = imported("dbos")
        self._flow = _dbos_flow(self._dbos, job.work)
        if self.wal:
            db = sqlite3.connect(path)
            db.execute("PRAGMA journal_mode=WAL")  # which stays with the file
            db.close()
        self._dbos.DBOS(
            config={"name": "bench", "system_database_url": url_of(path), "log_level": "ERROR"}
        )
        self._dbos.DBOS.launch()  # which starts to recover what a dead process left

    async def run(self, run: str) -> None:
        with self._dbos.SetWorkflowID(run):
            await self._flow(self.job.steps)

    async def resume(self, run: str) -> bool:
        try:
            handle = await self._dbos.DBOS.retrieve_workflow_async(run)
        except self._dbos.error.DBOSNonExistentWorkflowError:
            await self.run(run)
            return False
        await handle.get_result(polling_interval_sec=0.01)  # instead of its 1 s
        return True

    def fork(self, run: str, steps: int) -> None:
        """Copy a run up to that step, into a queue whose runs nobody executes."""
        self._dbos.DBOS.fork_workflow(run, steps, queue_name="nobody")

    def list(self, limit: int, status: str | None) -> object:
        """The newest runs, or those with a status."""
        return self._dbos.DBOS.list_workflows(limit=limit, status=status, sort_desc=True)

    def close(self) -> None:
        self._dbos.DBOS.destroy(destroy_registry=True)
        super().close()


class DBOSWithWAL(DBOS):
    """The same, its database set to WAL beforehand, which DBOS does not do."""

    wal = True


WORKFLOWS: Final[dict[str, type[Awaiting]]] = {
    "holdfast, awaited": HoldfastWorkflow,
    "LangGraph": LangGraphLoopDefault,
    "LangGraph, sync": LangGraphLoop,
    "DBOS": DBOS,
    "DBOS, WAL": DBOSWithWAL,
}
"""Those that can run many at once and resume after a crash."""

ENGINES: Final[dict[str, type[Engine]]] = {"holdfast": HoldfastBlocking, **WORKFLOWS}

GRAPHS: Final[dict[str, type[Awaiting]]] = {"holdfast": HoldfastGraph, "LangGraph": LangGraph}


def installed(kind: type[Engine]) -> bool:
    """Whether what the engine needs is there."""
    return all(
        importlib.util.find_spec(name.partition(".")[0]) and importlib.util.find_spec(name)
        for name in kind.needs
    )


def left_out() -> list[str]:
    """Why engines are left out, in words; empty if all are compared."""
    return [
        f"{' or '.join(kind.needs)} is not installed, so {kind.__name__} is left out; "
        "`pip install -e . --group bench` to compare with it"
        for kind in (HoldfastGraph, HoldfastWorkflow, LangGraph, DBOS)
        if not installed(kind)
    ]


def _dbos_flow(dbos: Any, work: Callable[[int], State]) -> Any:
    async def step(number: int) -> State:
        return work(number)

    recorded = dbos.DBOS.step()(step)

    async def flow(steps: int) -> None:
        for number in range(steps):
            await recorded(number)

    return dbos.DBOS.workflow()(flow)
