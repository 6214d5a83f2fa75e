"""How a run comes about: started, resumed, or as a part of another."""

from __future__ import annotations

import contextlib
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple, TypeVar

from holdfast import composing, reading
from holdfast.appending import append_at, append_if
from holdfast.checkpoint import RunInfo, dump_meta
from holdfast.core import Core, Op
from holdfast.engine import events as ev
from holdfast.engine import live, requests, trusting
from holdfast.engine.history import History, failure_in, meta
from holdfast.engine.hold import Hold
from holdfast.engine.inputs import inputs_hash
from holdfast.engine.options import Options
from holdfast.engine.program import Program, StaleStepError, Stored, Task
from holdfast.engine.run import Resumption, Run
from holdfast.engine.stream import Stream
from holdfast.engine.workers import WORKER, refuse_living, this_worker
from holdfast.errors import (
    CheckpointNotFoundError,
    FlowChangedError,
    InputMismatchError,
    RunActiveError,
    RunCancelledError,
    RunExistsError,
    RunFinishedError,
    RunMismatchError,
    RunPausedError,
)
from holdfast.journal import Draft
from holdfast.model import MAX_ID_BYTES, SHORTENED, Entry, Kind, Status, check_id

T = TypeVar("T")

_PATIENCE: Final = 3  # how often a worker that is still saving may be faster than we are
_ATTEMPTS: Final = 20  # to take over a run that others keep changing

Make = Callable[[], Program]
"""Makes a flow's program anew: it is used for one attempt to carry a run out."""


class Link(NamedTuple):
    """What a run belongs to."""

    thread: str | None = None
    owner: str | None = None
    parent: str | None = None  # the run and step it is a part of
    source: str | None = None  # MODULE:NAME that it was started by; shown, never imported


class Plan(NamedTuple):
    """A run that is ready to be carried out, and how it came about."""

    run: Run
    started: ev.RunStarted
    rejected: tuple[ev.CheckpointRejected, ...] = ()
    again: Callable[[StaleStepError], Awaitable[Plan]] | None = None  # after going back further


async def start(
    core: Core,
    make: Make,
    run_id: str,
    inputs: Any,
    options: Options,
    link: Link = Link(),
    *,
    parent: Run | None = None,
    hands_over: bool = True,
) -> Plan:
    """Open a new run, durably. Raises `RunExistsError`, and `SerializeError` for the inputs."""
    check_id("run_id", run_id)
    program = make()
    check_id("flow", program.flow)
    encoding = composing.encode(core, run_id, inputs, root="inputs")
    facts = {
        **program.stamp,
        "structure": program.structure(),
        "inputs_hash": inputs_hash(inputs),
        "parent": link.parent,
        "source": link.source,
        WORKER: str(this_worker()),
    }
    opening = Draft(
        Kind.OPEN.value,
        Status.RUNNING.value,
        encoding,
        parent=None,
        flow=program.flow,
        thread=link.thread,
        owner=link.owner,
        meta=dump_meta({name: fact for name, fact in facts.items() if fact is not None}),
    )

    def decide(head: Entry | None) -> Draft:
        if head is not None and head.status != Status.DELETED:
            raise RunExistsError(run_id)
        return opening

    with live.starting(core, run_id):
        entry = await _drive(core, append_if(core, run_id, decide), options)
        program.run_id = run_id
        program.begin(Stored(encoding, core.journals.decode))
        hold = Hold(core, run_id, entry.seq, blocking=options.blocking)
        run = Run(program, hold, options, parent=parent, hands_over=hands_over, child=_child)
        return Plan(run, ev.RunStarted(run_id, program.flow))


async def resume(
    core: Core,
    make: Make,
    run_id: str,
    inputs: Any,
    options: Options,
    *,
    parent: Run | None = None,
    hands_over: bool = True,
) -> Plan:
    """Take a run over where it stands. Inputs of None are the recorded ones.

    Raises `CheckpointNotFoundError`, `RunFinishedError`, `InputMismatchError`,
    `FlowChangedError`, and `RunActiveError` for one that is being carried out by this very
    process or, unless it is to be taken over, by another one that is alive on this machine.
    """
    check_id("run_id", run_id)
    with live.claiming(core, run_id):
        return await _take_over(
            core, make, run_id, inputs, options, parent=parent, hands_over=hands_over
        )


