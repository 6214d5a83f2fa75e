"""The front door for graphs: run, stream, resume, replay."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from holdfast.engine import launch
from holdfast.engine.blocking import blocking, check_options
from holdfast.engine.context import StepInfo, call_in_step, in_step
from holdfast.engine.door import (
    OpenedCheckpointer,
    RunOptions,
    Runs,
    StoreLike,
    open_checkpointer,
)
from holdfast.engine.functions import is_async
from holdfast.engine.launch import Link
from holdfast.engine.options import Options, Strategy
from holdfast.engine.people.questions import Question
from holdfast.engine.resume import takeover
from holdfast.engine.resume.holders import SILENT_SECONDS, refuse_if_held
from holdfast.engine.stream import Stream
from holdfast.engine.walking import time_travel
from holdfast.engine.walking.drawing import Arrow, mermaid
from holdfast.engine.walking.flow import WalkingFlow
from holdfast.engine.walking.plan import END, Plan
from holdfast.engine.walking.states import revived, stored_form, updated
from holdfast.errors import RunIdRequiredError
from holdfast.graph.graph_checkpoint import GraphCheckpoint
from holdfast.graph.graph_program import GraphProgram
from holdfast.kernel.core import Core
from holdfast.operations import reading
from holdfast.seams import new_id

if TYPE_CHECKING:
    from holdfast.evidence import EvidenceVerifier

S = TypeVar("S")


class CheckpointStrategy(StrEnum):
    """After which nodes a checkpoint is saved."""

    EVERY_NODE = Strategy.EVERY_STEP.value  # also after one that failed
    ON_SUCCESS = Strategy.ON_SUCCESS.value
    ON_ERROR = Strategy.ON_ERROR.value  # only when the run fails or pauses
    MARKED = Strategy.MARKED.value  # after nodes added with checkpoint=True


class GraphOptions(RunOptions, total=False):
    """Options of everything that executes a run of a graph.

    - `store`: a URL, path, `Store` or `Checkpointer`; without one the run is not saved.
    - `checkpoint_after`: which nodes are followed by a checkpoint, by default every node.
    - `checkpoint_failure_fatal`: False continues the run when a save fails.
    """

    store: StoreLike
    checkpoint_after: str
    checkpoint_failure_fatal: bool | None


class NewRun(GraphOptions, total=False):
    """Options of `run` and `stream`: what a new run is called, and to whom it belongs."""

    run_id: str | None
    thread_id: str | None
    owner: str | None


class ResumeOptions(GraphOptions, total=False):
    """Options of `resume`: where to continue, and with what state."""

    from_node: str | None
    after_node: str | None
    override: Any
    validate: Callable[[Any], object] | None
    replay: bool


class CompiledGraph(WalkingFlow, Generic[S]):
    """A graph that can run. Many runs at once may use it."""

    def __init__(self, plan: Plan, verifier: EvidenceVerifier | None = None) -> None:
        self._plan = plan
        self._verifier = verifier

    async def run(self, state: S, *, resume: bool = False, **options: Unpack[NewRun]) -> S:
        """Run from the entry to END and return the final state.

        With a `store`, a checkpoint is saved after every node, and the run can be resumed under
        its `run_id`. When saving fails the run stops, unless `checkpoint_failure_fatal` is False.

        With `resume`, the run is started if it does not exist and resumed if it does; a completed
        run's recorded final state is returned. The state must be the one that the run began with;
        it is not compared where the graph has a `migrate`.

        Raises `StepFailedError` with the state it failed in, `RunIdRequiredError`,
        `RunExistsError`, `InputMismatchError`; without a store, `StoreRequiredError` when people
        are asked. `run_sync` calls sync nodes that run alone in the caller's thread.
        """
        how = self._options("run", options, (*NewRun.__annotations__, "resume"))
        async with _open(options.get("store"), options.get("run_id")) as runs:
            fitting, make = self._fitting(state), self._maker(options)
            run_id, link = _new_run(options)
            final: S
            if resume and await runs.exists(run_id):
                began_with = None if self._plan.migrate else fitting
                final = await runs.run(make, run_id, began_with, how, None)
            else:
                final = await runs.run(make, run_id, fitting, how, link)
            return final

    run_sync = blocking(run)

    def stream(self, state: S, **options: Unpack[NewRun]) -> Stream:
        """Like `run`, but iterate over the returned stream to execute it and see its events."""
        how = self._options("stream", options, NewRun.__annotations__, listening=True)
        place = _place(options.get("store"), options.get("run_id"))
        run_id, link = _new_run(options)

        async def plan() -> launch.Prepared:
            core, make = place.checkpointer.core, self._maker(options)
            return await launch.start(core, make, run_id, self._fitting(state), how, link)

        return launch.stream(plan, place.close)

    async def resume(self, run_id: str, **options: Unpack[ResumeOptions]) -> S:
        """Resume a run where it stopped, and return the final state.

        What its nodes claimed about the world is checked first: the run resumes from the newest
        checkpoint that still verifies, unless `trust` says otherwise. Raises `VerificationError`
        where a check can't decide, and `RunActiveError` if another living process of this machine
        executes the run, unless `take_over`.

        `from_node` goes back to where that node last ran, and runs it again on the state it was
        given then; `after_node` continues after it; `replay` runs the last node again. `override`
        changes the state first: a dict of fields, a function of the state, or a whole state.
        `validate` sees the state before anything runs, and refuses it by raising or returning
        False. Going back keeps the history. A finished run can't be resumed, only gone back in.
        """
        how = self._options("resume", options, ResumeOptions.__annotations__)
        async with _open(options.get("store"), run_id) as runs:
            await self._go_back(runs.core, run_id, how, options)
            final: S = await runs.resume(self.program, run_id, how)
            return final

    resume_sync = blocking(resume)

    def resume_stream(self, run_id: str, **options: Unpack[ResumeOptions]) -> Stream:
        """Like `resume`, but iterate over the returned stream to execute it and see its events."""
        how = self._options("resume", options, ResumeOptions.__annotations__, listening=True)
        place = _place(options.get("store"), run_id)

        async def plan() -> launch.Prepared:
            core = place.checkpointer.core
            await self._go_back(core, run_id, how, options)
            return await launch.resume(core, self.program, run_id, None, how)

        return launch.stream(plan, place.close)

    async def replay(
        self, run_id: str, node: str, *, store: StoreLike = None, seq: int | None = None
    ) -> S:
        """Run one node again on the state it was given, the last time or the one saved at `seq`.

        Returns the new state. Nothing is recorded, and the run stays as it is.
        """
        found = self._plan.nodes.get(node)
        if found is not None and found.question is not None:
            raise ValueError(f"{node!r} asks people: resume with from_node= to ask again")
        async with _open(store, run_id) as runs:
            core = runs.core
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
        self, run_id: str, *, store: StoreLike = None, limit: int = 20
    ) -> list[GraphCheckpoint]:
        """The run's checkpoints, newest first, without their states."""
        async with _open(store, run_id) as runs:
            core = runs.core
            found = await core.off_loop(lambda: reading.list_checkpoints(core, run_id, limit=limit))
            return [GraphCheckpoint(info.entry) for info in found]

    async def cancel(self, run_id: str, *, store: StoreLike = None, reason: str = "") -> None:
        """Cancel a run, whichever process executes it."""
        async with _open(store, run_id) as runs:
            await runs.request(run_id, "cancel", reason)

    async def pause(self, run_id: str, *, store: StoreLike = None, reason: str = "") -> None:
        """Stop a run after the nodes that are under way, to be resumed later."""
        async with _open(store, run_id) as runs:
            await runs.request(run_id, "pause", reason)

    async def questions(self, run_id: str, *, store: StoreLike = None) -> list[Question]:
        """What a run waits for."""
        async with _open(store, run_id) as runs:
            return await runs.questions(run_id)

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
        async with _open(store, run_id) as runs:
            await runs.answer(run_id, value, question, by)

    async def recover(
        self, *, store: StoreLike, silent: float = SILENT_SECONDS, at_once: int = 10
    ) -> dict[str, Any]:
        """Resume every orphaned run of this graph, for example when a program starts.

        A run is orphaned when its holder is dead; a holder on another machine counts as dead
        after `silent` seconds without a record. Returns by run id the final state, or the error.
        """
        options = Options(verifier=self._verifier, quiet=store is None)
        async with _open(store, "") as runs:
            return await runs.recover({self.name: self.program}, options, silent, at_once)

    cancel_sync = blocking(cancel)
    pause_sync = blocking(pause)
    questions_sync = blocking(questions)
    answer_sync = blocking(answer)
    recover_sync = blocking(recover)

    def program(self) -> GraphProgram:
        """One execution of this graph, for the engine."""
        return GraphProgram(self._plan)

    def state_from(self, data: Any) -> S:
        """A state of this graph from plain data, such as JSON. Raises `ReviveError`."""
        state: S = revived(data, self._plan.state)
        return state

    @property
    def state_type(self) -> Any:
        """The type of the graph's states."""
        return self._plan.state

    @property
    def verifier(self) -> EvidenceVerifier | None:
        """What checks the claims of its nodes, if not the default verifier."""
        return self._verifier

    def mermaid(self) -> str:
        """The graph as Mermaid text, which Markdown viewers draw."""
        plan = self._plan
        return mermaid(plan.entry, plan.nodes, [(END, "end")], _arrows(plan))

    def _options(
        self, verb: str, given: GraphOptions, known: Iterable[str], *, listening: bool = False
    ) -> Options:
        check_options(verb, given, known)
        return Options(
            strategy=Strategy(given.get("checkpoint_after", Strategy.EVERY_STEP)),
            fatal=given.get("checkpoint_failure_fatal"),
            timeout=given.get("timeout"),
            trust=given.get("trust", "verify"),
            take_over=given.get("take_over", False),
            quiet=given.get("store") is None,
            verifier=self._verifier,
            listening=listening,
        )

    def _maker(self, options: GraphOptions) -> takeover.Make:
        return partial(GraphProgram, self._plan, kept=options.get("store") is not None)

    def _fitting(self, state: S) -> S:
        """The state, if the graph can run on it. Raises `SerializeError` and `ReviveError`."""
        stored_form(state, self._plan.state)
        return state

    async def _go_back(self, core: Core, run_id: str, how: Options, options: ResumeOptions) -> None:
        given: dict[str, Any] = {**options}
        fields = time_travel.Wanted._fields
        wanted = time_travel.Wanted(**{name: given[name] for name in fields if name in given})
        if wanted == time_travel.Wanted():
            return
        if not how.take_over:
            await core.off_loop(lambda: refuse_if_held(core, run_id))
        await core.drive_async(time_travel.go_back(core, self.program, self._plan, run_id, wanted))


def _arrows(plan: Plan) -> Iterator[Arrow]:
    for source, targets in plan.edges.items():
        yield from (Arrow(source, target) for target in targets)
    for source, route in plan.routes.items():
        if route.targets is None:
            yield Arrow(source, None, decided=True)
        for target in dict.fromkeys(route.targets or ()):
            words = [str(word) for word, node in (route.mapping or {}).items() if node == target]
            yield Arrow(source, target, ", ".join(words), decided=True)


def _new_run(options: NewRun) -> tuple[str, Link]:
    run_id = options.get("run_id")
    link = Link(options.get("thread_id"), options.get("owner"))
    return new_id() if run_id is None else run_id, link


@asynccontextmanager
async def _open(store: StoreLike, run_id: str | None) -> AsyncIterator[Runs]:
    """The runs of the store, which is closed at the end if it was opened here."""
    place = _place(store, run_id)
    try:
        yield Runs(place.checkpointer.core)
    finally:
        await place.close()


def _place(store: StoreLike, run_id: str | None) -> OpenedCheckpointer:
    if store is not None and run_id is None:
        raise RunIdRequiredError()
    return open_checkpointer("memory://" if store is None else store)
