"""What only a fresh process shows: a first load, fsyncs, and how a killed run is finished.

python -m bench.fresh load SYSTEM PATH RUN     prints the milliseconds of its first load
python -m bench.fresh save SYSTEM PATH COUNT   saves 2 KB so many times, for `syncs_per_save`
python -m bench.fresh saves SYSTEM PATH COUNT  the same, from the moment that a line is read
python -m bench.fresh steps ENGINE PATH COUNT  a run of so many steps, for `syncs_per_step`
python -m bench.fresh die ENGINE PATH STEPS    a run of so many steps, killed in the middle or, if
                                               it is long, in the last one
python -m bench.fresh finish ENGINE PATH STEPS resumes it; prints what that took
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter, sleep
from typing import Final

from bench.clock import MS, clocked
from bench.engines import Awaiting, Engine, HoldfastGraph, Job, State
from bench.peers import ENGINES

HOME: Final = Path(__file__).parents[1]
"""Where `python -m bench...` is run."""
SHORT: Final = 10  # steps; longer runs are killed in their last one
_WRITTEN: Final = 1.0  # seconds, after which what a long run saved without waiting is written

_KINDS: Final[dict[str, type[Engine]]] = {**ENGINES, "holdfast, graph": HoldfastGraph}


def first_load_ms(system: str, path: Path, run: str) -> float:
    """How long a fresh process takes to load a run, opening and importing not counted."""
    return float(_run(_command("load", system, path, run)).stdout)


def syncs_per_save(system: str, directory: Path) -> float | None:
    """fsync and fdatasync calls for each save, as strace sees them; None without strace."""
    return _count_syncs(directory, "save", system)


def syncs_per_step(engine: str, directory: Path) -> float | None:
    """The same for each step of a run."""
    return _count_syncs(directory, "steps", engine)


def save_together(system: str, path: Path, processes: int, saves: int) -> float:
    """Seconds until so many processes have saved so often each, once all of them are open."""
    command = _command("saves", system, path, saves)
    started = []
    for _ in range(processes):  # one after the other: the first makes the tables
        each = subprocess.Popen(
            command, cwd=HOME, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append((each, each.stdin, each.stdout))
        assert each.stdout
        assert each.stdout.readline() == "ready\n"
    start = perf_counter()
    for _, said, _ in started:
        assert said
        said.write("go\n")
        said.flush()
    assert [heard and heard.readline() for _, _, heard in started] == ["done\n"] * processes
    seconds = perf_counter() - start
    for each, _, _ in started:
        each.communicate()
    return seconds


def restart(engine: str, path: Path) -> dict[str, float]:
    """Let a run of ten steps be killed, then time a fresh process from its start to the end."""
    die(engine, path, SHORT)
    finished = len(_noted(path))
    found = finish(engine, path, SHORT)
    again = _noted(path)[finished:]
    assert set(again) >= set(range(_deadly(SHORT), SHORT)), "the rest was done"
    return {
        "done_s": found["done_s"],
        "finished_steps_run_again": sum(number < _deadly(SHORT) for number in again),
        "known_to_be_unfinished": found["known"],
    }


def die(engine: str, path: Path, steps: int) -> None:
    """A run of so many steps that kills its process."""
    died = subprocess.run(_command("die", engine, path, steps), cwd=HOME, check=False)
    assert died.returncode == -signal.SIGKILL, f"{engine} was to be killed, not {died.returncode}"


def finish(engine: str, path: Path, steps: int) -> dict[str, float]:
    """Resume it in a fresh process.

    `done_s` is from the start of the process to the run's end. For long runs, `resume_s` is the
    resume alone, in a process that has run something else before; `cpu_s` is its processor time,
    and `peak_mb` the most memory that the process took.
    """
    start = perf_counter()
    command = _command("finish", engine, path, steps)
    with subprocess.Popen(command, cwd=HOME, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = perf_counter() - start
        process.stdout.read()
    assert process.returncode == 0, f"{engine} did not finish the run"
    return {"done_s": seconds, **json.loads(line)}


def interpreter_seconds() -> float:
    """What starting Python takes by itself, until it could print."""
    start = perf_counter()
    with subprocess.Popen([sys.executable, "-c", "print()"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        return perf_counter() - start


def _count_syncs(directory: Path, what: str, name: str) -> float | None:
    """Two runs of different lengths are compared: what opening and closing cost cancels out."""
    strace = shutil.which("strace")
    if strace is None:
        return None
    directory.mkdir(exist_ok=True)
    few, many = 10, 50
    seen = []
    for count in (few, many):
        log = directory / f"strace-{count}"
        tracer = [strace, "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(log)]
        _run([*tracer, *_command(what, name, directory / f"{what}-{name}-{count}.db", count)])
        seen.append(len(re.findall(r"f(?:data)?sync\(", log.read_text())))
    return (seen[1] - seen[0]) / (many - few)


def _command(what: str, name: str, path: Path, argument: object) -> list[str]:
    return [sys.executable, "-m", "bench.fresh", what, name, str(path), str(argument)]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=True, text=True, capture_output=True, cwd=HOME)


def _deadly(steps: int) -> int:
    """The step that kills its process, counted from 0."""
    return steps // 2 if steps <= SHORT else steps - 1


def _notes(path: Path) -> Path:
    return path.with_suffix(".steps")


def _noted(path: Path) -> list[int]:
    """The steps that were done, in the order in which they were."""
    return [int(line) for line in _notes(path).read_text().splitlines()]


def _noting(path: Path, steps: int, *, deadly: bool) -> Job:
    """Steps that take no time; those of short runs write down that they were done."""

    def work(number: int) -> State:
        if deadly and number == _deadly(steps):
            if steps > SHORT:
                sleep(_WRITTEN)  # else a resume would execute steps, too, and some more than others
            os.kill(os.getpid(), signal.SIGKILL)
        if steps <= SHORT:
            with _notes(path).open("a") as notes:
                notes.write(f"{number}\n")
        return {"turn": number}

    return Job(steps, work, waits=steps <= SHORT)


def _resume(name: str, path: Path, steps: int) -> None:
    kind = _KINDS[name]
    if steps > SHORT:  # what is imported and made on first use is not counted
        warm = kind(path.with_suffix(".warm"), Job(1, lambda number: {"turn": number}))
        warm.times(["warm"])
        warm.close()
    with clocked() as spent:
        engine = kind(path, _noting(path, steps, deadly=False))
        assert isinstance(engine, Awaiting)
        known = engine.runner.run(engine.resume("run"))
    found = {
        "known": float(known),
        "resume_s": spent.seconds,
        "cpu_s": spent.cpu,
        "peak_mb": _peak_mb(),
    }
    print(json.dumps(found), flush=True)
    engine.close()


def _peak_mb() -> float:
    """The most memory that this process has had; rusage would count its parent's, too."""
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kilobytes) / 1024


