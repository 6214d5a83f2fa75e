"""Workflows for the engine: replays a generator or coroutine against what was recorded."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar, NamedTuple

from holdfast.codec.revive import revive
from holdfast.engine.context import DECIDING
from holdfast.engine.hints import hints_of
from holdfast.engine.history import History, meta
from holdfast.engine.inputs import inputs_hash
from holdfast.engine.program import PLAIN, Child, Program, Record, Stored, Task
from holdfast.engine.recording import describe
from holdfast.engine.schema import schema_of
from holdfast.errors import FlowChangedError, SerializeError, StepFailedError
from holdfast.model import Kind
from holdfast.workflow.effects import (
    Ask,
    Branch,
    Effect,
    ForEach,
    Parallel,
    Step,
    StepFunction,
)
from holdfast.workflow.expanding import Bare, Skip, expand
from holdfast.workflow.fibers import Fiber, Frame, Group, Outcome
from holdfast.workflow.flow import Workflow
from holdfast.workflow.scopes import Mismatch, Scope, orders

_ASKED_KIND = "question"
_CHECKED = re.compile(r"(check|fix|again)(#\d+)?")


class Recorded(NamedTuple):
    """What the journal keeps under a key."""

    kind: str  # of the step: python, subworkflow, question, decision
    outcome: Outcome
    order: int
    built: bool = False  # by the body of a for_each, which returned a step


class WorkflowProgram(Program):
    """One execution of a workflow."""

    replays: ClassVar[bool] = True

    def __init__(self, flow: Workflow[Any, Any]) -> None:
        self._flow = flow
        self.flow = flow.name
        self.version = flow.version
        self.metas = flow.metas
        self.task: asyncio.Task[Any] | None = None
        self._run_id = ""
        self._recorded: dict[str, Recorded] = {}
        self._orders: dict[str, list[str]] = {}
        self._asked: set[str] = set()
        self._answers: dict[str, Any] = {}
        self._results: dict[str, Any] = {}
        self._undo: dict[str, tuple[int, Step, Any]] = {}
        self._order = 0
        self._runnable: deque[Fiber] = deque()
        self._waiting: dict[str, tuple[Fiber, Step | None]] = {}
        self._questions: dict[str, tuple[Fiber, Ask]] = {}
        self._tasks: list[Task] = []
        self._records: list[Record] = []
        self._skipped: list[tuple[str, str, str]] = []
        self._parked: set[str] = set()
        self._bodies: set[str] = set()  # items whose body was called as a step: it may return one
        self._built: set[str] = set()  # and those where it did
        self._here: tuple[Fiber, Frame] | None = None
        self._outcome: Outcome | None = None
        self._code_changed = False

    # --- Program

    def structure(self) -> dict[str, Any]:
        return {"parameters": list(self._flow.signature.parameters), "code": _code_of(self._flow)}

    def check(self, run_id: str, history: History) -> None:
        self._run_id = run_id
        ran = {history.begun_with.get("flow_version")} | {
            version for e in history.entries if (version := meta(e).get("flow_version")) is not None
        }
        unknown = sorted(str(v) for v in ran - {self.version} - set(self._flow.migrate))
        if unknown:
            raise FlowChangedError(
                run_id,
                (f"it ran version {unknown[0]} of {self.flow!r}, and this is {self.version}",),
                f"Say what becomes of its results: @workflow(..., migrate={{{unknown[0]!r}: change}}).",
            )

    def comparable(self, given: Any, recorded: Any) -> Any:
        defaults = {
            name: parameter.default
            for name, parameter in self._flow.signature.parameters.items()
            if parameter.default is not parameter.empty
        }
        wanted = {name: given.get(name, defaults.get(name)) for name in recorded}
        more = {n: v for n, v in given.items() if n not in recorded and v != defaults.get(n, given)}
        return wanted | more

    def begin(self, inputs: Stored) -> None:
        frame = Frame(self._flow.start(inputs.value()), Scope("", self._orders.get("", ())))
        self._runnable.append(Fiber(frame))

    def restore(self, history: History) -> int:
        self._run_id = history.run
        self._code_changed = history.begun_with.get("structure", {}).get("code") != _code_of(
            self._flow
        )
        found: dict[str, Recorded] = {}
        old: dict[str, dict[str, Any]] = {}  # results of other versions
        for entry in history.entries:
            key, facts = str(entry.step), meta(entry)
            self._order = entry.seq
            if entry.kind == Kind.RESULT:
                value = history.value(entry)
                kind, built = facts.get("kind", "python"), facts.get("built", False)
                found[key] = Recorded(kind, Outcome(value), entry.seq, built)
                if facts.get("flow_version") != self.version:
                    old.setdefault(str(facts.get("flow_version")), {})[key] = value
            elif entry.kind == Kind.DECISION and "undone" not in facts:
                found[key] = Recorded("decision", Outcome(history.value(entry)), entry.seq)
            elif entry.kind == Kind.QUESTION:
                self._asked.add(key)
                found[key] = Recorded(_ASKED_KIND, Outcome(), entry.seq)
            elif entry.kind == Kind.FAIL and facts.get("of") == "step":
                failed = failure_from(history.value(entry))
                found[key] = Recorded(facts.get("kind", "python"), Outcome(error=failed), entry.seq)
            elif entry.kind == Kind.FAIL and facts.get("of") == "run":
                for failed_step in (facts.get("step"), *facts.get("others", ())):
                    _try_again(found, str(failed_step))
                cause = found.get(str(facts.get("cause")))
                if cause is not None and cause.order == max(k.order for k in found.values()):
                    _try_again(found, str(facts["cause"]))
        self._migrate(found, old)
        self._recorded = found
        if not old:  # else the names are the migration's, and their order says nothing
            self._orders = orders(sorted(found, key=lambda key: found[key].order))
        self.begin(history.inputs)
        return sum(1 for known in found.values() if known.kind not in ("decision", _ASKED_KIND))

    def _migrate(self, found: dict[str, Recorded], old: dict[str, dict[str, Any]]) -> None:
        for version, results in old.items():
            change = self._flow.migrate.get(version)
            if change is None:
                continue
            for key in results:
                del found[key]
            for order, (key, value) in enumerate(change(dict(results)).items()):
                found[key] = Recorded("", Outcome(value), order)

    def ready(self) -> list[Task]:
        self.task = asyncio.current_task()
        token = DECIDING.set(self)
        try:
            while self._runnable:
                self._advance(self._runnable.popleft())
        except Mismatch as mismatch:
            raise self._changed(mismatch.recorded, mismatch.asked) from None
        finally:
            DECIDING.reset(token)
        if self._outcome is not None and self._outcome.error is not None and not self._waiting:
            raise self._outcome.error
        tasks, self._tasks = self._tasks, []
        return tasks

    def take_records(self) -> list[Record]:
        records, self._records = self._records, []
        return records

    def take_skipped(self) -> list[tuple[str, str, str]]:
        skipped, self._skipped = self._skipped, []
        return skipped

    def unfolds(self, task: Task, value: Any) -> bool:
        return task.key in self._bodies and _is_flow(value)

    def record(self, task: Task, value: Any) -> Record:
        _, step = self._waiting[task.key]
        facts: dict[str, Any] = {} if task.kind == "python" else {"kind": task.kind}
        if step is not None and step.undo is not None:
            facts["undo"] = True
        if task.key in self._built:
            facts["built"] = True
        if _is_flow(value):
            raise TypeError(f"step {task.name!r} returned {value!r}; yield it instead")
        return Record(Kind.RESULT, task.key, value, facts, task.name)

    def revive(self, task: Task, stored: Stored) -> Any:
        _, step = self._waiting[task.key]
        return _typed(step, task.key, stored.value())

    def show(self, task: Task, stored: Stored) -> Callable[[], Any]:
        _, step = self._waiting[task.key]
        return lambda: _typed(step, task.key, stored.value())

    def accept(self, task: Task, value: Any) -> None:
        fiber, step = self._waiting.pop(task.key)
        if self.unfolds(task, value):
            self._bodies.remove(task.key)
            self._built.add(task.key)
            code = value if inspect.isgenerator(value) else _just(value, task.key)
            fiber.frames.append(Frame(code, self._scope(task.key)))
            self._resume(fiber, Outcome())
            return
        if task.recorded:
            self._order += 1
            self._note(task.key, step, value, self._order)
        self._resume(fiber, Outcome(value))

    def failure(self, task: Task, error: StepFailedError) -> list[Record]:
        facts = {"of": "step", "kind": task.kind}
        return [Record(Kind.FAIL, task.key, describe(error), facts, task.name)]

    def refuse(self, task: Task, error: StepFailedError) -> None:
        fiber, _ = self._waiting.pop(task.key)
        self._resume(fiber, Outcome(error=error))

    def park(self, task: Task) -> None:
        self._parked.add(task.key)

    @property
    def parked(self) -> bool:  # type: ignore[override]
        return bool(self._parked)

    @property
    def done(self) -> bool:
        return self._outcome is not None

    @property
    def result(self) -> Any:
        assert self._outcome is not None
        return self._outcome.value

    def revive_result(self, data: Any) -> Any:
        hint = hints_of(self._flow.fn).get("return")
        if hint is None or inspect.isgeneratorfunction(self._flow.fn):
            return data
        return revive(data, hint, root="result")

    @property
    def state(self) -> dict[str, Any]:
        return dict(self._results)

    def questions(self) -> list[str]:
        return list(self._questions)

    def answer(self, key: str, value: Any) -> None:
        self._answers[key] = value
        if key in self._questions:
            fiber, asked = self._questions.pop(key)
            self._resume(fiber, self._answered(asked, key))

    def compensations(self) -> list[Task]:
        ordered = sorted(self._undo.items(), key=lambda item: item[1][0], reverse=True)
        return [
            Task(f"undo/{key}", step.name, step.undo, _for(step.undo, value), policy=PLAIN)
            for key, (_, step, value) in ordered
        ]

    # --- the flow's own code

    def _advance(self, fiber: Fiber) -> None:
        """Run a fiber until it waits for something, or ends."""
        outcome = fiber.outcome
        while fiber.frames:
            frame = fiber.frames[-1]
            self._here = (fiber, frame)
            try:
                if outcome.error is not None:
                    effect = frame.code.throw(outcome.error)
                else:
                    effect = frame.code.send(outcome.value)
            except StopIteration as stop:
                fiber.frames.pop()
                outcome = Outcome(stop.value)
                if not fiber.frames:
                    frame.scope.end()
            except Mismatch:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the flow raises ends it, here or further out
                fiber.frames.pop()
                outcome = Outcome(error=error)
            else:
                came = self._perform(fiber, frame, effect)
                if came is None:
                    return
                outcome = came
        if fiber.group is None:
            self._outcome = outcome
        else:
            self._finish_part(fiber, outcome)

    def _perform(self, fiber: Fiber, frame: Frame, effect: Any) -> Outcome | None:
        """Do what the flow asks for; None if it has to wait for it."""
        scope = frame.scope
        if isinstance(effect, Step):
            key = scope.key(effect.name)
            scope.expect([key])
            return self._do(fiber, key, effect)
        if isinstance(effect, Bare):
            return self._task(fiber, effect.key, effect.step)
        if isinstance(effect, Skip):
            if effect.because not in self._recorded:  # else it was told before
                self._skipped.append((effect.key, effect.name, effect.reason))
            return Outcome()
        if isinstance(effect, Branch):
            return self._branch(fiber, frame, effect)
        if isinstance(effect, Parallel):
            return self._spawn(fiber, self._parts(scope, effect))
        if isinstance(effect, ForEach):
            return self._spawn(fiber, self._items(scope, effect))
        if isinstance(effect, Ask):
            return self._ask(fiber, scope, effect)
        if effect is None:
            return Outcome()  # asyncio.sleep(0)
        if asyncio.isfuture(effect):
            return self._await(fiber, scope, effect)
        return Outcome(
            error=TypeError(
                f"workflow {self.flow!r} yielded {effect!r}; yield step(...), branch(...), "
                "parallel(...), for_each(...) or ask(...), and use `yield from` for a generator"
            )
        )

    def _do(self, fiber: Fiber, key: str, step: Step) -> Outcome | None:
        if step.is_plain:
            return self._task(fiber, key, step)
        fiber.frames.append(Frame(expand(step, key), self._scope(key)))
        return Outcome()

    def _task(self, fiber: Fiber, key: str, step: Step) -> Outcome | None:
        kind = "subworkflow" if step.flow is not None else "python"
        known = self._known(key, kind)
        if known is not None:
            if known.outcome.error is not None:
                return known.outcome
            value = _typed(step, key, known.outcome.value)
            self._note(key, step, value, known.order)
            return Outcome(value)
        child = None
        if step.flow is not None:
            flow = step.flow
            flow.check(step.kwargs)
            child = Child(lambda: WorkflowProgram(flow), dict(step.kwargs))
        elif step.fn is None:
            return Outcome(
                error=TypeError(f"step {step.name!r} has nothing to do; add .python(fn)")
            )
        self._tasks.append(
            Task(key, step.name, step.fn, step.args, step.kwargs, step.policy, kind, child)
        )
        self._waiting[key] = (fiber, step)
        return None

    def _branch(self, fiber: Fiber, frame: Frame, effect: Branch) -> Outcome | None:
        def choose() -> int | None:
            for index, (condition, _) in enumerate(effect.cases):
                if condition() if callable(condition) else condition:
                    return index
            return None

        chosen = self.decide(effect.name, choose)
        if chosen is None:
            return Outcome()
        if chosen >= len(effect.cases):
            raise Mismatch(f"{effect.name}, case {chosen + 1}", f"{len(effect.cases)} cases")
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
        scope = self._here[1].scope
        key = scope.key(name)
        scope.expect([key])
        known = self._known(key, "decision")
        if known is not None:
            return known.outcome.value
        value = make()
        self._records.append(Record(Kind.DECISION, key, value, name=name))
        return value

    def _ask(self, fiber: Fiber, scope: Scope, effect: Ask) -> Outcome | None:
        key = scope.key(effect.name)
        scope.expect([key])
        self._known(key, _ASKED_KIND)
        if key in self._answers:
            return self._answered(effect, key)
        if key not in self._asked:
            schema: dict[str, Any] = {} if effect.returns is None else schema_of(effect.returns)
            if effect.choices is not None:
                schema = {"enum": list(effect.choices)}
            question = {"prompt": effect.prompt, "schema": schema}
            self._records.append(Record(Kind.QUESTION, key, question, name=effect.name))
            self._asked.add(key)
        self._questions[key] = (fiber, effect)
        return None

    def _answered(self, effect: Ask, key: str) -> Outcome:
        value = self._answers[key]
        try:
            if effect.returns is not None:
                value = revive(value, effect.returns, root=f"answer to {key}")
        except Exception as error:  # noqa: BLE001 - the flow hears of it
            return Outcome(error=error)
        self._results[key] = value
        return Outcome(value)

    def _await(self, fiber: Fiber, scope: Scope, future: asyncio.Future[Any]) -> Outcome | None:
        """Something of asyncio's own that an `async def` awaits: waited for, and not recorded."""
        future._asyncio_future_blocking = False  # noqa: SLF001 - as a Task does with what it is given

        async def wait() -> None:
            await asyncio.wait([future])

        key = Scope(f"{scope.path}/await").key(str(id(future)))
        task = Task(key, "await", wait, kind="await", recorded=False)
        self._tasks.append(task)
        self._waiting[key] = (fiber, None)
        return None

    # --- several at once

    def _parts(self, scope: Scope, effect: Parallel) -> Group:
        names = effect.names or [_part_name(part, effect.name) for part in effect.parts]
        keys = [scope.key(name) for name in names]
        scope.expect(keys)
        starts = [_starter(part, key) for part, key in zip(effect.parts, keys, strict=True)]
        return Group(starts, effect.names, effect.concurrency, self._begun(keys))

    def _items(self, scope: Scope, effect: ForEach) -> Group:
        group = scope.key(effect.name)
        if effect.items:
            scope.expect([group])
            self._check_items(group, effect.items)
        keys = [f"{group}[{index}]" for index in range(len(effect.items))]
        starts = [
            self._item(effect, key, item) for key, item in zip(keys, effect.items, strict=True)
        ]
        return Group(starts, None, effect.concurrency, self._begun(keys))

    def _begun(self, keys: Sequence[str]) -> int:
        """How many parts were begun before, at least: up to the last that left a record."""
        known = (n for n, key in enumerate(keys, 1) if key in self._recorded or key in self._orders)
        return max(known, default=0)

    def _check_items(self, group: str, items: tuple[Any, ...]) -> None:
        """Results are kept by position: they must not be given to other items after a resume."""
        key = f"{group}/items"
        try:
            told = f"{len(items)} items ({inputs_hash(items)[:12]})"
        except SerializeError:
            told = f"{len(items)} items"
        known = self._known(key, "decision")
        if known is None:
            self._records.append(Record(Kind.DECISION, key, told, name="items"))
        elif known.outcome.value != told:
            raise Mismatch(f"{group} for {known.outcome.value}", f"{group} for {told}")

    def _item(self, effect: ForEach, key: str, item: Any) -> Callable[[], Any]:
        body = effect.body
        if isinstance(body, StepFunction):
            return lambda: (key, body.step(item))
        if inspect.isgeneratorfunction(getattr(body, "fn", body)):
            return lambda: (key, body(item))
        known = self._recorded.get(key)
        if key in self._orders or (known is not None and known.built):
            self._built.add(key)
            return lambda: (key, body(item))
        self._bodies.add(key)
        return lambda: (key, Step(effect.name, body, (item,), policy=effect.policy))

    def _spawn(self, fiber: Fiber, group: Group) -> Outcome | None:
        group.parent = fiber
        self._feed(group)
        return group.outcome()

    def _feed(self, group: Group) -> None:
        """Start as many parts as may run at once."""
        while group.wants_more:
            index, start = group.take()
            key, part = start()
            fiber = Fiber(None, group, index)
            code: Any = part
            if not inspect.isgenerator(part) and not inspect.iscoroutine(part):
                code = _just(part, key)
            fiber.frames.append(Frame(code, self._scope(key)))
            self._runnable.append(fiber)

    def _finish_part(self, fiber: Fiber, outcome: Outcome) -> None:
        group = fiber.group
        assert group is not None
        assert group.parent is not None
        group.finish(fiber.index, outcome)
        self._feed(group)
        came = group.outcome()
        if came is not None:
            self._resume(group.parent, came)

    # --- what is known

    def _scope(self, path: str) -> Scope:
        return Scope(path, self._orders.get(path, ()))

    def _known(self, key: str, kind: str) -> Recorded | None:
        known = self._recorded.get(key)
        if known is not None and known.kind not in (kind, ""):
            raise Mismatch(f"{key} ({known.kind})", f"{key} ({kind})")
        return known

    def _note(self, key: str, step: Step | None, value: Any, order: int) -> None:
        self._results[key] = value
        if step is not None and step.undo is not None:
            self._undo[key] = (order, step, value)

    def _resume(self, fiber: Fiber, outcome: Outcome) -> None:
        fiber.outcome = outcome
        self._runnable.append(fiber)

    def _changed(self, recorded: str, asked: str) -> FlowChangedError:
        if self._code_changed:
            advice = (
                "The code changed since. Go back to the old code, or give the new one another "
                "version and say in migrate= what becomes of the recorded results."
            )
        else:
            advice = (
                "The code is the same: it must ask for the same steps every time. Use hf.now(), "
                "hf.random() and hf.uuid(), and do what depends on the world in a step."
            )
        return FlowChangedError(
            self._run_id, (f"recorded next is {recorded!r}, the flow asks for {asked!r}",), advice
        )


