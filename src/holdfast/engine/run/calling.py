"""Calling a step's function: what it returns, and where it may run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.engine.context import StepInfo
from holdfast.engine.program import Task


async def settled(task: Task, info: StepInfo, value: Any) -> Any:
    """What a step's function returned, or what comes of it."""
    if is_pending(value):
        if task.body and inspect.iscoroutine(value):
            value.close()
            raise TypeError(
                f"{task.name!r} returned a coroutine: give for_each the `async def` itself, so "
                "that its steps are recorded"
            )
        value = await value
    info.check_used(value)
    return value


@contextmanager
def no_loop(hidden: bool) -> Iterator[None]:
    """A step that is called in place may run an event loop of its own, as in any thread."""
    if not hidden:
        yield
        return
    loop = asyncio.get_running_loop()
    asyncio._set_running_loop(None)  # noqa: SLF001 - for those who run loops, says its docstring
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)  # noqa: SLF001


@contextmanager
def contained(yes: bool) -> Iterator[None]:
    """Where a run must not end its process, a flow or step that exits has failed."""
    try:
        yield
    except SystemExit as error:
        if not yes:
            raise
        raise RuntimeError(f"it raised {error!r}") from error


def is_pending(value: object) -> bool:
    """Whether the function returned an awaitable. A step of a flow does not count."""
    return inspect.iscoroutine(value) or asyncio.isfuture(value)
