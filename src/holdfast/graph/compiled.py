"""The front door for graphs: a call of one, and its own run, stream, resume and replay."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import copy
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack, cast

from holdfast.engine.blocking import blocking, check_options
from holdfast.engine.context import StepInfo, call_in_step, in_step
from holdfast.engine.door import StoreLike, shared_checkpointer
from holdfast.engine.effects import CALL, Call, mark
from holdfast.engine.engine import Engine
from holdfast.engine.flow import Wanted
from holdfast.engine.functions import is_async
from holdfast.engine.options import NewRun, Resume, RunOptions, Strategy
from holdfast.engine.people.questions import Question
from holdfast.engine.signatures import shows
from holdfast.engine.stream import Stream
from holdfast.engine.walking import time_travel
from holdfast.engine.walking.drawing import Arrow, Picture
from holdfast.engine.walking.flow import WalkingFlow
from holdfast.engine.walking.plan import END, Plan
from holdfast.engine.walking.states import revived, stored_form, updated
from holdfast.errors import RunIdRequiredError, SerializeError
from holdfast.graph.graph_checkpoint import GraphCheckpoint
from holdfast.graph.graph_program import GraphProgram
from holdfast.kernel.core import Core, Op
from holdfast.operations import reading
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.evidence import EvidenceVerifier

S = TypeVar("S")


class CheckpointStrategy(StrEnum):
    """After which nodes a checkpoint is saved."""

    EVERY_NODE = Strategy.EVERY_STEP.value  # also after one that failed
    ON_SUCCESS = Strategy.ON_SUCCESS.value
    ON_ERROR = Strategy.ON_ERROR.value  # only when the run fails or pauses
    MARKED = Strategy.MARKED.value  # after nodes added with checkpoint=True


class NewGraphRun(NewRun, total=False):
    """Options of a graph's own `run` and `stream`.

    - `store`: a URL, path, `Store` or `Checkpointer`; without one the run is not saved.
    - `checkpoint_failure_fatal`: False continues the run when a save fails.
    """

    store: StoreLike
    checkpoint_failure_fatal: bool | None


_OPTIONS: Final = (*NewGraphRun.__annotations__, "resume")


class ResumeGraph(RunOptions, total=False):
    """Options of a graph's own `resume`: where to continue, with what state, and for whom.

    With `owner`, a run that belongs to anybody else raises `NotOwnerError`.
    """

    store: StoreLike
    checkpoint_failure_fatal: bool | None
    from_node: str | None
    after_node: str | None
    override: Any
    validate: Callable[[Any], object] | None
    replay: bool
    owner: str | None


class CompiledGraph(WalkingFlow[S], Generic[S]):
    """A graph that can run: `engine.run(app(state))`. Many runs at once may use it.

    Its own `run`, `resume` and so on do the same with an engine of their own, on the `store` that
    they are given.
    """

    def __init__(self, plan: Plan, verifier: EvidenceVerifier | None = None) -> None:
        self._plan = plan
        self._verifier = verifier
        self._kept = True

    def __call__(self, state: S) -> Call[S]:
        """What to run: `engine.run(app(state))`. Awaited in a workflow, it is a child run.

        Raises `ReviveError` for a state that the graph can't run on.
        """
        with suppress(SerializeError):  # an engine with a store refuses it
            stored_form(state, self._plan.state)
        return Call(self, state, mark(CALL, self.name))

    @shows(NewGraphRun, wait=False)
    async def run(self, state: S, *, resume: bool = False, **options: Unpack[NewGraphRun]) -> S:
        """Run from the entry to END and return the final state.

        With a `store`, a checkpoint is saved after every node, and the run can be resumed under
        its `run_id`. When saving fails the run stops, unless `checkpoint_failure_fatal` is False.

        With `resume`, the run is started if it does not exist and resumed if it does; a completed
        run's recorded final state is returned. The state must be the one that the run began with,
        migrated if an older version of the graph began it.

        Raises `StepFailedError` with the state it failed in, `RunIdRequiredError`,
        `RunExistsError`, `InputMismatchError`; without a store, `StoreRequiredError` when people
        are asked. `run_sync` calls sync nodes that run alone in the caller's thread.
        """
        check_options("run", options, _OPTIONS)
        async with _opened(options) as engine:
            flow = self._unless_kept(options)
            # The opening of a new run checks the state; one that is resumed need not have it.
            call = flow(state) if resume else Call(flow, state, mark(CALL, self.name))
            return await engine.run(call, resume=resume, **_new_run(options))

    run_sync = blocking(run)

    @shows(NewGraphRun, wait=False)
    def stream(self, state: S, **options: Unpack[NewGraphRun]) -> Stream:
        """Like `run`, but iterate over the returned stream to execute it and see its events."""
        check_options("stream", options, NewGraphRun.__annotations__)
        engine = _opened(options)
        stream = engine.stream(self._unless_kept(options)(state), **_new_run(options))
        return stream.then(engine.close)

    @shows(ResumeGraph, wait=False)
    async def resume(self, run_id: str, **options: Unpack[ResumeGraph]) -> S:
        """Resume a run where it stopped, and return the final state.

        What its nodes claimed about the world is checked first: the run resumes from the newest
        checkpoint that still verifies, unless `trust` says otherwise. Raises `VerificationError`
        where a check can't decide, and `RunActiveError` if another living process executes the
        run, unless `take_over`.

        `from_node` goes back to where that node last ran, and runs it again on the state it was
        given then; `after_node` continues after it; `replay` runs the last node again. `override`
        changes the state first: a dict of fields, a function of the state, or a whole state.
        `validate` sees the state before anything runs, and refuses it by raising or returning
        False. Going back keeps the history. A finished run can't be resumed, only gone back in.
        """
        check_options("resume", options, ResumeGraph.__annotations__)
        async with _opened({**options, "run_id": run_id}) as engine:
            return await engine.resume(run_id, flow=self, **_resume(options))

    resume_sync = blocking(resume)

    @shows(ResumeGraph, wait=False)
    def resume_stream(self, run_id: str, **options: Unpack[ResumeGraph]) -> Stream:
        """Like `resume`, but iterate over the returned stream to execute it and see its events."""
        check_options("resume_stream", options, ResumeGraph.__annotations__)
        engine = _opened({**options, "run_id": run_id})
        stream = engine.resume_stream(run_id, flow=self, **_resume(options))
        return stream.then(engine.close)

    async def replay(
        self, run_id: str, node: str, *, store: StoreLike = None, seq: int | None = None
    ) -> S:
        """Run one node again on the state it was given, the last time or the one saved at `seq`.

        Returns the new state. Nothing is recorded, and the run stays as it is.
        """
        found = self._plan.nodes.get(node)
        if found is not None and found.question is not None:
            raise ValueError(f"{node!r} asks people: resume with from_node= to ask again")
        async with _opened({"store": store, "run_id": run_id}) as engine:
            core = engine.checkpointer.core
            before = await core.off_loop(
                lambda: time_travel.input_of(core, self.program, self._plan, run_id, node, seq)
            )
        kind, fn = self._plan.state, self._plan.nodes[node].fn
        state = revived(before.value(), kind)
        info = StepInfo(run_id, node, node, 1, flow=self.name)
        call = partial(call_in_step, info, fn, state)
        returned = call() if is_async(fn) else await asyncio.to_thread(call)
        if inspect.isawaitable(returned):
            with in_step(info):
                returned = await returned
        result: S = stored_form(updated(kind, state, returned), kind)
        return result

    async def checkpoints(
        self,
        run_id: str,
        *,
        store: StoreLike = None,
        limit: int | None = None,
        oldest_first: bool = False,
    ) -> list[GraphCheckpoint]:
        """The run's checkpoints without their states: all, or at most `limit`.

        Newest first, unless `oldest_first`.
        """
        async with _opened({"store": store, "run_id": run_id}) as engine:
            core = engine.checkpointer.core
            found = await core.off_loop(
                lambda: reading.list_checkpoints(
                    core, run_id, limit=limit, oldest_first=oldest_first
                )
            )
            return [GraphCheckpoint(info.entry) for info in found]

    async def cancel(self, run_id: str, *, store: StoreLike = None, reason: str = "") -> None:
        """Cancel a run, whichever process executes it."""
        async with _opened({"store": store, "run_id": run_id}) as engine:
            await engine.cancel(run_id, reason)

    async def pause(self, run_id: str, *, store: StoreLike = None, reason: str = "") -> None:
        """Stop a run after the nodes that are under way, to be resumed later."""
        async with _opened({"store": store, "run_id": run_id}) as engine:
            await engine.pause(run_id, reason)

    async def questions(self, run_id: str, *, store: StoreLike = None) -> list[Question]:
        """What a run waits for."""
        async with _opened({"store": store, "run_id": run_id}) as engine:
            return [question async for question in engine.questions(run_id)]

    async def answer(
        self,
        run_id: str,
        value: object,
        *,
        store: StoreLike = None,
        question: str | None = None,
        by: str | None = None,
    ) -> None:
        """Answer a run's open question, by name where it has several; then resume it.

        `by` says who answers, and is recorded. Raises `QuestionError` if it was answered already,
        is for others or its deadline has passed, and `InvalidAnswerError`.
        """
        async with _opened({"store": store, "run_id": run_id}) as engine:
            await engine.answer(run_id, value, question=question, by=by)

    async def recover(
        self, *, store: StoreLike, wait: bool = True, at_once: int = 10
    ) -> dict[str, Any]:
        """Resume every orphaned run of this graph, for example when a program starts.

        A run is orphaned when the process that executed it is dead or has left it; see
        `Engine.recover`. Returns by run id the final state, or the error.
        """
        async with Engine(store, flows=[self]) as engine:
            return await engine.recover(wait=wait, at_once=at_once)

    cancel_sync = blocking(cancel)
    pause_sync = blocking(pause)
    questions_sync = blocking(questions)
    answer_sync = blocking(answer)
    recover_sync = blocking(recover)

    def program(self) -> GraphProgram:
        """One execution of this graph, for the engine."""
        return GraphProgram(self._plan, kept=self._kept)

    def inputs_from(self, data: Any) -> S:
        """A state of this graph from plain data, such as JSON. Raises `ReviveError`."""
        state: S = revived(data, self._plan.state)
        return state

    def unpack(self, recorded: Any) -> S:
        """A recorded final state, as a state of this graph."""
        return self.inputs_from(recorded)

    def go_back(
        self, core: Core, run_id: str, wanted: Wanted, *, take_over: bool = False
    ) -> Op[None]:
        """Go back to before or after a node, or change the state."""
        go_back = partial(time_travel.go_back, core, self.program, self._plan)
        return go_back(run_id, wanted, take_over=take_over)

    @property
    def state_type(self) -> Any:
        """The type of the graph's states."""
        return self._plan.state

    @property
    def verifier(self) -> EvidenceVerifier | None:
        """What checks the claims of its nodes, if not the default verifier."""
        return self._verifier

    def _unless_kept(self, options: NewGraphRun) -> CompiledGraph[S]:
        """The graph for a run that nobody could answer, because it is not saved."""
        if options.get("store") is not None:
            return self
        unkept = copy(self)
        unkept._kept = False  # noqa: SLF001 - our own copy
        return unkept

    def _picture(self) -> Picture:
        plan = self._plan
        return Picture(plan.entry, plan.nodes, [(END, "end")], _arrows(plan))


