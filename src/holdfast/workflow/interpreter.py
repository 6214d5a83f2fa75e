"""Runs a workflow's own code: its fibers, the effects they ask for, and what was recorded of them."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from holdfast.engine.claims import inputs_of
from holdfast.engine.effects import Call, Effect, Pending
from holdfast.engine.program import Child, Record, StaleStepError, Task, stored_form
from holdfast.errors import FlowChangedError, ReviveError, SerializeError
from holdfast.model import Kind
from holdfast.workflow.asking import Questions
from holdfast.workflow.combinators import Ask, Branch, ForEach, Parallel
from holdfast.workflow.deliveries import NOT_RECORDED, Deliveries
from holdfast.workflow.durable import Durable
from holdfast.workflow.durable_body import Timer
from holdfast.workflow.fibers import Fiber, Frame, Group, Outcome
from holdfast.workflow.groups import group_of_items, group_of_parts
from holdfast.workflow.keys import Mismatch, Scope
from holdfast.workflow.modifiers import Bare, Skip, expand
from holdfast.workflow.own_task import in_own_task
from holdfast.workflow.parts import (
    OPTIONS_OF_NO_WORK,
    arguments_of,
    as_step,
    code_of,
    is_flow,
    item_result,
    refuse_steps,
    typed,
)
from holdfast.workflow.plain import Decide, PlainBody
from holdfast.workflow.replay import BODY, DECISION, Recorded, Replay
from holdfast.workflow.step import Step

_NOT_THE_FLOWS: Final = (Mismatch, StaleStepError, FlowChangedError)
"""What no flow may catch: it ends the execution."""


class Interpreter:
    """Runs the fibers of one execution until each waits for a task or an answer, or ends."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.pending = Pending(of_flow=True)  # effects that the flow has made and not used
        self.run_id = ""
        self.wary = False  # recorded steps with claims must be called as they were
        self.strict = False  # and so must all others
        self.stored_form: Callable[[Any], Any] = stored_form  # of a value that is recorded
        self.abandon: Callable[[str], bool] = lambda _: True  # stop a task that nobody waits for
        self.task: asyncio.Task[Any] | None = None  # the one that the flow's code runs in
        self.replay = Replay()
        self.outcome: Outcome | None = None  # of the whole flow
        self.results: dict[str, Any] = {}  # by key, as the flow has seen them
        self.to_undo: dict[str, tuple[int, Step[Any], Any]] = {}  # by key: order, step and result
        self.tasks: list[Task] = []  # to be executed
        self.notes: list[Record] = []  # decisions and questions that are to be recorded
        self.skipped: list[tuple[str, str, str]] = []  # steps: key, name and why
        self.changed: list[tuple[str, str]] = []  # called with other arguments: key and name
        self.waiting: dict[str, tuple[Fiber, Step[Any] | None]] = {}  # for the task of this key
        self.deliveries = Deliveries(self)
        self.questions = Questions(self)
        self._runnable: deque[Fiber] = deque()
        self.bodies: set[str] = set()  # items whose body was called as a step: it may return one
        self.built: set[str] = set()  # and those where it did
        self._here: Frame | None = None
        self._start: Callable[[], Any] | None = None
        self._body: PlainBody | None = None

    def begin(self, start: Callable[[], Any]) -> None:
        """Start the flow, when it is first advanced: a generator, or what looks like one."""
        self._start = start

    def advance(self) -> None:
        """Run every fiber as far as it gets."""
        start, self._start = self._start, None
        if start is not None:
            code = start()
            self._body = code if isinstance(code, PlainBody) else None
            self.start(Fiber(Frame(code, self._scope(""))))
        while self._runnable or self.deliveries.turn():
            if self._runnable:
                in_own_task(self, self._runnable.popleft(), self._advance)
        self.tasks = [task for task in self.tasks if task.key in self.waiting]

    def start(self, fiber: Fiber) -> None:
        """Begin to run a fiber."""
        self._runnable.append(fiber)

    def unfolds(self, key: str, value: Any) -> bool:
        """Whether the body of a for_each returned more to do, rather than a result."""
        return key in self.bodies and is_flow(value)

    def finish(self, task: Task, outcome: Outcome) -> None:
        """Hand the outcome of a task to the fiber that waits for it."""
        fiber, step = self.waiting.pop(task.key)
        if outcome.error is None and self.unfolds(task.key, outcome.value):
            self.bodies.remove(task.key)
            policy = task.policy
            if any(one is not None for one in (policy.retry, policy.timeout, policy.executor)):
                outcome = Outcome(error=TypeError(OPTIONS_OF_NO_WORK.format(task.name)))
            else:
                self.built.add(task.key)
                fiber.frames.append(Frame(code_of(outcome.value, task.key), self._scope(task.key)))
                outcome = Outcome()
        elif outcome.error is None and task.recorded:
            self.replay.last += 1
            self.note(task.key, step, outcome.value, self.replay.last)
        self.deliveries.finish(task, fiber, outcome)

    # --- the flow's own code

    def _advance(self, fiber: Fiber) -> None:
        """Run a fiber until it waits for something, or ends."""
        outcome = fiber.outcome
        if fiber.abandoned:
            return
        while fiber.frames:
            frame = fiber.frames[-1]
            self._here = frame
            returned = None
            try:
                if outcome.error is not None:
                    self.pending.excuse()
                    effect = frame.code.throw(outcome.error)
                else:
                    effect = frame.code.send(outcome.value)
            except StopIteration as stop:
                returned = Outcome(stop.value)
            except _NOT_THE_FLOWS:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the flow raises
                fiber.frames.pop()
                outcome = Outcome(error=error)
                continue
            if returned is not None:  # outside of `except`: its errors must not show StopIteration
                fiber.frames.pop()
                outcome = returned if fiber.frames else self._ended(fiber, frame.scope, returned)
                continue
            if isinstance(effect, Effect):
                effect.use()
            self.pending.check(at_end=False)
            try:
                result = self._perform(fiber, frame, effect)
            except _NOT_THE_FLOWS:
                raise
            except Exception as error:  # noqa: BLE001 - a condition or a part's function
                result = Outcome(error=error)
            if result is None:
                return
            outcome = result
        if fiber.group is not None:
            self._finish_part(fiber, outcome)
        elif fiber.request is not None:
            fiber.request.hand_over(outcome)
        else:
            self.outcome = outcome

    def _ended(self, fiber: Fiber, scope: Scope, outcome: Outcome) -> Outcome:
        """The outcome of a fiber. An item's `async def` without a step is recorded as one."""
        if fiber.group is None and fiber.request is not None:
            return outcome
        scope.end()
        self.pending.check(at_end=fiber.group is None)
        body = None if fiber.group is None else fiber.group.body
        if body is None or scope.asked or scope.path in self.replay.found:
            return outcome
        key = scope.path
        try:
            value = item_result(body, key, self.stored_form(outcome.value))
        except (SerializeError, ReviveError) as error:
            return Outcome(error=error)
        self.notes.append(Record(Kind.RESULT, key, outcome.value, {"kind": BODY}))
        self.results[key] = value
        return Outcome(value)

    def _perform(self, fiber: Fiber, frame: Frame, effect: Any) -> Outcome | None:
        """Do what the flow asks for; None if it has to wait for it."""
        scope = frame.scope
        if isinstance(effect, Call):
            effect = as_step(effect)
        if isinstance(effect, Step):
            key = scope.key(effect.name)
            scope.expect([key])
            return self._do(fiber, key, effect)
        if isinstance(effect, Bare):
            return self._task(fiber, effect.key, effect.step)
        if isinstance(effect, Skip):
            if effect.because not in self.replay.found:  # else it was reported before
                self.skipped.append((effect.key, effect.name, effect.reason))
            return Outcome()
        if isinstance(effect, Branch):
            return self._branch(fiber, frame, effect)
        if isinstance(effect, Parallel):
            return self._spawn(fiber, group_of_parts(self, scope, effect))
        if isinstance(effect, ForEach):
            return self._spawn(fiber, group_of_items(self, scope, effect))
        if isinstance(effect, Ask):
            return self.questions.ask(fiber, scope, effect)
        if isinstance(effect, Durable):
            return self.deliveries.begin(fiber, scope, effect)
        if isinstance(effect, Timer):
            return self.deliveries.time(fiber, scope, effect)
        if isinstance(effect, Decide):
            return Outcome(self.decide(effect.name, effect.make))
        if effect is None:
            return Outcome()  # asyncio.sleep(0)
        if asyncio.isfuture(effect):
            return self._await(fiber, scope, effect)
        return Outcome(
            error=TypeError(
                f"workflow {self._name!r} yielded {effect!r}; yield step(...), branch(...), "
                "parallel(...), for_each(...) or ask(...), and use `yield from` for a generator"
            )
        )

    def _do(self, fiber: Fiber, key: str, step: Step[Any]) -> Outcome | None:
        if step.is_plain:
            return self._task(fiber, key, step)
        fiber.frames.append(Frame(expand(step, key), self._scope(key)))
        return Outcome()

    def _task(self, fiber: Fiber, key: str, step: Step[Any]) -> Outcome | None:
        kind = "subworkflow" if step.call is not None else "python"
        known = self.known(key, kind)
        if known is not None:
            outcome = self._recorded(fiber, key, step, known)
            return self.deliveries.recall(fiber, known.order, outcome)
        refuse_steps(step)
        child = None
        if step.call is not None:
            child = Child(step.call.flow.program, step.call.inputs)
        elif step.fn is None:
            return Outcome(
                error=TypeError(f"step {step.name!r} has nothing to do; add .python(fn)")
            )
        task = Task(key, step.name, step.fn, step.args, step.kwargs, step.policy, kind, child)
        task.arguments, task.body = arguments_of(step), key in self.bodies
        return self.wait(fiber, task, step)

    def wait(self, fiber: Fiber, task: Task, step: Step[Any] | None = None) -> Outcome | None:
        """The fiber waits for a task that is to be executed."""
        if fiber.request is not None:
            fiber.request.keys.add(task.key)
            task.context = fiber.request.context
        self.tasks.append(task)
        self.waiting[task.key] = (fiber, step)
        return None

    def _recorded(self, fiber: Fiber, key: str, step: Step[Any], known: Recorded) -> Outcome:
        """The recorded outcome of a step."""
        if known.error is not None:
            return Outcome(error=known.error)
        if self.wary and known.called_with is not None:
            asked = Task(key, step.name, step.fn, step.args, step.kwargs)
            if inputs_of(asked) != known.called_with:
                raise StaleStepError(key, known.order)
        if known.arguments not in (None, given := arguments_of(step)):
            if fiber.request is not None:
                self.replay.refuse_others(key, given)
            self._differs(key, step.name)
        value = typed(step, key, known.value)
        self.note(key, step, value, known.order, copied=known.copied)
        return Outcome(value)

    def _differs(self, key: str, name: str) -> None:
        """A recorded step is called with other arguments now."""
        if self.strict or key in self.replay.shifted:
            raise FlowChangedError(
                self.run_id,
                (f"step {key!r} was recorded with other arguments than it is given now",),
                "Give it the recorded ones, or resume without strict=True: then the recorded "
                "result is used.",
            )
        self.changed.append((key, name))

    def _branch(self, fiber: Fiber, frame: Frame, effect: Branch[Any]) -> Outcome | None:
        def choose() -> int | None:
            for index, (condition, _) in enumerate(effect.cases):
                if condition() if callable(condition) else condition:
                    return index
            return None

        chosen = self.decide(effect.name, choose)
        if chosen is None:
            return Outcome()
        if not isinstance(chosen, int) or not 0 <= chosen < len(effect.cases):
            raise Mismatch(f"{effect.name}, case {chosen!r}", f"{len(effect.cases)} cases")
        _, then = effect.cases[chosen]
        if callable(then) and not isinstance(then, Effect):
            then = then()
        if inspect.isgenerator(then) or inspect.iscoroutine(then):
            fiber.frames.append(Frame(then, frame.scope))
            return Outcome()
        return self._perform(fiber, frame, then) if isinstance(then, Effect) else Outcome(then)

    def decide(self, name: str, make: Callable[[], Any]) -> Any:
        """The value that was recorded here, or a new one that will be, before anything else is done."""
        assert self._here is not None, "only a flow's own code decides"
        return self.decide_in(self._here.scope, name, make)

    def decide_in(self, scope: Scope, name: str, make: Callable[[], Any]) -> Any:
        """The same, in a scope."""
        key = scope.key(name)
        scope.decisions += 1
        scope.expect([key])
        known = self.known(key, DECISION)
        if known is not None:
            return known.value
        value = make()
        self.notes.append(Record(Kind.DECISION, key, value, name=name))
        return value

    def wait_for(self, effect: Effect[Any]) -> Any:
        """Nothing blocks in a flow that awaits or yields."""
        raise RuntimeError(
            f"{effect!r}.result() would block: write `await` in an async workflow, `yield` in a "
            "generator"
        )

    def future_of(self, _: Effect[Any]) -> None:
        """A flow's own code has no tasks: it yields what it waits for."""

    def close(self) -> None:
        """The run stops here."""
        self.deliveries.close()
        if self._body is not None:
            self._body.close()

    def _await(self, fiber: Fiber, scope: Scope, future: asyncio.Future[Any]) -> Outcome | None:
        """An asyncio future that an `async def` awaits: waited for, and not recorded."""
        future._asyncio_future_blocking = False  # noqa: SLF001 - as a Task does with what it is given

        async def wait() -> None:
            await asyncio.wait([future])

        if fiber.request is not None:
            return Outcome(error=RuntimeError(NOT_RECORDED.format(future)))
        if fiber.task is not None:
            fiber.task.future = future
        key = Scope(f"{scope.path}/await").key(str(id(future)))
        return self.wait(fiber, Task(key, "await", wait, kind="await", recorded=False))

    # --- several at once

    def _spawn(self, fiber: Fiber, group: Group) -> Outcome | None:
        group.parent = fiber
        self._feed(group)
        return group.outcome()

    def _feed(self, group: Group) -> None:
        """Start as many parts as may run at once."""
        while group.wants_more:
            index, start = group.take()
            key, part = start()
            known = self.replay.found.get(key)
            done = known is not None and known.kind == BODY  # it asks for nothing again
            frame = Frame(code_of(part, key), Scope(key) if done else self._scope(key, group.scope))
            self._runnable.append(Fiber(frame, group, index))

    def _finish_part(self, fiber: Fiber, outcome: Outcome) -> None:
        group = fiber.group
        assert group is not None
        assert group.parent is not None
        group.finish(fiber.index, outcome)
        self._feed(group)
        result = group.outcome()
        if result is not None:
            self.resume(group.parent, result)

    # --- what is known

    def _scope(self, path: str, within: Scope | None = None) -> Scope:
        return Scope(path, self.replay.orders.get(path, ()), within)

    def known(self, key: str, kind: str) -> Recorded | None:
        """What is recorded under a key. Raises `Mismatch` if it is of another kind."""
        known = self.replay.look_up(key)
        if known is not None and known.kind not in (kind, ""):
            raise Mismatch(f"{key} ({known.kind})", f"{key} ({kind})")
        return known

    def note(
        self, key: str, step: Step[Any] | None, value: Any, order: int, *, copied: bool = False
    ) -> None:
        """A step's result, as the flow sees it. What is `copied`, another run did and may undo."""
        self.results[key] = value
        if step is not None and step.undo is not None and not copied:
            self.to_undo[key] = (order, step, copy.deepcopy(value))  # the flow may change its own

    def resume(self, fiber: Fiber, outcome: Outcome) -> None:
        """Continue a fiber with the outcome of what it waited for."""
        fiber.outcome = outcome
        self._runnable.append(fiber)
