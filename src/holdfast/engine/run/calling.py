"""Calling a step's function: what it returns, and where it may run."""

from __future__ import annotations

import asyncio
from types import CoroutineType
from typing import Any

from holdfast.engine import running_loop
from holdfast.engine.program import Task


def call_without_loop(task: Task) -> Any:
    """Call a step in place, which may run an event loop of its own beside this, as in any thread."""
    assert task.fn is not None
    left = running_loop.leave()
    try:
        return task.fn(*task.args, **task.kwargs)
    finally:
        running_loop.enter(left)


def is_pending(task: Task, value: Any) -> bool:
    """Whether to await what a step's function returned. A step of a flow is not awaited."""
    if not isinstance(value, CoroutineType):
        return asyncio.isfuture(value)
    if task.body:
        value.close()
        raise TypeError(
            f"{task.name!r} returned a coroutine: give for_each the `async def` itself, so "
            "that its steps are recorded"
        )
    return True


def as_failure(error: Exception | SystemExit, in_worker: bool) -> Exception:
    """The error; where a run must not end its process, a flow or step that exits has failed.

    Elsewhere, `SystemExit` is raised.
    """
    if not isinstance(error, SystemExit):
        return error
    if not in_worker:
        raise error
    failed = RuntimeError(f"it raised {error!r}")
    failed.__cause__ = error
    return failed
