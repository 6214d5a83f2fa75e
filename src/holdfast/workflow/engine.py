"""The front door for workflows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from holdfast.checkpointer import Checkpointer, SyncCheckpointer
from holdfast.engine.blocking import block_on, blocking
from holdfast.engine.door import Opened, StoreLike, opened
from holdfast.engine.options import Options, Strategy, Trust
from holdfast.engine.people import requests
from holdfast.engine.people.questions import Question
from holdfast.engine.resume import launch, takeover
from holdfast.engine.resume.launch import Link, Plan
from holdfast.engine.resume.recovery import SILENT_SECONDS, Orphan, orphans, recover
from holdfast.engine.stream import Stream
from holdfast.errors import CheckpointNotFoundError, RunFinishedError
from holdfast.kernel.core import Core
from holdfast.model import Status
from holdfast.operations import reading
from holdfast.seams import new_id
from holdfast.workflow.flow import Workflow
from holdfast.workflow.picture import picture
from holdfast.workflow.program import WorkflowProgram
from holdfast.workflow.results import WorkflowResult, result_of

if TYPE_CHECKING:
    from holdfast.evidence import EvidenceVerifier


class WorkflowEngine:
    """Carries out workflows, records every step, and resumes them wherever they stopped.

    `checkpoint_store` is a URL, a path, a `Store` or a `Checkpointer`; without one it is the
    default store, and with False nothing is kept beyond the engine itself. One engine may carry
    out many runs at once. `verifier` checks what steps claim about the world, within its policy.
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
        self._where = checkpoint_store
        self._opened: Opened | None = None
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

    @property
    def checkpointer(self) -> Checkpointer | SyncCheckpointer:
        """What the runs are kept with: to list them, look at their states, fork and roll back."""
        return self._keeper.checkpointer

    def execute(
        self,
        flow: Workflow[Any, Any],
        /,
        *,
        workflow_id: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Stream:
        """Start a run; iterate over what is returned to carry it out and see its events.

        The inputs are given by name; those whose names clash with a parameter here go into
        `inputs`. Raises `RunExistsError` for an id that is taken. When the run fails, the last
        event says so and then its error is raised.
        """
        given = _merged(flow, inputs, kwargs)
        return self._stream(flow, workflow_id, given, self._options, resume=False)

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
        """Go on with a run after its last recorded step; like `execute` otherwise.

        What its steps claimed about the world is checked first: it goes on from the newest
        checkpoint that still holds, and says which it passed over (`CheckpointRejected`).
        `trust="stored"` believes what was found last, "skip" asks for nothing.

        The inputs may be left out, or must be those it began with. Raises
        `CheckpointNotFoundError`, `InputMismatchError`, `FlowChangedError`, `VerificationError`
        where it can't be told what holds, and `RunFinishedError`: a run that is completed goes on
        only if what it did is not so any more. `RunActiveError`, if another process carries it
        out that is alive on this machine; with `take_over` it is taken from that one.
        """
        given = _merged(flow, inputs, kwargs) if inputs or kwargs else None
        options = replace(self._options, trust=trust, take_over=take_over)
        return self._stream(flow, workflow_id, given, options, resume=True)

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
        """Carry a run out and return its result, without the events.

        With `resume`, it is started if it does not exist, goes on if it does, and its recorded
        result is returned if it is completed; `trust` and `take_over` are those of `resume`.
        Raises `StepFailedError`, `RunPausedError`, `RunCancelledError` and so on.
        """
        given = _merged(flow, inputs, kwargs, resume=resume)
        options = replace(self._options, trust=trust, take_over=take_over)
        return await self._run(flow, workflow_id, given, options, resume)

    def run_sync(
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
        """Like `run`, for programs without an event loop. Sync steps are called right here."""
        options = replace(self._options, blocking=True, trust=trust, take_over=take_over)
        given = _merged(flow, inputs, kwargs, resume=resume)
        return block_on(lambda: self._run(flow, workflow_id, given, options, resume), "engine.run")

    async def cancel(self, workflow_id: str | None = None, reason: str = "") -> None:
        """Cancel a run, wherever it is carried out: its rollbacks are run, and it is over."""
        await self._request("cancel", workflow_id, reason)

    async def pause(self, workflow_id: str | None = None, reason: str = "") -> None:
        """Have a run stop after the steps that are under way, to be resumed later."""
        await self._request("pause", workflow_id, reason)

    async def answer(
        self,
        workflow_id: str,
        value: object,
        *,
        question: str | None = None,
        by: str | None = None,
    ) -> None:
        """Answer a run's open question, by name where it has several; then resume it.

        `by` says who answers, and is kept. Raises `QuestionError` where it was answered already,
        is for others or its deadline has passed, and `InvalidAnswerError`.
        """
        core = self._core
        await core.drive_async(requests.answer(core, workflow_id, value, question, by=by))

    async def questions(self, workflow_id: str) -> list[Question]:
        """What a run waits for."""
        core = self._core
        return await core.off_loop(lambda: requests.questions(core, workflow_id))

    async def orphans(self, *, silent: float = SILENT_SECONDS) -> list[Orphan]:
        """The runs of this store that are under way and whose worker is dead.

        A worker on another machine is taken to be dead after `silent` seconds without a record.
        """
        core = self._core
        return await core.off_loop(lambda: orphans(core, silent=silent))

    async def recover(
        self, *flows: Workflow[Any, Any], silent: float = SILENT_SECONDS, at_once: int = 10
    ) -> dict[str, Any]:
        """Go on with every orphaned run of these workflows, for example when a program starts.

        Returns what each came to by its id: its result, or the error it raised.
        """
        makes = {flow.name: _maker(flow) for flow in flows}
        return await recover(self._core, makes, self._options, silent=silent, at_once=at_once)

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
        """Answer what nobody answered in time, in one run or in all, as each question says.

        Returns those questions: resume their runs to go on. `resume` does it for its own run.
        """
        core = self._core
        return await core.drive_async(requests.apply_deadlines(core, workflow_id))

    cancel_sync = blocking(cancel)
    pause_sync = blocking(pause)
    answer_sync = blocking(answer)
    questions_sync = blocking(questions)
    open_questions_sync = blocking(open_questions)
    recover_sync = blocking(recover)

    def get_result(self, workflow_id: str | None = None) -> WorkflowResult:
        """What a run came to: the last one of this engine, or the one of this id. Blocks.

        Raises `CheckpointNotFoundError` for an unknown run.
        """
        name = workflow_id or self._workflow_id
        if name is None:
            raise CheckpointNotFoundError("(none)", None)
        return result_of(self._core, name)

    def mermaid(self, workflow_id: str) -> str:
        """What a run did, as Mermaid text, which Markdown viewers draw. Blocks.

        A workflow is code: only its runs can be drawn. Raises `CheckpointNotFoundError`.
        """
        return picture(self._core, workflow_id)

    async def close(self) -> None:
        """Make everything durable and release what the engine opened. A second call does nothing."""
        if self._opened is not None:
            await self._opened.close()

    close_sync = blocking(close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # --- carrying out

    @property
    def _keeper(self) -> Opened:
        if self._opened is None:
            self._opened = opened("memory://" if self._where is False else self._where)
        return self._opened

    @property
    def _core(self) -> Core:
        return self._keeper.checkpointer.core

    def _stream(
        self,
        flow: Workflow[Any, Any],
        workflow_id: str | None,
        inputs: Mapping[str, Any] | None,
        options: Options,
        *,
        resume: bool,
    ) -> Stream:
        options = replace(options, listening=True)
        name = workflow_id or new_id()
        self._workflow_id = name

        async def plan() -> Plan:
            return await self._plan(flow, name, inputs, options, resume)

        return launch.stream(plan, _nothing)

    async def _run(
        self,
        flow: Workflow[Any, Any],
        workflow_id: str | None,
        inputs: Mapping[str, Any],
        options: Options,
        resume: bool,
    ) -> Any:
        name = workflow_id or new_id()
        self._workflow_id = name
        core = self._core
        make = _maker(flow)
        if resume:
            resume = await core.off_loop(lambda: reading.run(core, name)) is not None
            if not resume:
                flow.check(inputs)
        try:
            plan = await self._plan(flow, name, inputs, options, resume)
        except RunFinishedError as over:
            if over.status != Status.COMPLETED:
                raise
            return await core.off_loop(lambda: launch.outcome(core, make, name, inputs or None))
        return await launch.carry_out(plan)

    async def _plan(
        self,
        flow: Workflow[Any, Any],
        name: str,
        inputs: Mapping[str, Any] | None,
        options: Options,
        resume: bool,
    ) -> Plan:
        core = self._core
        if resume:
            return await launch.resume(core, _maker(flow), name, inputs or None, options)
        return await launch.start(core, _maker(flow), name, inputs, options, self._link)

    async def _request(self, action: str, workflow_id: str | None, reason: str) -> None:
        name = workflow_id or self._workflow_id
        if name is None:
            raise ValueError(
                f"{action} needs a workflow_id: this engine has carried out no run yet"
            )
        core = self._core
        await core.drive_async(requests.request(core, name, action, reason))


async def _nothing() -> None:
    """The engine keeps its store open."""


def _maker(flow: Workflow[Any, Any]) -> takeover.Make:
    if not isinstance(flow, Workflow):
        raise TypeError(f"{flow!r} is no workflow; decorate it with @workflow")
    return lambda: WorkflowProgram(flow)


def _merged(
    flow: Workflow[Any, Any],
    inputs: Mapping[str, Any] | None,
    kwargs: Mapping[str, Any],
    *,
    resume: bool = False,
) -> dict[str, Any]:
    """All inputs by name, if the workflow can be called with them; a run to resume has its own."""
    _maker(flow)
    twice = set(inputs or ()) & set(kwargs)
    if twice:
        raise TypeError(f"given twice, in inputs= and by name: {', '.join(sorted(twice))}")
    merged = {**(inputs or {}), **kwargs}
    if merged or not resume:
        flow.check(merged)
    return merged
