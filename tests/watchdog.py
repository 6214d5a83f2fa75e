"""Ends a test that hangs: shows where it and the processes that it started stand, and kills them.

The process that ran it is ended, too: what hangs there may hold anything. xdist reports the test
as failed and starts another worker for the rest.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

from tests.processes import descendants, describe

LIMIT: Final = 600.0
"""Seconds. The slowest test takes a twentieth of it, but Hypothesis may shrink for five minutes."""

_GRACE: Final = 60.0
_AT_LEAST: Final = 60.0  # for the end of a session, which a busy machine makes long
_TICK: Final = 1.0


def pytest_addoption(parser: pytest.Parser) -> None:
    help_ = "end a test that takes longer than so many seconds; 0 lets it"
    parser.addoption("--hung-after", type=float, default=LIMIT, metavar="SECONDS", help=help_)


def pytest_configure(config: pytest.Config) -> None:
    limit: float = config.getoption("--hung-after")
    if limit and not config.getoption("usepdb"):
        worker = hasattr(config, "workerinput")  # of xdist
        config.pluginmanager.register(Watchdog(limit, worker=worker), "watchdog")


class Watchdog:
    """A thread that looks once a second whether the test that runs is late."""

    def __init__(self, limit: float, *, worker: bool) -> None:
        assert sys.__stderr__ is not None
        self._output = os.dup(sys.__stderr__.fileno())  # pytest captures what is written to 2
        self._limit = limit
        self._worker = worker
        self._late: tuple[float, str] | None = None
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch a test with its fixtures."""
        self._late = time.monotonic() + self._limit, item.nodeid
        # Where even our thread can't run, because the hung one never gives up the interpreter.
        faulthandler.dump_traceback_later(self._limit + _GRACE, file=self._output, exit=True)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()
            self._late = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Watch the end of the process: threads that are joined, servers that are stopped."""
        if not self._worker:  # which may wait for others as long as they take
            self._late = time.monotonic() + max(self._limit, _AT_LEAST), "the end of the session"

    def _watch(self) -> None:
        while True:
            time.sleep(_TICK)
            late = self._late
            if late is not None and time.monotonic() > late[0]:
                try:
                    self._end(late[1])
                finally:
                    os._exit(1)

    def _end(self, what: str) -> None:
        self._say(f"\n{what} hung for {self._limit:g} seconds; its threads:\n")
        faulthandler.dump_traceback(file=self._output)
        for task in _waiting_tasks():
            self._say(f"\n{task.get_name()} waits at:\n{_places(task)}")
        started = list(descendants(os.getpid()))
        for pid in started:
            self._say(f"\nprocess {pid}: {describe(pid)}\n")
        for pid in started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _say(self, text: str) -> None:
        os.write(self._output, text.encode(errors="replace"))


def _waiting_tasks() -> list[asyncio.Task[Any]]:
    """Those of every event loop; the stack of a thread does not show them."""
    found = [thing for thing in gc.get_objects() if isinstance(thing, asyncio.Task)]
    return [task for task in found if not task.done()]


def _places(task: asyncio.Task[Any]) -> str:
    """Where a task and what it awaits stand, outermost first."""
    lines = []
    waiting: Any = task.get_coro()
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        code = frame.f_code
        lines.append(f'  File "{code.co_filename}", line {frame.f_lineno} in {code.co_name}\n')
        waiting = waiting.cr_await
    return "".join(lines)
