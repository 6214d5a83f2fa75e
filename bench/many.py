"""Stores with many runs: what listing them takes, and examining, verifying and pruning all."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final

import holdfast as hf
from bench.clock import PROFILE, clocked
from bench.engines import Job
from bench.histories import EARLIER, Calls, Opened, copy_rows, growing
from bench.inputs import KB, fresh_steps
from bench.peers import DBOS, installed
from bench.report import Trial
from bench.systems import HAS_LANGGRAPH, LangGraph
from holdfast.cli.main import holdfast as command_line
from holdfast.workflow import ask, step, workflow

PAGE: Final = 50  # runs of a list
_BATCH: Final = 1000
_THREADED: Final = ("doctor", "verify")  # a profile sees one thread
_DBOS_RUNS: Final = {
    "workflow_uuid": "printf('%d', i)",
    "created_at": "created_at + i",
    "status": "CASE WHEN i % 100 THEN 'SUCCESS' ELSE 'ERROR' END",
}


@step(inline=True)
def charge(number: int) -> int:
    """Fails for one in ten."""
    if number % 10 == 0:
        raise ValueError("insufficient funds")
    return number


@workflow
async def order(number: int) -> int:
    """One in two hundred waits for a person."""
    if number % 200 == 1:
        await ask("Really?", returns=bool)
    return await charge(number)


def filled(directory: Path, runs: int) -> Path:
    """A store with so many runs, made once for all workloads.

    Nine of ten are saved directly, twice each, the newest tenth is executed.
    """
    path = directory.parent / f"{runs}-runs.db"
    if not path.exists():
        asyncio.run(_fill(path, runs))
    return path


async def _fill(path: Path, runs: int) -> None:
    async with hf.Checkpointer(path) as cp:
        executed = runs // 10
        for first in range(0, runs - executed, _BATCH):
            numbers = range(first, min(first + _BATCH, runs - executed))
            await cp.save_many(
                {"run_id": f"import-{n}", "state": {"n": n}, "step": name, "owner": f"o-{n % 50}"}
                for name in ("read", "load")
                for n in numbers
            )
        engine = hf.Engine(cp, flows=[order])
        for first in range(0, executed, 100):
            numbers = range(first, min(first + 100, executed))
            orders = (engine.run(order(n), run_id=f"order-{n}") for n in numbers)
            await asyncio.gather(*orders, return_exceptions=True)


def lists(directory: Path, counts: Sequence[int]) -> dict[str, Trial]:
    """The 50 newest runs, the 50 newest that failed, how many have each status, and questions.

    LangGraph lists checkpoints, not runs; DBOS knows no questions. Their rows are copies of one.
    """

    @contextmanager
    def holdfast(path: Path, runs: int) -> Iterator[Calls]:
        store = filled(directory, runs)
        with hf.SyncCheckpointer(store) as cp, hf.Engine(store) as engine:
            yield {
                "newest_ms": lambda: cp.runs(limit=PAGE),
                "failed_ms": lambda: cp.runs(status="failed", limit=PAGE),
                "counts_ms": cp.count_runs,
                "questions_ms": lambda: list(engine.questions_sync()),
            }

    @contextmanager
    def langgraph(path: Path, runs: int) -> Iterator[Calls]:
        new = not path.exists()
        with closing(LangGraph(path)) as system:
            if new:
                system.save("run", fresh_steps(KB)[0])
                copy_rows(
                    path, "checkpoints", {"thread_id": EARLIER, "checkpoint_id": EARLIER}, runs
                )
            saver: Any = system.saver
            yield {"newest_ms": lambda: list(saver.list(None, limit=PAGE))}

    @contextmanager
    def dbos(path: Path, runs: int) -> Iterator[Calls]:
        new = not path.exists()
        with closing(DBOS(path, Job(1, lambda number: {"turn": number}))) as engine:
            if new:
                engine.times(["run"])
                copy_rows(path, "workflow_status", _DBOS_RUNS, runs)
            yield {
                "newest_ms": lambda: engine.list(PAGE, None),
                "failed_ms": lambda: engine.list(PAGE, "ERROR"),
            }

    kinds: dict[str, tuple[bool, Opened]] = {
        "holdfast": (True, holdfast),
        "LangGraph": (HAS_LANGGRAPH, langgraph),
        "DBOS": (installed(DBOS), dbos),
    }
    return {
        name: growing(directory / f"{name}-lists", opened, counts)
        for name, (there, opened) in kinds.items()
        if there
    }


def commands(directory: Path, runs: int) -> dict[str, Trial]:
    """`holdfast doctor`, `verify` and `prune --keep-latest 1 --yes` over all runs, in this process."""

    def trial(*words: str) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            shutil.copy(filled(directory, runs), path)
            alone = ["--workers", "1"] if PROFILE in os.environ and words[0] in _THREADED else []
            with clocked() as spent, redirect_stdout(StringIO()):
                _command([*words, *alone, "--store", str(path)])
            return {"seconds": spent.seconds, "cpu_s": spent.cpu}

        return measure

    anchors = str(directory / "anchors.jsonl")
    return {
        "holdfast doctor": trial("doctor"),
        "holdfast verify": trial("verify"),
        "holdfast anchor": trial("anchor", "--to", anchors),
        "holdfast verify --anchor": trial("verify", "--anchor", anchors),
        "holdfast prune": trial("prune", "--keep-latest", "1", "--yes"),
    }


def _command(words: list[str]) -> None:
    try:
        command_line(words, standalone_mode=False)
    except SystemExit as ended:
        if ended.code not in (0, None, 1):  # 1: the failed runs are found
            raise RuntimeError(f"holdfast {words} exited with {ended.code}") from None
