"""Taking a run over: whether that is allowed, from which checkpoint on, and claiming it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

from holdfast.codec.meta import HOLDER, Meta, dump_meta, meta_text
from holdfast.engine import events as ev
from holdfast.engine.holding.lease import Holder
from holdfast.engine.holding.observing import Why, refuse_if_held, standing
from holdfast.engine.inputs import comparable_hash, differences
from holdfast.engine.options import Options
from holdfast.engine.people import deadlines, inbox, requests
from holdfast.engine.program import Program
from holdfast.engine.resume import trust
from holdfast.engine.resume.history import History
from holdfast.engine.run.failures import failure_in
from holdfast.engine.run.left import recall
from holdfast.engine.run.resumption import Resumption
from holdfast.errors import (
    CheckpointNotFoundError,
    FlowChangedError,
    InputMismatchError,
    LeaseLostError,
    ReviveError,
    RunActiveError,
    RunCancelledError,
    RunFinishedError,
    RunPausedError,
    StoreUnavailableError,
    VerificationError,
)
from holdfast.kernel.appending import append_at, append_if, as_save_error, new_deadline
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.migrations import Place, misfit
from holdfast.model import CARRY_STATE, Entry, Kind, Status, checkpoint_id

T = TypeVar("T")

_PATIENCE: Final = 3  # how often a holder that is still saving may be faster than we are
_PAUSE: Final = 0.02  # seconds, while the store is unavailable
_ATTEMPTS: Final = 20  # to take over a run that others keep changing

Make = Callable[[], Program]
"""Makes a flow's program anew: each is used for one attempt to execute a run."""


class Claimed(NamedTuple):
    """A run that this process holds, or one that only waits for answers."""

    history: History  # up to the claim
    program: Program
    restored: int  # steps
    last: Entry  # the claim
    crashed: bool = False  # the last holder died
    rejected: tuple[ev.CheckpointRejected, ...] = ()


class Claimant(NamedTuple):
    """On whose behalf a run is claimed, and what goes with it."""

    holder: Holder
    parent_term: int | None = None  # of a child run: the claim of its parent's holder
    along: Callable[[], Awaitable[None]] | None = None  # called just before the claim is appended

    @property
    def facts(self) -> dict[str, Any]:
        """What its openings and claims say."""
        term = {} if self.parent_term is None else {"parent_term": self.parent_term}
        return {HOLDER: str(self.holder), **term}


async def claim(
    core: Core, make: Make, run_id: str, inputs: Any, options: Options, ours: Claimant
) -> Claimed:
    """Take a run over at the newest checkpoint that can be trusted.

    The claim is appended at exactly the position that was examined; if it loses, everything is
    examined again. Only with `take_over` may it come first. Raises `RunActiveError` while another
    living process holds the run.
    """
    flow, wary = make().flow, options.trust != "skip"

    def draft(why: Why) -> Draft:
        facts = {**flow.stamp, **ours.facts, "why": why}
        return Draft(Kind.CLAIM.value, Status.RUNNING.value, meta=dump_meta(facts))

    for attempt in range(1, _ATTEMPTS + 1):
        history = await look(core, partial(History, core, run_id, whole=flow.replays), options)
        program = make()
        todo = await _consider(core, program, history, inputs, options, ours)
        if todo.look_again:
            continue
        retreat, crashed = todo.retreat, todo.why == "died"
        if program.migrations is not None and _ran_otherwise(program, history):
            ahead = history
            if retreat is not None:
                ahead = await look(core, partial(history.back_to, retreat.to), options)
            rehearse(make(), ahead)
        if todo.wait:
            restored = program.restore(history, wary=wary)
            return Claimed(history, program, restored, history.head)
        drafts = [draft(todo.why)] if retreat is None else [*retreat.drafts, draft(todo.why)]
        if retreat is None:
            restored = program.restore(history, wary=wary)
        if ours.along is not None:
            await ours.along()
        entry = await drive(core, append_at(core, run_id, history.head.seq, drafts), options)
        if entry is None:
            if options.take_over and attempt >= _PATIENCE:  # its holder is too fast: it must stop
                behind_any = partial(_behind_any, draft("taken_over"))
                await drive(core, append_if(core, run_id, behind_any), options)
            continue
        if retreat is None:
            return Claimed(history, program, restored, entry, crashed)
        retreat.tell(run_id)
        history = await look(core, partial(history.read_on, entry.seq), options)
        program = make()
        check_flow(program, history, inputs)
        restored = program.restore(history, wary=wary)
        return Claimed(history, program, restored, entry, crashed, retreat.rejected)
    raise RunActiveError(run_id, history.head.status)


