"""The engines that are compared: each runs the same steps, on a path of its own.

Every engine waits for the disk: SQLite with `synchronous=FULL`. Nothing is imported before an engine
is made, so that a fresh process that resumes a run pays for its own engine only.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Final, TypedDict

State = dict[str, Any]

MEMORY: Final = Path("memory")
"""Opens an engine on a store in memory instead of on disk."""

NOWHERE: Final = Path("nowhere")
"""Opens an engine without a store."""


@dataclass(frozen=True, slots=True)
class Job:
    """What every engine is given to run: so many steps, one after the other."""

    steps: int
    work: Callable[[int], State]
    """What each step does: from its number, counted from 0, what it returns or changes."""
    start: State = field(default_factory=lambda: {"messages": [], "turn": 0, "model": ""})
    waits: bool = True
    """Whether each step is durable before the next begins; else as fast as holdfast can, which
    makes long histories to resume from."""


class Engine(ABC):
    """Something that runs a job's steps, opened by being made."""

    needs: ClassVar[tuple[str, ...]] = ()
    """The modules without which it is left out."""

    @abstractmethod
    def __init__(self, path: Path, job: Job) -> None:
        """Open it."""

    @abstractmethod
    def times(self, runs: Sequence[str]) -> list[float]:
        """Do the job once for each run, one run after the other; seconds that each took."""

    @abstractmethod
    def close(self) -> None:
        """Release everything."""


class Awaiting(Engine):
    """An engine whose runs are awaited, with an event loop of its own."""

    def __init__(self, path: Path, job: Job) -> None:
        self.job = job
        self.runner = asyncio.Runner()

    @abstractmethod
    async def run(self, run: str) -> None:
        """Do the job; return when all of it is durable."""

    async def resume(self, run: str) -> bool:
        """Finish a run whose process died; False if the engine did not know of it: then anew."""
        raise NotImplementedError

    def times(self, runs: Sequence[str]) -> list[float]:
        return self.runner.run(self._times(runs))

    def together(self, runs: Sequence[str]) -> float:
        """Do the job for all runs at once; seconds until the last is done."""
        return self.runner.run(self._together(runs))

    def close(self) -> None:
        self.runner.close()

    async def _times(self, runs: Sequence[str]) -> list[float]:
        taken = []
        for run in runs:
            start = perf_counter()
            await self.run(run)
            taken.append(perf_counter() - start)
        return taken

    async def _together(self, runs: Sequence[str]) -> float:
        start = perf_counter()
        await asyncio.gather(*map(self.run, runs))
        return perf_counter() - start


class PlainCalls(Awaiting):
    """No engine: the nodes called one after the other, which is what the work itself takes."""

    async def run(self, run: str) -> None:
        async def node(state: Document, number: int) -> Document:
            return replace(state, **self.job.work(number))

        state = Document(**self.job.start)
        for number in range(self.job.steps):
            state = await node(state, number)


@dataclass(frozen=True, slots=True)
class Document:
    """The state of holdfast's graph."""

    messages: list[State] = field(default_factory=list)
    turn: int = 0
    model: str = ""


class HoldfastGraph(Awaiting):
    """A `Graph`, its nodes in a line."""

    needs = ("holdfast.graph",)
    followed: ClassVar[bool] = False

    def __init__(self, path: Path, job: Job) -> None:
        super().__init__(path, job)
        module = _import("holdfast.graph")
        graph = module.Graph(Document)
        names = [f"node-{number}" for number in range(job.steps)]
        for number, name in enumerate(names):
            graph.add_node(name, self._node(number))
        for name, following in zip(names, [*names[1:], module.END], strict=True):
            graph.add_edge(name, following)
        self._app = graph.set_entry(names[0]).compile()
        self._checkpointer = (
            None if path == NOWHERE else _import("holdfast").Checkpointer(_url(path))
        )

    async def run(self, run: str) -> None:
        stored = {"store": self._checkpointer, "run_id": run} if self._checkpointer else {}
        if self.followed:
            async for _ in self._app.stream(Document(**self.job.start), **stored):
                pass
        else:
            await self._app.run(Document(**self.job.start), **stored)

    async def resume(self, run: str) -> bool:
        missing = _import("holdfast.errors").CheckpointNotFoundError
        try:
            await self._app.resume(run, store=self._checkpointer)
        except missing:
            await self.run(run)
            return False
        return True

    def close(self) -> None:
        if self._checkpointer is not None:
            self.runner.run(self._checkpointer.close())
        super().close()

    def _node(self, number: int) -> Any:
        async def node(state: Document) -> Document:
            return replace(state, **self.job.work(number))

        return node


