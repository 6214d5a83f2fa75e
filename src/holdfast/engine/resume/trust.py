"""Which checkpoint a run may continue from: the newest one that verifies."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.codec.meta import EVIDENCE, IN_FORCE, Meta, claimed_so_far
from holdfast.engine.events import CheckpointRejected
from holdfast.engine.options import Options
from holdfast.engine.program import StaleStepError
from holdfast.engine.resume.history import History
from holdfast.errors import CheckpointCorruptedError, VerificationError
from holdfast.kernel.compose import rollback_to
from holdfast.kernel.core import Core
from holdfast.kernel.draft import Draft
from holdfast.kernel.entries import is_live
from holdfast.kernel.pages import pass_by
from holdfast.kernel.tip import SAYS_EVERY
from holdfast.logs import about, logger
from holdfast.model import Entry, Kind, Status, checkpoint_id
from holdfast.operations.forking import copy_of

if TYPE_CHECKING:
    from holdfast.evidence.trust.checking import Checker

_log = logger("holdfast.evidence")
_NAMED: Final = 5  # steps that are named in a log
_MOST: Final = 20  # reasons that a rollback records; the event stream has them all


class Retreat(NamedTuple):
    """Going back from checkpoints that do not verify: the newest first, each with the reason."""

    to: Entry | None  # None: to the run's very beginning
    rejected: tuple[CheckpointRejected, ...]
    epoch: int  # unchanged: steps are repaired, rather than executed anew
    kept: tuple[Draft, ...] = ()  # what was decided, asked and answered before the oldest of them
    anew: bool = False  # the whole run is executed again

    @property
    def drafts(self) -> list[Draft]:
        """What is to be written, all at once, before anything is run again."""
        return [self.draft, *self.kept]

    @property
    def draft(self) -> Draft:
        """The entry that says so."""
        reasons = [[one.seq, one.step, one.reason] for one in self.rejected[:_MOST]]
        facts: dict[str, Any] = {"rejected": reasons, "rejections": len(self.rejected)}
        facts |= {"epoch": self.epoch} if self.epoch else {}
        facts |= {"anew": True} if self.anew else {}
        return rollback_to(self.to, facts)

    def tell(self, run: str) -> None:
        """Log where the run goes back to, and which steps run again."""
        to = self.to and checkpoint_id(self.to.run, self.to.seq)
        steps = list(dict.fromkeys(one.step for one in reversed(self.rejected) if one.step))
        more = f" and {len(steps) - _NAMED:,} more" if len(steps) > _NAMED else ""
        verb = "runs" if len(steps) == 1 else "run"
        again = f"; {', '.join(steps[:_NAMED])}{more} {verb} again" if steps else ""
        extra = about(run) | {"rejected": len(self.rejected)}
        _log.warning("%s goes back to %s%s", run, to or "its beginning", again, extra=extra)


def examine(core: Core, history: History, options: Options) -> Retreat | None:
    """Where the run has to go back to before it continues; None if it may continue as it is.

    Raises `VerificationError` if that can't be checked now. Blocks.
    """
    if options.trust == "skip" or history.ending or not history.may_claim:
        return None
    if _says_nothing(core, history):
        return None
    from holdfast.evidence.trust.gathering import branch_with_claims

    branch = branch_with_claims(core, history.branch)
    found = _checker(core, options).newest(branch, lambda entry: True, unclaimed=True)
    if not found.rejected:
        return None
    oldest, _ = found.rejected[-1]
    return Retreat(
        found.entry,
        tuple(_rejection(entry, standing.reason) for entry, standing in found.rejected),
        history.epoch,
        _kept(core, history, found.entry, oldest),
    )


def _says_nothing(core: Core, history: History) -> bool:
    """Whether the last checkpoints tell that nothing was claimed so far; no others are read."""
    newest = next(filter(is_live, reversed(history.entries)), None)
    if newest is None or history.claimed:
        return False
    before: int | None = newest.seq
    try:
        for entry in islice(core.journals.branch_of(newest), 2 * SAYS_EVERY):
            if entry.seq != before or claimed_so_far(entry.meta):
                return False  # what was deleted in between may have claimed something, too
            if IN_FORCE in entry.meta:
                return Meta(entry).in_force == ""
            before = entry.parent
    except CheckpointCorruptedError:
        return False  # reading all of the branch tells what is wrong
    return before is None


def retreat_before(core: Core, run: str, stale: StaleStepError, *, whole: bool) -> Retreat:
    """Going back before a step that is called with other arguments than recorded. Blocks."""
    history = History(core, run, whole=whole)
    (entry,) = (e for e in history.entries if e.seq == stale.seq)
    before = None if entry.parent is None else core.journals.entry(history.run, entry.parent)
    why = "its step is called with other arguments now"
    return Retreat(
        before, (_rejection(entry, why),), history.epoch, _kept(core, history, before, entry)
    )


def begin_anew(
    core: Core, parent: str, step: str, child: History, options: Options
) -> Retreat | None:
    """Whether a step's child run has to start again, rather than be repaired.

    It does if the step itself claimed something when it was last finished, and that does not
    verify any more: no part of the child run answers for it. Raises `VerificationError` if that
    can't be checked now. Blocks.
    """
    begun = any(child.meta(entry).anew for entry in child.of(Kind.ROLLBACK))
    if options.trust == "skip" or (begun and child.head.status != Status.COMPLETED):
        return None
    past = core.journals.entries(parent, newest_first=True, damage=pass_by)
    results = (e.seq for e in past if e.kind == Kind.RESULT and e.step == step)
    newest_result = next(results, None)
    found = None if newest_result is None else core.journals.entry(parent, newest_result)
    if found is None or EVIDENCE not in found.meta:
        return None
    from holdfast.evidence import VerificationStatus

    standing = _checker(core, options).check_step(found)
    if standing.holds:
        return None
    if standing.status is not VerificationStatus.FAILED:
        raise VerificationError(checkpoint_id(parent, found.seq), standing.against)
    newest = next(core.journals.branch_of(child.head), child.opening)
    return Retreat(None, (_rejection(newest, standing.reason),), child.epoch, anew=True)


def _checker(core: Core, options: Options) -> Checker:
    from holdfast.evidence.trust.checking import Checker

    if options.trust != "verify":
        return Checker(core, None)
    if options.ask_workers is None:
        return Checker(core, options.checks_with)
    from holdfast.engine.voting.asking import Elsewhere

    return Checker(core, options.checks_with, others=Elsewhere(core, options.ask_workers))


def _kept(core: Core, history: History, to: Entry | None, oldest: Entry) -> tuple[Draft, ...]:
    """What a repair neither decides nor asks again: what does not depend on a rejected checkpoint.

    That is what was decided, asked, answered and failed with before the oldest of them, and what
    was answered later to a question that had been asked by then. Blocks.
    """
    kept: list[Entry] = []
    asked: set[str | None] = set()  # and not answered
    start = 0 if to is None else to.seq + 1
    for entry in history.since(start):
        early = entry.seq < oldest.seq
        if _outlives_steps(entry) if early else _answers(entry, asked):
            kept.append(entry)
        if entry.kind == Kind.QUESTION and early:
            asked.add(entry.step)
        elif entry.kind in (Kind.QUESTION, Kind.ANSWER):
            asked.discard(entry.step)
    found = (e if e.body else core.journals.entry(e.run, e.seq) for e in kept)
    return tuple(copy_of(core, entry) for entry in found if entry is not None)


def _outlives_steps(entry: Entry) -> bool:
    decided = entry.kind in (Kind.DECISION, Kind.QUESTION, Kind.ANSWER, Kind.SLEEP)
    return decided or (entry.kind == Kind.FAIL and Meta(entry).of in ("step", "run"))


def _answers(entry: Entry, asked: set[str | None]) -> bool:
    given = entry.kind == Kind.ANSWER and not Meta(entry).expired
    return given and entry.step in asked


def _rejection(entry: Entry, why: str) -> CheckpointRejected:
    name = checkpoint_id(entry.run, entry.seq)
    return CheckpointRejected(entry.run, name, entry.step, entry.seq, why)
