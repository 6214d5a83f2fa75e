"""How many runs of a flow all workers together execute at once.

A limit of two is two permits: hidden journals of one row each, which say who has them. A worker
takes one, by an append behind exactly the row it examined, before it claims a run. The permit of a
process that is dead may be taken by others, like its runs.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final, NamedTuple

from holdfast.codec.meta import HOLDER, Meta
from holdfast.engine.holding import slots
from holdfast.engine.holding.lease import Holder
from holdfast.engine.holding.observing import standing_of
from holdfast.engine.holding.presence import Presence
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.core import Core
from holdfast.model import Entry, check_id, permit_journal
from holdfast.operations.children import head_to_delete

MOST: Final = 1000


def check_limits(limits: Mapping[str, int]) -> dict[str, int]:
    """Limits by flow, checked. Raises `TypeError` and `ValueError`."""
    given: object = limits
    if not isinstance(given, Mapping):
        raise TypeError(f"per_flow is a mapping such as {{'digest': 2}}, not {given!r}")
    for flow, limit in limits.items():
        check_id("flow", flow)
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise TypeError(f"per_flow: the limit of {flow!r} must be an int, not {limit!r}")
        if not 1 <= limit <= MOST:
            raise ValueError(
                f"per_flow: the limit of {flow!r} must be between 1 and {MOST:,}, not {limit}"
            )
    return dict(limits)


class Permit(NamedTuple):
    """The right to execute one more run of a flow."""

    name: str
    row: Entry  # that says that we have it


class Permits:
    """Takes permits for a worker, and gives them back. Everything here blocks."""

    def __init__(
        self, core: Core, presence: Presence, limits: Mapping[str, int], dead_after: float
    ) -> None:
        self._core = core
        self._presence = presence
        self._limits = limits
        self._dead_after = dead_after

    def limits(self, flow: str) -> bool:
        """Whether runs of this flow need a permit."""
        return flow in self._limits

    def take(self, flow: str) -> Permit | None:
        """A permit for one run of this flow; None if all are taken. Raises `StoreError`."""
        presence, mine = self._presence, object()
        lease = presence.lease_at_hand(self._core)
        if lease is None:  # others see by the lease that we are alive
            lease = presence.lease(self._core, self._dead_after)
        holder = presence.holder(lease)
        numbers = list(range(self._limits[flow]))
        random.shuffle(numbers)  # workers seldom want the same one
        for number in numbers:
            name = permit_journal(flow, number)
            if presence.permits.setdefault(name, mine) is not mine:  # of two threads, one has it
                continue
            row = None
            try:
                row = self._taken(name, holder)
            finally:
                if row is None:
                    presence.permits.pop(name, None)
            if row is not None:
                return Permit(name, row)
        return None

    def release(self, permit: Permit) -> None:
        """It is not needed here any more: another run of this process may use it."""
        self._presence.permits.pop(permit.name, None)

    def give_back(self, permit: Permit) -> None:
        """Let other processes have a permit that was released. Raises `StoreError`."""
        slots.replace(self._core, permit.name, permit.row, {})

    def _taken(self, name: str, holder: Holder) -> Entry | None:
        """The row that says that we have a permit; None if others do."""
        try:
            head = self._core.journals.checked_head(name)
            other = None if head is None else Holder.parse(Meta(head).holder)
        except CheckpointCorruptedError:
            head, other = head_to_delete(self._core, name), None
        elsewhere = other is not None and not self._presence.had(other.nonce)
        if elsewhere and standing_of(self._core, other, "").why is None:
            return None
        return slots.replace(self._core, name, head, {HOLDER: str(holder)})