class _Todo(NamedTuple):
    """What to do about a run as it is: claim it, unless something else is set."""

    why: Why = "released"  # it may be claimed
    look_again: bool = False  # it has changed
    wait: bool = False  # for answers
    retreat: trust.Retreat | None = None  # before it continues


async def _consider(
    core: Core, program: Program, history: History, inputs: Any, options: Options, ours: Claimant
) -> _Todo:
    """What to do about a run. Raises if it can't be continued, before anything is claimed."""
    run_id, head = history.run, history.head
    completed = head.status == Status.COMPLETED
    if completed and options.in_worker and ours.parent_term is None:
        raise RunFinishedError(run_id, head.status)  # whoever looks for work does not repair it
    why: Why = "released"
    if not completed:
        check_resumable(program, history, inputs)
        if options.in_worker and ours.parent_term is None:
            await look(core, partial(_check_for_workers, history), options)
        may_claim = partial(_may_claim, core, head, options.take_over, ours)
        why = await patiently(core, run_id, may_claim, options)
        if deadlines.overdue(core, history):
            await drive(core, requests.apply_deadlines(core, run_id), options)
            return _Todo(look_again=True)
        asked = history.asked_to_pause
        if asked is not None and options.heeds_pause:
            pause = Draft(
                Kind.PAUSE.value, Status.PAUSED.value, step=head.step, meta=meta_text(asked)
            )
            if await drive(core, append_at(core, run_id, head.seq, [pause]), options) is None:
                return _Todo(look_again=True)
            asking = await look(core, partial(inbox.questions, core, run_id), options)
            raise RunPausedError(run_id, tuple(question.key for question in asking))
    waits = history.still_waits
    if waits and options.in_worker:
        return _Todo(wait=True)  # workers look at many
    try:
        retreat = await look(core, partial(trust.examine, core, history, options), options)
    except VerificationError:
        if not waits:
            raise
        retreat = None  # undecided: it is examined again when the answer has come
    if waits and retreat is None:
        return _Todo(wait=True)
    if completed and retreat is not None:
        check_resumable(program, history, inputs)
    elif completed:
        newest = await look(core, partial(core.journals.head_seq, run_id), options)
        if newest == head.seq:
            raise RunFinishedError(run_id, head.status)
        return _Todo(look_again=True)  # another process resumed it and repaired it meanwhile
    return _Todo(why, retreat=retreat)


def _may_claim(core: Core, head: Entry, take_over: bool, ours: Claimant) -> Why:
    """Why the run with this head may be claimed. Raises `RunActiveError` if it may not. Blocks.

    Who holds the parent may claim its child runs from whoever held the parent before.
    """
    if ours.parent_term is not None and head.status == Status.RUNNING:
        said = core.journals.entry(head.run, head.term)
        before = None if said is None else Meta(said).parent_term
        if before is not None and before > ours.parent_term:
            raise LeaseLostError(head.run, "another one holds the run that it is a part of")
        take_over = take_over or (before is not None and before < ours.parent_term)
    if not take_over:
        return refuse_if_held(core, head)
    return standing(core, head).why or "taken_over"


def _behind_any(claim: Draft, head: Entry | None) -> Draft:
    """A claim behind any head: it fences off the previous holder."""
    if head is None or head.status == Status.DELETED:
        raise CheckpointNotFoundError("" if head is None else head.run)
    if head.status in (Status.COMPLETED, Status.CANCELLED):
        raise RunFinishedError(head.run, head.status)
    return claim


async def drive(core: Core, op: Op[T], options: Options) -> T:
    """Execute an operation, sync or async as the run is."""
    return core.drive(op) if options.blocking else await core.drive_async(op)


async def look(core: Core, read: Callable[[], T], options: Options) -> T:
    """Call what blocks without keeping the event loop waiting."""
    return read() if options.blocking else await core.off_loop(read)


async def patiently(core: Core, run: str, call: Callable[[], T], options: Options) -> T:
    """`look`, again until the deadline of a save while the store is unavailable."""
    deadline = new_deadline(core)
    while True:
        try:
            return await look(core, call, options)
        except StoreUnavailableError as error:
            if core.journals.clock.monotonic() > deadline:
                raise as_save_error(run, error) from error
            core.journals.writer.held_up(error)
            await asyncio.sleep(_PAUSE)


