"""Runs an example as its user would, writes down which steps it begins, and kills it on demand.

    launcher.py NOTES KILL_AT example.py [argument ...]

NOTES gets a line when a step's function is called and one when it returned, also if that was
another step to take in its place. KILL_AT says which of these moments is the last one, counted from
when this process has recorded a step, so that each process gets on by a step at least; 0 for none.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

from holdfast.engine.run.attempt import Attempts
from holdfast.seams import set_fault_hook
from holdfast.workflow import Step

notes, kill_at = Path(sys.argv[1]), int(sys.argv[2])
moments = count(1)
noted: list[str] = []
recorded = False
call = Attempts._call


async def noting_call(self: Attempts, task: Any, info: Any, here: bool) -> Any:
    note("began", info.step)
    value = await call(self, task, info, here)
    note("chose" if isinstance(value, Step) else "ended", info.step)
    return value


def note(what: str, step: str) -> None:
    with notes.open("a") as file:
        file.write(f"{what} {step}\n")
    noted.append(what)
    if recorded and next(moments) == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)


def watch(point: str) -> None:
    global recorded
    recorded = recorded or ("ended" in noted and point == "writer.append.after")


Attempts._call = noting_call  # type: ignore[method-assign]
set_fault_hook(watch)
sys.argv = sys.argv[3:]
runpy.run_path(sys.argv[0], run_name="__main__")
