"""The front door for graphs: run, stream, resume, replay."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.engine.blocking import block_on, blocking, check_options
from holdfast.engine.context import StepInfo, call_in_step, in_step
from holdfast.engine.door import Opened, StoreLike, opened
from holdfast.engine.options import Options, Strategy, Trust
from holdfast.engine.people import requests
from holdfast.engine.people.questions import Question
from holdfast.engine.program import is_async
from holdfast.engine.resume import launch
from holdfast.engine.resume.launch import Link
from holdfast.engine.resume.recovery import SILENT_SECONDS, recover
from holdfast.engine.resume.workers import refuse_living
from holdfast.engine.stream import Stream
from holdfast.engine.walking import time_travel
from holdfast.engine.walking.drawing import Arrow, mermaid
from holdfast.engine.walking.plan import END, Plan
from holdfast.engine.walking.states import revived, stored_form, updated
from holdfast.errors import RunFinishedError, RunIdRequiredError
from holdfast.graph.program import GraphProgram
from holdfast.graph.views import GraphCheckpoint
from holdfast.kernel.core import Core
from holdfast.model import Status
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


class CompiledGraph(Generic[S]):
    """A graph that can run. Many runs at once may use it."""

    def __init__(self, plan: Plan, verifier: EvidenceVerifier | None = None) -> None:
        self._plan = plan
        self._verifier = verifier

    @property
    def name(self) -> str:
        """The flow's name."""
        return self._plan.flow

    @property
    def version(self) -> str:
        """The flow's version."""
        return self._plan.version

    async def run(
        self,
        state: S,
        *,
        store: StoreLike = None,
        run_id: str | None = None,
        checkpoint_after: CheckpointStrategy = CheckpointStrategy.EVERY_NODE,
        checkpoint_failure_fatal: bool | None = None,
        timeout: float | None = None,
        thread_id: str | None = None,
        owner: str | None = None,
        resume: bool = False,
        trust: Trust = "verify",
        take_over: bool = False,
    ) -> S:
        """Run from the entry to END and return the final state.

        With a `store`, a checkpoint is saved after every node, and the run can be resumed under
        its `run_id`. When saving fails the run stops, unless `checkpoint_failure_fatal` is False.

        With `resume`, it is started if it does not exist, goes on if it does, and its recorded
        final state is returned if it is completed; `trust` and `take_over` are those of `resume`. The state must be
        the one that it began with; where the graph has a `migrate`, that is not compared.

        Raises `StepFailedError` with the state it failed in, `RunIdRequiredError`,
        `RunExistsError`, `InputMismatchError`; without a store, `StoreRequiredError` when people
        are asked.
        """
        return await self._run(
            state,
            store=store,
            run_id=run_id,
            checkpoint_after=checkpoint_after,
            checkpoint_failure_fatal=checkpoint_failure_fatal,
            timeout=timeout,
            thread_id=thread_id,
            owner=owner,
            resume=resume,
            trust=trust,
            take_over=take_over,
        )

    def run_sync(self, state: S, **options: Any) -> S:
        """`run`, with its arguments, for programs without an event loop.

        Sync nodes that run alone are called right here.
        """
        check_options(self.run, options)
        return block_on(lambda: self._run(state, blocking=True, **options), "app.run")

    def stream(
        self,
        state: S,
        *,
        store: StoreLike = None,
        run_id: str | None = None,
        checkpoint_after: CheckpointStrategy = CheckpointStrategy.EVERY_NODE,
        checkpoint_failure_fatal: bool | None = None,
        timeout: float | None = None,
        thread_id: str | None = None,
        owner: str | None = None,
    ) -> Stream:
        """Like `run`, but iterate over what is returned to carry it out and see its events."""
        options = self._options(checkpoint_after, checkpoint_failure_fatal, timeout, store)
        options = replace(options, listening=True)
        link = Link(thread_id, owner)
        place = _place(store, run_id)

        async def plan() -> launch.Plan:
            core = place.checkpointer.core
            name = run_id or new_id()
            make = self.program if store is not None else self._unkept
            return await launch.start(core, make, name, self._fitting(state), options, link)

        return launch.stream(plan, place.close)

    async def resume(
        self,
        run_id: str,
        *,
        store: StoreLike = None,
        from_node: str | None = None,
        after_node: str | None = None,
        override: Mapping[str, Any] | Callable[[S], S] | S | None = None,
        validate: Callable[[S], object] | None = None,
        replay: bool = False,
        checkpoint_after: CheckpointStrategy = CheckpointStrategy.EVERY_NODE,
        checkpoint_failure_fatal: bool | None = None,
        timeout: float | None = None,
        trust: Trust = "verify",
        take_over: bool = False,
    ) -> S:
        """Go on with a run where it stopped, and return the final state.

        What its nodes claimed about the world is checked first: it goes on from the newest
        checkpoint that still holds. `trust="stored"` believes what was found last, "skip" asks
        for nothing. Raises `VerificationError` where it can't be told, and `RunActiveError` if
        another process carries it out that is alive on this machine; with `take_over` it is taken
        from that one.

        `from_node` goes back to where that node last ran, and runs it again on the state it was
        given then; `after_node` goes on after it; `replay` runs the last node again. `override`
        changes the state first: fields, a function of it, or a whole one. `validate` is asked
        about the state before anything is run: it refuses by raising or returning False. Going
        back leaves the history as it is. A run that is over can be gone back in, not gone on with.
        """
        options = self._options(
            checkpoint_after, checkpoint_failure_fatal, timeout, store, trust, take_over
        )
        where = time_travel.Wanted(from_node, after_node, override, validate, replay)
        return await self._resume(run_id, store, options, where)

    def resume_sync(
        self,
        run_id: str,
        *,
        store: StoreLike = None,
        checkpoint_after: CheckpointStrategy = CheckpointStrategy.EVERY_NODE,
        checkpoint_failure_fatal: bool | None = None,
        timeout: float | None = None,
        trust: Trust = "verify",
        take_over: bool = False,
        **where: Any,
    ) -> S:
        """`resume`, with its arguments, for programs without an event loop."""
        check_options(self.resume, where)
        options = self._options(
            checkpoint_after, checkpoint_failure_fatal, timeout, store, trust, take_over
        )
        options = replace(options, blocking=True)
        wanted = time_travel.Wanted(**where)
        return block_on(lambda: self._resume(run_id, store, options, wanted), "app.resume")

    def resume_stream(
        self,
        run_id: str,
        *,
        store: StoreLike = None,
        checkpoint_after: CheckpointStrategy = CheckpointStrategy.EVERY_NODE,
        checkpoint_failure_fatal: bool | None = None,
        timeout: float | None = None,
        trust: Trust = "verify",
        take_over: bool = False,
        **where: Any,
    ) -> Stream:
        """Like `resume`, but iterate over what is returned to carry it out and see its events."""
        check_options(self.resume, where)
        options = self._options(
            checkpoint_after, checkpoint_failure_fatal, timeout, store, trust, take_over
        )
        options = replace(options, listening=True)
        place = _place(store, run_id)

        async def plan() -> launch.Plan:
            core = place.checkpointer.core
            await self._go_back(core, run_id, options, time_travel.Wanted(**where))
            return await launch.resume(core, self.program, run_id, None, options)

        return launch.stream(plan, place.close)

    async def replay(
        self, run_id: str, node: str, *, store: StoreLike = None, seq: int | None = None
    ) -> S:
        """Run one node again on the state it was given, the last time or the one saved at `seq`.

        Returns what it makes of it. Nothing is recorded, and the run stays as it is.
        """
        found = self._plan.nodes.get(node)
        if found is not None and found.question is not None:
            raise ValueError(f"{node!r} asks people: resume with from_node= to ask again")
        async with _kept(store, run_id) as core:
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
        async with _kept(store, run_id) as core:
            found = await core.off_loop(lambda: reading.list_checkpoints(core, run_id, limit=limit))
            return [GraphCheckpoint(info.entry) for info in found]

    async def cancel(self, run_id: str, *, store: StoreLike = None, reason: str = "") -> None:
        """Cancel a run, wherever it is carried out."""
        async with _kept(store, run_id) as core:
            await core.drive_async(requests.request(core, run_id, "cancel", reason))

    async def pause(self, run_id: str, *, store: StoreLike = None, reason: str = "") -> None:
        """Have a run stop after the nodes that are under way, to be resumed later."""
        async with _kept(store, run_id) as core:
            await core.drive_async(requests.request(core, run_id, "pause", reason))

    async def recover(
        self, *, store: StoreLike, silent: float = SILENT_SECONDS, at_once: int = 10
    ) -> dict[str, Any]:
        """Go on with every orphaned run of this graph, for example when a program starts.

        A run is orphaned when its worker is dead; that of another machine is taken to be after
        `silent` seconds without a record. Returns what each came to by its id: its final state,
        or the error it raised.
        """
        options = self._options(CheckpointStrategy.EVERY_NODE, None, None, store)
        async with _kept(store, "") as core:
            makes = {self.name: self.program}
            return await recover(core, makes, options, silent=silent, at_once=at_once)

    cancel_sync = blocking(cancel)
    pause_sync = blocking(pause)
    recover_sync = blocking(recover)

    def program(self) -> GraphProgram:
        """What the engine carries out: one for each attempt."""
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
        """What checks the claims of its nodes, if another than the usual one was given."""
        return self._verifier

    async def questions(self, run_id: str, *, store: StoreLike = None) -> list[Question]:
        """What a run waits for."""
        async with _kept(store, run_id) as core:
            return await core.off_loop(lambda: requests.questions(core, run_id))

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

        `by` says who answers, and is kept. Raises `QuestionError` where it was answered already,
        is for others or its deadline has passed, and `InvalidAnswerError`.
        """
        async with _kept(store, run_id) as core:
            await core.drive_async(requests.answer(core, run_id, value, question, by=by))

    questions_sync = blocking(questions)
    answer_sync = blocking(answer)

    def mermaid(self) -> str:
        """The graph as Mermaid text, which Markdown viewers draw."""
        plan = self._plan
        return mermaid(plan.entry, plan.nodes, [(END, "end")], _arrows(plan))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        text = self.mermaid()
        return {"text/vnd.mermaid": text, "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<graph {self.name!r} version {self.version}: {', '.join(self._plan.nodes)}>"

    # --- within

    def _options(
        self,
        after: CheckpointStrategy,
        fatal: bool | None,
        timeout: float | None,
        store: StoreLike,
        trust: Trust = "verify",
        take_over: bool = False,
    ) -> Options:
        return Options(
            strategy=Strategy(after), timeout=timeout, fatal=fatal, quiet=store is None,
            trust=trust, take_over=take_over, verifier=self._verifier,
        )  # fmt: skip

    def _fitting(self, state: S) -> S:
        """The state, if the graph can run on it. Raises `SerializeError` and `ReviveError`."""
        stored_form(state, self._plan.state)
        return state

    async def _run(
        self,
        state: S,
        *,
        store: StoreLike = None,
        run_id: str | None = None,
        checkpoint_after: CheckpointStrategy = CheckpointStrategy.EVERY_NODE,
        checkpoint_failure_fatal: bool | None = None,
        timeout: float | None = None,
        thread_id: str | None = None,
        owner: str | None = None,
        resume: bool = False,
        trust: Trust = "verify",
        take_over: bool = False,
        blocking: bool = False,
    ) -> S:
        options = self._options(
            checkpoint_after, checkpoint_failure_fatal, timeout, store, trust, take_over
        )
        options = replace(options, blocking=blocking)
        async with _kept(store, run_id) as core:
            name, fitting, link = run_id or new_id(), self._fitting(state), Link(thread_id, owner)
            if resume and await core.off_loop(lambda: reading.run(core, name)) is not None:
                return await self._go_on(core, name, fitting, options)
            make = self.program if store is not None else self._unkept
            plan = await launch.start(core, make, name, fitting, options, link)
            result: S = await launch.carry_out(plan)
            return result

    async def _go_on(self, core: Core, run_id: str, state: S, options: Options) -> S:
        began_with = None if self._plan.migrate else state
        try:
            plan = await launch.resume(core, self.program, run_id, began_with, options)
        except RunFinishedError as over:
            if over.status != Status.COMPLETED:
                raise
            recorded = partial(launch.outcome, core, self.program, run_id, began_with)
            final: S = await core.off_loop(recorded)
            return final
        result: S = await launch.carry_out(plan)
        return result

    def _unkept(self) -> GraphProgram:
        return GraphProgram(self._plan, kept=False)

    async def _resume(
        self, run_id: str, store: StoreLike, options: Options, where: time_travel.Wanted
    ) -> S:
        async with _kept(store, run_id) as core:
            await self._go_back(core, run_id, options, where)
            plan = await launch.resume(core, self.program, run_id, None, options)
            result: S = await launch.carry_out(plan)
            return result

    async def _go_back(
        self, core: Core, run_id: str, options: Options, wanted: time_travel.Wanted
    ) -> None:
        if all(part in (None, False) for part in wanted):
            return
        if not options.take_over:
            await core.off_loop(lambda: refuse_living(core, run_id))
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


@asynccontextmanager
async def _kept(store: StoreLike, run_id: str | None) -> AsyncIterator[Core]:
    """Where the run is kept: in the store, for as long as this lasts if it is ours to open."""
    place = _place(store, run_id)
    try:
        yield place.checkpointer.core
    finally:
        await place.close()


def _place(store: StoreLike, run_id: str | None) -> Opened:
    if store is not None and run_id is None:
        raise RunIdRequiredError()
    return opened("memory://" if store is None else store)