def _main(what: str, name: str, path: Path, argument: str) -> None:
    if what == "die":
        engine = _KINDS[name](path, _noting(path, int(argument), deadly=True))
        engine.times(["run"])
    elif what == "finish":
        _resume(name, path, int(argument))
    else:
        _work_with_savers(what, name, path, argument)


def _work_with_savers(what: str, name: str, path: Path, argument: str) -> None:
    from bench.inputs import KB, fresh_steps
    from bench.systems import BLOCKING, SYSTEMS, cycle

    made = fresh_steps(2 * KB)
    if what == "load":
        loader = BLOCKING[name](path)
        with clocked() as spent:
            loader.load(argument)
        print(spent.seconds * MS)
        loader.close()
    elif what == "saves":
        saver, run = SYSTEMS[name](path), f"run-{os.getpid()}"
        saver.times(run, made[:1])
        print("ready", flush=True)
        sys.stdin.readline()
        saver.times(run, cycle(made, int(argument)))
        print("done", flush=True)
        saver.close()
    elif what == "save":
        saver = SYSTEMS[name](path)
        saver.times("run", cycle(made, int(argument)))
        saver.close()
    else:
        job = Job(int(argument), lambda number: made[number % len(made)].state)
        engine = _KINDS[name](path, job)
        engine.times(["run"])
        engine.close()


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
