"""Pipelines for the engine: steps that add their outputs to a state, and the paths between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

from holdfast.codec.meta import Meta
from holdfast.engine.people.questions import Question
from holdfast.engine.policy import StepPolicy
from holdfast.engine.program import Ready, Record, Stored, Task
from holdfast.engine.resume.history import History
from holdfast.engine.run.failures import describe
from holdfast.engine.timers import Sleep
from holdfast.engine.walking import versions
from holdfast.engine.walking.program import Fork, Walk, WalkingProgram, visit_key
from holdfast.errors import (
    EndedWithFailureError,
    LoopLimitError,
    NoPathError,
    RunError,
    StepFailedError,
    UnresolvedError,
)
from holdfast.model import CheckpointType, Entry, Kind, Status
from holdfast.pipeline.branch_outputs import With, outputs_of
from holdfast.pipeline.conditions import ALWAYS
from holdfast.pipeline.outputs import Outputs, handed_on
from holdfast.pipeline.pipeline_plan import FAILURE, PipelinePlan
from holdfast.pipeline.references import Scope
from holdfast.pipeline.results import PipelineResult
from holdfast.pipeline.steps import Step

INLINE: Final = StepPolicy(inline=True, marked=True)
_FALLBACK: Final = "!fallback"
_DELAY: Final = "!delay"


class PipelineProgram(WalkingProgram):
    """One execution of a pipeline.

    Its state is `{"pipeline_input": ..., "steps": {id: output}}`. The main walk records whole
    states; what runs side by side records its outputs alone, and they are put together when the
    branches join.
    """

    _plan: PipelinePlan

    def __init__(self, plan: PipelinePlan) -> None:
        super().__init__(plan)
        self._due: list[tuple[Walk, str, str]] = []  # steps that wait no longer: walk, key and id
        self._failed: dict[str, dict[str, Any]] = {}  # by key: the failure that is to be answered
        self._beside: dict[str, Stored] = {}  # outputs of branches that are under way
        self._times: dict[str, int] = {}  # by key: when a branch's step was recorded
        self._ended_at = ""

    # --- Program

    def restore(self, history: History, *, wary: bool = False) -> int:
        for entry in history.entries:
            if entry.kind == Kind.DECISION and history.meta(entry).failed:
                self._fail(str(entry.step), history.value(entry))
            elif entry.kind == Kind.RESULT:
                self._times[versions.key_of(self._plan, entry)] = entry.at
            elif entry.status == Status.FAILED:  # what is resumed is tried again
                self._failed.clear()
        return super().restore(history, wary=wary)

    def ready(self) -> Ready:
        ready = super().ready()
        due, self._due = self._due, []
        ready.tasks.extend(self._step(walk, key, name) for walk, key, name in due)
        if self._ended_at == FAILURE and not ready.tasks and not self._busy:
            assert self._main is not None
            raise EndedWithFailureError(self.run_id, ", ".join(self._main.before))
        return ready

    def record(self, task: Task, value: Any) -> Record:
        made = super().record(task, value)
        if made.kind == Kind.RESULT:  # a fallback replaces its step
            return replace(made, step=task.key.removesuffix(_FALLBACK))
        return made

    def revive(self, task: Task, stored: Stored) -> None:
        """Nothing: steps are given data of the state, which has no type."""

    def show(self, task: Task, stored: Stored) -> Callable[[], Any]:
        if isinstance(stored, Outputs):
            return stored.copies_of(task.name)
        in_branch = bool(self._busy[task.key][0].path)
        return lambda: stored.value() if in_branch else stored.value()["steps"][task.name]

    def outcome_of(self, task: Task, value: Any) -> Any:
        made = super().outcome_of(task, value)
        return made.value() if isinstance(made, Outputs) else made

    def accept(self, task: Task, value: Any, stored: Stored | None = None) -> None:
        if task.key.endswith(_DELAY):
            walk, _ = self._busy.pop(task.key)
            self._due.append((walk, task.key.removesuffix(_DELAY), task.name))
            return
        super().accept(task, value, stored)

    def refuse(self, task: Task, error: StepFailedError) -> Sequence[Record]:
        if not self._handles_failure(task):
            return super().refuse(task, error)
        walk, _ = self._busy.pop(task.key)
        failed = describe(error)
        self._fail(task.key, failed)
        self._due.append((walk, task.key.removesuffix(_FALLBACK), task.name))
        return [Record(Kind.DECISION, task.key, failed, {"failed": True}, task.name)]

    def at_failure(self, task: Task | None) -> list[Record]:
        walk = self._busy[task.key][0] if task is not None and task.key in self._busy else None
        before = {} if walk is None else {"before": list(walk.before)}
        return [replace(r, meta={**r.meta, **before}) for r in super().at_failure(task)]

    def comparable(self, given: Any, recorded: Any) -> Any:
        return recorded if given["pipeline_input"] is None else given

    @property
    def recorded_result(self) -> Any:
        if self._end is None:
            self.ready()
        assert self._end is not None
        return self._end.value()

    @property
    def result(self) -> PipelineResult:
        return self.revive_result(self.recorded_result)

    def revive_result(self, data: Any) -> PipelineResult:
        assert self._main is not None
        steps = data["steps"]
        output = handed_on(self._main.before, steps)
        return PipelineResult(steps, run_id=self.run_id, status="completed", output=output)

    @property
    def state(self) -> Any:
        assert self._main is not None
        return With.of(self._main.state, self._beside).value()

    def result_so_far(
        self, status: Literal["paused", "failed"], asked: Sequence[Question] = ()
    ) -> PipelineResult:
        """The result of a run that stopped before its end."""
        assert self._main is not None
        output = handed_on(self._main.before, self._main.state.value()["steps"])
        return PipelineResult(
            self.state["steps"],
            run_id=self.run_id,
            status=status,
            output=output,
            questions=asked,
        )

    # --- WalkingProgram

    def guard(self, walk: Walk, name: str) -> None:
        super().guard(walk, name)
        if name not in self._plan.loops:
            return
        loop, count = self._plan.loop, walk.visits[name]
        first, now = walk.since.setdefault(name, self.clock.now()), self.clock.now()
        if count > loop.max_iterations:
            raise LoopLimitError(self.run_id, name, loop.max_iterations, "max_iterations")
        most = loop.max_loop_time_seconds
        if most is not None and count > 1 and now - first > most * 1e6:
            raise LoopLimitError(self.run_id, name, most, "max_loop_time_seconds")

    def task(self, walk: Walk, key: str, name: str) -> Task | None:
        pause, count = self._plan.loop.iteration_delay_seconds, walk.visits[name]
        goes_back = name in walk.before or any(count > walk.visits.get(b, 0) for b in walk.before)
        if pause and count > 1 and goes_back and key not in self._answers:
            self._busy[key + _DELAY] = (walk, None)
            return Task(key + _DELAY, name, Sleep(pause), recorded=False)
        return self._step(walk, key, name)

    def seen(self, walk: Walk) -> Any:
        return walk.state.value()

    def outcome(self, walk: Walk, task: Task, value: Any) -> Any:
        if walk.path:
            return value
        known = self._apart(walk)
        made = None if known is None else known.adding(task.name, value)
        if made is not None:
            return made
        self.codec = None  # something is carried along that is not stored
        state = walk.state.value()
        state["steps"].pop(task.name, None)  # the last to finish stands last
        state["steps"][task.name] = value
        return state

    def targets(self, walk: Walk, task: Task, recorded: Any) -> list[str]:
        first = self._plan.paths[task.name][0]
        if first.condition is ALWAYS:
            return list(first.targets)
        if isinstance(recorded, Outputs):
            state = recorded.seen
        else:
            state = walk.state.value()
            output = recorded if walk.path else recorded["steps"][task.name]
            state["steps"][task.name] = self.stored_form(output)
        try:
            return self._decided(task.name, state)
        except RunError:  # the step is done: it is saved, and the run fails after it
            return []

    def undecided(self, walk: Walk, after: str) -> list[str]:
        name = walk.before[0]
        targets = self._decided(name, walk.state.value())
        facts = {"next_steps": targets, **self.facts(walk)}
        if walk.path:
            key, output = visit_key(walk, name), walk.state.value()["steps"][name]
            again = Record(Kind.RESULT, key, output, facts, name, self._steps - 1)
        else:
            again = self._whole(walk, name, facts)
        self._notes.append(again)
        return targets

    def moved(self, walk: Walk, name: str, stored: Stored) -> Stored:
        if not walk.path:
            self._beside.clear()
            return stored.settle() if isinstance(stored, Outputs) else stored
        if name in self._plan.loops:
            then = self._times.get(visit_key(walk, name))
            walk.since.setdefault(name, self.clock.now() if then is None else then)
        self._beside[name] = stored
        return With.of(walk.state, {name: stored})

    def join(self, fork: Fork) -> Task | None:
        walk = fork.walk
        places = {place for _, place in fork.arrived.values()}
        branches = [fork.arrived[target][0] for target in fork.targets]
        for branch in branches:
            if isinstance(branch.state, With):
                walk.state = With.of(walk.state, branch.state.outputs)
        walk.before = tuple(dict.fromkeys(name for branch in branches for name in branch.before))
        target = FAILURE if FAILURE in places else fork.join if fork.join in places else "end"
        if not walk.path:
            facts = {"next_steps": [target], "before": list(walk.before), **self.facts(walk)}
            self._notes.append(self._whole(walk, fork.merge_key, facts))
        self._walks.append((walk, [target], fork.merge_key))
        return None

    def values_of(
        self, history: History, base: Entry | None, results: Sequence[Entry]
    ) -> list[Stored]:
        return outputs_of(self._plan, history, base, results)

    def facts(self, walk: Walk) -> dict[str, Any]:
        facts = super().facts(walk)
        timed = self._plan.loop.max_loop_time_seconds is not None
        return facts | ({"since": dict(walk.since)} if timed and walk.since else {})

    def remember(self, walk: Walk, meta: Meta, node: str) -> None:
        super().remember(walk, meta, node)
        only = [node] if node in self._plan.nodes else []
        before = None if meta.before is None else versions.named(self._plan, meta, meta.before)
        walk.before = tuple(only if before is None else before)
        since = versions.named(self._plan, meta, meta.since)
        walk.since = dict(zip(since, meta.since.values(), strict=True))

    def _arrive(self, walk: Walk, name: str) -> Task | None:
        if walk.fork is None:
            self._ended_at = name
        return super()._arrive(walk, name)

    def ask(self, walk: Walk, key: str, name: str) -> Task | None:
        if key in self._failed:
            return self._step(walk, key, name)
        try:
            return super().ask(walk, key, name)
        except UnresolvedError as error:  # a failure of the step, like any other
            self._busy[key] = (walk, None)
            return Task(key, name, partial(_raise, error), policy=INLINE)

    # --- steps

    def _step(self, walk: Walk, key: str, name: str) -> Task:
        """The task of a step: itself, its answer, or what handles its failure."""
        step, failed = self._plan.steps[name], self._failed.get(key)
        if failed is not None:
            task = self._instead(walk, key + _FALLBACK, step, failed)
        elif key in self._answers:
            task = Task(key, name, partial(self.answered, key), policy=INLINE)
        else:
            task = self._calling(walk, key, step, step.call, step.policy)
        self._busy[task.key] = (walk, None)
        return task

    def _instead(self, walk: Walk, key: str, step: Step, failed: Mapping[str, Any]) -> Task:
        fallback = step.on_failure
        if fallback is None or failed["again"]:
            return Task(key, step.id, partial(_same, _told(step, failed)), policy=INLINE)
        policy = replace(step.policy, retry=None)
        return self._calling(walk, key, step, fallback, policy, _error(self.run_id, step, failed))

    def _calling(
        self,
        walk: Walk,
        key: str,
        step: Step,
        fn: Callable[..., Any],
        policy: StepPolicy,
        *more: Any,
    ) -> Task:
        state, before = self._apart(walk) or walk.state, walk.before

        def arguments() -> tuple[Any, ...]:
            seen = state.seen if isinstance(state, Outputs | With) else state.value()
            try:
                return self._data(step.id, before, seen), *more
            except UnresolvedError:
                if not more:
                    raise
                return None, *more  # a fallback, and the inputs are what failed

        try:
            first = arguments()
        except UnresolvedError as error:  # a failure like any other
            return Task(key, step.id, partial(_raise, error), policy=INLINE)
        return Task(key, step.id, fn, first, policy=policy, fresh=arguments)

    def _apart(self, walk: Walk) -> Outputs | None:
        """The state of the main walk with its outputs apart, if they can be encoded so."""
        state = walk.state
        if self.codec is not None and not walk.path and not isinstance(state, Outputs):
            state = walk.state = Outputs.of(state.value(), self.codec) or state
        return state if isinstance(state, Outputs) else None

    def _data(self, name: str, before: tuple[str, ...], state: Mapping[str, Any]) -> Any:
        inputs = self._plan.inputs[name]
        if inputs is not None and self._plan.nodes[name].question is None:
            return inputs.render(Scope(state, self._plan.parameters))
        return handed_on(before, state["steps"]) if before else state["pipeline_input"]

    def _fail(self, key: str, failure: dict[str, Any]) -> None:
        step = key.removesuffix(_FALLBACK)
        self._failed[step] = failure | {"again": step != key}

    def _handles_failure(self, task: Task) -> bool:
        """Whether the step says what to do about its failure."""
        step = self._plan.steps[task.name]
        failed = self._failed.get(task.key.removesuffix(_FALLBACK))
        falls_back = step.on_failure is not None and failed is None
        passed_over = step.continue_on_error and not (failed and failed["again"])
        return falls_back or bool(passed_over)

    def _decided(self, name: str, state: Mapping[str, Any]) -> list[str]:
        """Where the first path leads whose condition is true."""
        scope = Scope(state, self._plan.parameters)
        paths = self._plan.paths[name]
        for path in paths:
            try:
                if path.condition.holds(scope):
                    return list(path.targets)
            except UnresolvedError as error:
                way = f"the path from {name!r} to {', '.join(map(repr, path.targets))}"
                raise UnresolvedError(f"{way}: {error.where}", error.reason) from error.__cause__
        raise NoPathError(self.run_id, name, tuple(path.condition.words for path in paths))

    def _whole(self, walk: Walk, step: str, facts: Mapping[str, Any]) -> Record:
        """A whole state that is recorded though no step was run."""
        kind = CheckpointType.MANUAL_CHECKPOINT.value
        index = self._steps - 1 if self._steps else None
        return Record(Kind.CHECKPOINT, step, walk.state.value(), facts, index=index, type=kind)


def _told(step: Step, failed: Mapping[str, Any]) -> dict[str, Any]:
    """A failure as an output."""
    return {
        "step_error": True,
        "step_name": step.name,
        "error_type": failed["type"],
        "error_message": failed["message"],
        "attempts": failed["attempts"],
    }


def _error(run_id: str, step: Step, failed: Mapping[str, Any]) -> StepFailedError:
    key, kind, message = failed["step"], failed["type"], failed["message"]
    error = StepFailedError(key, kind, message, failed["attempts"], failed["trace"], run_id)
    error.name = step.id
    return error


def _same(value: Any) -> Any:
    return value


def _raise(error: Exception) -> None:
    raise error
