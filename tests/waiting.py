"""Waiting in tests: for what others do, but never for good."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from tests.processes import descendants, describe

ENOUGH: Final = 120.0
"""Seconds that no process or thread of a test takes; after that it hangs."""

PATIENCE: Final = 30.0
"""Seconds that even a loaded machine does not take; what must not be waited for lasts longer."""


@contextmanager
def in_time(seconds: float = PATIENCE) -> Iterator[None]:
    """Fail if the block waits for something that lasts longer than this."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < seconds, "it waited"


def wait_until(true: Callable[[], object], *, seconds: float = 60.0, every: float = 0.02) -> None:
    """Return once it is so; raise `TimeoutError` if it does not come to be."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError(f"it did not come to be within {seconds:g} seconds")
        time.sleep(every)


def run_process(
    command: Sequence[str | os.PathLike[str]],
    *,
    check: bool,
    capture_output: bool = False,
    seconds: float = ENOUGH,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` of what reads and writes text, but never for good."""
    options["text"] = True
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **options) as process, bounded(process, seconds):
        out, err = process.communicate()
    done = subprocess.CompletedProcess[str](command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class Numbered(Protocol):
    """A process of `subprocess` or `tests.forks`."""

    @property
    def pid(self) -> int: ...


@contextmanager
def bounded(process: Numbered, seconds: float = ENOUGH) -> Iterator[None]:
    """Kill the process if the block still waits for it after so long, and say where it stood."""
    found: list[str] = []

    def end() -> None:
        for pid in (process.pid, *descendants(process.pid)):
            found.append(f"process {pid}: {describe(pid)}")
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if found:
            raise TimeoutError(f"after {seconds:g} seconds it still ran:\n" + "\n".join(found))


class Joinable(Protocol):
    """A thread, or a process of `multiprocessing`."""

    def join(self, timeout: float) -> None: ...
    def is_alive(self) -> bool: ...


def join(*started: Joinable) -> None:
    """Wait for their end; raise `TimeoutError` if one does not come to it."""
    for each in started:
        each.join(ENOUGH)
        if each.is_alive():
            raise TimeoutError(f"{each} still runs after {ENOUGH:g} seconds")


def exit_code(child: int) -> int:
    """How a child of `os.fork` ended; it is killed if it does not."""
    status: list[int] = []

    def ended() -> bool:
        pid, found = os.waitpid(child, os.WNOHANG)
        status.append(found)
        return pid == child

    try:
        wait_until(ended, every=0.005)
    except TimeoutError:
        where = describe(child)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise TimeoutError(f"the child still ran: {where}") from None
    return os.waitstatus_to_exitcode(status[-1])
