"""The front door for pipelines: run, stream, resume."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

from holdfast.checkpoint import CheckpointInfo
from holdfast.engine import launch
from holdfast.engine.blocking import blocking, check_options, has_loop_to_itself
from holdfast.engine.door import (
    Door,
    OpenedCheckpointer,
    RunOptions,
    Runs,
    StoreLike,
    open_checkpointer,
)
from holdfast.engine.launch import Link
from holdfast.engine.options import Options, Strategy
from holdfast.engine.people.questions import Question
from holdfast.engine.resume import takeover
from holdfast.engine.resume.history import History
from holdfast.engine.resume.holders import SILENT_SECONDS, refuse_if_held
from holdfast.engine.stream import Stream
from holdfast.engine.walking.flow import WalkingFlow
from holdfast.errors import (
    CheckpointNotFoundError,
    EndedWithFailureError,
    RunFinishedError,
    RunPausedError,
)
from holdfast.kernel.core import Core
from holdfast.model import Status, check_id
from holdfast.operations import saving
from holdfast.pipeline import export, files
from holdfast.pipeline.definition import plan_of
from holdfast.pipeline.options import FlowOptions, NewRun, PipelineOptions, ResumeOptions
from holdfast.pipeline.pipeline_plan import PipelinePlan
from holdfast.pipeline.pipeline_program import PipelineProgram
from holdfast.pipeline.registry import ServiceRegistry, registry_of
from holdfast.pipeline.results import PipelineResult
from holdfast.pipeline.steps import HumanInputStep, Step
from holdfast.pipeline.threads import go_to, newest_run
from holdfast.seams import SYSTEM_CLOCK, Clock, new_id

if TYPE_CHECKING:
    from holdfast.evidence import EvidenceVerifier


class Pipeline(WalkingFlow, Door):
    """Steps, and the paths between them. Many runs at once may use it.

    A step is a `Step`, or a mapping with an `id` and a `function`. After a step its paths are
    tried in order, and the first whose condition is true is taken; a list in `to` runs its steps
    side by side, until their paths meet. With a `checkpointer` (a URL, path, `Store`,
    `Checkpointer` or view of one) every step is saved, and a run is resumed by its thread.

    `registry` holds the functions that steps and conditions may name, `services` what the steps
    use and no checkpoint stores. `version`, `migrate` and `rename` say what becomes of unfinished
    runs when you change the pipeline, as for graphs. `verifier` checks what the steps claim about
    the world, within its policy. Raises `InvalidFlowError` with all problems.
    """

    def __init__(
        self,
        steps: Sequence[object],
        flow: Mapping[str, Any],
        services: ServiceRegistry | Mapping[str, Any] | None = None,
        checkpointer: StoreLike = None,
        loop_config: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        version: str | int = "1",
        **options: Unpack[FlowOptions],
    ) -> None:
        definition = {
            "name": name or "pipeline",
            "version": version,
            "parameters": parameters or {},
            "steps": steps,
            "flow": flow,
            "loop_config": loop_config,
        }
        self._define(definition, services=services, checkpointer=checkpointer, **options)

    @classmethod
    def from_dict(
        cls, definition: Mapping[str, Any], **options: Unpack[PipelineOptions]
    ) -> Pipeline:
        """The pipeline that data describes. It can name only what is in the `registry`."""
        pipeline = cls.__new__(cls)
        cls._define(pipeline, definition, **options)
        return pipeline

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], **options: Unpack[PipelineOptions]
    ) -> Pipeline:
        """The pipeline that a `.json`, `.yaml` or `.yml` file describes.

        Raises `InvalidFlowError` that names the file and the lines, and `OSError`.
        """
        read = files.read(path)
        pipeline = cls.__new__(cls)
        cls._define(pipeline, read.data, read, **options)
        return pipeline

    def _define(
        self, given: Any, read: files.Read | None = None, **options: Unpack[PipelineOptions]
    ) -> None:
        check_options("Pipeline", options, PipelineOptions.__annotations__)
        super().__init__(options.get("checkpointer"))
        self._registry = registry_of(options.get("registry"))
        migrate, rename = options.get("migrate"), options.get("rename")
        plan = plan_of(given, self._registry, read, migrate=migrate, rename=rename)
        plan.serve(options.get("services"))
        self._plan: PipelinePlan = plan
        marks = [step.checkpoint for step in plan.steps.values()]
        self._options = Options(
            strategy=Strategy.EVERY_STEP if all(marks) else Strategy.MARKED,
            quiet=self._where is None,
            verifier=options.get("verifier"),
        )

    @property
    def steps(self) -> dict[str, Step]:
        """The steps by id."""
        return dict(self._plan.steps)

    def to_dict(self) -> dict[str, Any]:
        """The definition: `from_dict` makes the same pipeline of it, with the same registry.

        Raises `ValueError` for a function that has no name there.
        """
        return export.definition_of(self._plan, self._registry)

    def to_json(self, *, indent: int | None = 2) -> str:
        """`to_dict` as text, for a file that `from_file` reads."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False) + "\n"

    def mermaid(self) -> str:
        """The pipeline as Mermaid text, which Markdown viewers draw."""
        return export.picture_of(self._plan)

    async def run(
        self,
        data: Any = None,
        thread_id: str | None = None,
        *,
        resume: bool = False,
        **options: Unpack[NewRun],
    ) -> PipelineResult:
        """Start a run and execute it to its end, or to where it waits for a person.

        A thread holds successive runs. Without a `thread_id` the run is a thread of its own,
        named by its `run_id`. Raises `StepFailedError` with the state it failed in; `resume`
        continues it. Without a checkpointer nothing is saved.

        With `resume=True` the thread's newest run is resumed, or its result returned if it is
        completed; one is started only where there is none. That run must have begun with the same
        data, unless no data are given. Raises `InputMismatchError`. `run_sync` calls sync steps
        that run alone in the caller's thread.
        """
        check_options("run", options, (*NewRun.__annotations__, "resume"))
        owner, how = options.get("owner"), self._with(options)
        if resume:
            known = await self._resumed(data, thread_id, how)
            if known is not None:
                return known
        place = self._place()
        try:
            core = place.checkpointer.core
            return await self._execute(await self._start(core, data, thread_id, owner, how))
        finally:
            await place.close()

    run_sync = blocking(run)

    def stream(
        self, data: Any = None, thread_id: str | None = None, **options: Unpack[NewRun]
    ) -> Stream:
        """Like `run`, but iterate over the returned stream to execute it and see its events."""
        check_options("stream", options, NewRun.__annotations__)
        owner, how = options.get("owner"), self._with(options, listening=True)
        place = self._place()
        return launch.stream(
            lambda: self._start(place.checkpointer.core, data, thread_id, owner, how), place.close
        )

    async def resume(
        self, thread_id: str | None = None, **options: Unpack[ResumeOptions]
    ) -> PipelineResult:
        """Resume the thread's newest run where it stopped, or the run of this `run_id`.

        `answer` is given to the person's step that it waits for, or to the `question` of that
        key where there are several; `by` says who gives it, and is recorded. Without an answer, a
        run that still waits is returned as it is.

        What its steps claimed about the world is checked first: the run resumes from the newest
        checkpoint that still verifies, unless `trust` says otherwise. `from_step` continues with
        another step: back to one that has run, with the state before it, or forward with the
        newest state.

        Raises `CheckpointNotFoundError`, `RunFinishedError`, `FlowChangedError`, `QuestionError`,
        `VerificationError`, and what `run` raises; `RunActiveError` if another living process of
        this machine executes the run, unless `take_over`.
        """
        check_options("resume", options, ResumeOptions.__annotations__)
        return await self._execute(await self._resume(thread_id, options))

    resume_sync = blocking(resume)

    def resume_stream(
        self, thread_id: str | None = None, **options: Unpack[ResumeOptions]
    ) -> Stream:
        """Like `resume`, but iterate over the returned stream to execute it and see its events."""
        check_options("resume", options, ResumeOptions.__annotations__)
        plan = partial(self._resume, thread_id, options, listening=True)
        return launch.stream(plan, open_checkpointer(self.checkpointer).close)

    async def resume_from_checkpoint(
        self, checkpoint: CheckpointInfo, *, timeout: float | None = None
    ) -> PipelineResult:
        """Fork the run at a checkpoint and execute the fork, as the newest run of the thread.

        The run that the checkpoint belongs to stays as it is. Raises `CheckpointNotFoundError`,
        and what `run` raises.
        """
        core, run_id, origin = self._runs.core, new_id(), checkpoint.run_id
        make = self._maker(core)

        def check() -> None:
            takeover.check_flow(make(), History(core, origin, whole=False))

        await core.off_loop(check)  # before there is a fork that nobody could execute
        await core.drive_async(saving.fork(core, origin, seq=checkpoint.seq, run_id=run_id))
        options = replace(self._options, timeout=timeout)
        return await self._execute(await launch.resume(core, make, run_id, None, options))

    async def pause(self, thread_id: str, reason: str = "") -> None:
        """Stop the thread's newest run after the steps that are under way."""
        await self._runs.request(await self._newest(thread_id), "pause", reason)

    async def cancel(self, thread_id: str, reason: str = "") -> None:
        """Cancel the thread's newest run, whichever process executes it."""
        await self._runs.request(await self._newest(thread_id), "cancel", reason)

    async def recover(self, *, silent: float = SILENT_SECONDS, at_once: int = 10) -> dict[str, Any]:
        """Resume every orphaned run of this pipeline, for example when a program starts.

        A run is orphaned when its holder is dead; a holder on another machine counts as dead
        after `silent` seconds without a record. Returns by run id the final state, or the error.
        """
        runs = self._runs
        return await runs.recover(
            {self.name: self._maker(runs.core)}, self._options, silent, at_once
        )

    pause_sync = blocking(pause)
    cancel_sync = blocking(cancel)
    recover_sync = blocking(recover)

    def program(self, clock: Clock = SYSTEM_CLOCK) -> PipelineProgram:
        """One execution of this pipeline, for the engine."""
        return PipelineProgram(self._plan, clock)

    def state_from(self, data: Any) -> dict[str, Any]:
        """The state that a run begins with, from the pipeline's input."""
        return {"pipeline_input": data, "steps": {}}

    @property
    def verifier(self) -> EvidenceVerifier | None:
        """What checks the claims of its steps, if not the default verifier."""
        return self._options.verifier

    @property
    def kept_in(self) -> StoreLike:
        """Where its runs are saved, as it was given; None if they are not."""
        where: StoreLike = self._where
        return where

    @cached_property
    def _opened(self) -> OpenedCheckpointer:
        if self._where is None:
            raise ValueError(
                "this pipeline does not save its runs: give it checkpointer= to resume them"
            )
        return open_checkpointer(self._where)

    def _place(self) -> OpenedCheckpointer:
        """Where a run is saved: with the checkpointer, or in memory until it is over."""
        if self._where is not None:
            return open_checkpointer(self.checkpointer)
        for step in self._plan.steps.values():
            if isinstance(step, HumanInputStep):
                raise ValueError(
                    f"step {step.id!r} waits for a person, and without a checkpointer the answer "
                    "would not find the run again: give the pipeline checkpointer="
                )
        return open_checkpointer("memory://")

    def _maker(self, core: Core) -> takeover.Make:
        return lambda: self.program(core.journals.clock)

    def _with(self, given: RunOptions, *, listening: bool = False) -> Options:
        how: dict[str, Any] = {**given}
        how = {name: how[name] for name in RunOptions.__annotations__ if name in how}
        alone = not listening and has_loop_to_itself()
        return replace(self._options, **how, blocking=alone, listening=listening)

    async def _newest(self, thread_id: str) -> str:
        core = self._runs.core
        return await core.off_loop(partial(newest_run, core, thread_id, self.name))

    async def _start(
        self, core: Core, data: Any, thread_id: str | None, owner: str | None, options: Options
    ) -> launch.Prepared:
        if thread_id is not None:
            check_id("thread_id", thread_id)
        run_id = new_id()
        inputs, link = self.state_from(data), Link(thread_id or run_id, owner)
        return await launch.start(core, self._maker(core), run_id, inputs, options, link)

    async def _resumed(
        self, data: Any, thread_id: str | None, options: Options
    ) -> PipelineResult | None:
        """The result of the thread's newest run, recorded or new; None if there is no run."""
        if thread_id is None:
            raise ValueError("resume=True resumes a thread: give a thread_id")
        core = self._runs.core
        try:
            run_id = await self._newest(thread_id)
        except CheckpointNotFoundError:  # or the newest was never begun
            return None
        make, inputs = self._maker(core), None if data is None else self.state_from(data)
        try:
            return await self._execute(await launch.resume(core, make, run_id, inputs, options))
        except RunFinishedError as finished:
            if finished.status != Status.COMPLETED:
                raise
        program = self.program(core.journals.clock)
        state = await core.off_loop(lambda: launch.outcome(core, lambda: program, run_id, inputs))
        return _result(program, state, run_id, "completed")

    async def _resume(
        self, thread_id: str | None, given: ResumeOptions, *, listening: bool = False
    ) -> launch.Prepared:
        run_id, from_step = given.get("run_id"), given.get("from_step")
        runs, core = self._runs, self._runs.core
        make = self._maker(core)
        if (run_id is None) is (thread_id is None):
            raise ValueError("give either the thread_id, or the run_id of one of its runs")
        if run_id is None:
            run_id = await self._newest(str(thread_id))
        if "answer" in given:
            await runs.answer(run_id, given["answer"], given.get("question"), given.get("by"))
        if from_step is not None:
            if not given.get("take_over"):
                await core.off_loop(lambda: refuse_if_held(core, run_id))
            await core.drive_async(go_to(core, make, self._plan, run_id, from_step))
        options = self._with(given, listening=listening)
        return await launch.resume(core, make, run_id, None, options)

    async def _execute(self, plan: launch.Prepared) -> PipelineResult:
        run, program = plan.run, plan.run.program
        assert isinstance(program, PipelineProgram)
        try:
            state = await launch.execute(plan)
        except RunPausedError:
            asked = await Runs(run.core).questions(run.run_id)
            return _result(program, program.state, run.run_id, "paused", asked)
        except EndedWithFailureError:
            return _result(program, program.state, run.run_id, "failed")
        return _result(program, state, run.run_id, "completed")


def _result(
    program: PipelineProgram,
    state: Mapping[str, Any],
    run_id: str,
    status: Literal["completed", "failed", "paused"],
    asked: Sequence[Question] = (),
) -> PipelineResult:
    return PipelineResult(
        state["steps"], run_id=run_id, status=status, output=program.output, questions=asked
    )
