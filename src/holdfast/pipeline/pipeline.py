"""The front door for pipelines: run, stream, resume."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict, Unpack

from holdfast.checkpoint import CheckpointInfo
from holdfast.checkpointer import Checkpointer, SyncCheckpointer
from holdfast.engine.blocking import block_on, check_options
from holdfast.engine.door import Opened, StoreLike, opened
from holdfast.engine.options import Options, Strategy, Trust
from holdfast.engine.people import requests
from holdfast.engine.resume import launch, takeover
from holdfast.engine.resume.history import History
from holdfast.engine.resume.launch import Link
from holdfast.engine.resume.recovery import SILENT_SECONDS, recover
from holdfast.engine.resume.workers import refuse_living
from holdfast.engine.stream import Stream
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
from holdfast.pipeline.findings import Findings
from holdfast.pipeline.plan import PipelinePlan
from holdfast.pipeline.program import PipelineProgram
from holdfast.pipeline.registry import Registry, ServiceRegistry, registry_of
from holdfast.pipeline.results import PipelineResult
from holdfast.pipeline.steps import HumanInputStep, Step
from holdfast.pipeline.threads import go_to, newest_run
from holdfast.seams import SYSTEM_CLOCK, Clock, new_id

if TYPE_CHECKING:
    from holdfast.evidence import EvidenceVerifier

Functions = Registry | Mapping[str, Callable[..., Any]]
Services = ServiceRegistry | Mapping[str, Any] | None


class _Nothing:
    """Stands for "no answer", where None is an answer like any other."""

    def __repr__(self) -> str:
        return "no answer"


NOTHING: Final = _Nothing()


class Settings(TypedDict, total=False):
    """What a program says about a pipeline that data describes: see `Pipeline`."""

    registry: Functions | None
    services: Services
    checkpointer: StoreLike
    migrate: Mapping[Any, Callable[[Any], Any] | None] | None
    rename: Mapping[str, str] | None
    verifier: EvidenceVerifier | None


class Resuming(TypedDict, total=False):
    """How a run is to go on: see `Pipeline.resume`."""

    run_id: str | None
    answer: Any
    question: str | None
    by: str | None
    from_step: str | None
    timeout: float | None
    trust: Trust
    take_over: bool


class Pipeline:
    """Steps, and the paths between them. Many runs at once may use it.

    A step is a `Step`, or a mapping with an `id` and a `function`. After a step its paths are
    tried in order, and the first whose condition holds is taken; a list in `to` runs its steps
    side by side, until their paths meet. With a `checkpointer` (a URL, path, `Store`,
    `Checkpointer` or view of one) every step is saved, and a run is resumed by its thread.

    `registry` holds the functions that steps and conditions may name. `version`, `migrate` and
    `rename` say what becomes of runs that are under way when you change it, as for graphs.
    `verifier` checks what the steps claim about the world, within its policy.
    Raises `InvalidFlowError` with all that is wrong.
    """

    def __init__(
        self,
        steps: Sequence[object],
        flow: Mapping[str, Any],
        services: Services = None,
        checkpointer: StoreLike = None,
        loop_config: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        registry: Functions | None = None,
        parameters: Mapping[str, Any] | None = None,
        version: str | int = "1",
        migrate: Mapping[Any, Callable[[Any], Any] | None] | None = None,
        rename: Mapping[str, str] | None = None,
        verifier: EvidenceVerifier | None = None,
    ) -> None:
        given = {
            "name": name or "pipeline",
            "version": version,
            "parameters": parameters or {},
            "steps": steps,
            "flow": flow,
            "loop_config": loop_config,
        }
        self._set_up(
            given, None, registry=registry, services=services, checkpointer=checkpointer,
            migrate=migrate, rename=rename, verifier=verifier,
        )  # fmt: skip

    @classmethod
    def from_dict(cls, definition: Mapping[str, Any], **settings: Unpack[Settings]) -> Pipeline:
        """The pipeline that data describes. It can name only what is in the `registry`."""
        pipeline = cls.__new__(cls)
        cls._set_up(pipeline, definition, None, **settings)
        return pipeline

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], **settings: Unpack[Settings]) -> Pipeline:
        """The pipeline that a `.json`, `.yaml` or `.yml` file describes.

        Raises `InvalidFlowError` that names the file and the lines, and `OSError`.
        """
        read = files.read(path)
        pipeline = cls.__new__(cls)
        cls._set_up(pipeline, read.data, read, **settings)
        return pipeline

    def _set_up(
        self,
        given: object,
        read: files.Read | None,
        *,
        registry: Functions | None = None,
        services: Services = None,
        checkpointer: StoreLike = None,
        migrate: Mapping[Any, Callable[[Any], Any] | None] | None = None,
        rename: Mapping[str, str] | None = None,
        verifier: EvidenceVerifier | None = None,
    ) -> None:
        self._registry = registry_of(registry)
        findings = Findings()
        plan = None
        title, place = "the pipeline", None
        if read is not None:
            title, place = read.path, read.place
        if isinstance(given, Mapping):
            if read is None and isinstance(given.get("name"), str):
                title = f"pipeline {given['name']!r}"
            plan = plan_of(given, self._registry, findings, migrate=migrate, rename=rename)
        else:
            findings.is_a(Mapping, given, (), "a mapping with steps and a flow")
        if plan is not None:
            _serve(plan, services, findings)
        findings.settle(title, place)
        assert plan is not None
        self._plan: PipelinePlan = plan
        self._where = checkpointer
        self._keeper: Opened | None = None
        marks = [step.checkpoint for step in plan.steps.values()]
        strategy = Strategy.EVERY_STEP if all(marks) else Strategy.MARKED
        self._options = Options(strategy=strategy, quiet=checkpointer is None, verifier=verifier)

    # --- looking

    @property
    def name(self) -> str:
        """The flow's name."""
        return self._plan.flow

    @property
    def version(self) -> str:
        """The flow's version."""
        return self._plan.version

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

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/vnd.mermaid": self.mermaid(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<pipeline {self.name!r} version {self.version}: {', '.join(self._plan.steps)}>"

    # --- running

    async def run(
        self,
        data: Any = None,
        thread_id: str | None = None,
        *,
        owner: str | None = None,
        timeout: float | None = None,
        resume: bool = False,
    ) -> PipelineResult:
        """Start a run and carry it out to its end, or to where it waits for a person.

        A thread holds successive runs. Without a `thread_id` the run is a thread of its own,
        named by its `run_id`. Raises `StepFailedError` with the state it failed in; `resume`
        goes on. Without a checkpointer nothing is kept.

        With `resume=True` the thread's newest run is gone on with if it is not finished, and if
        it is, its result is given; only where there is none is one started. That run must have
        begun with the same data, or data be left out. Raises `InputMismatchError`.
        """
        options = replace(self._options, timeout=timeout)
        return await self._run(data, thread_id, owner, resume, options)

    def run_sync(
        self,
        data: Any = None,
        thread_id: str | None = None,
        *,
        owner: str | None = None,
        timeout: float | None = None,
        resume: bool = False,
    ) -> PipelineResult:
        """`run`, for programs without an event loop. Sync steps that run alone are called here."""
        options = replace(self._options, timeout=timeout, blocking=True)
        return block_on(lambda: self._run(data, thread_id, owner, resume, options), "pipeline.run")

    def stream(
        self,
        data: Any = None,
        thread_id: str | None = None,
        *,
        owner: str | None = None,
        timeout: float | None = None,
    ) -> Stream:
        """Like `run`, but iterate over what is returned to carry it out and see its events."""
        options = replace(self._options, timeout=timeout, listening=True)
        place = self._place()

        async def plan() -> launch.Plan:
            return await self._start(place.checkpointer.core, data, thread_id, owner, options)

        return launch.stream(plan, self._releasing(place))

    async def resume(
        self,
        thread_id: str | None = None,
        *,
        run_id: str | None = None,
        answer: Any = NOTHING,
        question: str | None = None,
        by: str | None = None,
        from_step: str | None = None,
        timeout: float | None = None,
        trust: Trust = "verify",
        take_over: bool = False,
    ) -> PipelineResult:
        """Go on with the thread's newest run where it stopped, or with the run of this id.

        `answer` is given to the person's step that it waits for, or to the `question` of that
        key where there are several; `by` says who gives it, and is kept. Without one, a run that
        still waits is returned as it is.
        What its steps claimed about the world is checked first: it goes on from the newest
        checkpoint that still holds. `trust="stored"` believes what was found last, "skip" asks
        for nothing. `from_step` goes on with another step: back to one that has run, with the state before
        it, or forward with the newest state. Raises `CheckpointNotFoundError`,
        `RunFinishedError`, `FlowChangedError`, `QuestionError`, `VerificationError`, and what
        `run` raises; `RunActiveError` if another process carries it out that is alive on this
        machine, unless `take_over`.
        """
        return await self._resume(
            thread_id, run_id=run_id, answer=answer, question=question, by=by,
            from_step=from_step, timeout=timeout, trust=trust, take_over=take_over,
        )  # fmt: skip

    def resume_sync(self, thread_id: str | None = None, **how: Unpack[Resuming]) -> PipelineResult:
        """`resume`, with its arguments, for programs without an event loop."""
        check_options(self.resume, how)
        return block_on(lambda: self._resume(thread_id, blocking=True, **how), "pipeline.resume")

    def resume_stream(self, thread_id: str | None = None, **how: Unpack[Resuming]) -> Stream:
        """Like `resume`, but iterate over what is returned to carry it out and see its events."""
        check_options(self.resume, how)
        place = self._kept()
        return launch.stream(
            lambda: self._take_up(thread_id, listening=True, **how), self._releasing(place)
        )

    async def resume_from_checkpoint(
        self, checkpoint: CheckpointInfo, *, timeout: float | None = None
    ) -> PipelineResult:
        """Fork the run at a checkpoint and carry the fork out, as the newest run of the thread.

        The run that the checkpoint belongs to stays as it is. Raises `CheckpointNotFoundError`,
        and what `run` raises.
        """
        core, options = self._kept().checkpointer.core, replace(self._options, timeout=timeout)
        run_id, origin, make = new_id(), checkpoint.run_id, self._maker(core)

        def check() -> None:
            takeover.check_flow(make(), History(core, origin, whole=False))

        await core.off_loop(check)  # before there is a fork that nobody could carry out
        await core.drive_async(saving.fork(core, origin, seq=checkpoint.seq, run_id=run_id))
        return await self._carry_out(await launch.resume(core, make, run_id, None, options))

    async def pause(self, thread_id: str, reason: str = "") -> None:
        """Have the thread's newest run stop after the steps that are under way."""
        await self._request("pause", thread_id, reason)

    async def cancel(self, thread_id: str, reason: str = "") -> None:
        """Cancel the thread's newest run, wherever it is carried out."""
        await self._request("cancel", thread_id, reason)

    async def recover(self, *, silent: float = SILENT_SECONDS, at_once: int = 10) -> dict[str, Any]:
        """Go on with every orphaned run of this pipeline, for example when a program starts.

        A run is orphaned when its worker is dead; that of another machine is taken to be after
        `silent` seconds without a record. Returns what each came to by its id: its final state,
        or the error it raised.
        """
        core = self._kept().checkpointer.core
        makes = {self.name: self._maker(core)}
        return await recover(core, makes, self._options, silent=silent, at_once=at_once)

    def program(self, clock: Clock = SYSTEM_CLOCK) -> PipelineProgram:
        """What the engine carries out: one for each attempt."""
        return PipelineProgram(self._plan, clock)

    def state_from(self, data: Any) -> dict[str, Any]:
        """What a run begins with, from the pipeline's input."""
        return {"pipeline_input": data, "steps": {}}

    @property
    def verifier(self) -> EvidenceVerifier | None:
        """What checks the claims of its steps, if another than the usual one was given."""
        return self._options.verifier

    @property
    def kept_in(self) -> StoreLike:
        """Where its runs are kept, as it was given; None if they are not."""
        return self._where

    @property
    def checkpointer(self) -> Checkpointer | SyncCheckpointer:
        """What the runs are kept with. Raises `ValueError` where there is none."""
        return self._kept().checkpointer

    async def close(self) -> None:
        """Make everything durable and release what the pipeline opened. Twice is fine."""
        if self._keeper is not None:
            await self._keeper.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # --- within

    def _maker(self, core: Core) -> takeover.Make:
        return lambda: self.program(core.journals.clock)

    def _kept(self) -> Opened:
        if self._where is None:
            raise ValueError(
                "nothing is kept of this pipeline's runs: give it a checkpointer to resume them"
            )
        if self._keeper is None:
            self._keeper = opened(self._where)
        return self._keeper

    def _place(self) -> Opened:
        """Where a run is kept: with the checkpointer, or in memory until it is over."""
        if self._where is not None:
            return self._kept()
        for step in self._plan.steps.values():
            if isinstance(step, HumanInputStep):
                raise ValueError(
                    f"step {step.id!r} waits for a person, and without a checkpointer the answer "
                    "would not find the run again: give the pipeline checkpointer="
                )
        return opened("memory://")

    def _releasing(self, place: Opened) -> Callable[[], Any]:
        async def release() -> None:
            if place is not self._keeper:
                await place.close()

        return release

    async def _run(
        self,
        data: Any,
        thread_id: str | None,
        owner: str | None,
        resume: bool,
        options: Options,
    ) -> PipelineResult:
        if resume:
            known = await self._known(data, thread_id, options)
            if known is not None:
                return known
        place = self._place()
        try:
            core = place.checkpointer.core
            plan = await self._start(core, data, thread_id, owner, options)
            return await self._carry_out(plan)
        finally:
            await self._releasing(place)()

    async def _known(
        self, data: Any, thread_id: str | None, options: Options
    ) -> PipelineResult | None:
        """What the newest run of a thread comes to, or came to; None if there is none."""
        if thread_id is None:
            raise ValueError("resume=True goes on with a thread: give a thread_id")
        core = self._kept().checkpointer.core
        try:
            run_id = await core.off_loop(lambda: newest_run(core, thread_id, self.name))
        except CheckpointNotFoundError:  # or the newest was never begun
            return None
        make, inputs = self._maker(core), None if data is None else self.state_from(data)
        try:
            plan = await launch.resume(core, make, run_id, inputs, options)
        except RunFinishedError as finished:
            if finished.status != Status.COMPLETED:
                raise
        else:
            return await self._carry_out(plan)
        program = self.program(core.journals.clock)
        state = await core.off_loop(lambda: launch.outcome(core, lambda: program, run_id, inputs))
        return PipelineResult(
            state["steps"], run_id=run_id, status="completed", output=program.output
        )

    async def _start(
        self, core: Core, data: Any, thread_id: str | None, owner: str | None, options: Options
    ) -> launch.Plan:
        if thread_id is not None:
            check_id("thread_id", thread_id)
        run_id = new_id()
        inputs, link = self.state_from(data), Link(thread_id or run_id, owner)
        return await launch.start(core, self._maker(core), run_id, inputs, options, link)

    async def _resume(
        self, thread_id: str | None, *, blocking: bool = False, **how: Unpack[Resuming]
    ) -> PipelineResult:
        return await self._carry_out(await self._take_up(thread_id, blocking=blocking, **how))

    async def _take_up(
        self,
        thread_id: str | None,
        *,
        run_id: str | None = None,
        answer: Any = NOTHING,
        question: str | None = None,
        by: str | None = None,
        from_step: str | None = None,
        **options: Any,
    ) -> launch.Plan:
        core = self._kept().checkpointer.core
        if run_id is None:
            if thread_id is None:
                raise ValueError("give the thread_id, or the run_id of one of its runs")
            thread = thread_id
            run_id = await core.off_loop(lambda: newest_run(core, thread, self.name))
        elif thread_id is not None:
            raise ValueError("give either a thread_id or a run_id")
        if answer is not NOTHING:
            await core.drive_async(requests.answer(core, run_id, answer, question, by=by))
        make = self._maker(core)
        if from_step is not None:
            if not options.get("take_over"):
                await core.off_loop(lambda: refuse_living(core, run_id))
            await core.drive_async(go_to(core, make, self._plan, run_id, from_step))
        return await launch.resume(core, make, run_id, None, replace(self._options, **options))

    async def _carry_out(self, plan: launch.Plan) -> PipelineResult:
        run, program = plan.run, plan.run.program
        assert isinstance(program, PipelineProgram)
        try:
            state = await launch.carry_out(plan)
        except RunPausedError as paused:
            core = run.core
            asked = await core.off_loop(lambda: requests.questions(core, run.run_id))
            steps = program.state["steps"]
            return PipelineResult(
                steps, run_id=paused.run_id, status="paused", output=program.output, questions=asked
            )
        except EndedWithFailureError:
            steps, output = program.state["steps"], program.output
            return PipelineResult(steps, run_id=run.run_id, status="failed", output=output)
        return PipelineResult(
            state["steps"], run_id=run.run_id, status="completed", output=program.output
        )

    async def _request(self, action: str, thread_id: str, reason: str) -> None:
        core = self._kept().checkpointer.core
        run_id = await core.off_loop(lambda: newest_run(core, thread_id, self.name))
        await core.drive_async(requests.request(core, run_id, action, reason))


def _serve(plan: PipelinePlan, services: Services, findings: Findings) -> None:
    """Let the steps use the services; a step belongs to one set of them."""
    registry = services if isinstance(services, ServiceRegistry) else ServiceRegistry(services)
    for index, step in enumerate(plan.steps.values()):
        taken = getattr(step, "services", registry)
        if services is not None and taken != registry:
            findings.say(("steps", index), f"{step.id!r} is a step with other services already")
        step.services = taken