async def _take_over(
    core: Core,
    make: Make,
    run_id: str,
    inputs: Any,
    options: Options,
    *,
    parent: Run | None,
    hands_over: bool,
    rejected: tuple[ev.CheckpointRejected, ...] = (),
) -> Plan:
    claimed = await _claim(core, make, run_id, inputs, options)
    program = claimed.program
    hold = Hold(core, run_id, claimed.seq, blocking=options.blocking)
    behind = _behind(claimed.history)
    run = Run(program, hold, options, behind, parent=parent, hands_over=hands_over, child=_child)

    async def again(stale: StaleStepError) -> Plan:
        with live.claiming(core, run_id):
            before = partial(trusting.retreat_before, core, claimed.history, stale)
            back = await _look(core, before, options)
            written = await _drive(core, append_at(core, run_id, hold.seq, back.drafts), options)
            return await _take_over(
                core, make, run_id, inputs, options, parent=parent, hands_over=hands_over,
                rejected=back.rejected if written else (),
            )  # fmt: skip

    started = ev.RunStarted(run_id, program.flow, True, claimed.restored)
    return Plan(run, started, rejected + claimed.rejected, again)


class _Claimed(NamedTuple):
    """A run that is ours, or one that only waits."""

    history: History  # what stood before it was
    program: Program
    restored: int  # steps
    seq: int
    rejected: tuple[ev.CheckpointRejected, ...] = ()


async def _claim(core: Core, make: Make, run_id: str, inputs: Any, options: Options) -> _Claimed:
    """Take a run over at the newest checkpoint that can be trusted."""
    facts = {**make().stamp, WORKER: str(this_worker())}
    claim = Draft(Kind.CLAIM.value, Status.RUNNING.value, meta=dump_meta(facts))
    behind_any = partial(append_if, core, run_id, partial(_behind_any, claim))
    read = partial(History, core, run_id, whole=make().replays)
    for attempt in range(1, _ATTEMPTS + 1):
        history: History = await _look(core, read, options)
        program = _fresh(make, run_id, options)
        todo = await _consider(core, program, history, inputs, options)
        if todo.look_again:
            continue
        if todo.wait:
            return _Claimed(history, program, program.restore(history), history.head.seq)
        retreat = todo.retreat
        if retreat is None:
            restored = program.restore(history)
            entry = await _drive(core, behind_any(), options)
            if entry.seq == history.head.seq + 1:
                return _Claimed(history, program, restored, entry.seq)
            break  # its worker was still saving; from here on it can't
        drafts = [*retreat.drafts, claim]
        written = await _drive(core, append_at(core, run_id, history.head.seq, drafts), options)
        if written is not None:
            entry = written
            break
        if attempt >= _PATIENCE:  # its worker is too fast for us: it must not go on
            await _drive(core, behind_any(), options)
    else:
        raise RunActiveError(run_id, history.head.status)
    history = await _look(core, read, options)
    history.entries = [e for e in history.entries if e.seq < entry.seq]
    program = _fresh(make, run_id, options)
    check_flow(program, history, inputs)
    rejected = () if retreat is None else retreat.rejected
    return _Claimed(history, program, program.restore(history), entry.seq, rejected)


class _Todo(NamedTuple):
    """What is to be done about a run as it stands: to claim it, where nothing else is said."""

    look_again: bool = False  # it does not stand there any more
    wait: bool = False  # for answers
    retreat: trusting.Retreat | None = None  # before it goes on


async def _consider(
    core: Core, program: Program, history: History, inputs: Any, options: Options
) -> _Todo:
    """What to do about a run. Raises what is wrong with going on, before anything is claimed."""
    run_id, head = history.run, history.head
    completed = head.status == Status.COMPLETED
    if not completed:
        _check(program, history, inputs)
        if head.status == Status.RUNNING and not options.take_over:
            await _look(core, partial(refuse_living, core, run_id), options)
        if requests.overdue(core, history):
            await _drive(core, requests.apply_deadlines(core, run_id), options)
            return _Todo(look_again=True)
    if _still_waits(history):
        return _Todo(wait=True)
    retreat = await _look(core, partial(trusting.examine, core, history, options), options)
    if completed and retreat is not None:
        _check(program, history, inputs)
    elif completed:
        newest = await _look(core, partial(core.journals.head_seq, run_id), options)
        if newest == head.seq:
            raise RunFinishedError(run_id, head.status)
        return _Todo(look_again=True)  # another took it up again, and put right what was wrong
    return _Todo(retreat=retreat)


