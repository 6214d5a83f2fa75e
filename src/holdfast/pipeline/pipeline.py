"""The front door for pipelines: run, stream, resume."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Unpack, cast

from holdfast.checkpoint import CheckpointInfo
from holdfast.engine import launch
from holdfast.engine.blocking import blocking, check_options
from holdfast.engine.door import Door, OpenedCheckpointer, StoreLike, open_checkpointer
from holdfast.engine.engine import Engine
from holdfast.engine.flow import Registry
from holdfast.engine.launch import Prepared, Recorded
from holdfast.engine.launcher import Launcher, check_owner
from holdfast.engine.options import NewRun, Resume
from holdfast.engine.people import inbox, requests
from holdfast.engine.resume import takeover
from holdfast.engine.resume.history import History
from holdfast.engine.signatures import shows
from holdfast.engine.stream import Stream
from holdfast.engine.threads import newest_run
from holdfast.errors import EndedWithFailureError, RunPausedError
from holdfast.kernel.core import Core
from holdfast.operations import saving
from holdfast.pipeline import files
from holdfast.pipeline.going_to import refuse_edited
from holdfast.pipeline.options import (
    FlowOptions,
    NewPipelineRun,
    PipelineOptions,
    ResumePipeline,
)
from holdfast.pipeline.pipeline_flow import PipelineFlow
from holdfast.pipeline.pipeline_program import PipelineProgram
from holdfast.pipeline.registry import ServiceRegistry
from holdfast.pipeline.results import PipelineResult
from holdfast.pipeline.steps import HumanInputStep
from holdfast.seams import new_id


class Pipeline(PipelineFlow, Door):
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

    @shows(FlowOptions)
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
        version: str | int | None = None,
        **options: Unpack[FlowOptions],
    ) -> None:
        definition = {
            "name": name or "pipeline",
            "version": "" if version is None else version,
            "parameters": parameters or {},
            "steps": steps,
            "flow": flow,
            "loop_config": loop_config,
        }
        self._define(definition, services=services, checkpointer=checkpointer, **options)

    def _define(
        self, given: Any, read: files.Read | None = None, **options: Unpack[PipelineOptions]
    ) -> None:
        super()._define(given, read, **options)
        Door.__init__(self, options.get("checkpointer"))
        self._launcher = Launcher(
            Registry([self]), {}, None, keeps=self._where is not None, executors=self._executors
        )

    @shows(NewPipelineRun)
    async def run(
        self,
        data: Any = None,
        thread_id: str | None = None,
        *,
        resume: bool = False,
        **options: Unpack[NewPipelineRun],
    ) -> PipelineResult:
        """Start a run and execute it to its end, or to where it waits for a person.

        A thread holds successive runs. Without a `thread_id` the run is a thread of its own,
        named by its `run_id`. Raises `StepFailedError` with the state it failed in; `resume`
        continues it. Without a checkpointer nothing is saved.

        With `resume=True` the thread's newest run is resumed, or its result returned if it is
        completed; one is started only where there is none. While another process executes it, its
        end is waited for. The run must have begun with the same data, unless no data are given. Raises `InputMismatchError`. `run_sync` calls sync steps
        that run alone in the caller's thread.
        """
        check_options("run", options, (*NewPipelineRun.__annotations__, "resume"))
        if resume and thread_id is None and options.get("run_id") is None:
            raise ValueError("resume=True resumes a thread: give a thread_id")
        if resume and self._where is None:
            raise ValueError(_UNSAVED)
        given = _named(thread_id, options, resume=resume)
        place = self._place_of_run()
        try:
            with place.use() as core:
                ready = await self._launcher.begin(core, self._call(data), given, resume=resume)
                return await self._execute(ready)
        finally:
            if self._where is None:
                await place.close()

    run_sync = blocking(run)

    @shows(NewPipelineRun)
    def stream(
        self, data: Any = None, thread_id: str | None = None, **options: Unpack[NewPipelineRun]
    ) -> Stream:
        """Like `run`, but iterate over the returned stream to execute it and see its events."""
        check_options("stream", options, NewPipelineRun.__annotations__)
        given, call = _named(thread_id, options), self._call(data)
        begin = partial(self._launcher.begin, call=call, given=given, listening=True)
        return self._stream(self._place_of_run(), begin)

    @shows(ResumePipeline, wait=False)
    @shows(ResumePipeline, wait=False)
    async def resume(
        self,
        thread_id: str | None = None,
        from_step: str | None = None,
        **options: Unpack[ResumePipeline],
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
        `VerificationError`, and what `run` raises; `RunActiveError` if another living process
        executes the run, unless `take_over`.
        """
        check_options("resume", options, ResumePipeline.__annotations__)
        with self._opened.use() as core:
            return await self._execute(await self._resume(core, thread_id, from_step, options))

    resume_sync = blocking(resume)

    @shows(ResumePipeline, wait=False)
    @shows(ResumePipeline, wait=False)
    def resume_stream(
        self,
        thread_id: str | None = None,
        from_step: str | None = None,
        **options: Unpack[ResumePipeline],
    ) -> Stream:
        """Like `resume`, but iterate over the returned stream to execute it and see its events."""
        check_options("resume_stream", options, ResumePipeline.__annotations__)
        resume = partial(
            self._resume, thread_id=thread_id, from_step=from_step, given=options, listening=True
        )
        return self._stream(self._opened, resume)

    async def resume_from_checkpoint(
        self, checkpoint: CheckpointInfo, *, timeout: float | None = None
    ) -> PipelineResult:
        """Fork the run at a checkpoint and execute the fork, as the newest run of the thread.

        The run that the checkpoint belongs to stays as it is. Raises `CheckpointNotFoundError`,
        `ValueError` if the checkpoint's state was changed since it was loaded, and what `run`
        raises.
        """
        run_id, origin = new_id(), checkpoint.run_id
        with self._opened.use() as core:

            def check() -> None:
                takeover.check_flow(self.program(), History(core, origin, whole=False))
                refuse_edited(core, checkpoint)

            await core.off_loop(check)  # before there is a fork that nobody could execute
            await core.drive_async(saving.fork(core, origin, seq=checkpoint.seq, run_id=run_id))
            ready = await self._launcher.resume(core, run_id, self, {"timeout": timeout})
            return await self._execute(ready)

    async def pause(self, thread_id: str, reason: str = "") -> None:
        """Stop the thread's newest run after the steps that are under way."""
        await self._request(thread_id, "pause", reason)

    async def cancel(self, thread_id: str, reason: str = "") -> None:
        """Cancel the thread's newest run, whichever process executes it."""
        await self._request(thread_id, "cancel", reason)

    async def recover(self, *, wait: bool = True, at_once: int = 10) -> dict[str, Any]:
        """Resume every orphaned run of this pipeline, for example when a program starts.

        A run is orphaned when the process that executed it is dead or has left it; see
        `Engine.recover`. Returns by run id the result, or the error.
        """
        engine = Engine(self._opened.checkpointer, flows=[self])
        return await engine.recover(wait=wait, at_once=at_once)

    pause_sync = blocking(pause)
    cancel_sync = blocking(cancel)
    recover_sync = blocking(recover)

    @property
    def checkpointer(self) -> Any:
        """The checkpointer that it was given, or the one that it opened; None if it has none."""
        if self._where is None:
            return None
        is_view = isinstance(self._where, Door)
        return self._where if is_view else self._opened.checkpointer

    @property
    def kept_in(self) -> StoreLike:
        """Where its runs are saved, as it was given; None if they are not."""
        where: StoreLike = self._where
        return where

    def _open(self) -> OpenedCheckpointer:
        if self._where is None:
            raise ValueError(_UNSAVED)
        return open_checkpointer(self._where)

    def _place_of_run(self) -> OpenedCheckpointer:
        """Where a run is saved: with the checkpointer, or in memory until it is over."""
        if self._where is not None:
            return self._opened
        for step in self._plan.steps.values():
            if isinstance(step, HumanInputStep):
                raise ValueError(
                    f"step {step.id!r} waits for a person, and without a checkpointer the answer "
                    "would not find the run again: give the pipeline checkpointer="
                )
        place = open_checkpointer("memory://")
        place.checkpointer.core.journals.keep_live()
        return place

    async def _newest(self, core: Core, thread_id: str) -> str:
        return await core.off_loop(partial(newest_run, core, thread_id, self.name))

    async def _request(self, thread_id: str, action: str, reason: str) -> None:
        with self._opened.use() as core:
            run_id = await self._newest(core, thread_id)
            await core.drive_async(requests.request(core, run_id, action, reason))

    async def _resume(
        self,
        core: Core,
        thread_id: str | None,
        from_step: str | None,
        given: ResumePipeline,
        *,
        listening: bool = False,
    ) -> Prepared | Recorded:
        run_id, owner = given.get("run_id"), given.get("owner")
        if (run_id is None) is (thread_id is None):
            raise ValueError("give either the thread_id, or the run_id of one of its runs")
        if run_id is None:
            run_id = await self._newest(core, str(thread_id))
        if owner is not None:  # before an answer of somebody else is recorded
            await core.off_loop(partial(check_owner, core, run_id, owner))
        if "answer" in given:
            answer = requests.answer(
                core, run_id, given["answer"], given.get("question"), by=given.get("by")
            )
            await core.drive_async(answer)
        rest = {name: value for name, value in given.items() if name in Resume.__annotations__}
        resume = cast("Resume", {**rest, "from_step": from_step})
        return await self._launcher.resume(core, run_id, self, resume, listening=listening)

    def _stream(
        self,
        place: OpenedCheckpointer,
        prepare: Callable[[Core], Awaitable[Prepared | Recorded]],
    ) -> Stream:
        stream = launch.stream(place, prepare)
        return stream if self._where is not None else stream.then(place.close)

    async def _execute(self, ready: Prepared | Recorded) -> PipelineResult:
        if isinstance(ready, Recorded):
            recorded: PipelineResult = ready.result
            return recorded
        result = await self._outcome(ready)
        result.saved = ready.run.saved
        return result

    async def _outcome(self, ready: Prepared) -> PipelineResult:
        run, program = ready.run, ready.run.program
        assert isinstance(program, PipelineProgram)
        try:
            result: PipelineResult = await launch.execute(ready)
        except RunPausedError:
            asked = await run.core.off_loop(partial(inbox.questions, run.core, run.run_id))
            return program.result_so_far("paused", asked)
        except EndedWithFailureError:
            return program.result_so_far("failed")
        return result


_UNSAVED: Final = "this pipeline does not save its runs: give it checkpointer= to resume them"


def _named(thread_id: str | None, options: NewPipelineRun, *, resume: bool = False) -> NewRun:
    """The options of a new run, which is a thread of its own unless it is in one."""
    given: dict[str, Any] = {**options, "thread_id": thread_id}
    if not resume:
        given["run_id"] = options.get("run_id") or new_id()
        given["thread_id"] = thread_id or given["run_id"]
    return cast("NewRun", given)
