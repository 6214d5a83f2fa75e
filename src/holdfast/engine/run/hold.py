"""The right to record a run's steps, held until another process takes the run over.

The process that opened or claimed a run appends behind its own last entry. If another entry is
there, it looks: behind requests and answers it appends all the same; anything else means that
another process holds the run now. If the store has lost its last entry, or has another in its place,
the run stops: it would continue from a state that only this process knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from holdfast.codec import envelope
from holdfast.codec.chain import SMALL_STATE
from holdfast.codec.meta import dump_meta
from holdfast.engine.holding.lease import Lease
from holdfast.engine.holding.presence import Presence
from holdfast.errors import (
    CheckpointSaveError,
    ConflictError,
    EntriesLostError,
    LeaseLostError,
    RunCancelledError,
    RunError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.kernel.appending import as_save_error, new_deadline
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.kernel.proving import prove
from holdfast.kernel.ticket import Ticket
from holdfast.model import FROM_OUTSIDE, Entry, Kind, Status
from holdfast.store import Head, Work, WorkFailedError

_PAUSE: Final = 0.005


class Hold:
    """Appends for the holder of a run. Several tasks may append; they take turns."""

    def __init__(
        self,
        core: Core,
        entry: Entry,
        presence: Presence,
        lease: Lease | None,
        facts: Mapping[str, Any],
        *,
        blocking: bool = False,
    ) -> None:
        self.core = core
        self.run = entry.run
        self.term = entry.seq  # our own opening or claim
        self.presence = presence
        self.lease = lease  # None: only one process can use the store
        self._facts = facts  # what our claims say
        self.last: Head = entry.seq, entry.digest  # ours, submitted, or what was taken note of
        self.absorbed: list[Entry] = []  # what came from outside, for the run to look at
        self._durable = self.last
        self._status = entry.status  # of the run, as our last entry that is durable says
        self._blocking = blocking
        self._flying: list[Ticket] = []
        self._left: list[Draft] = []  # could not be saved; goes before whatever is next
        self._lost: set[bytes] = set()  # entry ids whose outcome was never known
        self._taken: RunError | None = None  # by another process, which every task must hear
        self._turn = asyncio.Lock()

    @property
    def seq(self) -> int:
        """The seq of its last entry, as far as it was submitted."""
        return self.last[0]

    async def append(
        self, drafts: Sequence[Draft], *, wait: bool = True, work: Work | None = None
    ) -> list[Entry]:
        """Append the drafts; returns all entries that are durable now and were not before.

        Without `wait` that may be none of them yet. What `work` does to the user's own tables is
        committed with them. Raises `LeaseLostError`, `EntriesLostError`, and `CheckpointSaveError`
        when the store did not take them before the deadline: they are then appended with the next
        ones.
        """
        self.check()
        deadline = new_deadline(self.core)
        waits = self._flying or self._left or self._turn.locked() or self.core.journals.writer.full
        if drafts and work is None and not waits and self._submit(drafts, deadline):
            drafts, ticket = (), self._flying[0]  # fast path: the head is known
            if wait and not ticket.done:
                async with self._turn:
                    await self._outcome(ticket)
            alone = self._flying == [ticket]  # else another had its turn while this one waited
            if alone and ticket.done and ticket.error is None:
                self._flying.clear()
                self._durable = self.last
                self._status = ticket.entries[-1].status
                return [*ticket.entries]
        settled: list[Entry] = []
        async with self._turn:
            self.check()
            if work is not None:  # what is left over must not depend on it
                await self._append([], True, None, settled, deadline)
                deadline = new_deadline(self.core)
            await self._append(list(drafts), wait, work, settled, deadline)
        return settled

    async def _append(
        self,
        drafts: list[Draft],
        wait: bool,
        work: Work | None,
        settled: list[Entry],
        deadline: float,
    ) -> None:
        todo = [*self._left, *drafts]
        self._left = []
        journals = self.core.journals
        try:
            while True:
                if todo and journals.writer.full:
                    await self.off_loop(journals.writer.wait_for_room)
                placed = not todo or self._submit(todo, deadline, work)
                if placed:
                    todo = []
                lost = await self._settle(settled, wait or not placed)
                if placed and lost is None:
                    return
                todo = [*(lost or ()), *todo]
                await self._catch_up(deadline, todo)
        except CheckpointSaveError:
            left = [*self._ground(), *todo]
            self._left = left if work is None else []  # never without what belongs to it
            raise
        except asyncio.CancelledError:
            if work is None:  # among them may be what another waits for in its turn
                self._left = todo
            raise

    async def begin_to_append(self, drafts: list[Draft]) -> None:
        """Append the drafts with what is submitted next, if possible; `append` waits for them."""
        self.check()
        busy = self._left or self._turn.locked() or self.core.journals.writer.full
        if busy or not self._submit(drafts, new_deadline(self.core)):
            await self.append(drafts)

    def check(self) -> None:
        """Raise `LeaseLostError` if another process has the run, or has declared this one dead."""
        if self._taken is not None:
            raise self._taken
        if self.lease is not None and self.lease.lost:
            raise LeaseLostError(self.run, "others have declared it dead")

    async def claim_again(self) -> None:
        """Continue a run that this process has just stopped, unless another one has claimed it."""
        facts = dump_meta({**self._facts, "why": "released", "again": True})
        draft = Draft(Kind.CLAIM.value, Status.RUNNING.value, meta=facts)
        self.term = (await self.append([draft]))[-1].seq

    async def renew(self, fatal: bool) -> None:
        """Renew the lease. Raises `LeaseLostError`, and `CheckpointSaveError` in an outage."""
        deadline = new_deadline(self.core)
        while self.lease is not None and not self.lease.is_fresh:
            self.check()
            try:
                await self.off_loop(partial(self.presence.renew, self.core, self.lease))
            except StoreError as error:
                if not fatal:
                    return  # the user wants to go on whatever becomes of the store
                if self.core.journals.clock.monotonic() > deadline:
                    raise as_save_error(self.run, error) from error
                await asyncio.sleep(_PAUSE)

    async def listen(self) -> list[Entry]:
        """Take note of what others wrote; returns what is durable now and was not before."""
        settled: list[Entry] = []
        async with self._turn:
            await self._append([], True, None, settled, new_deadline(self.core))
            deadline = new_deadline(self.core)
            while not await self._catch_up(deadline, []):
                pass  # the store was out of reach, or something was on its way to it
        return settled

    async def look(self) -> None:
        """Learn what others in this process wrote since the run was opened or claimed."""
        tip = self.core.journals.tip(self.run)
        if tip is not None and tip.seq > self.seq and not self._flying:
            async with self._turn:
                await self._catch_up(new_deadline(self.core), [])

    async def _outcome(self, ticket: Ticket) -> None:
        """Wait until it is known whether a ticket is durable."""
        if self._blocking:
            self.core.journals.writer.wait(ticket)
        else:
            await self.core.journals.writer.future(ticket)

    def _submit(self, drafts: Sequence[Draft], deadline: float, work: Work | None = None) -> bool:
        """Queue the drafts behind our last entry, if that is the head as far as it is known."""
        journals = self.core.journals
        tip = journals.tip(self.run)
        if tip is None:
            return False
        ticket = journals.extend(tip, drafts, deadline, only_behind=self.last, work=work)
        if ticket is None:
            return False
        self.last = _place(ticket.entries[-1])
        self._flying.append(ticket)
        return True

    async def _settle(self, settled: list[Entry], wait: bool) -> list[Draft] | None:
        """Take note of what landed. Returns the drafts that lost their place; None if none did."""
        writer = self.core.journals.writer
        while self._flying:
            ticket = self._flying[0]
            if not ticket.done:
                if not wait:
                    writer.kick()
                    return None
                await self._outcome(ticket)
            error = ticket.error
            if error is not None:
                if isinstance(error, ConflictError):
                    return self._ground()
                if isinstance(error, WorkFailedError):
                    self._ground()
                    raise error.error
                self._lost.update(e.entry_id for f in self._flying for e in f.entries)
                raise as_save_error(self.run, error)
            self._flying.pop(0)
            self._durable = _place(ticket.entries[-1])
            self._status = ticket.entries[-1].status
            settled += ticket.entries
        return None

    def _ground(self) -> list[Draft]:
        """Everything that is under way, to be submitted anew."""
        drafts = [draft for flight in self._flying for draft in flight.drafts]
        self._flying.clear()
        self.last = self._durable
        return drafts

    async def _catch_up(self, deadline: float, drafts: list[Draft]) -> bool:
        """Read what others wrote behind our last entry, and take note of it or give the run up.

        Returns whether all is known that was written. Raises `CheckpointSaveError` if it can't be
        by the deadline.
        """
        journals = self.core.journals
        needs_state = any(
            d.kind == Kind.CHECKPOINT and len(d.encoding or b"") > SMALL_STATE for d in drafts
        )
        try:
            read = partial(journals.store.read, self.run, after=self.seq - 1)
            for entry in await self.off_loop(read):
                self._take_note(entry, drafts)
            tip = await self.off_loop(partial(journals.fetch_tip, self.run, with_state=needs_state))
        except StoreUnavailableError as error:
            if journals.clock.monotonic() > deadline:
                raise as_save_error(self.run, error) from error
            journals.writer.held_up(error)
            tip = None
        if tip is not None and tip.seq < self.seq:
            raise EntriesLostError(self.run, self.seq, tip.seq)
        if tip is not None and (tip.seq, tip.digest) == self.last:
            return True
        if journals.clock.monotonic() > deadline:
            raise CheckpointSaveError(self.run, "others kept saving to it until the deadline")
        await asyncio.sleep(_PAUSE)  # what moved the head is still on its way to the store
        return False

    def _take_note(self, entry: Entry, drafts: list[Draft]) -> None:
        if entry.seq == self.seq:
            if entry.digest != self.last[1]:
                raise EntriesLostError(self.run, self.seq, entry.seq)
            return
        had_stopped = self._status != Status.RUNNING
        if entry.entry_id in self._lost:
            drafts[:1] = []  # ours: it did arrive
            self._status = entry.status
        elif entry.kind in FROM_OUTSIDE or (entry.kind == Kind.PAUSE and had_stopped):
            stored = envelope.glance(entry)
            prove(entry, self.last[1], stored.said_proof)
            self.core.journals.admit(entry, stored)
            self.absorbed.append(entry)
        else:  # also a pause or a cancel of a run that we executed: we were declared dead
            why = f"another one wrote the {entry.kind} entry at {entry.seq}"
            ended = entry.kind == Kind.CANCEL
            self._taken = RunCancelledError(self.run) if ended else LeaseLostError(self.run, why)
            raise self._taken
        self.last = self._durable = _place(entry)

    async def off_loop(self, call: Callable[[], Any]) -> Any:
        """Call something that blocks, without blocking the event loop if others use it."""
        return call() if self._blocking else await self.core.off_loop(call)


def _place(entry: Entry) -> Head:
    return entry.seq, entry.digest
