"""Workflows for the engine: replays a generator or coroutine against what was recorded."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from holdfast.engine.context import DECIDING
from holdfast.engine.policy import PLAIN
from holdfast.engine.program import Migrated, Program, Ready, Record, Stored, Task
from holdfast.engine.resume.history import History
from holdfast.engine.run.failures import describe
from holdfast.errors import FlowChangedError, ReviveError, StepFailedError
from holdfast.logs import logger
from holdfast.migrations import Migrations, Place, misfit, whole
from holdfast.model import Kind, checkpoint_id
from holdfast.workflow.fibers import Outcome
from holdfast.workflow.flow import Workflow
from holdfast.workflow.interpreter import Interpreter
from holdfast.workflow.keys import Mismatch
from holdfast.workflow.parts import is_flow, typed

log = logger()


class WorkflowProgram(Program):
    """One execution of a workflow."""

    def __init__(self, flow: Workflow[Any, Any]) -> None:
        self._flow = flow
        self._code = Interpreter(flow.name)
        self._code.abandon = lambda key: self.abandon(key)
        self.flow = flow.info
        self._code_changed = False

    def check(self, history: History) -> None:
        now = self.flow.version
        for ran, entry in history.versions.items():
            if ran != now and self.migrations is not None:
                name = checkpoint_id(history.run, entry.seq)
                self.migrations.check(ran, Place(history.run, name))
            elif ran != now:
                raise FlowChangedError(
                    history.run,
                    (f"it ran version {ran} of {self.flow.name!r}, and this is {now}",),
                    "Say what becomes of its results: @workflow(..., "
                    "migrate=hf.Migrations(version=...)), a higher version.",
                )

    @property
    def migrations(self) -> Migrations | None:
        return self._flow.migrations

    def restored_from(self, history: History) -> Migrated:
        results = self._code.replay.migrated
        before: dict[str, Any] = {} if results is None else {"results": results.before}
        after: dict[str, Any] = {} if results is None else {"results": results.after}
        given = self.migrated_inputs(history)
        if given is not None:
            before, after = (
                {**before, "inputs": history.inputs.value()},
                {**after, "inputs": given},
            )
        states = history.of(Kind.RESULT) or [history.opening]
        oldest = (history.meta(e).flow_version or self.flow.version for e in states)
        version = min(oldest, key=whole)
        return Migrated(checkpoint_id(history.run, states[-1].seq), version, before, after)

    def migrated_inputs(self, history: History) -> dict[str, Any] | None:
        version = history.meta(history.opening).flow_version or self.flow.version
        if self.migrations is None or version == self.flow.version:
            return None
        place = Place(history.run, checkpoint_id(history.run, history.opening.seq))
        form = history.core.journals.stored_form
        given = self.migrations.migrated_inputs(history.inputs.value(), version, place, form)
        why = self._flow.misfit(given)
        if not why:
            try:
                self._flow.ready(given)
            except ReviveError as error:
                why = f"its inputs do not fit: {misfit(error)}"
        if why:
            advice = "Declare what becomes of them: @migrations.inputs(from_version=...)."
            raise self.migrations.error(version, why, advice, place)
        return given

    def comparable(self, given: Any, recorded: Any) -> Any:
        defaults = {
            name: parameter.default
            for name, parameter in self._flow.signature.parameters.items()
            if parameter.default is not parameter.empty
        }
        wanted = {name: given.get(name, defaults.get(name)) for name in recorded}
        more = {n: v for n, v in given.items() if n not in recorded and v != defaults.get(n, given)}
        return wanted | more

    def begin(self, run_id: str, inputs: Stored) -> None:
        self._code.run_id, self._code.stored_form = run_id, self.stored_form
        given = inputs.value()
        why = self._flow.misfit(given)
        if why:
            raise FlowChangedError(
                run_id,
                (why,),
                "Give a new parameter a default, and keep the others; or start a new run.",
            )
        self._code.begin(self._flow.ready(given))

    def restore(self, history: History, *, wary: bool = False) -> int:
        self._code.wary, self._code.strict = wary, self.strict
        recorded_code = history.meta(history.opening).structure.get("code")
        self._code_changed = recorded_code != self.flow.structure["code"]
        self._code.replay.read(history, self.flow.version, self.migrations)
        given, inputs = self.migrated_inputs(history), history.inputs
        if given is not None:
            journals = history.core.journals
            inputs = Stored(journals.encode(given), journals.decode)
        self.begin(history.run, inputs)
        return self._code.replay.finished_steps

    def ready(self) -> Ready:
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
        unused = code.replay.unused()
        # Code that awaits what is no step may ask for more afterwards.
        awaits = unused and any(step is None for _, step in code.waiting.values())
        if unused and (code.outcome or (code.tasks and not awaits)):
            raise FlowChangedError(
                code.run_id,
                (
                    f"a migration returned a result for {unused[0]!r}, which the flow did not ask for",
                ),
                "Name the steps there as the flow does.",
            )
        done = code.outcome is not None and code.outcome.error is None
        ready = Ready(code.tasks, code.notes, code.skipped, code.changed, done)
        code.tasks, code.notes, code.skipped, code.changed = [], [], [], []
        return ready

    def outcome_of(self, task: Task, value: Any) -> Any:
        if self._code.unfolds(task.key, value):
            raise TypeError(
                f"{task.name!r} returned a step instead of doing the work: say .outputs(...) there"
            )
        return value

    def record(self, task: Task, value: Any) -> Record | None:
        _, step = self._code.waiting[task.key]
        if is_flow(value):
            if self._code.unfolds(task.key, value):
                return None
            way = "its result, `await ...` or `.result()`"
            if inspect.isgenerator(value):
                way = "its items, `list(...)`"
            raise TypeError(
                f"step {task.name!r} returned {value!r}: return {way}, or do it in the workflow"
            )
        if step is not None and step.call is not None:
            value = step.call.flow.pack(value)
        facts: dict[str, Any] = {} if task.kind == "python" else {"kind": task.kind}
        if step is not None and step.undo is not None:
            facts["undo"] = True
        if task.key in self._code.built:
            facts["built"] = True
        return Record(Kind.RESULT, task.key, value, facts, task.name, arguments=task.arguments)

    def revive(self, task: Task, stored: Stored) -> Any:
        _, step = self._code.waiting[task.key]
        return typed(step, task.key, stored.value())

    def came_back(self, task: Task, value: Any, revived: Any) -> None:
        _, step = self._code.waiting[task.key]
        kind, plain = type(value), type(revived)
        is_lost = step is not None and step.result_hint is None and step.call is None
        if is_lost and kind.__module__ != "builtins" and not isinstance(value, plain):
            _say_it_is_lost(self._flow.name, task.name, kind.__name__, plain.__name__)

    def show(self, task: Task, stored: Stored) -> Callable[[], Any]:
        _, step = self._code.waiting[task.key]
        return lambda: typed(step, task.key, stored.value())

    def accept(self, task: Task, value: Any, stored: Stored | None = None) -> None:
        self._code.finish(task, Outcome(value))

    def refuse(self, task: Task, error: StepFailedError) -> Sequence[Record]:
        self._code.finish(task, Outcome(error=error))
        facts = {"of": "step", "kind": task.kind}
        return [Record(Kind.FAIL, task.key, describe(error), facts, task.name)]

    def drop(self, task: Task) -> None:
        self._code.waiting.pop(task.key, None)

    @property
    def result(self) -> Any:
        assert self._code.outcome is not None
        return self._code.outcome.value

    def revive_result(self, data: Any) -> Any:
        return self._flow.unpack(data)

    @property
    def state(self) -> dict[str, Any]:
        return dict(self._code.results)

    def questions(self) -> list[str]:
        return self._code.questions.open

    def answer(self, key: str, value: Any) -> None:
        self._code.questions.answer(key, value)

    def at_failure(self, task: Task | None) -> list[Record]:
        notes, self._code.notes = self._code.notes, []
        return notes

    def close(self) -> None:
        self._code.close()

    @property
    def catching_up(self) -> bool:
        code = self._code
        return any(
            key in code.replay.found and key not in code.to_undo for key in code.replay.undoable
        )

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
                "version and say what becomes of the recorded results: "
                "migrate=hf.Migrations(version=...)."
            )
        else:
            advice = (
                "The code is the same: it must ask for the same steps every time. Use hf.now(), "
                "hf.random() and hf.uuid(), and do what depends on the world in a step."
            )
        return FlowChangedError(
            self._code.run_id,
            (f"recorded next is {recorded!r}, the flow asks for {asked!r}",),
            advice,
        )


def _arguments(undo: Any, value: Any) -> tuple[Any, ...]:
    """The arguments for what undoes a step: its result, unless it takes none."""
    try:
        parameters = inspect.signature(undo).parameters.values()
    except (TypeError, ValueError):
        return (value,)
    takes = any(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters)
    return (value,) if takes else ()


@lru_cache(maxsize=256)  # once for each step
def _say_it_is_lost(flow: str, step: str, kind: str, plain: str) -> None:
    """A step returned an instance of a class, and the flow gets plain data, now and on a resume."""
    text = "step %s of %s returned a %s, and the workflow gets a %s: annotate the function, -> %s"
    log.warning(text, step, flow, kind, plain, kind)
