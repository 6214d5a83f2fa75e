"""How a draft gets into a journal: behind the head, once, however often others are faster."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from holdfast.checkpoint import CheckpointInfo
from holdfast.codec.chain import SMALL_STATE
from holdfast.codec.meta import dump_meta
from holdfast.errors import (
    CheckpointNotFoundError,
    CheckpointSaveError,
    ConflictError,
    EntriesLostError,
    HoldfastError,
    RunExistsError,
    RunMismatchError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.kernel.core import Core, Op, Pending
from holdfast.kernel.journal import Draft, Tip
from holdfast.model import Entry, Kind, Status, checkpoint_id, thread_journal

_PAUSE: Final = 0.02


def append(
    core: Core,
    run: str,
    draft: Draft,
    *,
    expect: CheckpointInfo | None = None,
    origin: str | None = None,
    prelude: Sequence[Draft] = (),
    target: int | None = None,
) -> Op[Entry]:
    """Append the draft as the run's next entry, however often others are faster.

    With `expect`, only while that checkpoint is the current one; with `origin`, only as the
    first of a new run, behind the `prelude`; with `target`, only while there is a checkpoint at
    that seq.
    """
    deadline = new_deadline(core)
    at_once = expect is None and origin is None and target is None
    while True:
        pending = submit_at_once(core, run, draft, deadline) if at_once else None
        if pending is None:
            pending = yield from submit(
                core,
                run,
                draft,
                deadline,
                expect=expect,
                origin=origin,
                prelude=prelude,
                target=target,
            )
        ticket = pending.ticket
        if not ticket.done:
            yield ticket
        if ticket.error is None:
            return pending.entry
        if not isinstance(ticket.error, ConflictError):
            raise as_save_error(run, ticket.error)
        if core.journals.clock.monotonic() > deadline:
            raise CheckpointSaveError(run, "others kept saving to it until the deadline")


def submit_at_once(core: Core, run: str, draft: Draft, deadline: float) -> Pending | None:
    """What `submit` comes to when the run's head is known, which is nearly always."""
    journals = core.journals
    tip = journals.tip(run)
    if (
        tip is None
        or not tip.exists
        or (tip.encoding is None and tip.lacks_state)
        or (draft.flow is not None and draft.flow != tip.flow)
        or (draft.thread is not None and draft.thread != tip.thread)
        or (draft.owner is not None and draft.owner != tip.owner)
        or journals.writer.full
    ):
        return None
    placed = journals.extend(tip, [draft], deadline)
    return None if placed is None else Pending(placed[0], run, draft, placed[1][-1])


def submit(
    core: Core,
    run: str,
    draft: Draft,
    deadline: float,
    *,
    expect: CheckpointInfo | None = None,
    origin: str | None = None,
    prelude: Sequence[Draft] = (),
    target: int | None = None,
) -> Op[Pending]:
    """Queue the draft behind the run's head as far as it is known, without waiting for the disk."""
    journals = core.journals
    asked = False
    while True:
        tip = yield from known_tip(core, run, draft, deadline)
        seen = tip.seq  # first: what is found out below must hold for the tip as it was here
        refusal = why_not(run, tip, draft, expect, origin)
        if refusal is not None:
            if asked:
                raise refusal
            # Others may have moved the run since this process last heard of it.
            asked = True
            yield partial(journals.fetch_tip, run, with_state=False)
            continue
        if target is not None and (yield partial(journals.entry, run, target)) is None:
            raise CheckpointNotFoundError(run, checkpoint_id(run, target))
        drafts = yield from opened(core, run, tip, draft, prelude)
        if journals.writer.full:
            yield journals.writer.wait_for_room
        certain = expect is None and target is None and len(drafts) == 1
        only_at = None if certain else seen  # by now another task may have moved it
        placed = journals.extend(tip, drafts, deadline, only_at=only_at)
        if placed is not None:
            ticket, entries = placed
            return Pending(ticket, run, draft, entries[-1], expect)


def append_at(core: Core, run: str, seq: int, drafts: list[Draft]) -> Op[Entry | None]:
    """Append the drafts together behind `seq`; None, with nothing written, if that is not the head."""

    def decide(head: Entry | None) -> list[Draft]:
        if head is None or head.seq != seq:
            raise _MovedError
        return drafts

    try:
        return (yield from append_if(core, run, decide))
    except _MovedError:
        return None


class _MovedError(Exception):
    """Someone else was faster."""


