"""A process that forks workers that repair runs: `python -m tests.crash.repair_worker`. See `worker`.

Each carries a run to its end, or goes on with it from the newest checkpoint that holds.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

import holdfast as hf
import holdfast.evidence.trust.checking
import holdfast.stores.files.store
import holdfast.stores.sqlite.store
import holdfast.workflow.workflow_program
from holdfast.workflow import parallel, step, workflow
from tests import faults
from tests.crash.worker import serve

STEPS = ("a", "b", "c", "d", "e", "f")
RESULT = "abcdef"

_desk = Path()
_notes = -1
_pace = 0.0


class Job(NamedTuple):
    """What one worker does."""

    url: str
    desk: str
    notes: str
    kill_at: int = 0  # the how many-th fault point, 0 for none
    blocking: bool = True
    pace: float = 0.0  # seconds that a step takes


def note(what: str, **fields: Any) -> None:
    """Note one thing: each line is one write(2)."""
    os.write(_notes, json.dumps({"what": what, "pid": os.getpid(), **fields}).encode() + b"\n")


def work(name: str) -> str:
    """Write a file, slowly enough to be caught at it."""
    note("begin", step=name)
    with (_desk / name).open("w") as file:
        file.write("this ")
        file.flush()
        time.sleep(_pace)
        file.write(f"is {name}")
    note("done", step=name)
    return name


def made(name: str) -> Any:
    """A step that writes its file."""
    return step(name).python(work, args=(name,)).outputs(_desk / name)


@workflow("within")
def within() -> Generator[Any, Any, Any]:
    d = yield made("d")
    return d + (yield made("e"))


@workflow("repaired")
def repaired() -> Generator[Any, Any, Any]:
    a = yield made("a")
    b, c = yield parallel(made("b"), made("c"), concurrency=1)
    de = yield step("sub").subworkflow(within)
    return a + b + c + de + (yield made("f"))


def carry_out(job: Job) -> None:
    """Start the run or go on with it, to its end."""
    global _desk, _notes, _pace
    _desk, _pace = Path(job.desk), job.pace
    _notes = os.open(job.notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    store = hf.open_store(job.url)
    engine = hf.Engine(store)
    try:
        if job.blocking:
            result = engine.run_sync(repaired(), run_id="run", resume=True)
        else:
            result = asyncio.run(engine.run(repaired(), run_id="run", resume=True))
    except (hf.LeaseLostError, hf.RunActiveError) as error:  # another was faster
        note("lost", error=type(error).__name__)
    else:
        note("ended", result=result)
    store.close()


def _run_child(job: Job) -> None:
    status = 1
    try:
        with faults.at(faults.ANY, faults.kill, nth=job.kill_at or -1):
            carry_out(job)
        status = 0
    except BaseException:  # noqa: BLE001 - a child must not go on as its parent
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve(lambda request: _run_child(Job(**request)))
