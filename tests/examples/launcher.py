"""A process that forks examples, which are run as their users would run them.

It takes one JSON line for each, as `tests.crash.worker` does, and has imported holdfast once for
all. The steps that an example begins are written down, and it is killed on demand.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import warnings
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.engine.run.attempt import Attempts
from holdfast.seams import set_fault_hook
from holdfast.workflow import Step
from tests.crash.worker import serve


class Job(NamedTuple):
    """An example to run."""

    command: list[str]  # example.py [argument ...]
    directory: str
    output: str
    errors: str
    notes: str
    """A file that gets a line when a step's function is called and one when it returned, also if
    that was another step to take in its place."""
    kill_at: int
    """Which of these moments is the last one, counted from when this process has recorded a step,
    so that each process gets on by a step at least; 0 for none."""


moments = count(1)
noted: list[str] = []
recorded = False
job: Job
call = Attempts._call


async def noting_call(self: Attempts, task: Any, info: Any, here: bool) -> Any:
    note("began", info.step)
    value = await call(self, task, info, here)
    note("chose" if isinstance(value, Step) else "ended", info.step)
    return value


def note(what: str, step: str) -> None:
    with Path(job.notes).open("a") as file:
        file.write(f"{what} {step}\n")
    noted.append(what)
    if recorded and next(moments) == job.kill_at:
        os.kill(os.getpid(), signal.SIGKILL)


def watch(point: str) -> None:
    global recorded
    recorded = recorded or ("ended" in noted and point == "writer.append.after")


def run_child(request: dict[str, Any]) -> None:
    """Run the example to the end of the process."""
    global job
    job = Job(**request)
    for descriptor, path in ((1, job.output), (2, job.errors)):
        with Path(path).open("wb") as file:
            os.dup2(file.fileno(), descriptor)
    os.chdir(job.directory)
    warnings.simplefilter("error")
    Attempts._call = noting_call  # type: ignore[method-assign]
    set_fault_hook(watch)
    sys.argv = job.command
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    serve(run_child)