def append_if(
    core: Core,
    run: str,
    decide: Callable[[Entry | None], Draft | list[Draft]],
    *,
    behind_queued: bool = False,
) -> Op[Entry]:
    """Append what is decided about the run's head, while that is still the head.

    `decide` may block, and raises to refuse. When others are faster it is asked again. Several
    drafts, for a run that there is, are appended together or not at all. With `behind_queued` it
    is asked also about an entry that is only on its way to the store, and must not block then:
    the head of a run that is carried out in this very process hardly ever stands still.
    """
    deadline = new_deadline(core)
    journals = core.journals

    def look() -> tuple[Entry | None, Draft | list[Draft], Tip]:
        found = journals.checked_head(run)
        return found, decide(found), journals.fetch_tip(run, with_state=False)

    while True:
        try:
            head, draft, tip = yield look
        except StoreUnavailableError as error:
            if journals.clock.monotonic() > deadline:
                raise as_save_error(run, error) from error
            journals.writer.held_up(error)
            yield partial(time.sleep, _PAUSE)
            continue
        drafts = draft if isinstance(draft, list) else (yield from opened(core, run, tip, draft))
        seen = -1 if head is None else head.seq
        placed = journals.extend(tip, drafts, deadline, only_at=seen)
        if placed is None and behind_queued and not tip.broken:
            queued = journals.writer.queued(run)
            if queued and queued[0].seq == seen + 1 and queued[-1].status == Status.RUNNING:
                with suppress(HoldfastError):  # it may never come to the store: ask again then
                    draft = decide(queued[-1])
                    drafts = draft if isinstance(draft, list) else [draft]
                    placed = journals.extend(tip, drafts, deadline, only_at=queued[-1].seq)
        if placed is not None:
            ticket, entries = placed
            if not ticket.done:
                yield ticket
            if ticket.error is None:
                return entries[-1]
            if not isinstance(ticket.error, ConflictError):
                raise as_save_error(run, ticket.error)
        if journals.clock.monotonic() > deadline:
            raise CheckpointSaveError(run, "others kept saving to it until the deadline")


def why_not(
    run: str,
    tip: Tip,
    draft: Draft,
    expect: CheckpointInfo | None = None,
    origin: str | None = None,
) -> HoldfastError | None:
    """Why the draft must not follow this tip; None if it may."""
    if expect is not None and 0 <= tip.seq < expect.seq:  # a run that is gone may have expired
        return EntriesLostError(run, expect.seq, tip.seq)
    if expect is not None and tip.state_seq != expect.seq:
        return ConflictError(run, tip.seq)
    if not tip.exists or tip.damaged:
        return None
    if origin is not None and tip.state_seq is not None:  # else the opening alone survived a crash
        return RunExistsError(run)
    for field in ("flow", "thread", "owner"):
        given, known = getattr(draft, field), getattr(tip, field)
        if given is not None and given != known:
            return RunMismatchError(run, field, known, given)
    return None


def finish(core: Core, pending: Pending) -> Op[Entry]:
    """The entry as it stands in the store, saved again behind the new head if it lost its place."""
    ticket = pending.ticket
    if not ticket.done:
        yield ticket
    if ticket.error is None:
        return pending.entry
    if isinstance(ticket.error, ConflictError):
        return (yield from append(core, pending.run, pending.draft, expect=pending.expect))
    raise as_save_error(pending.run, ticket.error)


def known_tip(core: Core, run: str, draft: Draft, deadline: float) -> Op[Tip]:
    """What is known of the run's head, asked of the store if need be, until the deadline."""
    journals = core.journals
    with_state = draft.encoding is not None and len(draft.encoding) > SMALL_STATE
    tip = journals.tip(run)
    while tip is None or (with_state and tip.lacks_state):
        try:
            tip = yield partial(journals.fetch_tip, run, with_state=with_state)
        except StoreError as error:
            if (
                not isinstance(error, StoreUnavailableError)
                or journals.clock.monotonic() > deadline
            ):
                raise as_save_error(run, error) from error
            journals.writer.held_up(error)
            yield partial(time.sleep, _PAUSE)
    return tip


def opened(
    core: Core, run: str, tip: Tip, draft: Draft, prelude: Sequence[Draft] = ()
) -> Op[list[Draft]]:
    """The draft, behind an opening entry if the run is new. A thread hears of the run first."""
    if tip.exists or draft.kind in (Kind.MEMBER, Kind.VERDICT):
        return [draft]
    if draft.thread is not None:
        yield from append(core, thread_journal(draft.thread), thread_member(run))
    if prelude or draft.kind == Kind.OPEN:
        return [*prelude, draft]
    opening = Draft(
        Kind.OPEN.value,
        draft.status,
        parent=None,
        flow=draft.flow,
        thread=draft.thread,
        owner=draft.owner,
    )
    return [opening, draft]


def thread_member(run: str) -> Draft:
    """What a thread's journal keeps of a run."""
    return Draft(Kind.MEMBER.value, Status.OPEN.value, meta=dump_meta({"run": run}))


def alias_of(step_id: str) -> Draft:
    """What the journal of an alias keeps: the step whose checkpoint it names."""
    return Draft(Kind.MEMBER.value, Status.OPEN.value, meta=dump_meta({"step": step_id}))


def new_deadline(core: Core) -> float:
    """When a save that begins now must be through."""
    return core.journals.clock.monotonic() + core.settings.deadline


def as_save_error(run: str, error: HoldfastError) -> HoldfastError:
    """What a user is told: trouble of the store means that this run was not saved."""
    if isinstance(error, StoreError) and not isinstance(error, StoreClosedError):
        wrapped = CheckpointSaveError(run, str(error))
        wrapped.__cause__ = error
        return wrapped
    return error
