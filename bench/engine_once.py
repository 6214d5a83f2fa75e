"""One engine in a process of its own: how a killed run is finished, and fsyncs for each step.

python -m bench.engine_once steps ENGINE PATH COUNT   a run of so many steps, for `count_syncs`
python -m bench.engine_once die ENGINE PATH           a run of ten steps that is killed in the sixth
python -m bench.engine_once finish ENGINE PATH        resumes it; prints 1 if the engine knew of it
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Final

from bench.engines import ENGINES, Awaiting, Engine, HoldfastGraph, Job, State

STEPS: Final = 10
KILLED_IN: Final = 5  # the sixth, counted from 0

_KINDS: Final[dict[str, type[Engine]]] = {**ENGINES, "holdfast, graph": HoldfastGraph}
_HOME: Final = Path(__file__).parents[1]


def restart(engine: str, path: Path) -> dict[str, float]:
    """Let a run be killed, then time a fresh process from its start to the run's end."""
    died = subprocess.run(_command("die", engine, path), cwd=_HOME, check=False)
    assert died.returncode == -signal.SIGKILL, f"{engine} was to be killed, not {died.returncode}"
    finished = len(_noted(path))
    start = perf_counter()
    with subprocess.Popen(
        _command("finish", engine, path), cwd=_HOME, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        known = process.stdout.readline()
        seconds = perf_counter() - start
        process.stdout.read()
    assert process.returncode == 0, f"{engine} did not finish the run"
    again = _noted(path)[finished:]
    assert set(again) >= set(range(KILLED_IN, STEPS)), "the rest was done"
    return {
        "done_s": seconds,
        "finished_steps_run_again": sum(number < KILLED_IN for number in again),
        "known_to_be_unfinished": float(known),
    }


def interpreter_seconds() -> float:
    """What starting Python takes by itself, until it could print."""
    start = perf_counter()
    with subprocess.Popen([sys.executable, "-c", "print()"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        return perf_counter() - start


def _command(what: str, engine: str, path: Path) -> list[str]:
    return [sys.executable, "-m", "bench.engine_once", what, engine, str(path)]


def _notes(path: Path) -> Path:
    return path.with_suffix(".steps")


def _noted(path: Path) -> list[int]:
    """The steps that were done, in the order in which they were."""
    return [int(line) for line in _notes(path).read_text().splitlines()]


def _noting(path: Path, *, deadly: bool) -> Job:
    """Steps that take no time and write down that they were done."""

    def work(number: int) -> State:
        if deadly and number == KILLED_IN:
            os.kill(os.getpid(), signal.SIGKILL)
        with _notes(path).open("a") as notes:
            notes.write(f"{number}\n")
        return {"turn": number}

    return Job(STEPS, work)


def _main(what: str, name: str, path: Path, count: str = "") -> None:
    if what == "steps":
        from bench.inputs import KB, fresh_steps

        made = fresh_steps(2 * KB)
        counted = _KINDS[name](path, Job(int(count), lambda number: made[number % len(made)].state))
        counted.times(["run"])
        counted.close()
        return
    engine = _KINDS[name](path, _noting(path, deadly=what == "die"))
    assert isinstance(engine, Awaiting)
    if what == "die":
        engine.times(["run"])
    else:
        print(int(engine.runner.run(engine.resume("run"))), flush=True)
    engine.close()


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
