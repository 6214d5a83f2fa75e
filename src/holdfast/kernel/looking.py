"""Whether entries are in the store, after a conflict or a lost reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.errors import ConflictError, EntriesLostError, HoldfastError
from holdfast.kernel.ticket import Ticket
from holdfast.logs import logger
from holdfast.store import NO_HEAD, Store

log: Final = logger()


def look_for(store: Store, tickets: Sequence[Ticket], *, refused: bool = False) -> None:
    """Read what is there now: if it is a ticket's own entry ids, the ticket won.

    Tickets stay unresolved, and are retried, if the store could not be read, or if nothing is
    there and they were not `refused`.
    """
    for ticket in tickets:
        run, seq = ticket.entries[0][:2]
        try:
            found = store.read(run, after=seq - 1, limit=len(ticket.entries), bodies=False)
            head = store.read(run, newest_first=True, limit=1, bodies=False)
        except HoldfastError as error:
            if refused and getattr(error, "seq", None) == seq - 1:  # a damaged head
                ticket.resolve(ConflictError(run, seq))
            ticket.unknown = not ticket.done
            continue
        ticket.unknown = False
        if [e.entry_id for e in found] == [e.entry_id for e in ticket.entries]:
            ticket.resolve(None)
            continue
        top, digest = (head[0].seq, head[0].digest) if head else NO_HEAD
        if refused and not ticket.builds_on(top, digest) and not ticket.line.broken:
            lost = EntriesLostError(run, seq - 1, top)
            log.warning("%s", lost)
            ticket.resolve(lost)
        elif refused or top >= seq:
            ticket.resolve(ConflictError(run, seq))
