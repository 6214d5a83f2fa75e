"""Carrying a run out in a program that has no event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def block_on(make: Callable[[], Coroutine[Any, Any, T]], awaited: str) -> T:
    """Run a coroutine to its end on a loop of its own. Raises `RuntimeError` where one is running.

    Ctrl-C strikes right where the program is, as in any blocking code; `asyncio.run` would only
    ask the task to stop at its next await, which steps that are called in place never reach.
    """
    if _loop_runs_here():
        raise RuntimeError(f"an event loop is running here: use `await {awaited}(...)`")
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(make())
    finally:
        try:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
