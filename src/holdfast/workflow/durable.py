"""`durable(coroutine)`: steps may be awaited by any of its tasks, in an order that is recorded."""

from __future__ import annotations

import contextvars
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.engine.blocking import block_on
from holdfast.engine.effects import Effect, Mark, mark
from holdfast.model import check_id

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Durable(Effect[R_co]):
    """A coroutine whose tasks may await steps."""

    coroutine: Coroutine[Any, Any, R_co]
    name: str
    context: contextvars.Context
    mark: Mark | None = None

    async def _alone(self) -> Any:
        self._refuse_elsewhere()
        return await self.coroutine

    def _result_alone(self) -> Any:
        self.use()
        self._refuse_elsewhere()
        try:
            return block_on(lambda: self.coroutine)
        finally:
            self.coroutine.close()  # it was not awaited if an event loop runs here

    def _refuse_elsewhere(self) -> None:
        if self.mark is not None and self.mark.of_flow:
            self.coroutine.close()
            raise RuntimeError(
                f"durable {self.name!r} of a workflow was waited for in another thread, where its "
                "steps would not be recorded"
            )


def durable(coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> Durable[T]:
    """Run a coroutine in which any task may await steps: `await hf.durable(agent(question))`.

    Between steps, child runs and questions, its tasks may use what asyncio has for tasks, and
    timers: `gather`, `TaskGroup`, `timeout`, queues, locks. Everything else that an event loop does
    (sockets, threads, processes) belongs in steps, and raises `RuntimeError` here. Tasks that are
    left when the coroutine returns are cancelled, and their steps with them. What its steps record
    is named after it; `name` is the coroutine's own unless given.
    """
    if not isinstance(coroutine, Coroutine):
        if isinstance(coroutine, Effect):
            coroutine.use()
        raise TypeError(
            "durable needs a coroutine, the call of an `async def`: durable(agent(question)), not "
            f"{coroutine!r}"
        )
    own: str = getattr(coroutine, "__name__", "durable")
    called = check_id("durable", own if name is None else name)
    made = mark("durable", called)
    return Durable(coroutine, called, contextvars.copy_context(), made)