def _arrows(plan: Plan) -> Iterator[Arrow]:
    for source, targets in plan.edges.items():
        yield from (Arrow(source, target) for target in targets)
    for source, route in plan.routes.items():
        if route.targets is None:
            yield Arrow(source, None, decided=True)
        for target in dict.fromkeys(route.targets or ()):
            words = [str(word) for word, node in (route.mapping or {}).items() if node == target]
            yield Arrow(source, target, ", ".join(words), decided=True)


def _new_run(options: NewGraphRun) -> NewRun:
    named: dict[str, Any] = {"wait": False, **options, **_on_failure(options)}
    for name in ("store", "checkpoint_failure_fatal"):  # those that an engine does not have
        named.pop(name, None)
    return cast("NewRun", named)


def _resume(options: ResumeGraph) -> Resume:
    ours = {"from_node": "from_step", "after_node": "after_step"}
    named = {ours.get(name, name): value for name, value in options.items()}
    named = {name: value for name, value in named.items() if name in Resume.__annotations__}
    return cast("Resume", {**named, **_on_failure(options)})


def _on_failure(options: NewGraphRun | ResumeGraph) -> dict[str, Any]:
    fatal = options.get("checkpoint_failure_fatal")
    return {} if fatal is None else {"on_save_failure": "raise" if fatal else "warn"}


def _opened(options: Any) -> Engine:
    store = options.get("store")
    if store is not None and options.get("run_id") is None:
        raise RunIdRequiredError()
    if isinstance(store, Store):
        store = shared_checkpointer(store)
    return Engine(False if store is None else store)
