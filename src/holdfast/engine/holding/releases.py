"""Runs that this process has left, until their journals say so."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import ref

from holdfast.codec.meta import DUE, Meta, dump_meta
from holdfast.engine.holding.lease import Holder
from holdfast.errors import CheckpointNotFoundError, HoldfastError, StoreClosedError
from holdfast.kernel.appending import append_if
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.model import Entry, Kind, Status

if TYPE_CHECKING:
    from holdfast.engine.holding.presence import Presence
    from holdfast.engine.run.loop import Run

NO_FACTS: Final[Mapping[str, Any]] = MappingProxyType({})
_PATIENCE: Final = 1.0  # seconds, to write one


class _Owed(NamedTuple):
    """A run that was left, which the journal does not say yet."""

    core: ref[Core]
    run: str
    facts: Mapping[str, Any]  # that its release says
    left: ref[Run] | None  # by whom, if it was executed


class Releases:
    """Says in the journals of runs that nobody executes them any more, so that others may."""

    def __init__(self, presence: Presence) -> None:
        self._presence = presence
        self._owed: SimpleQueue[_Owed] = SimpleQueue()  # `put` may be called by a finalizer

    def add(self, core: Core, run: str, facts: Mapping[str, Any], left: Run | None) -> None:
        """A run is not executed any more. Takes no lock: a finalizer may call it."""
        self._owed.put(_Owed(ref(core), run, facts, None if left is None else ref(left)))

    @property
    def any(self) -> bool:
        """Whether some are not written yet."""
        return not self._owed.empty()

    def write(self, core: Core, within: float) -> list[str]:
        """Write them, as far as possible in so many seconds. Blocks.

        Returns the runs of this core that are left to be written.
        """
        again: list[_Owed] = []
        clock = core.journals.clock
        deadline = clock.monotonic() + within
        with suppress(Empty):
            while clock.monotonic() <= deadline:
                owed = self._owed.get_nowait()
                if not self._written(owed):
                    again.append(owed)
        for owed in again:
            self._owed.put(owed)
        return [owed.run for owed in again if owed.core() is core]

    def _written(self, owed: _Owed) -> bool:
        """Write that a run is free, if it is still ours; False if that is to be tried again."""

        def decide(head: Entry | None) -> Draft:
            assert core is not None, "looked at below"
            if head is None or presence.is_executed(owed.run) or not self._is_ours(core, head):
                # It has ended, or someone has claimed it: if this process did, it will leave it.
                raise CheckpointNotFoundError(owed.run)
            facts = {**owed.facts, DUE: core.journals.clock.now()}
            return Draft(
                Kind.RELEASE.value, Status.RUNNING.value, step=head.step, meta=dump_meta(facts)
            )

        core, presence = owed.core(), self._presence
        if owed.left is not None and presence.find(owed.run) is owed.left() is not None:
            return False  # its task is about to end
        if core is None or core.journals.writer.closed:
            return True
        if core.journals.writer.queued(owed.run):
            core.journals.writer.kick()  # whoever submitted it may be gone
            return False
        if presence.is_ending(owed.run):
            return False
        try:
            core.drive(append_if(core, owed.run, decide, patience=_PATIENCE))
        except (CheckpointNotFoundError, StoreClosedError):
            return True
        except HoldfastError:
            return False
        return True

    def _is_ours(self, core: Core, head: Entry) -> bool:
        """Whether this process holds the run with this head. Blocks."""
        if head.status != Status.RUNNING:
            return False
        said = core.journals.entry(head.run, head.term)
        holder = None if said is None else Holder.parse(Meta(said).holder)
        return (
            said is not None
            and said.kind != Kind.RELEASE
            and holder is not None
            and self._presence.had(holder.nonce)
        )
