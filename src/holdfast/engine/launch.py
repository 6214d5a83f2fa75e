"""Where runs begin: started, resumed, or as the child of another; then executed."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.codec.meta import DUE, HOLDER, TRACE
from holdfast.engine import events as ev
from holdfast.engine.door import OpenedCheckpointer
from holdfast.engine.holding.here import process_of
from holdfast.engine.holding.lease import Lease
from holdfast.engine.holding.presence import Presence
from holdfast.engine.observing import trace_of_opening
from holdfast.engine.opening import Link, Opening, equipped
from holdfast.engine.options import Options
from holdfast.engine.people import inbox
from holdfast.engine.program import StaleStepError
from holdfast.engine.resume import trust
from holdfast.engine.resume.activity import due_of
from holdfast.engine.resume.history import History
from holdfast.engine.resume.takeover import (
    Claimant,
    Make,
    check_begun,
    claim,
    drive,
    look,
    patiently,
    resumption,
)
from holdfast.engine.run.failures import failure_in
from holdfast.engine.run.hold import Hold
from holdfast.engine.run.loop import Run
from holdfast.engine.run.resumption import Resumption
from holdfast.engine.stream import Stream
from holdfast.engine.tracebacks import fold
from holdfast.errors import (
    RunActiveError,
    RunCancelledError,
    RunExistsError,
    RunPausedError,
)
from holdfast.kernel.appending import append_at, thread_member
from holdfast.kernel.core import Core
from holdfast.model import (
    Kind,
    Status,
    check_id,
    thread_journal,
)

if TYPE_CHECKING:
    from holdfast.engine.child_runs import Parent


class Prepared(NamedTuple):
    """A run that is ready to be executed, and how it was started or resumed."""

    run: Run
    started: ev.RunStarted
    rejected: tuple[ev.CheckpointRejected, ...] = ()
    again: Callable[[StaleStepError], Awaitable[Prepared]] | None = None  # after going back further

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run.run_id


class Recorded(NamedTuple):
    """A run that was completed before, and its result."""

    run_id: str
    flow: str
    result: Any


async def start(
    core: Core,
    make: Make,
    run_id: str,
    inputs: Any,
    options: Options,
    link: Link = Link(),
    make_run: Callable[..., Run] = Run,
    child_of: Parent | None = None,
) -> Prepared:
    """Open a new run, durably.

    Raises `RunExistsError`, and `SerializeError` or `ReviveError` for the inputs.
    """
    opening = Opening(core, make, run_id, inputs, link)
    program = opening.program
    presence = await presence_in(core, run_id, options)
    with presence.claiming(core, run_id, opening=True):
        lease = await _lease(core, presence, run_id, options)
        holder = {HOLDER: str(presence.holder(lease))}
        if child_of is not None:
            await child_of.note(run_id)
        facts = holder | ({} if child_of is None else child_of.facts)
        trace = None
        if core.observers:
            part_of = None if child_of is None else (child_of.run.run_id, child_of.key)
            trace = trace_of_opening(core, program.flow.name, parent=part_of)
        facts |= {} if trace is None else {TRACE: trace}
        member = None if link.thread is None else thread_member(run_id, **holder)
        opened = opening.append(Status.RUNNING, facts, member)
        entry = await drive(core, opened, options)
        if child_of is not None:
            await child_of.confirm()
        mine = {**program.flow.stamp, **holder, **({} if child_of is None else child_of.term)}
        hold = Hold(core, entry, presence, lease, mine, blocking=options.blocking)
        run = make_run(program, hold, options, Resumption(opening.birth, is_new=True))
        presence.register(run)  # before others may claim it
        return Prepared(run, _started(child_of, ev.RunStarted(run_id, program.flow.name), trace))


async def submit(
    core: Core, make: Make, run_id: str, inputs: Any, options: Options, link: Link, due: int
) -> bool:
    """Open a new run that a worker is to execute from this moment on, durably.

    Returns False if this flow has a run of this id with these inputs already. Raises
    `RunExistsError` for one of another flow, `InputMismatchError`, and `SerializeError` or
    `ReviveError` for the inputs.
    """
    opening = Opening(core, make, run_id, inputs, link)
    facts: dict[str, Any] = {DUE: due}
    if core.observers:
        trace = trace_of_opening(core, opening.program.flow.name, submitted=True)
        facts |= {} if trace is None else {TRACE: trace}
    try:
        await drive(core, opening.append(Status.SUBMITTED, facts), options)
    except RunExistsError:
        history = await look(core, partial(History, core, run_id, whole=False), options)
        if history.opening.flow != opening.program.flow.name:
            raise
        check_begun(opening.program, history, inputs)
        return False
    return True


async def resume(
    core: Core,
    make: Make,
    run_id: str,
    inputs: Any,
    options: Options,
    make_run: Callable[..., Run] = Run,
    child_of: Parent | None = None,
) -> Prepared:
    """Take a run over at its newest trusted checkpoint. Inputs of None are the recorded ones.

    Raises `CheckpointNotFoundError`, `RunFinishedError`, `InputMismatchError`,
    `FlowChangedError`, and `RunActiveError` if this process executes it or, unless it is to be
    taken over, another living process does.
    """
    check_id("run_id", run_id)
    presence = await presence_in(core, run_id, options)
    await presence.wait_for_the_end(run_id)
    with presence.claiming(core, run_id):
        return await _take_over(
            core, equipped(core, make, options), run_id, inputs, options, make_run, child_of
        )


async def _take_over(
    core: Core,
    make: Make,
    run_id: str,
    inputs: Any,
    options: Options,
    make_run: Callable[..., Run],
    child_of: Parent | None,
    rejected: tuple[ev.CheckpointRejected, ...] = (),
) -> Prepared:
    presence = await presence_in(core, run_id, options)
    lease = await _lease(core, presence, run_id, options)
    along = None if child_of is None else partial(child_of.note, run_id)
    term = None if child_of is None else child_of.run.hold.term
    ours = Claimant(presence.holder(lease), term, along)
    claimed = await claim(core, make, run_id, inputs, options, ours)
    if child_of is not None:
        await child_of.confirm()
    if claimed.history.asked_to_resume:
        options = options.but(heeds_pause=False)  # its child runs are to go on, too
    program = claimed.program
    mine = {**program.flow.stamp, **ours.facts}
    hold = Hold(core, claimed.last, presence, lease, mine, blocking=options.blocking)

    async def again(stale: StaleStepError) -> Prepared:  # keeps nothing of the history
        with presence.claiming(core, run_id):
            before = partial(trust.retreat_before, core, run_id, stale, whole=program.flow.replays)
            back = await look(core, before, options)
            written = await drive(core, append_at(core, run_id, hold.seq, back.drafts), options)
            more = back.rejected if written else ()
            return await _take_over(core, make, run_id, inputs, options, make_run, child_of, more)

    run = make_run(program, hold, options, resumption(core, claimed))
    presence.register(run)  # before others may claim it
    started = ev.RunStarted(run_id, program.flow.name, True, claimed.restored)
    started = _started(child_of, started, claimed.history.meta(claimed.history.opening).trace)
    return Prepared(run, started, rejected + claimed.rejected, again)


def _started(child_of: Parent | None, event: ev.RunStarted, trace: str | None) -> ev.RunStarted:
    """The event, with what the run is a part of, and what was recorded with its opening."""
    if child_of is None:
        return event if trace is None else replace(event, trace=trace)
    return replace(event, parent=child_of.run.run_id, parent_step=child_of.key, trace=trace)


async def join_thread(core: Core, link: Link, seq: int, run_id: str, options: Options) -> bool:
    """List a run that is about to be opened in its thread; False if others were faster.

    To be called while `claiming` the run.
    """
    presence = await presence_in(core, run_id, options)
    holder = presence.holder(await _lease(core, presence, run_id, options))
    member = thread_member(run_id, link.owner, **{HOLDER: str(holder)})
    joined = append_at(core, thread_journal(link.thread or ""), seq, [member])
    return await drive(core, joined, options) is not None


async def presence_in(core: Core, run: str, options: Options) -> Presence:
    """This process in the store."""
    process = process_of(core)
    known = process.presence_at_hand(core)
    if known is not None:
        return known
    return await patiently(core, run, partial(process.presence, core), options)


async def _lease(core: Core, presence: Presence, run: str, options: Options) -> Lease | None:
    """The lease under which a run may be opened or claimed."""
    known = presence.lease_at_hand(core)
    if known is not None or not core.journals.store.shared:
        return known
    lease = partial(presence.lease, core, options.dead_after)
    return await patiently(core, run, lease, options)


async def execute(ready: Prepared | Recorded) -> Any:
    """Execute a run until it stops; returns its result, or raises what stopped it."""
    if isinstance(ready, Recorded):
        return ready.result
    events: tuple[ev.Event, ...] = (ready.started, *ready.rejected)
    run = ready.run
    try:
        while True:
            run = ready.run
            try:
                run.hold.presence.register(run)
                run.task = asyncio.current_task()
                try:
                    for event in events:
                        run.emit(event)
                    try:
                        await run.hand_over()
                    except BaseException:  # the consumer has dropped the stream
                        run.leave()
                        raise
                    return await run.main()
                finally:
                    run.hold.presence.forget(run)
            except StaleStepError as stale:
                assert ready.again is not None, "a new run has nothing recorded"
                ready = await ready.again(stale)
                ready.run.take_place_of(run)
                events = ready.rejected  # everybody knows that it was started
    except BaseException as error:
        run.stopped_by(error)
        if isinstance(error, Exception):
            fold(error)
        raise


def outcome(core: Core, make: Make, run_id: str, inputs: Any = None) -> Any:
    """The recorded result of a completed run, if it was started with these inputs. Blocks.

    Raises `RunActiveError` if another process has resumed it since.
    """
    program = equipped(core, make)()
    history = History(core, run_id, whole=program.flow.replays)
    if history.head.status != Status.COMPLETED:
        raise RunActiveError(run_id, history.head.status)
    check_begun(program, history, inputs)
    end = history.entries[-1]
    if not program.flow.replays or not end.size:
        program.restore(history)
        return program.result
    return program.revive_result(history.value(end))


def ended(core: Core, make: Make, run_id: str) -> Any:
    """The recorded result of a run that has stopped; raises the error that stopped it. Blocks."""
    history = History(core, run_id, whole=False)
    head = history.head
    if head.status == Status.PAUSED:
        asked = tuple(question.key for question in inbox.questions(core, run_id))
        raise RunPausedError(run_id, asked, due_of(core, run_id))
    if head.status == Status.CANCELLED:
        raise RunCancelledError(run_id)
    if head.kind == Kind.FAIL:
        raise failure_in(head, history.value(head))
    return outcome(core, make, run_id)


def stream(
    place: OpenedCheckpointer, prepare: Callable[[Core], Awaitable[Prepared | Recorded]]
) -> Stream:
    """The events of a run, which starts when the first of them is asked for.

    The checkpointer is kept open until the run is over, or the stream closed or dropped.
    """
    events: deque[ev.Event] = deque()
    use = place.use()

    async def main() -> None:
        try:
            ready = await prepare(use.core)
            if isinstance(ready, Recorded):
                events.append(ev.RunStarted(ready.run_id, ready.flow, True))
                events.append(ev.RunCompleted(ready.run_id, ready.result))
                return
            ready.run.events = events
            with contextlib.suppress(RunPausedError, RunCancelledError):  # an event says it
                await execute(ready)
        finally:
            use.end()

    made = Stream(main, events, use.end)
    weakref.finalize(made, use.drop)
    return made
