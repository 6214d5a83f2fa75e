"""What is compared: the floors of SQLite itself, holdfast, and LangGraph's savers.

Each system is opened on a path of its own and measures its own saves, so that an awaited save is
timed inside the event loop. Every one of them waits for the disk: `synchronous=FULL`.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Protocol

import ormsgpack

import holdfast as hf
from bench.inputs import State, Step

MEMORY: Final = Path("memory")
"""Opens a system's store in memory instead of on disk."""

HAS_LANGGRAPH: Final = (
    importlib.util.find_spec("langgraph") is not None
    and importlib.util.find_spec("langgraph.checkpoint.sqlite") is not None
)
NO_LANGGRAPH: Final = (
    "LangGraph's savers are not installed, so they are left out; "
    "`pip install 'langgraph-checkpoint-sqlite>=3.0'` to compare with them"
)


class System(ABC):
    """Something that saves states, opened by being made."""

    @abstractmethod
    def __init__(self, path: Path) -> None:
        """Open it."""

    @abstractmethod
    def times(self, run: str, steps: Iterable[Step]) -> list[float]:
        """Save the steps one after the other; seconds that each save took."""

    @abstractmethod
    def close(self) -> None:
        """Release everything."""


class Blocking(System):
    """A system whose saves block."""

    @abstractmethod
    def save(self, run: str, step: Step) -> object:
        """Return when the step is durable."""

    @abstractmethod
    def load(self, run: str) -> State:
        """The newest state of the run."""

    def times(self, run: str, steps: Iterable[Step]) -> list[float]:
        taken = []
        for step in steps:
            start = perf_counter()
            self.save(run, step)
            taken.append(perf_counter() - start)
        return taken


class Awaiting(System):
    """A system whose saves are awaited, with an event loop of its own."""

    def __init__(self, path: Path) -> None:
        self.runner = asyncio.Runner()

    @abstractmethod
    async def save(self, run: str, step: Step) -> object:
        """Return when the step is durable."""

    def times(self, run: str, steps: Iterable[Step]) -> list[float]:
        return self.runner.run(self._times(run, steps))

    def together(self, runs: Sequence[str], steps: Sequence[Step]) -> float:
        """Save the steps to every run, all runs at once; seconds until the last is durable."""
        return self.runner.run(self._together(runs, steps))

    async def _times(self, run: str, steps: Iterable[Step]) -> list[float]:
        taken = []
        for step in steps:
            start = perf_counter()
            await self.save(run, step)
            taken.append(perf_counter() - start)
        return taken

    async def _together(self, runs: Sequence[str], steps: Sequence[Step]) -> float:
        async def one(run: str) -> None:
            for step in steps:
                await self.save(run, step)

        start = perf_counter()
        await asyncio.gather(*map(one, runs))
        return perf_counter() - start


class Together(Protocol):
    """A system that can save to many runs at once."""

    def together(self, runs: Sequence[str], steps: Sequence[Step]) -> float:
        """Save the steps to every run, all runs at once; seconds until the last is durable."""

    def close(self) -> None:
        """Release everything."""


