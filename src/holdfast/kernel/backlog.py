"""Saves that return before they are durable: durability="async" and "exit"."""

from __future__ import annotations

import inspect
import math
from typing import Final

from holdfast.errors import CheckpointSaveError, ConflictError, HoldfastError
from holdfast.kernel.appending import (
    append,
    append_at_once,
    as_save_error,
    known_tip,
    new_deadline,
    submit,
    why_not,
)
from holdfast.kernel.core import Core, Op, unsettled
from holdfast.kernel.draft import Draft
from holdfast.kernel.ticket import Line, Ticket, wake
from holdfast.logs import about, logger
from holdfast.model import Entry

log = logger()

MAX_BACKLOG: Final = 1000  # saves that durability="async" queues before it waits


def save_later(core: Core, run: str, draft: Draft) -> Op[Entry]:
    """Queue the save without waiting for the disk. Beginning a run always waits."""
    yield from _settle(core, wait=len(core.backlog) >= MAX_BACKLOG)
    deadline = new_deadline(core)
    if core.settings.durability == "exit":
        tip = yield from known_tip(core, run, draft, deadline)
        if not tip.exists:
            return (yield from append(core, run, draft))
        refusal = why_not(run, tip, draft)
        if refusal is not None:
            raise refusal
        with core.lock:
            core.held_back[run] = draft
            unsettled.add(core)
        return unsaved(core, run, draft)._replace(seq=tip.seq + 1, parent=tip.state_seq)
    ticket = append_at_once(core, run, draft, deadline)
    if ticket is None:
        # The run is new to us, or lost its head: what was queued before must come first.
        yield from _settle(core, wait=True)
        return (yield from append(core, run, draft))
    core.backlog.append(ticket)
    unsettled.add(core)
    core.journals.writer.kick()
    return ticket.entries[-1]


def flush(core: Core) -> Op[None]:
    """Return when everything saved so far is durable; raise the first error if something is not."""
    with core.lock:
        while core.held_back:
            run, draft = next(iter(core.held_back.items()))
            # Like one that lost its place: it is submitted, once, by the first to settle it.
            waiting = Ticket([unsaved(core, run, draft)], Line(), math.inf, drafts=[draft])
            waiting.resolve(ConflictError(run, -1))
            core.backlog.append(waiting)
            del core.held_back[run]  # last: Ctrl-C may come in between
    yield from _settle(core, wait=True)
    if not core.unsettled:
        unsettled.discard(core)


def tolerate(core: Core, error: HoldfastError) -> None:
    """Raise a failed save, or log it where `on_save_failure` is "warn"."""
    if core.settings.on_save_failure == "raise" or not isinstance(error, CheckpointSaveError):
        raise error
    core.degraded = error
    log.warning(
        "run %s continues without its checkpoint: %s",
        error.run_id,
        error,
        extra=about(error.run_id),
    )


def unsaved(core: Core, run: str, draft: Draft) -> Entry:
    """A placeholder for an entry that is not, or not yet, in the journal."""
    return Entry(
        run, -1, draft.kind, b"", None, -1, b"", draft.step, draft.step_index, draft.type, draft.status,
        core.journals.clock.now(), draft.duration, len(draft.encoding or b""), draft.flow,
        draft.thread, draft.owner, draft.meta, b"",
    )  # fmt: skip


def _settle(core: Core, *, wait: bool) -> Op[None]:
    """Collect the outcomes of queued saves. One that lost its place is saved again, in order."""
    while core.backlog and (wait or core.out_of_order or core.backlog[0].done):
        ticket = core.backlog[0]
        if isinstance(ticket, _StandIn) and ticket.is_abandoned:
            _replace(core, ticket)
        elif not ticket.done:
            yield ticket
        elif isinstance(ticket.error, ConflictError):
            # The ones behind it lost with it. None may overtake another, also where whoever
            # settles them is cancelled, and another comes meanwhile.
            core.out_of_order = True
            try:
                stand_in = _StandIn(ticket)
                stand_in.attempt = _submit_again(core, stand_in)
                yield from stand_in.attempt
            except CheckpointSaveError as error:
                if core.settings.on_save_failure == "warn":
                    core.take_from_backlog(ticket)
                tolerate(core, error)
        elif core.take_from_backlog(ticket):
            if ticket.error is None:
                core.degraded = None
                continue
            run = ticket.entries[0].run
            if core.settings.durability == "exit":
                with core.lock:  # for the next flush, unless a newer state came meanwhile
                    core.held_back.setdefault(run, ticket.drafts[-1])
            tolerate(core, as_save_error(run, ticket.error))
    if not core.backlog:
        core.out_of_order = False


class _StandIn(Ticket):
    """Where a save was that is being submitted again, for others who settle the backlog to wait for."""

    __slots__ = ("attempt", "next")

    attempt: Op[None]

    def __init__(self, lost: Ticket) -> None:
        super().__init__((), Line(), math.inf)
        self.next = lost  # what takes its place

    @property
    def is_abandoned(self) -> bool:
        """Whether the attempt ended without replacing it: Ctrl-C struck just there."""
        return not self.done and inspect.getgeneratorstate(self.attempt) == inspect.GEN_CLOSED


def _submit_again(core: Core, stand_in: _StandIn) -> Op[None]:
    """Queue again a save that lost its place, at its position in the backlog.

    Whatever happens, cancellation included, a ticket takes the stand-in's place.
    """
    lost = stand_in.next
    try:
        if core.take_from_backlog(lost, put=stand_in):
            stand_in.next = yield from submit(core, lost.entries[0].run, lost.drafts[-1])
    finally:
        _replace(core, stand_in)


def _replace(core: Core, stand_in: _StandIn) -> None:
    core.take_from_backlog(stand_in, put=stand_in.next)
    stand_in.resolve(None)
    wake([stand_in])
