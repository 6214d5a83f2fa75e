"""From a call, or the id of a run, to a run that is ready to be executed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from logging import INFO, WARNING
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.codec.meta import Meta
from holdfast.engine import launch
from holdfast.engine.blocking import check_options, has_loop_to_itself
from holdfast.engine.context import CURRENT_STEP, StepInfo
from holdfast.engine.effects import Call, Effect
from holdfast.engine.executors import Executors
from holdfast.engine.flow import Flow, Registry, Wanted, as_flow
from holdfast.engine.holding.here import running_here
from holdfast.engine.holding.observing import look_again_within, refuse_if_held
from holdfast.engine.holding.slots import DEAD_AFTER
from holdfast.engine.launch import Prepared, Recorded
from holdfast.engine.opening import Link
from holdfast.engine.options import USUAL, NewRun, Options, Resume, RunNames, RunOptions, Strategy
from holdfast.engine.resume.stops import pause_requested
from holdfast.engine.run.loop import Run
from holdfast.engine.threads import look_at
from holdfast.engine.timers import Sleep
from holdfast.errors import (
    CheckpointNotFoundError,
    NotOwnerError,
    RunActiveError,
    RunExistsError,
    RunFinishedError,
)
from holdfast.kernel.core import Core
from holdfast.kernel.pages import pass_by
from holdfast.logs import about, logger
from holdfast.model import Status, check_id
from holdfast.operations import listing
from holdfast.seams import new_id

if TYPE_CHECKING:
    from holdfast.evidence import EvidenceVerifier

log = logger()

_FIRST_LOOK: Final = 0.02  # seconds, until a run that another process executes is looked at again
_LONGEST: Final = 1.0
_TELL_AFTER: Final = 2.0
_OPTIONS: Final = (*NewRun.__annotations__, "resume")
_SAME: Final = ("trust", "take_over", "wait", "timeout", "durability", "strict", "ask_workers")


class Launcher:
    """Starts and resumes runs, with the flows, defaults and verifier of one engine."""

    def __init__(
        self,
        flows: Registry,
        defaults: RunOptions,
        verifier: EvidenceVerifier | None,
        *,
        keeps: bool,
        executors: Executors,
        dead_after: float = DEAD_AFTER,
    ) -> None:
        self.flows = flows
        self._defaults = defaults
        self._verifier = verifier
        self._keeps = keeps  # the runs outlive the engine
        self._executors = executors
        self.dead_after = dead_after
        if defaults or dead_after != DEAD_AFTER:
            self.options(None, {})  # raises for defaults that no run could have

    def options(
        self, flow: Flow[Any] | None, given: RunOptions, *, listening: bool = False
    ) -> Options:
        """How a run of this flow is executed."""
        usual = Strategy.EVERY_STEP if flow is None else flow.strategy
        said: dict[str, Any] = {**self._defaults, **given}
        after, failing = said.get("checkpoint_after"), said.get("on_save_failure")
        if failing not in (None, "raise", "warn"):
            raise ValueError(f"on_save_failure must be 'raise' or 'warn', not {failing!r}")
        return USUAL.but(
            **{name: said[name] for name in _SAME if name in said},
            strategy=usual if after is None else Strategy(after),
            fatal=None if failing is None else failing == "raise",
            verifier=(None if flow is None else flow.verifier) or self._verifier,
            quiet=not self._keeps,
            dead_after=self.dead_after,
            executors=self._executors,
            listening=listening,
            blocking=not listening and has_loop_to_itself(),
        )

    async def begin(
        self,
        core: Core,
        call: Call[Any],
        given: NewRun,
        *,
        resume: bool = False,
        listening: bool = False,
        make_run: Callable[..., Run] = Run,
    ) -> Prepared | Recorded:
        """Start the run of a call; with `resume`, resume the run that is meant if there is one."""
        flow = call.flow
        self.flows.add(flow)
        how = self.options(flow, given, listening=listening)
        run_id = given.get("run_id")
        link = _link(call, given)
        if resume and run_id is None:
            return await self._in_thread(core, call, how, link, make_run)
        name = new_id() if run_id is None else run_id
        while True:
            if resume and await core.off_loop(partial(listing.run, core, name)) is not None:
                await self._check_owner(core, name, link)
                return await self._resumed(core, flow, name, call.inputs, how, make_run)
            try:
                return await launch.start(
                    core, flow.program, name, call.inputs, how, link, make_run
                )
            except RunExistsError:
                if not resume:
                    raise  # otherwise someone else has just opened it: resume it, or wait for it

    async def submit(
        self, core: Core, call: Call[Any], given: RunNames, first: Sleep
    ) -> tuple[str, bool]:
        """Open the run of a call for a worker, to be executed after a pause.

        Returns its id, and whether it is new.
        """
        self.flows.add(call.flow)
        how, run_id = self.options(call.flow, {}), given.get("run_id")
        run_id = new_id() if run_id is None else run_id
        due = first.wakes_at(core.journals.clock.now())
        make, link = call.flow.program, _link(call, given)
        return run_id, await launch.submit(core, make, run_id, call.inputs, how, link, due)

    async def resume(
        self,
        core: Core,
        run_id: str,
        flow: Flow[Any] | None,
        given: Resume,
        *,
        listening: bool = False,
        in_worker: bool = False,
        heeds_pause: bool = False,
    ) -> Prepared | Recorded:
        """Resume a run, from another point or with another state if wanted."""
        if isinstance(run_id, Call):
            run_id.use()
            raise TypeError(
                "resume takes the id of a run; with a call, engine.run(call, run_id=..., "
                "resume=True) starts or resumes it"
            )
        check_id("run_id", run_id)
        owner = given.get("owner") or core.journals.owner
        if owner is not None:
            await core.off_loop(partial(check_owner, core, run_id, owner))
        if flow is None:
            flow = await self.flow_of(core, run_id)
        else:
            self.flows.add(as_flow(flow))
        said: dict[str, Any] = {"wait": False, **self._defaults, **given}
        how = self.options(flow, cast("RunOptions", said), listening=listening)
        how = how.but(in_worker=in_worker, heeds_pause=heeds_pause or in_worker)
        wanted = Wanted(**{name: said[name] for name in Wanted._fields if name in said})
        if wanted != Wanted():
            wanted.check()
            await core.drive_async(flow.go_back(core, run_id, wanted, take_over=how.take_over))
        return await self._resumed(core, flow, run_id, None, how, Run)

    async def flow_of(self, core: Core, run_id: str, *, among: Registry | None = None) -> Flow[Any]:
        """The flow that continues a run: of those that are known, or `among` others.

        Raises `UnknownFlowError`, `MigrationError` and `CheckpointNotFoundError`.
        """

        def recorded() -> tuple[str, str]:
            opening = core.journals.opening(check_id("run_id", run_id))
            if opening is None:
                raise CheckpointNotFoundError(run_id)
            for entry in core.journals.entries(run_id, newest_first=True, damage=pass_by):
                version = Meta(entry).flow_version
                if version is not None:
                    return str(opening.flow), version
            return str(opening.flow), ""

        flows = self.flows if among is None else among
        return flows.find(run_id, *await core.off_loop(recorded))

    async def _in_thread(
        self,
        core: Core,
        call: Call[Any],
        how: Options,
        link: Link,
        make_run: Callable[..., Run],
    ) -> Prepared | Recorded:
        """Resume the newest run of a thread, or start its first one: of many who try, one opens it."""
        thread, flow, name = link.thread, call.flow, new_id()
        if thread is None:
            raise TypeError("resume=True needs a run_id or a thread_id: which run is meant?")
        presence = await launch.presence_in(core, name, how)
        waiting = _Waiting(how)
        while True:
            try:
                newest = await core.off_loop(partial(look_at, core, thread, flow.name))
            except RunActiveError:
                if not waiting.may_go_on:
                    raise
                await waiting.sleep(core)
                continue
            if newest.run_id is not None:
                await self._check_owner(core, newest.run_id, link)
                return await self._resumed(core, flow, newest.run_id, call.inputs, how, make_run)
            with presence.claiming(core, name, opening=True):
                if await launch.join_thread(core, link, newest.seq, name, how):
                    link = link._replace(listed=True)
                    return await launch.start(
                        core, flow.program, name, call.inputs, how, link, make_run
                    )

    async def _check_owner(self, core: Core, run_id: str, link: Link) -> None:
        if link.owner is not None:
            await core.off_loop(partial(check_owner, core, run_id, link.owner))

    async def _resumed(
        self,
        core: Core,
        flow: Flow[Any],
        run_id: str,
        inputs: Any,
        how: Options,
        make_run: Callable[..., Run],
    ) -> Prepared | Recorded:
        """Resume a run, or wait for its holder.

        How the run ended for its holder is the outcome here, too: of many who wait, none executes
        what has just failed again, or continues what somebody paused. With inputs, the result of a
        run that was completed before will do.
        """
        here, waiting = CURRENT_STEP.get(), _Waiting(how)
        presence = await launch.presence_in(core, run_id, how)
        waited = False

        def may_wait() -> bool:
            """Whether the one who executes it can end before we do."""
            running = presence.find(run_id)
            by_us = running is not None and running.task is asyncio.current_task()
            return waiting.may_go_on and not by_us and not _is_within(here, run_id)

        while True:
            try:
                if waited:
                    await core.off_loop(partial(_look_again, core, flow, run_id))
                return await launch.resume(core, flow.program, run_id, inputs, how, make_run)
            except RunFinishedError as over:
                if over.status != Status.COMPLETED or (inputs is None and not waited):
                    raise
            except RunActiveError as active:
                if not may_wait():
                    raise
                waiting.tell(active)
                waited, how = True, how.but(heeds_pause=True)
                await waiting.sleep(core)
                continue
            try:  # outside of `except`: its errors must not show RunFinishedError first
                read = partial(launch.outcome, core, flow.program, run_id, inputs)
                return Recorded(run_id, flow.name, await core.off_loop(read))
            except RunActiveError:  # it was resumed since
                if not may_wait():
                    raise


def check_owner(core: Core, run_id: str, owner: str) -> None:
    """Raise `NotOwnerError` unless the run belongs to this owner. Blocks.

    In a store that is bound to an owner, runs of others are not there: `CheckpointNotFoundError`.
    """
    head = core.journals.checked_head(run_id)
    if head is None and core.journals.owner is not None:
        raise CheckpointNotFoundError(run_id)
    if head is not None and head.status != Status.DELETED and head.owner != owner:
        raise NotOwnerError(run_id, owner)


def _link(call: Call[Any], given: RunNames) -> Link:
    """What the run of a call belongs to."""
    thread, labels = given.get("thread_id"), given.get("labels")
    if thread is not None:
        check_id("thread_id", thread)
    link = Link(thread, given.get("owner"), source=call.source)
    return link if labels is None else link._replace(labels=labels)


class _Waiting:
    """Waiting for another process, as long as the options say."""

    def __init__(self, how: Options) -> None:
        self._how = how
        self._began = monotonic()
        self._delay = _FIRST_LOOK
        self._told = 0

    @property
    def may_go_on(self) -> bool:
        """Whether to wait, rather than to give up."""
        limit = self._how.timeout
        return self._how.wait and (limit is None or monotonic() - self._began <= limit)

    def tell(self, active: RunActiveError) -> None:
        """Say what is waited for, and louder if it takes long: nothing seems to happen then."""
        level = INFO if monotonic() - self._began < _TELL_AFTER else WARNING
        if level > self._told:
            self._told = level
            by = f"process {active.holder}" if active.holder else "another task"
            text = "run %s is executed by %s: waiting for it (wait=False would raise an error)"
            log.log(level, text, active.run_id, by, extra=about(active.run_id))

    async def sleep(self, core: Core) -> None:
        """Wait a little, and longer each time."""
        await asyncio.sleep(self._delay)
        self._delay = min(2 * self._delay, _LONGEST, look_again_within(core))


def _is_within(here: StepInfo | None, run_id: str) -> bool:
    """Whether this step belongs to the run, or to a child run of it."""
    if here is None:
        return False
    run = here._run  # noqa: SLF001 - the step's own
    running = None if run is None else running_here(run.core, here.run_id)
    return here.run_id == run_id or (running is not None and running.is_within(run_id))


def _look_again(core: Core, flow: Flow[Any], run_id: str) -> None:
    """Raise what a run failed with, `RunActiveError` if it is still held, and `RunPausedError` if
    somebody paused it. Blocks.
    """
    head = core.journals.head(run_id)
    if head is None:
        return
    paused = head.status == Status.PAUSED and pause_requested(core, head)
    if paused or head.status == Status.FAILED:
        launch.ended(core, flow.program, run_id)
    if head.status == Status.RUNNING:
        refuse_if_held(core, head)


def take(verb: str, call: Call[Any], inputs: Sequence[object], options: NewRun) -> None:
    """The call is used now. Raises `TypeError` for anything else, and for unknown options."""
    take_call(verb, call, inputs)
    check_options(verb, options, _OPTIONS)


def check_names(verb: str, options: RunNames) -> None:
    """Raise `TypeError` for options that say more than what a run is called."""
    for name in options:
        if name in RunOptions.__annotations__:
            raise TypeError(
                f"{verb} has no option {name!r}, because a worker executes the run: give it to the "
                f"worker's engine, Engine(store, {name}=...)"
            )
    check_options(verb, options, RunNames.__annotations__)


def take_call(verb: str, call: Call[Any], inputs: Sequence[object] = ()) -> None:
    """The call is used now. Raises `TypeError` for anything else, and for inputs beside it."""
    if type(call) is Call and not inputs:
        call.use()
        return
    if isinstance(call, Flow):
        raise TypeError(
            f"{call!r} is a flow: call it with its inputs, engine.{verb}({call.name}(...))"
        )
    if isinstance(call, Effect):
        call.use()
    if isinstance(call, Call):
        if inputs:
            name = call.flow.name
            raise TypeError(f"give the inputs to {name}, not to {verb}: engine.{verb}({name}(...))")
        return
    if isinstance(getattr(call, "flow", None), Flow):
        kind = type(call).__name__
        raise TypeError(f"a {kind} is no flow, but has one: engine.{verb}(NAME.flow(...))")
    raise TypeError(
        f"engine.{verb} takes the call of a flow, such as report('Brest'), not {call!r}"
    )
