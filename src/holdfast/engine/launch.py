"""Where runs begin: started, resumed, or as the child of another; then executed."""

from __future__ import annotations

import contextlib
import hashlib
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from holdfast.checkpoint import RunInfo
from holdfast.codec.meta import WORKER, dump_meta
from holdfast.engine import events as ev
from holdfast.engine.door import OpenedCheckpointer
from holdfast.engine.inputs import comparable_hash
from holdfast.engine.options import Options
from holdfast.engine.people import requests
from holdfast.engine.program import Program, StaleStepError, Stored, Task
from holdfast.engine.resume import trust
from holdfast.engine.resume.history import History
from holdfast.engine.resume.holders import this_process
from holdfast.engine.resume.takeover import (
    Make,
    began_otherwise,
    check_begun,
    claim,
    drive,
    look,
    resumption,
)
from holdfast.engine.run import live
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
    RunFinishedError,
    RunPausedError,
)
from holdfast.kernel import compose
from holdfast.kernel.appending import append_at, append_if
from holdfast.kernel.core import Core
from holdfast.kernel.journal import Draft
from holdfast.model import MAX_ID_BYTES, Entry, Kind, Status, check_id, child_prefixes
from holdfast.operations import reading


class Link(NamedTuple):
    """What a run belongs to."""

    thread: str | None = None
    owner: str | None = None
    parent: str | None = None  # the run and step it is a part of
    parent_birth: str | None = None  # and which life of that run
    source: str | None = None  # MODULE:NAME that it was started by; shown, never imported


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
) -> Prepared:
    """Open a new run, durably.

    Raises `RunExistsError`, and `SerializeError` or `ReviveError` for the inputs.
    """
    check_id("run_id", run_id)
    program = _equipped(core, make)()
    check_id("flow", program.flow.name)
    encoding = compose.encode(core, run_id, inputs, root="inputs")
    facts = {
        **program.flow.stamp,
        "structure": program.flow.structure,
        "inputs_hash": comparable_hash(core, inputs),
        "birth": core.journals.new_birth(),
        "parent": link.parent,
        "parent_birth": link.parent_birth,
        "source": link.source,
        WORKER: str(this_process()),
    }
    opening = Draft(
        Kind.OPEN.value,
        Status.RUNNING.value,
        encoding,
        parent=None,
        flow=program.flow.name,
        thread=link.thread,
        owner=link.owner,
        meta=dump_meta({name: fact for name, fact in facts.items() if fact is not None}),
    )

    def decide(head: Entry | None) -> Draft:
        if head is not None and head.status != Status.DELETED:
            raise RunExistsError(run_id)
        return opening

    program.begin(run_id, Stored(encoding, core.journals.decode))  # refuses inputs that do not fit
    with live.claiming(core, run_id, opening=True):
        entry = await drive(core, append_if(core, run_id, decide), options)
        hold = Hold(core, entry, blocking=options.blocking)
        run = make_run(program, hold, options, Resumption(birth=str(facts["birth"])))
        live.register(run)  # before others may claim it
        return Prepared(run, ev.RunStarted(run_id, program.flow.name))


async def resume(
    core: Core,
    make: Make,
    run_id: str,
    inputs: Any,
    options: Options,
    make_run: Callable[..., Run] = Run,
) -> Prepared:
    """Take a run over at its newest trusted checkpoint. Inputs of None are the recorded ones.

    Raises `CheckpointNotFoundError`, `RunFinishedError`, `InputMismatchError`,
    `FlowChangedError`, and `RunActiveError` if this process executes it or, unless it is to be
    taken over, another living process of this machine does.
    """
    check_id("run_id", run_id)
    with live.claiming(core, run_id):
        return await _take_over(
            core, _equipped(core, make, options), run_id, inputs, options, make_run
        )


async def _take_over(
    core: Core,
    make: Make,
    run_id: str,
    inputs: Any,
    options: Options,
    make_run: Callable[..., Run],
    rejected: tuple[ev.CheckpointRejected, ...] = (),
) -> Prepared:
    claimed = await claim(core, make, run_id, inputs, options)
    program = claimed.program
    hold = Hold(core, claimed.last, blocking=options.blocking)

    async def again(stale: StaleStepError) -> Prepared:
        with live.claiming(core, run_id):
            before = partial(trust.retreat_before, core, claimed.history, stale)
            back = await look(core, before, options)
            written = await drive(core, append_at(core, run_id, hold.seq, back.drafts), options)
            more = back.rejected if written else ()
            return await _take_over(core, make, run_id, inputs, options, make_run, more)

    run = make_run(program, hold, options, resumption(claimed.history))
    live.register(run)  # before others may claim it
    started = ev.RunStarted(run_id, program.flow.name, True, claimed.restored)
    return Prepared(run, started, rejected + claimed.rejected, again)


