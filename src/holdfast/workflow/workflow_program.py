"""Workflows for the engine: replays a generator or coroutine against what was recorded."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import types
from collections.abc import Callable
from typing import Any, ClassVar

from holdfast.codec.revive import revive
from holdfast.engine.context import DECIDING
from holdfast.engine.program import PLAIN, Program, Record, Stored, Task
from holdfast.engine.resume.history import History, fact
from holdfast.engine.run.failures import describe
from holdfast.errors import FlowChangedError, StepFailedError
from holdfast.model import Kind
from holdfast.workflow.fibers import Outcome
from holdfast.workflow.flow import Workflow
from holdfast.workflow.interpreter import Interpreter, is_flow, typed
from holdfast.workflow.keys import Mismatch


class WorkflowProgram(Program):
    """One execution of a workflow."""

    replays: ClassVar[bool] = True

    def __init__(self, flow: Workflow[Any, Any]) -> None:
        self._flow = flow
        self._code = Interpreter(flow.name, WorkflowProgram)
        self.flow = flow.name
        self.version = flow.version
        self.metas = flow.metas
        self._parked: set[str] = set()
        self._code_changed = False

    def structure(self) -> dict[str, Any]:
        return {"parameters": list(self._flow.signature.parameters), "code": _code_of(self._flow)}

    def check(self, run_id: str, history: History) -> None:
        entries = (history.opening, *history.entries)
        ran = {fact(entry, "flow_version", str, self.version) for entry in entries}
        unknown = sorted(ran - {self.version} - set(self._flow.migrate))
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
        self._code.run_id, self._code.wary = self.run_id, self.wary
        self._code.begin(self._flow.start(inputs.value()))

    def restore(self, history: History) -> int:
        recorded_code = fact(history.opening, "structure", dict, {}).get("code")
        self._code_changed = recorded_code != _code_of(self._flow)
        self._code.replay.read(history, self.version, self._flow.migrate)
        self.begin(history.inputs)
        return self._code.replay.finished_steps

    def ready(self) -> list[Task]:
        code = self._code
        code.task = asyncio.current_task()
        token = DECIDING.set(code)
        try:
            code.advance()
        except Mismatch as mismatch:
            raise self._changed(mismatch.recorded, mismatch.asked) from None
        finally:
            DECIDING.reset(token)
        if code.outcome is not None and code.outcome.error is not None and not code.waiting:
            raise code.outcome.error
        unused = code.replay.unused() if code.tasks or code.outcome else []
        if unused:
            raise FlowChangedError(
                self.run_id,
                (f"migrate= returned a result for {unused[0]!r}, a step the flow did not ask for",),
                "Name the steps in migrate= as the flow does.",
            )
        tasks, code.tasks = code.tasks, []
        return tasks

    def take_records(self) -> list[Record]:
        notes, self._code.notes = self._code.notes, []
        return notes

    def take_skipped(self) -> list[tuple[str, str, str]]:
        skipped, self._code.skipped = self._code.skipped, []
        return skipped

    def unfolds(self, task: Task, value: Any) -> bool:
        return self._code.unfolds(task.key, value)

    def record(self, task: Task, value: Any) -> Record:
        _, step = self._code.waiting[task.key]
        facts: dict[str, Any] = {} if task.kind == "python" else {"kind": task.kind}
        if step is not None and step.undo is not None:
            facts["undo"] = True
        if task.key in self._code.built:
            facts["built"] = True
        if is_flow(value):
            raise TypeError(f"step {task.name!r} returned {value!r}; yield it instead")
        return Record(Kind.RESULT, task.key, value, facts, task.name)

    def revive(self, task: Task, stored: Stored) -> Any:
        _, step = self._code.waiting[task.key]
        return typed(step, task.key, stored.value())

    def show(self, task: Task, stored: Stored) -> Callable[[], Any]:
        _, step = self._code.waiting[task.key]
        return lambda: typed(step, task.key, stored.value())

    def accept(self, task: Task, value: Any) -> None:
        self._code.finish(task, Outcome(value))

    def failure(self, task: Task, error: StepFailedError) -> list[Record]:
        facts = {"of": "step", "kind": task.kind}
        return [Record(Kind.FAIL, task.key, describe(error), facts, task.name)]

    def refuse(self, task: Task, error: StepFailedError) -> None:
        self._code.finish(task, Outcome(error=error))

    def park(self, task: Task) -> None:
        self._parked.add(task.key)

    @property
    def parked(self) -> bool:  # type: ignore[override]
        return bool(self._parked)

    @property
    def done(self) -> bool:
        return self._code.outcome is not None

    @property
    def result(self) -> Any:
        assert self._code.outcome is not None
        return self._code.outcome.value

    def revive_result(self, data: Any) -> Any:
        kind = self._flow.result_type
        return data if kind is None else revive(data, kind, root="result")

    @property
    def state(self) -> dict[str, Any]:
        return dict(self._code.results)

    def questions(self) -> list[str]:
        return list(self._code.questions)

    def answer(self, key: str, value: Any) -> None:
        self._code.answer(key, value)

    def compensations(self) -> list[Task]:
        newest_first = sorted(self._code.to_undo.items(), key=lambda item: -item[1][0])
        return [
            Task(f"undo/{key}", step.name, step.undo, _arguments(step.undo, value), policy=PLAIN)
            for key, (_, step, value) in newest_first
        ]

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
            self.run_id, (f"recorded next is {recorded!r}, the flow asks for {asked!r}",), advice
        )


def _code_of(flow: Workflow[Any, Any]) -> str:
    """Changes when the flow's own code does, and not when a comment or a step's function does."""

    def parts(code: types.CodeType) -> str:
        constants = [parts(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
        return repr((code.co_code, code.co_names, code.co_varnames, constants))

    return hashlib.sha256(parts(inspect.unwrap(flow.fn).__code__).encode()).hexdigest()[:16]


def _arguments(undo: Any, value: Any) -> tuple[Any, ...]:
    """The arguments for what undoes a step: its result, unless it takes none."""
    try:
        parameters = inspect.signature(undo).parameters.values()
    except (TypeError, ValueError):
        return (value,)
    takes = any(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters)
    return (value,) if takes else ()
