"""The event loop that is running in a thread, for code that runs another one inside of it."""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from typing import Any, NamedTuple


class Left(NamedTuple):
    """A loop, and its task that is being executed."""

    loop: asyncio.AbstractEventLoop | None
    task: asyncio.Task[Any] | None


def leave() -> Left:
    """From now on, no loop is running in this thread, and no task of it is the current one.

    Since Python 3.14, a thread has one current task, whatever its loop: no other could begin.
    """
    loop = asyncio._get_running_loop()  # noqa: SLF001 - none is no error
    task = None if loop is None else asyncio.current_task(loop)
    if loop is not None and task is not None:
        _leave_task(loop, task)
    asyncio._set_running_loop(None)  # noqa: SLF001 - for those who run loops, says its docstring
    return Left(loop, task)


def enter(left: Left) -> None:
    """It is running again, as it was."""
    asyncio._set_running_loop(left.loop)  # noqa: SLF001 - as above
    if left.loop is not None and left.task is not None:
        _enter_task(left.loop, left.task)
