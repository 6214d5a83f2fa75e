"""The engines that are compared, and holdfast's: each runs the same steps, on a path of its own.

Every engine waits for the disk: SQLite with `synchronous=FULL`. Nothing is imported before an engine
is made, so that a fresh process that resumes a run pays for its own engine only.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Final

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
        module = imported("holdfast.graph")
        graph = module.Graph(Document)
        names = [f"node-{number}" for number in range(job.steps)]
        for number, name in enumerate(names):
            graph.add_node(name, self._node(number))
        for name, following in zip(names, [*names[1:], module.END], strict=True):
            graph.add_edge(name, following)
        self._app = graph.set_entry(names[0]).compile()
        self._checkpointer = (
            None if path == NOWHERE else imported("holdfast").Checkpointer(url_of(path))
        )

    async def run(self, run: str) -> None:
        stored = {"store": self._checkpointer, "run_id": run} if self._checkpointer else {}
        if self.followed:
            async for _ in self._app.stream(Document(**self.job.start), **stored):
                pass
        else:
            await self._app.run(Document(**self.job.start), **stored)

    async def resume(self, run: str) -> bool:
        missing = imported("holdfast.errors").CheckpointNotFoundError
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
        self._checkpointer = imported("holdfast").Checkpointer(url_of(path))
        self._engine = imported("holdfast").Engine(self._checkpointer, durability=durability)

    async def run(self, run: str) -> None:
        await self._engine.run(self._flow(steps=self.job.steps), run_id=run)

    async def resume(self, run: str) -> bool:
        missing = imported("holdfast.errors").CheckpointNotFoundError
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
        self._checkpointer = imported("holdfast").Checkpointer(url_of(path))
        self._engine = imported("holdfast").Engine(self._checkpointer)

    def times(self, runs: Sequence[str]) -> list[float]:
        taken = []
        for run in runs:
            start = perf_counter()
            self._engine.run_sync(self._flow(steps=self._steps), run_id=run)
            taken.append(perf_counter() - start)
        return taken

    def close(self) -> None:
        asyncio.run(self._checkpointer.close())


def _holdfast_flow(work: Callable[[int], object]) -> Any:
    module = imported("holdfast.workflow")

    def flow(steps: int) -> Generator[Any, Any, None]:
        for number in range(steps):
            yield module.step(f"step-{number}").python(work, args=(number,)).checkpoint()

    return module.workflow("bench")(flow)


def url_of(path: Path) -> str:
    return "memory://" if path == MEMORY else f"sqlite:///{path}"


def imported(module: str) -> Any:
    return importlib.import_module(module)
