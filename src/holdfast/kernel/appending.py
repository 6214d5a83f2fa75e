"""Optimistic appends: drafts go behind the journal's head, once, however often others win."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from holdfast.checkpoint import CheckpointInfo
from holdfast.codec.chain import SMALL_STATE
from holdfast.codec.meta import dump_meta
from holdfast.errors import (
    CheckpointCorruptedError,
    CheckpointNotFoundError,
    CheckpointSaveError,
    ConflictError,
    EntriesLostError,
    HoldfastError,
    RunMismatchError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
    UnknownFormatError,
)
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.kernel.keyed import confirm, ring_keys
from holdfast.kernel.new_runs import check_new_id, open_at_once
from holdfast.kernel.ticket import Ticket
from holdfast.kernel.tip import Tip
from holdfast.kernel.unclaimed import look_back
from holdfast.model import (
    THREADS,
    VERDICTS,
    Entry,
    Kind,
    Status,
    checkpoint_id,
    thread_journal,
)

T = TypeVar("T")

_PAUSE: Final = 0.02

Decide = Callable[[Entry | None], Draft | list[Draft]]
"""What follows a run's head. May block; raises to refuse."""


def append(
    core: Core,
    run: str,
    draft: Draft,
    *,
    expect: CheckpointInfo | None = None,
    target: int | None = None,
    ticket: Ticket | None = None,
) -> Op[Entry]:
    """Append the draft as the run's next entry, behind an opening one if the run is new.

    With `expect`, only while that checkpoint is the current one; with `target`, only while there
    is a checkpoint at that seq. `ticket` is what `append_at_once` has made of it already.
    """
    deadline = new_deadline(core) if ticket is None else ticket.deadline
    if ticket is None and expect is None and target is None:
        ticket = append_at_once(core, run, draft, deadline)
    if ticket is not None and (yield from is_durable(ticket)):
        return ticket.entries[-1]
    attempt = partial(_behind_known_head, core, run, draft, deadline, expect, target)
    ticket = yield from _until_durable(core, run, deadline, attempt)
    return ticket.entries[-1]


def append_at_once(core: Core, run: str, draft: Draft, deadline: float) -> Ticket | None:
    """Fast path: submit without waiting when the head is known; None when it is not."""
    journals = core.journals
    tip = journals.tip(run)
    if (
        tip is None
        or not tip.exists
        or (tip.chain is None and tip.lacks_state)
        or (tip.quiet is None and tip.says_due)
        or (draft.flow is not None and draft.flow != tip.flow)
        or (draft.thread is not None and draft.thread != tip.thread)
        or (draft.owner is not None and not _fits_owner(draft, tip))
        or not (journals.sealer is None or journals.sealer.is_ready(tip.owner or journals.owner))
        or journals.writer.full
    ):
        return None
    return journals.extend(tip, [draft], deadline)


def submit(
    core: Core, run: str, draft: Draft, *, expect: CheckpointInfo | None = None
) -> Op[Ticket]:
    """Like `append`, without waiting for the disk; `is_durable` says what became of it."""
    deadline = new_deadline(core)
    ticket = append_at_once(core, run, draft, deadline) if expect is None else None
    while ticket is None:
        ticket = yield from _behind_known_head(core, run, draft, deadline, expect, None)
    return ticket


def append_if(
    core: Core,
    run: str,
    decide: Decide,
    *,
    behind_queued: bool = False,
    patience: float | None = None,
    listed: bool = False,
    member: Draft | None = None,
    past_damage: bool = False,
    opens: bool = False,
) -> Op[Entry]:
    """Append what is decided about the run's head, while that is still the head.

    When another writer wins, `decide` is called again. Several drafts are appended together or not
    at all. With `behind_queued`, `decide` is asked also about an entry that is still on its way
    to the store, and must not block then: the head of a run that this process executes moves
    all the time. A run that is opened and is not `listed` is first listed by its thread, as this
    `member`. It is tried for `patience` seconds, or as long as a save may take. With
    `past_damage`, `decide` is called with None for a head that is damaged; else that raises. With
    `opens`, the store is not asked for the head of a run that nobody here has heard of: if there
    is one, it refuses, and is asked then.
    """
    deadline = new_deadline(core, patience)
    if opens:
        opened = open_at_once(core, run, _listed(decide(None)), deadline, listed=listed)
        if opened is not None and (yield from is_durable(opened)):
            return opened.entries[-1]
    attempt = partial(
        _behind_stored_head, core, run, decide, deadline, behind_queued, listed, member, past_damage
    )
    ticket = yield from _until_durable(core, run, deadline, attempt)
    return ticket.entries[-1]


def append_at(core: Core, run: str, seq: int, drafts: list[Draft]) -> Op[Entry | None]:
    """Append the drafts together behind `seq`; None, and nothing written, if it is not the head."""
    moved = ConflictError(run, seq)

    def decide(head: Entry | None) -> list[Draft]:
        if (-1 if head is None else head.seq) != seq:
            raise moved
        return drafts

    try:
        return (yield from append_if(core, run, decide))
    except ConflictError as error:
        if error is not moved:
            raise
        moved.__traceback__ = None  # a cycle that keeps the frames of a dropped stream alive
        return None