def failure_from(told: dict[str, Any]) -> StepFailedError:
    """A failure as it was recorded."""
    return StepFailedError(
        told["step"], told["type"], told["message"], told["attempts"], told["trace"]
    )


def _try_again(found: dict[str, Recorded], key: str) -> None:
    """A run failed with this step: what was recorded of it must not fail it again."""
    known = found.get(key)
    if known is None or known.outcome.error is None:  # its checks failed, rather than itself
        for name in [
            k for k in found if k.startswith(f"{key}/") and _CHECKED.fullmatch(k[len(key) + 1 :])
        ]:
            del found[name]
    if known is not None:
        del found[key]


def _just(effect: Any, key: str) -> Generator[Any, Any, Any]:
    """A part that is a single effect, under a key that was given out already."""
    if isinstance(effect, Step) and effect.is_plain:
        return (yield Bare(key, effect))
    if isinstance(effect, Step):
        return (yield from expand(effect, key))
    return (yield effect)


def _is_flow(value: object) -> bool:
    return isinstance(value, Effect) or inspect.isgenerator(value)


def _starter(part: Any, key: str) -> Callable[[], Any]:
    return lambda: (key, part() if inspect.isgeneratorfunction(part) else part)


def _part_name(part: Any, default: str) -> str:
    if isinstance(part, Step):
        return part.name
    return getattr(part, "__name__", default)


def _typed(step: Step | None, key: str, data: Any) -> Any:
    if step is None:
        return data
    hint = step.result_hint
    return data if hint is None else revive(data, hint, root=f"result of {key}")


def _for(undo: Any, value: Any) -> tuple[Any, ...]:
    """The arguments for what undoes a step: its result, unless it takes none."""
    try:
        parameters = inspect.signature(undo).parameters.values()
    except (TypeError, ValueError):
        return (value,)
    takes = any(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters)
    return (value,) if takes else ()


def _code_of(flow: Workflow[Any, Any]) -> str:
    """Changes when the flow's own code does, and not when a comment or a step's function does."""
    import hashlib
    import types

    def parts(code: types.CodeType) -> str:
        constants = [parts(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
        return repr((code.co_code, code.co_names, code.co_varnames, constants))

    return hashlib.sha256(parts(inspect.unwrap(flow.fn).__code__).encode()).hexdigest()[:16]
