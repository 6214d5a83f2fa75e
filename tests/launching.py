"""A process that forks programs and `holdfast` commands, run as if they were typed into a shell.

It takes one JSON line for each, as `tests.crash.worker` does, and has imported holdfast once for
all: that takes most of the time that a short program takes.
"""

from __future__ import annotations

import os
import runpy
import shlex
import sys
import traceback
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.cli.main import holdfast as command_line
from tests.crash.harness import fork_server
from tests.crash.worker import serve

_OF_THE_SHELL: Final = frozenset("|;&<>$*?()`\\~{}[]!#\n")


class Job(NamedTuple):
    """A program to run."""

    command: list[str]  # python PROGRAM.py [argument ...], or holdfast [argument ...]
    directory: str
    environment: dict[str, str]
    output: str  # a file for all that it prints


def can_launch(line: str) -> bool:
    """Whether a line calls one program and nothing else of the shell's."""
    first, _, rest = line.partition(" ")
    program = first == "holdfast" or (first == "python" and rest.partition(" ")[0].endswith(".py"))
    return program and not _OF_THE_SHELL & set(line)


def launch(line: str, directory: Path, output: Path) -> tuple[int, str]:
    """The exit code of what is called, negative for a signal, and all that it printed."""
    server = fork_server("tests.launching")
    job = Job(shlex.split(line), str(directory), dict(os.environ), str(output))
    status = server.wait(server.start(**job._asdict()))
    return status, output.read_text()


def run_child(request: dict[str, Any]) -> None:
    """Run the program to the end of the process."""
    job = Job(**request)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    with Path(job.output).open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]  # in order, as there
    os.chdir(job.directory)
    os.environ.clear()
    os.environ.update(job.environment)
    sys.path[0] = job.directory
    program, *sys.argv = job.command
    if program == "holdfast":
        sys.argv.insert(0, program)
        command_line()
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except Exception as error:  # noqa: BLE001 - said as Python says it, without what is ours
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != sys.argv[0]:
            trace = trace.tb_next
        traceback.print_exception(error.with_traceback(trace))
        sys.exit(1)
    sys.exit()


if __name__ == "__main__":
    serve(run_child)
