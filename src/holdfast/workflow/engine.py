"""The front door for workflows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from holdfast.engine import launch
from holdfast.engine.blocking import blocking
from holdfast.engine.door import Door, StoreLike
from holdfast.engine.launch import Link, Prepared
from holdfast.engine.options import Options, Strategy, Trust
from holdfast.engine.people import requests
from holdfast.engine.people.questions import Question
from holdfast.engine.resume import takeover
from holdfast.engine.resume.holders import SILENT_SECONDS
from holdfast.engine.resume.recovery import Orphan
from holdfast.engine.stream import Stream
from holdfast.kernel.core import Core
from holdfast.seams import new_id
from holdfast.workflow.flow import Workflow
from holdfast.workflow.picture import picture
from holdfast.workflow.results import WorkflowResult, result_of
from holdfast.workflow.workflow_program import WorkflowProgram

if TYPE_CHECKING:
    from holdfast.evidence import EvidenceVerifier


class WorkflowEngine(Door):
    """Executes workflows, records every step, and resumes them wherever they stopped.

    `checkpoint_store` is a URL, a path, a `Store` or a `Checkpointer`; without one it is the
    default store, and with False nothing outlives the engine. One engine may execute many runs at
    once. `verifier` checks what steps claim about the world, within its policy.
    """

    def __init__(
        self,
        checkpoint_store: StoreLike | Literal[False] = None,
        *,
        checkpoint_after: Strategy | str = Strategy.EVERY_STEP,
        timeout: float | None = None,
        thread_id: str | None = None,
        owner: str | None = None,
        verifier: EvidenceVerifier | None = None,
    ) -> None:
        super().__init__("memory://" if checkpoint_store is False else checkpoint_store)
        self._options = Options(
            strategy=Strategy(checkpoint_after),
            timeout=timeout,
            quiet=checkpoint_store is False,
            verifier=verifier,
        )
        self._link = Link(thread_id, owner)
        self._workflow_id: str | None = None

    @property
    def workflow_id(self) -> str | None:
        """The id of the run that this engine started or resumed last."""
        return self._workflow_id

    def execute(
        self,
        flow: Workflow[Any, Any],
        /,
        *,
        workflow_id: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Stream:
        """Start a run; iterate over the returned stream to execute it and see its events.

        The inputs are given by name; those whose names clash with a parameter here go into
        `inputs`. Raises `RunExistsError` for an id that is taken. When the run fails, the last
        event says so and then its error is raised.
        """
        make, given = _flow(flow, inputs, kwargs)
        run_id, options = self._named(workflow_id), replace(self._options, listening=True)

        async def plan() -> Prepared:
            return await launch.start(self._core, make, run_id, given, options, self._link)

        return launch.stream(plan, _keep_open)

    def resume(
        self,
        flow: Workflow[Any, Any],
        /,
        *,
        workflow_id: str,
        inputs: Mapping[str, Any] | None = None,
        trust: Trust = "verify",
        take_over: bool = False,
        **kwargs: Any,
    ) -> Stream:
        """Resume a run after its last recorded step; like `execute` otherwise.

        What its steps claimed about the world is checked first: the run resumes from the newest
        checkpoint that still verifies, and reports those it skipped (`CheckpointRejected`).
        `trust="stored"` believes the last verdicts, "skip" checks nothing.

        Inputs may be omitted; given ones must be those that the run began with. Raises
        `CheckpointNotFoundError`, `InputMismatchError`, `FlowChangedError`, `VerificationError`
        where a check can't decide, and `RunFinishedError`: a completed run resumes only if its
        claims do not verify any more. Raises `RunActiveError` if another living process of this
        machine executes the run; `take_over` takes it from that process.
        """
        make, given = _flow(flow, inputs, kwargs, required=False)
        options = replace(self._options, trust=trust, take_over=take_over, listening=True)
        run_id = self._named(workflow_id)

        async def plan() -> Prepared:
            return await launch.resume(self._core, make, run_id, given or None, options)

        return launch.stream(plan, _keep_open)

    async def run(
        self,
        flow: Workflow[Any, Any],
        /,
        *,
        workflow_id: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        resume: bool = False,
        trust: Trust = "verify",
        take_over: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Execute a run and return its result, without the events.

        With `resume`, the run is started if it does not exist and resumed if it does; a completed
        run's recorded result is returned. `trust` and `take_over` are those of `resume`.
        Raises `StepFailedError`, `RunPausedError`, `RunCancelledError` and so on. `run_sync`
        calls sync steps that run alone in the caller's thread.
        """
        make, given = _flow(flow, inputs, kwargs, required=not resume)
        options = replace(self._options, trust=trust, take_over=take_over)
        run_id, runs = self._named(workflow_id), self._runs
        if resume and await runs.exists(run_id):
            return await runs.run(make, run_id, given or None, options, None)
        flow.check(given)
        return await runs.run(make, run_id, given, options, self._link)

    async def cancel(self, workflow_id: str | None = None, reason: str = "") -> None:
        """Cancel a run, whichever process executes it: its rollbacks run, and it is over."""
        await self._runs.request(self._last(workflow_id, "cancel"), "cancel", reason)

    async def pause(self, workflow_id: str | None = None, reason: str = "") -> None:
        """Stop a run after the steps that are under way, to be resumed later."""
        await self._runs.request(self._last(workflow_id, "pause"), "pause", reason)

    async def answer(
        self,
        workflow_id: str,
        value: object,
        *,
        question: str | None = None,
        by: str | None = None,
    ) -> None:
        """Answer a run's open question, by name where it has several; then resume it.

        `by` says who answers, and is recorded. Raises `QuestionError` if it was answered already,
        is for others or its deadline has passed, and `InvalidAnswerError`.
        """
        await self._runs.answer(workflow_id, value, question, by)

    async def questions(self, workflow_id: str) -> list[Question]:
        """What a run waits for."""
        return await self._runs.questions(workflow_id)

    async def open_questions(
        self,
        *,
        assignee: str | None = None,
        overdue: bool = False,
        limit: int = 100,
        after: Question | None = None,
    ) -> list[Question]:
        """What all runs in the store wait for, of any flow: those due first.

        With `assignee`, what this person may answer; with `overdue`, what nobody answered in
        time. Give the last of one page as `after` for the next.
        """
        core = self._core
        return await core.off_loop(
            lambda: requests.open_questions(
                core, assignee=assignee, overdue=overdue, limit=limit, after=after
            )
        )

    async def apply_deadlines(self, workflow_id: str | None = None) -> list[Question]:
        """Answer what nobody answered in time with each question's default, in one run or in all.

        Returns those questions: resume their runs to continue. `resume` does it for its own run.
        """
        core = self._core
        return await core.drive_async(requests.apply_deadlines(core, workflow_id))

    async def orphans(self, *, silent: float = SILENT_SECONDS) -> list[Orphan]:
        """The runs of this store that are under way and whose holder is dead.

        A holder on another machine counts as dead after `silent` seconds without a record.
        """
        return await self._runs.orphans(silent)

    async def recover(
        self, *flows: Workflow[Any, Any], silent: float = SILENT_SECONDS, at_once: int = 10
    ) -> dict[str, Any]:
        """Resume every orphaned run of these workflows, for example when a program starts.

        Returns by run id the result, or the error.
        """
        makes = {flow.name: _flow(flow, None, {}, required=False)[0] for flow in flows}
        return await self._runs.recover(makes, self._options, silent, at_once)

    run_sync = blocking(run)
    cancel_sync = blocking(cancel)
    pause_sync = blocking(pause)
    answer_sync = blocking(answer)
    questions_sync = blocking(questions)
    open_questions_sync = blocking(open_questions)
    recover_sync = blocking(recover)

    def get_result(self, workflow_id: str | None = None) -> WorkflowResult:
        """The result of a run so far: the last one of this engine, or the one of this id. Blocks.

        Raises `CheckpointNotFoundError` for an unknown run.
        """
        return result_of(self._core, self._last(workflow_id, "get_result"))

    def mermaid(self, workflow_id: str) -> str:
        """What a run did, as Mermaid text, which Markdown viewers draw. Blocks.

        A workflow is code: only its runs can be drawn. Raises `CheckpointNotFoundError`.
        """
        return picture(self._core, workflow_id)

    @property
    def _core(self) -> Core:
        return self.checkpointer.core

    def _named(self, workflow_id: str | None) -> str:
        self._workflow_id = new_id() if workflow_id is None else workflow_id
        return self._workflow_id

    def _last(self, workflow_id: str | None, verb: str) -> str:
        run_id = self._workflow_id if workflow_id is None else workflow_id
        if run_id is None:
            raise ValueError(f"{verb} needs a workflow_id: this engine has executed no run yet")
        return run_id


async def _keep_open() -> None:
    """The engine, not the stream, closes the store."""


def _flow(
    flow: Workflow[Any, Any],
    inputs: Mapping[str, Any] | None,
    kwargs: Mapping[str, Any],
    *,
    required: bool = True,
) -> tuple[takeover.Make, dict[str, Any]]:
    """What makes the flow's programs, and its inputs by name, which a run to resume need not get."""
    if not isinstance(flow, Workflow):
        raise TypeError(f"{flow!r} is not a workflow; decorate it with @workflow")
    twice = set(inputs or ()) & set(kwargs)
    if twice:
        raise TypeError(f"given twice, in inputs= and by name: {', '.join(sorted(twice))}")
    merged = {**(inputs or {}), **kwargs}
    if merged or required:
        flow.check(merged)
    return partial(WorkflowProgram, flow), merged