class Floor(Blocking):
    """SQLite with nothing around it: a row holding the payload, one commit each."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS rows "
            "(run TEXT NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (run, seq))"
        )
        self._seq = 0

    def save(self, run: str, step: Step) -> object:
        self._seq += 1
        return self._db.execute(_ROW, (run, self._seq, step.payload))

    def load(self, run: str) -> State:
        """For the chat, whose rows are its messages."""
        rows = self._db.execute("SELECT body FROM rows WHERE run = ? ORDER BY seq", (run,))
        return {"messages": [ormsgpack.unpackb(body) for (body,) in rows]}

    def together(self, runs: Sequence[str], steps: Sequence[Step]) -> float:
        """Group commit at its best: one transaction for each step, holding a row for every run."""
        start = perf_counter()
        for step in steps:
            self._seq += 1
            self._db.execute("BEGIN")
            self._db.executemany(_ROW, [(run, self._seq, step.payload) for run in runs])
            self._db.execute("COMMIT")
        return perf_counter() - start

    def close(self) -> None:
        self._db.close()


class Holdfast(Blocking):
    """`SyncCheckpointer` as a user gets it."""

    def __init__(self, where: Path | str) -> None:
        self.checkpointer = hf.SyncCheckpointer(_url(where))

    def save(self, run: str, step: Step) -> object:
        return self.checkpointer.save(run, step.state)

    def load(self, run: str) -> State:
        found = self.checkpointer.load(run)
        assert found is not None, f"{run} was saved"
        state: State = found.state
        return state

    def close(self) -> None:
        self.checkpointer.close()


class HoldfastAwaited(Awaiting):
    """`Checkpointer` as a user gets it."""

    def __init__(self, where: Path | str) -> None:
        super().__init__(Path())
        self._checkpointer = hf.Checkpointer(_url(where))

    async def save(self, run: str, step: Step) -> object:
        return await self._checkpointer.save(run, step.state)

    def close(self) -> None:
        self.runner.run(self._checkpointer.close())
        self.runner.close()


class LangGraph(Blocking):
    """`SqliteSaver`, or `InMemorySaver`."""

    def __init__(self, path: Path) -> None:
        self._db: sqlite3.Connection | None = None
        if path == MEMORY:
            self.saver = _langgraph("memory").InMemorySaver()
        else:
            self._db = sqlite3.connect(path, check_same_thread=False)
            self.saver = _langgraph("sqlite").SqliteSaver(self._db)
            self.saver.setup()  # which sets WAL
            self._db.execute("PRAGMA synchronous=FULL")
        self._puts = Puts(self.saver)

    def save(self, run: str, step: Step) -> object:
        config = self._puts.config(run)
        return self._puts.note(run, self.saver.put(config, *self._puts.checkpoint(step.state)))

    def load(self, run: str) -> State:
        state: State = self.saver.get_tuple(head(run)).checkpoint["channel_values"]
        return state

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


class LangGraphAwaited(Awaiting):
    """`AsyncSqliteSaver`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.runner.run(self._open(path))

    async def _open(self, path: Path) -> None:
        self._db = await importlib.import_module("aiosqlite").connect(path)
        self._saver = _langgraph("sqlite.aio").AsyncSqliteSaver(self._db)
        await self._saver.setup()  # which sets WAL
        await self._db.execute("PRAGMA synchronous=FULL")
        self._puts = Puts(self._saver)

    async def save(self, run: str, step: Step) -> object:
        config = self._puts.config(run)
        saved = await self._saver.aput(config, *self._puts.checkpoint(step.state))
        return self._puts.note(run, saved)

    def close(self) -> None:
        self.runner.run(self._db.close())
        self.runner.close()


class Puts:
    """The arguments of `put` as LangGraph's own loop makes them: a new version of each channel,
    a checkpoint whose id sorts after its parent's, and the parent's config."""

    def __init__(self, saver: Any) -> None:
        self._saver = saver
        self._empty = _langgraph("base").empty_checkpoint
        self._configs: dict[str, Any] = {}
        self._version: Any = None
        self._step = -1

    def config(self, run: str) -> Any:
        return self._configs.get(run) or head(run)

    def note(self, run: str, config: Any) -> Any:
        self._configs[run] = config
        return config

    def checkpoint(self, state: State) -> tuple[Any, Any, Any]:
        self._step += 1
        self._version = self._saver.get_next_version(self._version, None)
        versions = dict.fromkeys(state, self._version)
        checkpoint = self._empty() | {
            "channel_values": state,
            "channel_versions": versions,
            "versions_seen": {"agent": versions},
            "updated_channels": sorted(state),
        }
        metadata = {"source": "loop", "step": self._step, "parents": {}}
        return checkpoint, metadata, versions


BLOCKING: Final[dict[str, type[Blocking]]] = {
    "floor": Floor,
    "holdfast": Holdfast,
    **({"SqliteSaver": LangGraph} if HAS_LANGGRAPH else {}),
}
AWAITING: Final[dict[str, type[Awaiting]]] = {
    "holdfast, awaited": HoldfastAwaited,
    **({"AsyncSqliteSaver": LangGraphAwaited} if HAS_LANGGRAPH else {}),
}
SYSTEMS: Final[dict[str, type[Blocking] | type[Awaiting]]] = {**BLOCKING, **AWAITING}


def default_synchronous() -> int:
    """What a connection like SqliteSaver's is set to before this benchmark sets FULL, which is 2."""
    db = sqlite3.connect(":memory:")
    found: int = db.execute("PRAGMA synchronous").fetchone()[0]
    db.close()
    return found


def bytes_on_disk(path: Path) -> int:
    """What a closed database takes, after its WAL was checkpointed; indexes included."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()
    return sum(file.stat().st_size for file in path.parent.glob(path.name + "*"))


def cycle(steps: Sequence[Step], count: int) -> Iterable[Step]:
    """So many steps, beginning anew as often as needed."""
    return islice((step for _ in range(count) for step in steps), count)


def _url(where: Path | str) -> str:
    """Of a path's SQLite file; a URL is one already."""
    if isinstance(where, str):
        return where
    return "memory://" if where == MEMORY else f"sqlite:///{where}"


def head(run: str) -> Any:
    """LangGraph's config of a run's newest checkpoint."""
    return {"configurable": {"thread_id": run, "checkpoint_ns": ""}}


def _langgraph(module: str) -> Any:
    return importlib.import_module(f"langgraph.checkpoint.{module}")


_ROW: Final = "INSERT INTO rows VALUES (?, ?, ?)"