def _until_durable(
    core: Core, run: str, deadline: float, attempt: Callable[[], Op[Ticket | None]]
) -> Op[Ticket]:
    """Look, decide and extend by `attempt`, wait, and start over until the deadline."""
    while True:
        ticket = yield from attempt()
        if ticket is not None and (yield from is_durable(ticket)):
            if ticket.entries[0].kind == Kind.OPEN and ring_keys(core.journals) is not None:
                yield partial(confirm, core.journals, ticket.entries[0])
            return ticket
        if core.journals.clock.monotonic() > deadline:
            raise CheckpointSaveError(run, "others kept saving to it until the deadline")


def is_durable(ticket: Ticket) -> Op[bool]:
    """Wait for the outcome: True if it is durable, False if another writer won; else raises."""
    if not ticket.done:
        yield ticket
    if ticket.error is None:
        return True
    if isinstance(ticket.error, ConflictError):
        return False
    raise as_save_error(ticket.entries[0].run, ticket.error)


def _behind_known_head(
    core: Core,
    run: str,
    draft: Draft,
    deadline: float,
    expect: CheckpointInfo | None,
    target: int | None,
) -> Op[Ticket | None]:
    """Submit the draft behind the head as far as it is known here; None if that moved meanwhile."""
    journals = core.journals
    tip = yield from known_tip(core, run, draft, deadline)
    seen = tip.seq  # first: what is found out below must hold for the tip as it was here
    if why_not(run, tip, draft, expect) is not None:
        # Others may have moved the run since this process last heard of it.
        look = partial(journals.fetch_tip, run, with_state=False)
        tip = yield from _reached(core, run, deadline, look)
        seen = tip.seq
        refusal = why_not(run, tip, draft, expect)
        if refusal is not None:
            raise refusal
    if target is not None:
        look_for = partial(journals.entry, run, target)
        if (yield from _reached(core, run, deadline, look_for)) is None:
            raise CheckpointNotFoundError(run, checkpoint_id(run, target))
    if not tip.exists and journals.owner is not None:
        yield partial(journals.check_free, run, [draft])
    anywhere = expect is None and target is None and tip.exists
    drafts = yield from _opened(core, run, tip, [draft])
    if journals.writer.full:
        yield journals.writer.wait_for_room
    return journals.extend(tip, drafts, deadline, only_at=None if anywhere else seen)


def _behind_stored_head(
    core: Core,
    run: str,
    decide: Decide,
    deadline: float,
    behind_queued: bool,
    listed: bool,
    member: Draft | None,
    past_damage: bool,
) -> Op[Ticket | None]:
    """Submit what is decided about the head that is stored; None if that moved meanwhile."""
    journals = core.journals

    def look() -> tuple[int, list[Draft], Tip]:
        try:
            head, tip = journals.fetch_head(run)
        except UnknownFormatError:
            raise
        except CheckpointCorruptedError:
            if not past_damage:
                raise
            tip = journals.fetch_tip(run, with_state=False)
            return tip.seq, _listed(decide(None)), tip
        drafts = _listed(decide(head))
        if any(draft.kind == Kind.CLAIM for draft in drafts):
            look_back(journals, tip)  # once: a holder appends without asking the store
        return -1 if head is None else head.seq, drafts, tip

    seen, drafts, tip = yield from _reached(core, run, deadline, look)
    if not tip.exists and journals.owner is not None:
        yield partial(journals.check_free, run, drafts)
    if not listed:
        drafts = yield from _opened(core, run, tip, drafts, member)
    ticket = journals.extend(tip, drafts, deadline, only_at=seen)
    if ticket is None and behind_queued and not tip.broken:
        queued = journals.writer.queued(run)
        if queued and queued[0].seq == seen + 1 and queued[-1].status == Status.RUNNING:
            with suppress(HoldfastError):  # it may never reach the store: ask again then
                drafts = _listed(decide(queued[-1]))
                ticket = journals.extend(tip, drafts, deadline, only_at=queued[-1].seq)
    return ticket


def why_not(
    run: str, tip: Tip, draft: Draft, expect: CheckpointInfo | None = None
) -> HoldfastError | None:
    """Why the draft must not follow this tip; None if it may."""
    if expect is not None and 0 <= tip.seq < expect.seq:  # a run that is gone may have expired
        return EntriesLostError(run, expect.seq, tip.seq)
    if expect is not None and tip.seq == expect.seq and tip.digest != expect.entry.digest:
        return EntriesLostError(run, expect.seq, tip.seq)
    if expect is not None and tip.state_seq != expect.seq:
        return ConflictError(run, tip.seq)
    if not tip.exists or tip.damaged:
        return None
    for field in ("flow", "thread"):
        given, known = getattr(draft, field), getattr(tip, field)
        if given is not None and given != known:
            return RunMismatchError(run, field, known, given)
    if draft.owner is not None and not _fits_owner(draft, tip):
        return RunMismatchError(run, "owner", tip.owner, draft.owner)
    return None


