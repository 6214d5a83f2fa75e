"""One system in a process of its own, for what only a fresh process shows.

python -m bench.once load SYSTEM PATH RUN      prints the milliseconds of its first load
python -m bench.once save SYSTEM PATH COUNT    saves 2 KB so many times, for `syncs_per_save`
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Final

from bench.inputs import KB, fresh_steps
from bench.systems import BLOCKING, SYSTEMS, cycle

HOME: Final = Path(__file__).parents[1]
"""Where `python -m bench...` is run."""


def first_load_ms(system: str, path: Path, run: str) -> float:
    """How long a fresh process takes to load a run, opening and importing not counted."""
    command = [sys.executable, "-m", "bench.once", "load", system, str(path), run]
    return float(_run(command).stdout)


def syncs_per_save(system: str, directory: Path) -> float | None:
    """fsync and fdatasync calls for each save, as strace sees them; None without strace."""
    return count_syncs(directory, "bench.once", "save", system)


def count_syncs(directory: Path, module: str, *arguments: str) -> float | None:
    """fsyncs for each thing that `module ARGUMENTS PATH COUNT` does; None without strace.

    Two runs of different lengths are compared: what opening and closing cost cancels out.
    """
    strace = shutil.which("strace")
    if strace is None:
        return None
    few, many = 10, 50
    seen = []
    for count in (few, many):
        log = directory / f"strace-{count}"
        tracer = [strace, "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(log)]
        command = [sys.executable, "-m", module, *arguments]
        _run([*tracer, *command, str(directory / f"syncs-{count}.db"), str(count)])
        seen.append(len(re.findall(r"f(?:data)?sync\(", log.read_text())))
    return (seen[1] - seen[0]) / (many - few)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=True, text=True, capture_output=True, cwd=HOME)


def _main(what: str, system: str, path: str, argument: str) -> None:
    if what == "load":
        loader = BLOCKING[system](Path(path))
        start = perf_counter()
        loader.load(argument)
        print((perf_counter() - start) * 1000)
        loader.close()
    else:
        saver = SYSTEMS[system](Path(path))
        saver.times("run", cycle(fresh_steps(2 * KB), int(argument)))
        saver.close()


if __name__ == "__main__":
    _main(*sys.argv[1:])
