"""Which checkpoint a run may go on from: the newest one whose evidence holds."""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.checkpoint import dump_meta
from holdfast.codec import envelope
from holdfast.core import Core
from holdfast.engine.events import CheckpointRejected
from holdfast.engine.history import REJECTED, History, meta
from holdfast.engine.options import Options
from holdfast.engine.program import StaleStepError
from holdfast.errors import VerificationError
from holdfast.journal import Draft
from holdfast.model import EVIDENCE, Entry, Kind, Status, checkpoint_id

ANEW: Final = "anew"
_MOST: Final = 20  # reasons that a rollback keeps: the event stream tells all


class Retreat(NamedTuple):
    """Going back from checkpoints that can't be trusted: the newest first, each with the reason."""

    to: Entry | None  # None: to the run's very beginning
    rejected: tuple[CheckpointRejected, ...]
    epoch: int  # stays as it is: steps are repaired, rather than done anew
    anew: bool = False  # all of it, because of what is claimed of the run as a whole

    @property
    def draft(self) -> Draft:
        """The entry that says so, to be written before anything is run again."""
        told = [[one.seq, one.step, one.reason] for one in self.rejected[:_MOST]]
        facts = {REJECTED: told, "rejections": len(self.rejected)}
        facts |= {"epoch": self.epoch} if self.epoch else {}
        facts |= {ANEW: True} if self.anew else {}
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
    found = Checker(core, verifier).newest(
        history.run, lambda entry: True, unclaimed=True, head=history.head
    )
    if not found.rejected:
        return None
    return Retreat(
        found.entry,
        tuple(_rejection(entry, reason(standing)) for entry, standing in found.rejected),
        history.epoch,
    )


def retreat_before(core: Core, history: History, stale: StaleStepError) -> Retreat:
    """Going back before a step that was called with something else than what is recorded. Blocks."""
    (entry,) = (e for e in history.entries if e.seq == stale.seq)
    before = None if entry.parent is None else core.journals.entry(history.run, entry.parent)
    why = "its step is called with other arguments now"
    return Retreat(before, (_rejection(entry, why),), history.epoch)


def begin_anew(
    core: Core, parent: str, step: str, within: History, options: Options
) -> Retreat | None:
    """Whether the run that a step stands for has to begin anew, rather than be repaired.

    So it does where the step itself claimed something when it was last finished, and that is not
    so any more: nobody can tell which part of the run within is to answer for it. Raises
    `VerificationError` where that can't be told now. Blocks.
    """
    begun = any(ANEW in meta(entry) for entry in within.of(Kind.ROLLBACK))
    if options.trust == "skip" or (begun and within.head.status != Status.COMPLETED):
        return None
    past = core.journals.entries(parent, newest_first=True, bodies=True)
    found = next((e for e in past if e.kind == Kind.RESULT and e.step == step), None)
    if found is None or EVIDENCE not in found.meta:
        return None
    from holdfast.evidence import VerificationStatus
    from holdfast.evidence.checking import Checker, reason

    verifier = options.checks_with if options.trust == "verify" else None
    standing = Checker(core, verifier).check_beside(envelope.check(found))
    if standing.holds:
        return None
    if standing.status is not VerificationStatus.FAILED:
        raise VerificationError(checkpoint_id(parent, found.seq), standing.against)
    newest = next(core.journals.branch_of(within.head), within.opening)
    return Retreat(None, (_rejection(newest, reason(standing)),), within.epoch, anew=True)


def _rejection(entry: Entry, why: str) -> CheckpointRejected:
    name = checkpoint_id(entry.run, entry.seq)
    return CheckpointRejected(entry.run, name, entry.step, entry.seq, why)