def _fits_owner(draft: Draft, tip: Tip) -> bool:
    """Whether the draft names no other owner than the run has; a thread has runs of many."""
    return draft.owner in (None, tip.owner) or tip.run.startswith((THREADS, VERDICTS))


def _is_ready(core: Core, tip: Tip) -> bool:
    """Whether an entry behind this tip can be closed without blocking."""
    sealer = core.journals.sealer
    return sealer is None or sealer.is_ready(tip.owner or core.journals.owner)


def known_tip(core: Core, run: str, draft: Draft, deadline: float) -> Op[Tip]:
    """What is known of the run's head, asked of the store if need be, until the deadline."""
    journals = core.journals
    with_state = draft.encoding is not None and len(draft.encoding) > SMALL_STATE
    tip = journals.tip(run)
    while tip is None or (with_state and tip.lacks_state):
        look = partial(journals.fetch_tip, run, with_state=with_state)
        tip = yield from _reached(core, run, deadline, look)
        if with_state and tip.lacks_state:  # it is ahead of the store, by what is on its way there
            if journals.clock.monotonic() > deadline:
                raise CheckpointSaveError(run, "others kept saving to it until the deadline")
            journals.writer.kick()
            yield partial(time.sleep, _PAUSE)
    if tip.quiet is None and tip.says_due:
        yield from _reached(core, run, deadline, partial(look_back, journals, tip))
    if not _is_ready(core, tip):  # its key is not in memory any more
        yield from _reached(core, run, deadline, partial(journals.have_ready, tip))
    return tip


def _reached(core: Core, run: str, deadline: float, call: Callable[[], T]) -> Op[T]:
    """Call something that reads the store; again, until the deadline, while it is unavailable."""
    journals = core.journals
    while True:
        try:
            found: T = yield call
            return found
        except StoreUnavailableError as error:
            if journals.clock.monotonic() > deadline:
                raise as_save_error(run, error) from error
            journals.writer.held_up(error)
            yield partial(time.sleep, _PAUSE)
        except StoreError as error:
            raise as_save_error(run, error) from error


def _opened(
    core: Core, run: str, tip: Tip, drafts: list[Draft], member: Draft | None = None
) -> Op[list[Draft]]:
    """The drafts, behind an opening entry if the run is new. Its thread lists the run first."""
    first = drafts[0]
    if core.withholding.encrypts:
        drafts = yield partial(_handed_over, core, run, tip, drafts)
    if tip.exists or first.kind in (Kind.MEMBER, Kind.VERDICT):
        return drafts
    check_new_id(run, first)
    if core.journals.sealer is not None:
        yield partial(core.journals.prepare, first.owner or core.journals.owner)
    if first.thread is not None:
        listing = (member or thread_member(run))._replace(owner=first.owner)
        yield from append(core, thread_journal(first.thread), listing)
    if first.kind == Kind.OPEN:
        return drafts
    opening = Draft(
        Kind.OPEN.value,
        first.status,
        parent=None,
        flow=first.flow,
        thread=first.thread,
        owner=first.owner,
    )
    return [opening, *drafts]


def _handed_over(core: Core, run: str, tip: Tip, drafts: list[Draft]) -> list[Draft]:
    """The drafts, with fields that the run's owner can read: others may have begun it anew."""
    owner = tip.owner if tip.exists else drafts[0].owner
    encode = partial(core.withholding.handed_over, run, owner=owner, is_new=not tip.exists)
    return [
        draft if draft.encoding is None else draft._replace(encoding=encode(draft.encoding))
        for draft in drafts
    ]


def _listed(decided: Draft | list[Draft]) -> list[Draft]:
    return decided if isinstance(decided, list) else [decided]


def thread_member(run: str, owner: str | None = None, **facts: str) -> Draft:
    """What a thread's journal keeps of a run."""
    meta = dump_meta({"run": run, **facts})
    return Draft(Kind.MEMBER.value, Status.OPEN.value, owner=owner, meta=meta)


def alias_of(step_id: str) -> Draft:
    """What the journal of an alias keeps: the step whose checkpoint it names."""
    return Draft(Kind.MEMBER.value, Status.OPEN.value, meta=dump_meta({"step": step_id}))


def new_deadline(core: Core, patience: float | None = None) -> float:
    """When a save that begins now must be through."""
    seconds = core.settings.deadline if patience is None else patience
    return core.journals.clock.monotonic() + seconds


def as_save_error(run: str, error: HoldfastError) -> HoldfastError:
    """The error for the user: a store error means that this run was not saved, if there is one."""
    if (
        run
        and isinstance(error, StoreError)
        and not isinstance(error, StoreClosedError | EntriesLostError)
    ):
        wrapped = CheckpointSaveError(run, str(error))
        wrapped.__cause__ = error
        return wrapped
    return error
