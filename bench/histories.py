"""Long histories: resuming, forking and searching them, and pipelines with many outputs.

Each is measured at several lengths, so that what grows with the history is seen.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import holdfast as hf
from bench.clock import MS, US, clocked
from bench.engines import Job
from bench.fresh import die, finish
from bench.inputs import KB, State, fresh_steps
from bench.peers import DBOS, WORKFLOWS, LangGraphLoop, installed
from bench.report import Trial
from holdfast.evidence import Evidence, EvidencePack, EvidenceType
from holdfast.manager import CheckpointManager
from holdfast.pipeline import Pipeline

_BATCH: Final = 1000
EARLIER: Final = "printf('0%d', i)"
"""Ids that sort before those that LangGraph makes."""
_BASE: Final = 20  # steps of a run that is resumed to see what every resume takes
_REPEATED: Final = 5  # calls that are too short to be timed once

Calls = dict[str, Callable[[], object]]
Opened = Callable[[Path, int], AbstractContextManager[Calls]]
"""Opens a store with so many entries at a path, and fills it if it is new; gives what is timed."""


def resumes(directory: Path, lengths: Sequence[int], *others: str) -> dict[str, Trial]:
    """Runs of so many small steps that were killed in the last, resumed by a fresh process.

    `resume_us` is for a step: what a short run takes is taken off.
    """

    @cache
    def killed(engine: str, steps: int) -> Path:
        made = directory / f"{engine}-{steps}"
        if not made.exists():
            made.mkdir()
            die(engine, made / "store.db", steps)
        return made

    def resumed(engine: str, steps: int, path: Path) -> dict[str, float]:
        own = path.with_name(str(steps))
        shutil.copytree(killed(engine, steps), own)
        found = finish(engine, own / "store.db", steps)
        assert found["known"], f"{engine} knew of the run"
        return found

    def trial(engine: str) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            short = resumed(engine, _BASE, path)
            found = {f"resume_s@{_BASE}": short["resume_s"]}
            for steps in lengths:
                long = resumed(engine, steps, path)
                for quantity, name in (("resume_s", "resume_us"), ("cpu_s", "cpu_us")):
                    found[f"{name}@{steps}"] = (
                        (long[quantity] - short[quantity]) / (steps - _BASE) * US
                    )
                found[f"resume_s@{steps}"] = long["resume_s"]
                found[f"peak_mb@{steps}"] = long["peak_mb"]
            return found

        return measure

    names = ("holdfast, awaited", *others)
    return {name: trial(name) for name in names if installed(WORKFLOWS[name])}


def forks(directory: Path, lengths: Sequence[int]) -> dict[str, Trial]:
    """A run with so many checkpoints, forked from the newest. LangGraph forks within a thread."""

    @contextmanager
    def holdfast(path: Path, length: int) -> Iterator[Calls]:
        new = not path.exists()
        with hf.SyncCheckpointer(path) as cp:
            for first in range(0, length if new else 0, _BATCH):
                numbers = range(first, min(first + _BATCH, length))
                cp.save_many({"run_id": "run", "state": {"turn": n}} for n in numbers)
            yield {"ms": lambda: cp.fork("run")}

    @contextmanager
    def langgraph(path: Path, length: int) -> Iterator[Calls]:
        new = not path.exists()
        with closing(LangGraphLoop(path, _counting(2))) as engine:
            if new:
                engine.times(["run"])
                copy_rows(path, "checkpoints", {"checkpoint_id": EARLIER}, length)
            config = {"configurable": {"thread_id": "run"}}
            newest = engine.runner.run(engine.graph.aget_state(config)).config
            fork = partial(engine.graph.aupdate_state, newest, {"turn": 1})
            yield {"ms": lambda: engine.runner.run(fork())}

    @contextmanager
    def dbos(path: Path, length: int) -> Iterator[Calls]:
        new = not path.exists()
        with closing(DBOS(path, _counting(2))) as engine:
            if new:
                engine.times(["run"])
                copy_rows(path, "operation_outputs", {"function_id": "i"}, length)
            yield {"ms": lambda: engine.fork("run", length)}

    kinds: dict[str, tuple[bool, Opened]] = {
        "holdfast": (True, holdfast),
        "LangGraph": (installed(LangGraphLoop), langgraph),
        "DBOS": (installed(DBOS), dbos),
    }
    return {
        name: growing(directory / f"{name}-fork", opened, lengths)
        for name, (there, opened) in kinds.items()
        if there
    }


def last_verified(directory: Path, lengths: Sequence[int]) -> dict[str, Trial]:
    """`get_last_verified_checkpoint` of a task that writes ten files in turn, and claims each.

    What is claimed again replaces what was claimed before. All claims that are left are checked: of
    a task that claims a new file with every checkpoint, there are as many as checkpoints.
    """

    @contextmanager
    def holdfast(path: Path, length: int) -> Iterator[Calls]:
        new = not path.exists()
        with CheckpointManager(path, base_path=directory, auto_verify=False) as manager:
            for number in range(length if new else 0):
                name = f"part-{number % 10}.txt"
                (directory / name).touch()
                claim = Evidence(EvidenceType.ARTIFACT_EXISTS, name, {"path": name})
                begun = manager.begin_step("task", "manual_checkpoint", {"number": number})
                manager.commit_step(begun, EvidencePack([claim]))
            yield {"ms": lambda: _there(manager.get_last_verified_checkpoint("task"))}

    return {"holdfast": growing(directory / "verified", holdfast, lengths)}


def pipelines(lengths: Sequence[int]) -> dict[str, Trial]:
    """A pipeline of so many steps in memory; each output stays available to all later steps."""

    async def work(data: object) -> dict[str, int]:
        return {"turn": 1}

    async def run(length: int) -> dict[str, float]:
        pipeline = _pipeline(work, length, "memory://")
        await pipeline.run({}, thread_id="warm")
        with clocked() as spent:
            await pipeline.run({}, thread_id="bench")
        return {
            f"step_us@{length}": spent.seconds / length * US,
            f"cpu_us@{length}": spent.cpu / length * US,
        }

    def measure(path: Path) -> dict[str, float]:
        found: dict[str, float] = {}
        for length in lengths:
            found |= asyncio.run(run(length))
        return found

    return {"holdfast": measure}


def slow_pipeline(seconds: float, steps: int = 10) -> dict[str, Trial]:
    """Ten durable steps that take so many seconds each, beside the same steps by hand."""
    outputs = [made.state for made in fresh_steps(2 * KB, steps)]

    async def work(data: object) -> State:
        await asyncio.sleep(seconds)
        return outputs[0]

    async def by_hand(_: Path) -> dict[str, float]:
        with clocked() as spent:
            for _step in range(steps):
                await work(None)
        return {"run_ms": spent.seconds * MS, "cpu_ms": spent.cpu * MS}

    async def durable(path: Path) -> dict[str, float]:
        async with hf.Checkpointer(path) as cp:
            await cp.runs()  # opening a database is not a step
            pipeline = _pipeline(work, steps, cp)
            with clocked() as spent:
                await pipeline.run({}, thread_id="bench")
        return {"run_ms": spent.seconds * MS, "cpu_ms": spent.cpu * MS}

    return {
        "plain calls": lambda path: asyncio.run(by_hand(path)),
        "holdfast": lambda path: asyncio.run(durable(path)),
    }


def _pipeline(work: Any, length: int, checkpointer: Any) -> Pipeline:
    names = [f"s{number}" for number in range(length)]
    steps = [{"id": name, "function": work} for name in names]
    paths = [{"from": a, "to": b} for a, b in zip(names, [*names[1:], "end"], strict=True)]
    return Pipeline(steps, {"start_at": "s0", "paths": paths}, checkpointer=checkpointer)


def growing(directory: Path, opened: Opened, sizes: Sequence[int]) -> Trial:
    """The same calls on stores of several sizes, which are made once and kept."""

    def measure(path: Path) -> dict[str, float]:
        directory.mkdir(exist_ok=True)
        found = {}
        for size in sizes:
            with opened(directory / f"{size}.db", size) as calls:
                for name, call in calls.items():
                    call()
                    taken = []
                    for _ in range(_REPEATED):
                        with clocked() as spent:
                            call()
                        taken.append(spent)
                    found[f"{name}@{size}"] = median(each.seconds for each in taken) * MS
                    found[f"cpu_{name}@{size}"] = median(each.cpu for each in taken) * MS
        return found

    return measure


def copy_rows(path: Path, table: str, changed: Mapping[str, str], count: int) -> None:
    """As many rows as long histories or many runs have, made of one: only their number matters.

    `changed` has what is to differ: columns, and SQL that makes them of a number `i`.
    """
    with closing(sqlite3.connect(path)) as db, db:
        columns = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
        chosen = ", ".join(changed.get(name, name) for name in columns)
        db.execute(
            "WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers "
            f"LIMIT {count}) INSERT OR IGNORE INTO {table} SELECT {chosen} FROM numbers, "
            f"(SELECT * FROM {table} LIMIT 1)"
        )


def _counting(steps: int) -> Job:
    return Job(steps, lambda number: {"turn": number})


def _there(found: object) -> None:
    assert found is not None, "the newest checkpoint verifies"