class HoldfastGraphFollowed(HoldfastGraph):
    """The same, its events consumed."""

    followed = True


class HoldfastWorkflow(Awaiting):
    """`hf.Engine`, each step an `async def`."""

    needs = ("holdfast.workflow",)

    def __init__(self, path: Path, job: Job) -> None:
        super().__init__(path, job)

        async def work(number: int) -> State:
            return job.work(number)

        self._flow = _holdfast_flow(work)
        durability = "sync" if job.waits else "async"
        self._checkpointer = _import("holdfast").Checkpointer(_url(path))
        self._engine = _import("holdfast").Engine(self._checkpointer, durability=durability)

    async def run(self, run: str) -> None:
        await self._engine.run(self._flow(steps=self.job.steps), run_id=run)

    async def resume(self, run: str) -> bool:
        missing = _import("holdfast.errors").CheckpointNotFoundError
        try:
            await self._engine.resume(run, flow=self._flow)
        except missing:
            await self.run(run)
            return False
        return True

    def close(self) -> None:
        self.runner.run(self._checkpointer.close())
        super().close()


class HoldfastBlocking(Engine):
    """`hf.Engine.run_sync`, each step a plain function."""

    needs = ("holdfast.workflow",)

    def __init__(self, path: Path, job: Job) -> None:
        self._steps = job.steps
        self._flow = _holdfast_flow(job.work)
        self._checkpointer = _import("holdfast").Checkpointer(_url(path))
        self._engine = _import("holdfast").Engine(self._checkpointer)

    def times(self, runs: Sequence[str]) -> list[float]:
        taken = []
        for run in runs:
            start = perf_counter()
            self._engine.run_sync(self._flow(steps=self._steps), run_id=run)
            taken.append(perf_counter() - start)
        return taken

    def close(self) -> None:
        asyncio.run(self._checkpointer.close())


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
        graph = _import("langgraph.graph")
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
            return _import("langgraph.checkpoint.memory").InMemorySaver()
        self._db = await _import("aiosqlite").connect(path)
        saver = _import("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver(self._db)
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
        self._dbos = _import("dbos")
        self._flow = _dbos_flow(self._dbos, job.work)
        if self.wal:
            db = sqlite3.connect(path)
            db.execute("PRAGMA journal_mode=WAL")  # which stays with the file
            db.close()
        self._dbos.DBOS(
            config={"name": "bench", "system_database_url": _url(path), "log_level": "ERROR"}
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


def _holdfast_flow(work: Callable[[int], object]) -> Any:
    module = _import("holdfast.workflow")

    def flow(steps: int) -> Generator[Any, Any, None]:
        for number in range(steps):
            yield module.step(f"step-{number}").python(work, args=(number,)).checkpoint()

    return module.workflow("bench")(flow)


def _dbos_flow(dbos: Any, work: Callable[[int], State]) -> Any:
    async def step(number: int) -> State:
        return work(number)

    recorded = dbos.DBOS.step()(step)

    async def flow(steps: int) -> None:
        for number in range(steps):
            await recorded(number)

    return dbos.DBOS.workflow()(flow)


def _url(path: Path) -> str:
    return "memory://" if path == MEMORY else f"sqlite:///{path}"


def _import(module: str) -> Any:
    return importlib.import_module(module)
