"""The order in which the tasks of durable coroutines are given what they wait for.

Nothing happens on their event loops but what is handed over here: results, answers and timers,
one at a time. Each is recorded before its consequences are, so the order of the entries is the
order in which they were handed over, and a resume repeats it.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from holdfast.engine.program import Record, Task
from holdfast.errors import StepFailedError
from holdfast.model import Kind
from holdfast.workflow.durable import Durable
from holdfast.workflow.durable_body import Body, Request, Timer
from holdfast.workflow.fibers import Fiber, Outcome
from holdfast.workflow.keys import Mismatch, Scope, Unordered
from holdfast.workflow.replay import DECISION

if TYPE_CHECKING:
    from holdfast.workflow.interpreter import Interpreter

NOT_RECORDED: Final = (
    "{!r} is awaited in a part of parallel or for_each, in durable code: when it is done would not "
    "be recorded there. Await it in one of durable's own tasks, or in a step"
)
BEGUN: Final = "durable()"
"""The decision that is recorded when a coroutine begins: it may have no steps."""
TIMER: Final = "timer()"
"""The decision that is recorded when a timer is over."""


class Deliveries:
    """Hands over what the tasks of all `durable` wait for, one after the other."""

    def __init__(self, code: Interpreter) -> None:
        self.bodies: list[Body] = []
        self._code = code
        self._recorded: list[tuple[int, int, Fiber, Outcome]] = []  # a heap, in recorded order
        self._count = count()
        self._arrived: deque[tuple[Fiber, Outcome]] = deque()  # in the order they are recorded in
        self._unrecorded: deque[tuple[Fiber, Outcome, Record]] = deque()  # behind those

    def begin(self, fiber: Fiber, scope: Scope, effect: Durable[Any]) -> Outcome | None:
        """Begin to run a coroutine."""
        key = scope.key(effect.name)
        own = Unordered(key, self._code.replay.orders.get(key, ()))
        try:
            scope.expect([key])
            self._code.decide_in(own, BEGUN, lambda: None)
        except Mismatch:
            effect.coroutine.close()
            raise
        self.bodies.append(Body(self._code, fiber, own, effect))
        return None

    def time(self, fiber: Fiber, scope: Scope, timer: Timer) -> Outcome | None:
        """Wait until a timer is over."""
        key = scope.key(TIMER)
        scope.expect([key])
        known = self._code.known(key, DECISION)
        if known is not None:
            return self.recall(fiber, known.order, Outcome())
        wait = partial(asyncio.sleep, timer.seconds)
        return self._code.wait(fiber, Task(key, TIMER, wait, kind=TIMER, recorded=False))

    def recall(self, fiber: Fiber, order: int, outcome: Outcome) -> Outcome | None:
        """What was recorded; None to a task in `durable`: it gets it when its turn comes."""
        if fiber.request is None:
            return outcome
        heapq.heappush(self._recorded, (order, next(self._count), fiber, outcome))
        return None

    def hear(self, fiber: Fiber, outcome: Outcome, note: Record) -> Outcome | None:
        """The same for what is known, but was not handed over before."""
        if fiber.request is None:
            return outcome
        self._unrecorded.append((fiber, outcome, note))
        return None

    def finish(self, task: Task, fiber: Fiber, outcome: Outcome) -> None:
        """A task is finished, and its result recorded if it has one."""
        note = Record(Kind.DECISION, task.key, name=TIMER) if task.kind == TIMER else None
        self.arrive(fiber, outcome, note)

    def arrive(self, fiber: Fiber, outcome: Outcome, note: Record | None = None) -> None:
        """Hand over what has come now. The `note` is to be recorded if nothing is yet."""
        if fiber.request is None:
            self._code.resume(fiber, outcome)
        elif note is None:
            self._arrived.append((fiber, outcome))
        else:
            self._unrecorded.append((fiber, outcome, note))

    def turn(self) -> bool:
        """Let one thing happen; False if all wait for what is not here yet."""
        if self.bodies and any(body.turn() for body in tuple(self.bodies)):
            return True
        if self._recorded:
            _, _, fiber, outcome = heapq.heappop(self._recorded)
        elif self._arrived:
            fiber, outcome = self._arrived.popleft()
        elif self._unrecorded:
            fiber, outcome, note = self._unrecorded.popleft()
            if fiber.abandoned:
                return True
            self._code.notes.append(note)
        else:
            return bool(self.bodies) and any(body.check() for body in tuple(self.bodies))
        self._code.resume(fiber, outcome)
        return True

    def abandon(self, request: Request) -> None:
        """No task waits for it any more, because it is done or because the task was cancelled."""
        if request not in request.body.requests:
            return
        del request.body.requests[request]
        code = self._code
        for key in request.keys:
            code.questions.drop(key)
            if key in code.waiting and code.abandon(key):
                del code.waiting[key]
        for body in self.bodies:
            if body.fiber.request is request:
                body.main.cancel()

    def failures_for(self, body: Body) -> list[Exception]:
        """Failures that came with the one that ended the coroutine: a resume tries all again."""
        return [
            outcome.error
            for fiber, outcome in self._arrived
            if fiber.request is not None
            and fiber.request.body is body
            and isinstance(outcome.error, StepFailedError)
        ]

    def close(self) -> None:
        """The run stops here."""
        for body in self.bodies:
            body.close()
