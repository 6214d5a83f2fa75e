"""Calling a step's function: what it returns, and where it may run."""

from __future__ import annotations

import asyncio
from types import CoroutineType
from typing import Any

from holdfast.engine.context import StepInfo
from holdfast.engine.program import Task


def call_without_loop(task: Task) -> Any:
    """Call a step in place that may run an event loop of its own, as in any thread."""
    assert task.fn is not None
    loop = asyncio.get_running_loop()
    asyncio._set_running_loop(None)  # noqa: SLF001 - for those who run loops, says its docstring
    try:
        return task.fn(*task.args, **task.kwargs)
    finally:
        asyncio._set_running_loop(loop)  # noqa: SLF001


async def settled(task: Task, info: StepInfo, value: Any) -> Any:
    """What a step's function returned, or what comes of it. A step of a flow is not awaited."""
    is_coroutine = isinstance(value, CoroutineType)
    if is_coroutine and task.body:
        value.close()
        raise TypeError(
            f"{task.name!r} returned a coroutine: give for_each the `async def` itself, so "
            "that its steps are recorded"
        )
    if is_coroutine or asyncio.isfuture(value):
        value = await value
    info.check_used(value)
    return value


def refuse_exit(error: SystemExit, in_worker: bool) -> None:
    """Where a run must not end its process, a flow or step that exits has failed: raise that."""
    if in_worker:
        raise RuntimeError(f"it raised {error!r}") from error