def check_resumable(program: Program, history: History, inputs: Any = None) -> None:
    """Raise if the run can't be resumed, before anything is claimed."""
    run_id, head = history.run, history.head
    if head.status == Status.CANCELLED:
        raise RunFinishedError(run_id, head.status)
    if history.rolled_back:
        raise RunFinishedError(run_id, "failed and rolled back")
    check_flow(program, history, inputs)


def _check_for_workers(history: History) -> None:
    """Raise if the run has changed since a worker found it, and is not for workers any more."""
    if not history.is_for_workers:
        raise RunFinishedError(history.run, history.head.status)


def check_flow(program: Program, history: History, inputs: Any = None) -> None:
    """Raise `FlowChangedError` or `InputMismatchError` if the run can't continue with this flow."""
    check_begun(program, history, inputs)
    program.check(history)


def rehearse(program: Program, history: History) -> Exception | None:
    """Replay a migrated run up to what is next, and execute nothing. Uses up the program.

    Returns the error that the flow's own code raises, if it does: the run would fail with it.
    Raises `FlowChangedError` before anything is claimed, where a resume would raise it later.
    """
    try:
        program.restore(history)
        try:
            program.ready()
        except (FlowChangedError, ReviveError):
            raise
        except Exception as error:
            return error
    except ReviveError as error:
        if program.migrations is None:
            return error
        states = [e for e in history.entries if e.kind in CARRY_STATE]
        newest = states[-1] if states else history.opening
        place = Place(history.run, checkpoint_id(history.run, newest.seq))
        reason = f"what it became does not have its type: {misfit(error)}"
        version = history.meta(newest).flow_version
        advice = "Correct the migration."
        raise program.migrations.error(version, reason, advice, place) from error
    finally:
        program.close()
    return None


def _ran_otherwise(program: Program, history: History) -> bool:
    """Whether another version of the flow recorded something of the run."""
    return bool(history.versions.keys() - {program.flow.version})


def check_begun(program: Program, history: History, inputs: Any) -> None:
    """Raise unless the run was started by this flow, with these inputs; None is any."""
    run_id, begun = history.run, history.meta(history.opening)
    if begun.inputs_hash is None:
        raise FlowChangedError(
            run_id, ("it was not started by a flow",), "Load its state and start a flow with it."
        )
    if history.opening.flow != program.flow.name:
        raise FlowChangedError(
            run_id,
            (f"it began as {history.opening.flow!r}, not {program.flow.name!r}",),
            "Resume it with the flow of that name.",
        )
    if inputs is not None:
        history.supply(inputs)
        core = history.core
        migrated, expected = program.migrated_inputs(history), begun.inputs_hash
        recorded = history.inputs_as_data if migrated is None else migrated
        given = program.comparable(inputs, recorded)
        actual = comparable_hash(core, given)
        if migrated is not None or (actual != expected and not core.journals.live):
            expected = comparable_hash(core, recorded)  # other versions hash in other ways
        if actual != expected:
            shown = map(core.withholding.masked, (recorded, given))
            raise InputMismatchError(expected, actual, run_id, tuple(differences(*shown)))


def began_otherwise(program: Program, history: History, inputs: Any) -> bool:
    """Whether the run was started with other inputs."""
    try:
        check_begun(program, history, inputs)
    except InputMismatchError:
        return True
    return False


def resumption(core: Core, claimed: Claimed) -> Resumption:
    """What happened in a run that is resumed."""
    history = claimed.history
    failed = history.rolling_back()
    known = recall(chain(reversed(history.entries), (history.opening,)))
    undone = {
        str(entry.step): why
        for entry in history.of(Kind.DECISION)
        if (why := history.meta(entry).undone) is not None
    }
    return Resumption(
        birth=history.birth,
        epoch=history.epoch,
        claimed=history.claimed,
        deaths=history.deaths() + claimed.crashed,
        failed_attempts=history.failed_attempts(),
        cut_short=history.cut_short() if known is None else known,
        due=history.due(),
        deadlines=deadlines.deadlines(core, history),
        answers=history.answers(),
        wanted=history.wanted(),
        failure=None if failed is None else _recorded_failure(history, failed),
        undone=undone,
        waits=history.still_waits,
        repairs=history.repairs,
    )


def _recorded_failure(history: History, entry: Entry) -> BaseException:
    if history.meta(entry).cancel:
        return RunCancelledError(history.run)
    return failure_in(entry, history.value(entry))
