"""The asyncio task that a workflow's own code sees as its own.

The code runs in a task of the engine, which must not be cancelled by it: `asyncio.timeout` and a
`TaskGroup` cancel the current task, and would end the whole execution.
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.workflow.fibers import Outcome

if TYPE_CHECKING:
    from holdfast.workflow.fibers import Fiber
    from holdfast.workflow.interpreter import Interpreter

_NOT_RECORDED: Final = (
    "asyncio.timeout, or a TaskGroup in which a task failed, cancelled the workflow while it waited "
    "for a step, which is not recorded; give the step a .timeout(...), or do it all in a coroutine "
    "that you give to hf.durable(...)"
)


class OwnTask:
    """Stands for the engine's task, but being cancelled concerns one fiber only."""

    def __init__(self, of_engine: asyncio.Task[Any]) -> None:
        self._of_engine = of_engine
        self._requests = 0
        self._missed = False  # it was cancelled while it did not wait for a future
        self.future: asyncio.Future[Any] | None = None  # that it waits for

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of_engine, name)

    def cancel(self, msg: Any = None) -> bool:
        """Cancel the future that the code waits for. A step is not cancelled: see `checked`."""
        self._requests += 1
        if self.future is None or not self.future.cancel(msg):
            self._missed = True
        return True

    def cancelling(self) -> int:
        """How often it was cancelled, less how often that was taken back."""
        return self._requests

    def uncancel(self) -> int:
        """Take one request back."""
        self._requests = max(self._requests - 1, 0)
        self._missed = self._missed and self._requests > 0
        return self._requests

    def checked(self, outcome: Outcome) -> Outcome:
        """What the code is given: an error, if it was to be cancelled while it waited for a step."""
        missed, self._missed, self.future = self._missed, False, None
        if missed and outcome.error is None:
            return Outcome(error=RuntimeError(_NOT_RECORDED))
        return outcome


def in_own_task(code: Interpreter, fiber: Fiber, advance: Callable[[Fiber], None]) -> None:
    """Advance the fiber. Its own task is the current one meanwhile, and decides its outcome."""
    task = code.task
    if task is None or isinstance(task, OwnTask):
        advance(fiber)
        return
    if fiber.task is None:
        fiber.task = OwnTask(task)
    fiber.outcome = fiber.task.checked(fiber.outcome)
    loop = task.get_loop()
    own: Any = fiber.task
    _leave_task(loop, task)
    _enter_task(loop, own)
    code.task = own
    try:
        advance(fiber)
    finally:
        code.task = task
        _leave_task(loop, own)
        _enter_task(loop, task)