def _fresh(make: Make, run_id: str, options: Options) -> Program:
    program = make()
    program.run_id = run_id
    program.wary = options.trust != "skip"
    return program


def _behind_any(claim: Draft, head: Entry | None) -> Draft:
    """A claim fences off whoever wrote before it, as long as there is something to go on with."""
    if head is None or head.status == Status.DELETED:
        raise CheckpointNotFoundError("" if head is None else head.run)
    if head.status in (Status.COMPLETED, Status.CANCELLED):
        raise RunFinishedError(head.run, head.status)
    return claim


async def carry_out(plan: Plan) -> Any:
    """Carry a run out to where it stops; returns its result or raises what it came to."""
    events: tuple[ev.Event, ...] = (plan.started, *plan.rejected)
    while True:
        run = plan.run
        try:
            with live.registered(run):
                for event in events:
                    run.emit(event)
                await run.hand_over()
                return await run.main()
        except StaleStepError as stale:
            assert plan.again is not None, "what has just begun has nothing recorded"
            plan = await plan.again(stale)
            plan.run.take_place_of(run)
            events = plan.rejected  # that it was started was told


def outcome(core: Core, make: Make, run_id: str, inputs: Any = None) -> Any:
    """The recorded result of a completed run, if it was begun with these inputs. Blocks.

    Raises `RunActiveError` if another has taken it up again since.
    """
    program = make()
    history = History(core, run_id, whole=program.replays)
    if history.head.status != Status.COMPLETED:
        raise RunActiveError(run_id, history.head.status)
    _check_begun(program, history, inputs)
    end = history.entries[-1]
    if not program.keeps_result or not end.size:
        program.restore(history)
        return program.result
    return program.revive_result(history.value(end))


async def _drive(core: Core, op: Op[T], options: Options) -> T:
    return core.drive(op) if options.blocking else await core.drive_async(op)


async def _look(core: Core, read: Callable[[], T], options: Options) -> T:
    return read() if options.blocking else await core.off_loop(read)


def _check(program: Program, history: History, inputs: Any) -> None:
    """Refuse to resume what can't be, before anything is claimed."""
    run_id, head = history.run, history.head
    if head.status == Status.CANCELLED:
        raise RunFinishedError(run_id, head.status)
    if head.kind == Kind.FAIL and meta(head).get("rolled_back"):
        raise RunFinishedError(run_id, "failed and rolled back")
    check_flow(program, history, inputs)


def check_flow(program: Program, history: History, inputs: Any = None) -> None:
    """Raise `FlowChangedError` if the run can't go on with this flow, `InputMismatchError`."""
    _check_begun(program, history, inputs)
    program.check(history.run, history)


def _check_begun(program: Program, history: History, inputs: Any) -> None:
    run_id, begun = history.run, history.begun_with
    if "inputs_hash" not in begun:
        raise FlowChangedError(
            run_id, ("it was not started by a flow",), "Load its state and start a flow with it."
        )
    if history.opening.flow != program.flow:
        raise FlowChangedError(
            run_id,
            (f"it began as {history.opening.flow!r}, not {program.flow!r}",),
            "Resume it with the flow of that name.",
        )
    if inputs is not None:
        actual = inputs_hash(program.comparable(inputs, history.inputs.value()))
        if actual != begun["inputs_hash"]:
            mismatch = InputMismatchError(begun["inputs_hash"], actual)
            mismatch.add_note(f"different: {_differences(inputs, history.inputs.value())}")
            raise mismatch


def _began_otherwise(program: Program, history: History, inputs: Any) -> bool:
    try:
        _check_begun(program, history, inputs)
    except InputMismatchError:
        return True
    return False


def _differences(given: Any, recorded: Any) -> str:
    """Which inputs are not the recorded ones, by name."""
    if not isinstance(given, dict) or not isinstance(recorded, dict):
        return "the whole of it"
    names = {*given, *recorded}
    return ", ".join(
        sorted(
            str(name)
            for name in names
            if name not in given
            or name not in recorded
            or inputs_hash(given[name]) != inputs_hash(recorded[name])
        )
    )


def _behind(history: History) -> Resumption:
    failed = history.rolling_back()
    undone = {
        str(entry.step): facts["undone"]
        for entry in history.of(Kind.DECISION)
        if "undone" in (facts := meta(entry))
    }
    return Resumption(
        epoch=history.epoch,
        deaths=history.deaths(),
        failed_attempts=history.failed_attempts(),
        answers=history.answers(),
        wanted=history.wanted(),
        failure=None if failed is None else _recorded_failure(history, failed),
        undone=undone,
        waits=_still_waits(history),
        repairs=history.repairs,
    )


