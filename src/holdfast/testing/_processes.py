"""Processes that leave nothing behind: what a victim of a crash test started ends with it.

Between a test and its victim stands a keeper. On Linux it adopts whatever the victim started and
left, also what has a session of its own, and ends it. Elsewhere it ends the victim's process group.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

from holdfast.engine import running_loop

_FAILED: Final = 70
_PR_SET_CHILD_SUBREAPER: Final = 36


def in_a_process(work: Callable[[], None], output: Path, timeout: float) -> int:
    """Call a function in a process made by fork(); its output goes to a file.

    Returns its exit code, negative for a signal, when everything that it started has ended.
    """
    with warnings.catch_warnings():  # of the threads of this process the child needs none
        warnings.simplefilter("ignore", DeprecationWarning)
        keeper = os.fork()
    if keeper == 0:
        _keep(work, output, timeout)
    try:
        os.waitid(os.P_PID, keeper, os.WEXITED | os.WNOWAIT)
    finally:  # Ctrl-C: nothing of it is left behind
        os.kill(keeper, signal.SIGTERM)
        _, status = os.waitpid(keeper, 0)
    return os.waitstatus_to_exitcode(status)


def _keep(work: Callable[[], None], output: Path, timeout: float) -> NoReturn:
    """Have a child do the work, end what it leaves, and end as it did."""
    code = _FAILED
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)  # that of an async test is not ours
        gc.freeze()  # the collector would copy the memory of the test's process
        _adopt_orphans()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        victim = os.fork()
        if victim == 0:
            _be_a_victim(work, output, timeout)
        signal.signal(signal.SIGTERM, lambda *_: os.kill(victim, signal.SIGKILL))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.waitid(os.P_PID, victim, os.WEXITED | os.WNOWAIT)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(victim, signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _, status = os.waitpid(victim, 0)
        _end_children()
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            with suppress(OSError):  # SIGKILL has no other handler
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
    except BaseException:  # noqa: BLE001 - nothing may return into the test
        traceback.print_exc()
    finally:
        os._exit(code)


def _be_a_victim(work: Callable[[], None], output: Path, timeout: float) -> NoReturn:
    code = _FAILED
    try:
        os.setsid()  # what it starts can be ended with it
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        signal.setitimer(signal.ITIMER_REAL, timeout)  # a victim that hangs ends itself
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for standard in (1, 2):
            os.dup2(file, standard)
        sys.stdout = sys.stderr = os.fdopen(file, "w", buffering=1, errors="replace")
        running_loop.leave()  # that of an async test is not ours
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may return into the test
        traceback.print_exc()
    finally:
        os._exit(code)


def _adopt_orphans() -> None:
    """Become the parent of processes whose parents end, where the system can do that."""
    if sys.platform == "linux":
        libc: Any = ctypes.CDLL(None)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_children() -> None:
    """End all children, and what becomes a child as they end."""
    while True:
        ended = []
        for pid in _children():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                ended.append(pid)
        for pid in ended:
            os.waitpid(pid, 0)
        if not ended:
            return


def _children() -> Iterator[int]:
    """The children of this process."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # none: that is quickly found out
        return
    here = f" {os.getpid()} "
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            _, _, facts = stat.read_text(errors="replace").rpartition(")")  # " S 1 ...", by parent
            if facts[2:].startswith(here):
                yield int(stat.parent.name)
