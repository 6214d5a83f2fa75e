"""Which checkpoint a run may go on from: the newest one whose evidence holds."""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.checkpoint import dump_meta
from holdfast.core import Core
from holdfast.engine.events import CheckpointRejected
from holdfast.engine.history import REJECTED, History
from holdfast.engine.options import Options
from holdfast.engine.program import StaleStepError
from holdfast.journal import Draft
from holdfast.model import Entry, Kind, Status, checkpoint_id

_MOST: Final = 20  # reasons that a rollback keeps: the event stream tells all


class Retreat(NamedTuple):
    """Going back from checkpoints that can't be trusted: the newest first, each with the reason."""

    to: Entry | None  # None: to the run's very beginning
    rejected: tuple[CheckpointRejected, ...]

    @property
    def draft(self) -> Draft:
        """The entry that says so, to be written before anything is run again."""
        told = [[one.seq, one.step, one.reason] for one in self.rejected[:_MOST]]
        facts = {REJECTED: told, "rejections": len(self.rejected)}
        target = None if self.to is None else self.to.seq
        step = None if self.to is None else self.to.step
        return Draft(
            Kind.ROLLBACK.value, Status.OPEN.value, parent=target, step=step, meta=dump_meta(facts)
        )


def examine(core: Core, history: History, options: Options) -> Retreat | None:
    """Where the run has to go back to before it goes on; None if it may go on where it stands.

    Raises `VerificationError` where that can't be told now. Blocks.
    """
    if options.trust == "skip" or history.ending or not history.may_claim:
        return None
    from holdfast.evidence.checking import Checker, reason

    verifier = options.checks_with if options.trust == "verify" else None
    found = Checker(core, verifier).newest(history.run, lambda entry: True, unclaimed=True)
    if not found.rejected:
        return None
    return Retreat(
        found.entry,
        tuple(_rejection(entry, reason(standing)) for entry, standing in found.rejected),
    )


def retreat_before(core: Core, run: str, stale: StaleStepError) -> Retreat:
    """Going back before a step that was called with something else than what is recorded. Blocks."""
    entry = core.journals.entry(run, stale.seq)
    assert entry is not None
    before = None if entry.parent is None else core.journals.entry(run, entry.parent)
    return Retreat(before, (_rejection(entry, "its step is called with other arguments now"),))


def _rejection(entry: Entry, why: str) -> CheckpointRejected:
    name = checkpoint_id(entry.run, entry.seq)
    return CheckpointRejected(entry.run, name, entry.step, entry.seq, why)