def _recorded_failure(history: History, entry: Entry) -> BaseException:
    if meta(entry).get("cancel"):
        return RunCancelledError(history.run)
    return failure_in(entry, history.value(entry))


def _still_waits(history: History) -> bool:
    """Whether there is nothing to do but wait on: what is asked was not answered."""
    head = history.head
    asked = head.kind == Kind.QUESTION or meta(head).get("reason") == "questions"
    return head.status == Status.PAUSED and asked


async def _child(parent: Run, task: Task, hands_over: bool) -> Any:
    """Carry out the run that a step of another stands for: start it, go on with it, or look it up."""
    assert task.child is not None
    core = parent.core
    make, inputs = task.child
    options = parent.options
    look = partial(_look, core, options=options)
    run_id, known = await look(partial(_find_child, core, parent, task))
    task.within = run_id
    status = None if known is None else known.status
    if status == Status.CANCELLED or (known is None and parent.wanted == "cancel"):
        raise RunCancelledError(run_id)
    if known is None:
        tip = core.journals.tip(parent.run_id)
        link = Link(None, None if tip is None else tip.owner, f"{parent.run_id}@{task.key}")
        plan = await start(
            core, make, run_id, inputs, options, link, parent=parent, hands_over=hands_over
        )
    else:
        anew = None
        if task.policy.claims is not None and parent.behind.repairs:
            within: History = await look(partial(History, core, run_id, whole=True))
            begin_anew = partial(trusting.begin_anew, core, parent.run_id, task.key, within)
            anew = await look(partial(begin_anew, options))
        rejected: tuple[ev.CheckpointRejected, ...] = ()
        if anew is not None:
            at = within.head.seq
            if await _drive(core, append_at(core, run_id, at, anew.drafts), options):
                rejected = anew.rejected
        try:
            plan = await resume(
                core, make, run_id, inputs, options, parent=parent, hands_over=hands_over
            )
            plan = plan._replace(rejected=rejected + plan.rejected)
        except RunFinishedError as over:
            if over.status != Status.COMPLETED:
                raise
            return await look(partial(outcome, core, make, run_id, inputs))
    return await carry_out(plan)


def _find_child(core: Core, parent: Run, task: Task) -> tuple[str, RunInfo | None]:
    """The run that a step stands for: its id, and what it is doing if it was begun. Blocks.

    One that failed and was undone is over; the next one takes its place. So it does where the
    step is repaired, and called with something else than before.
    """
    assert task.child is not None
    make, inputs = task.child
    for number in count(1):
        run_id = child_id(parent.run_id, task.key, parent.behind.epoch, number)
        known = reading.run(core, run_id)
        if known is None:
            break
        history = History(core, run_id, whole=False)
        wanted, found = f"{parent.run_id}@{task.key}", history.begun_with.get("parent")
        if found != wanted:
            raise RunMismatchError(run_id, "parent", str(found), wanted)
        if parent.behind.repairs and _began_otherwise(make(), history, inputs):
            continue
        if known.status != Status.FAILED or not meta(history.head).get("rolled_back"):
            break
    return run_id, known


def child_id(run_id: str, key: str, epoch: int, number: int = 1) -> str:
    """The id of the run that a step stands for: the same whenever the step is tried again.

    Two slashes, because neither a key nor a step's name has two in a row.
    """
    name = (
        f"{run_id}//{key}" + (f"~{epoch}" if epoch else "") + (f"~~{number}" if number > 1 else "")
    )
    if len(name.encode()) <= MAX_ID_BYTES:
        return name
    return f"{run_id[:SHORTENED]}/{hashlib.sha256(name.encode()).hexdigest()}"


def stream(plan: Callable[[], Awaitable[Plan]], release: Callable[[], Awaitable[object]]) -> Stream:
    """The events of a run that is prepared when the first of them is asked for."""
    events: deque[ev.Event] = deque()

    async def main() -> None:
        try:
            ready = await plan()
            ready.run.events = events
            with contextlib.suppress(RunPausedError, RunCancelledError):  # their events say it
                await carry_out(ready)
        except GeneratorExit:  # dropped in the middle: nothing may be awaited any more
            raise
        except BaseException:
            await release()
            raise
        await release()

    return Stream(main, events, release)