def _equipped(core: Core, make: Make, options: Options | None = None) -> Make:
    """Programs that tell the time as the journals do, and are as strict as the options say."""

    def made() -> Program:
        program = make()
        program.clock = core.journals.clock
        program.stored_form = core.journals.stored_form
        program.strict = options is not None and options.strict
        return program

    return made


async def execute(ready: Prepared | Recorded) -> Any:
    """Execute a run until it stops; returns its result, or raises what stopped it."""
    if isinstance(ready, Recorded):
        return ready.result
    events: tuple[ev.Event, ...] = (ready.started, *ready.rejected)
    while True:
        run = ready.run
        try:
            with live.registered(run):
                for event in events:
                    run.emit(event)
                await run.hand_over()
                return await run.main()
        except StaleStepError as stale:
            assert ready.again is not None, "a new run has nothing recorded"
            ready = await ready.again(stale)
            ready.run.take_place_of(run)
            events = ready.rejected  # everybody knows that it was started
        except Exception as error:
            fold(error)
            raise


def outcome(core: Core, make: Make, run_id: str, inputs: Any = None) -> Any:
    """The recorded result of a completed run, if it was started with these inputs. Blocks.

    Raises `RunActiveError` if another process has resumed it since.
    """
    program = _equipped(core, make)()
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
        asked = tuple(question.key for question in requests.questions(core, run_id))
        raise RunPausedError(run_id, asked)
    if head.status == Status.CANCELLED:
        raise RunCancelledError(run_id)
    if head.kind == Kind.FAIL:
        raise failure_in(head, history.value(head))
    return outcome(core, make, run_id)


async def run_child(parent: Run, task: Task, *, hands_over: bool) -> Any:
    """Execute the child run of a step: start it, resume it, or look its result up."""
    assert task.child is not None
    core = parent.core
    make, inputs = task.child
    options, make_run = parent.options, partial(Run, parent=parent, hands_over=hands_over)
    see = partial(look, core, options=options)
    run_id, known = await see(partial(_find_child, core, parent, task))
    task.child_id = run_id
    status = None if known is None else known.status
    if status == Status.CANCELLED or (known is None and parent.wanted == "cancel"):
        raise RunCancelledError(run_id)
    if status != Status.COMPLETED:
        begins = parent.recorder.note(Kind.CHILD, Status.RUNNING, {"run": run_id}, step=task.key)
        await parent.recorder.save_and_announce([begins], urgent=True)
    if known is None:
        tip = core.journals.tip(parent.run_id)
        link = Link(
            None, None if tip is None else tip.owner, f"{parent.run_id}@{task.key}", parent.birth
        )
        ready = await start(core, make, run_id, inputs, options, link, make_run)
    else:
        anew = None
        if task.policy.claims is not None and parent.behind.repairs:
            child: History = await see(partial(History, core, run_id, whole=True))
            begin_anew = partial(trust.begin_anew, core, parent.run_id, task.key, child)
            anew = await see(partial(begin_anew, options))
        rejected: tuple[ev.CheckpointRejected, ...] = ()
        if anew is not None:
            at = child.head.seq
            if await drive(core, append_at(core, run_id, at, anew.drafts), options):
                rejected = anew.rejected
        try:
            ready = await resume(core, make, run_id, inputs, options, make_run)
            ready = ready._replace(rejected=rejected + ready.rejected)
        except RunFinishedError as over:
            if over.status != Status.COMPLETED:
                raise
            return await see(partial(outcome, core, make, run_id, inputs))
    return await execute(ready)


def _find_child(core: Core, parent: Run, task: Task) -> tuple[str, RunInfo | None]:
    """The child run of a step: its id, and its status if it was started. Blocks.

    The next one takes its place if it failed and was undone, if the step is repaired and called
    with other inputs than before, or if it is another run's: of an earlier one with our id, say.
    """
    assert task.child is not None
    make, inputs = task.child
    for number in count(1):
        run_id = child_id(parent.run_id, task.key, parent.behind.epoch, number)
        known = reading.run(core, run_id)
        if known is None:
            break
        history = History(core, run_id, whole=False)
        opening = history.meta(history.opening)
        if (opening.parent, opening.parent_birth) != (f"{parent.run_id}@{task.key}", parent.birth):
            continue
        if parent.behind.repairs and began_otherwise(make(), history, inputs):
            continue
        if known.status != Status.FAILED or not history.rolled_back:
            break
    return run_id, known


def child_id(run_id: str, key: str, epoch: int, number: int = 1) -> str:
    """The id of a step's child run: the same whenever the step is tried again.

    No run that a user begins may have such an id.
    """
    full, shortened = child_prefixes(run_id)
    name = f"{full}{key}" + (f"~{epoch}" if epoch else "") + (f"~~{number}" if number > 1 else "")
    if len(name.encode()) <= MAX_ID_BYTES:
        return name
    return f"{shortened}{hashlib.sha256(name.encode()).hexdigest()}"


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
