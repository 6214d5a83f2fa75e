"""What a run claims about the world, and what was found when that was checked."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec import readable
from holdfast.codec.meta import Meta, claimed_so_far
from holdfast.errors import CheckpointCorruptedError
from holdfast.evidence.trust import records, rule
from holdfast.evidence.trust.gathering import Gathering
from holdfast.evidence.trust.rule import BoundClaim, CheckpointClaims
from holdfast.evidence.verdicts import VerificationStatus
from holdfast.kernel.entries import is_live
from holdfast.kernel.pages import pass_by
from holdfast.kernel.playback import Branch
from holdfast.model import Entry, Kind, verdict_journal
from holdfast.operations.reading import newest_readable
from holdfast.views.legible import Text, legible, text_of

NOT_CHECKED: Final = "not checked yet"
"""What pages and commands say of a claim that has no verdict."""

CLAIMS: Final = 300
"""Claims that are shown: those that failed first."""

CHECKS: Final = 500
"""Recorded checks of a run that are looked at: the newest."""

_HISTORY: Final = 20  # checks of one claim that are shown
_ORDER: Final = (
    VerificationStatus.FAILED,
    VerificationStatus.ERROR,
    VerificationStatus.INCONCLUSIVE,
    VerificationStatus.PENDING,
    VerificationStatus.VERIFIED,
)


class Check(NamedTuple):
    """One time that a claim was checked."""

    at: datetime
    status: str
    reason: str | None
    seconds: float
    worker: str | None  # host and pid of the process that checked it
    by: str | None  # who had it checked


class ShownClaim(NamedTuple):
    """A claim, and what was found."""

    seq: int  # of the checkpoint that it was made with
    step: str | None
    kind: str  # of evidence
    description: str
    subject: str
    host: str | None  # where alone it can be checked
    expected: Text
    left: tuple[str, ...]  # the facts that still count, if later claims replaced others
    history: tuple[Check, ...]  # newest first
    checks: int  # of which that is a part

    @property
    def status(self) -> str:
        """What was found last; "pending" if it was not checked yet."""
        return self.history[0].status if self.history else VerificationStatus.PENDING.value


class Claims(NamedTuple):
    """The claims of a run."""

    in_force: list[ShownClaim]  # that bind its current checkpoint, failed ones first
    replaced: list[ShownClaim]  # by later claims, or only for their own checkpoint; newest first
    counts: Mapping[str, int]  # of those in force, by status
    more: int  # claims that are not shown
    older: bool  # whether there are more recorded checks than were looked at
    damage: str = ""  # why there are none to show

    def document(self) -> list[dict[str, Any]]:
        """The claims in force as `holdfast show --json` has them."""
        return [
            {
                "seq": one.seq,
                "step": one.step,
                "type": one.kind,
                "description": one.description,
                "status": one.status,
                "reason": one.history[0].reason if one.history else None,
                "checked_at": one.history[0].at if one.history else None,
            }
            for one in self.in_force
        ]


def said(status: str) -> str:
    """The status of a claim, in words."""
    if status == VerificationStatus.PENDING:
        return NOT_CHECKED
    return "found false" if status == VerificationStatus.FAILED else status


NONE: Final = Claims([], [], {}, 0, False)


def claims(cp: SyncCheckpointer, run: str, at: int | None = None) -> Claims:
    """The claims of a run, with their newest recorded verdicts. Looks at no world; blocks.

    In force are those that bind its current checkpoint, or the one at the seq `at`.
    """
    try:
        branch = _branch(cp, run, at)
        if not branch or not any(claimed_so_far(entry.meta) for entry in branch):
            return NONE
        made = Gathering(cp.core, needed=False).branch(branch)
        binding = _bound(rule.binding(made, branch[0].seq))
    except CheckpointCorruptedError as error:
        return NONE._replace(damage=str(error))
    steps = {entry.seq: entry.step for entry in branch}
    digests = {entry.seq: entry.digest.hex() for entry in branch}
    history, older = _history(cp, run, digests)
    bound = {claim.key: claim for claim in binding}
    digested = {(claim.seq, claim.evidence.digest) for claim in binding}
    in_force = [_shown(claim, steps, history) for claim in bound.values()]
    in_force.sort(key=lambda one: (_ORDER.index(VerificationStatus(one.status)), -one.seq))
    gone = [one for one in reversed(_own(made)) if (one.seq, one.evidence.digest) not in digested]
    room = max(0, CLAIMS - len(in_force))
    return Claims(
        in_force[:CLAIMS],
        [_shown(claim, steps, history) for claim in gone[:room]],
        Counter(one.status for one in in_force),
        max(0, len(in_force) - CLAIMS) + max(0, len(gone) - room),
        older,
    )


def failing(cp: SyncCheckpointer, run: str) -> int | None:
    """How many claims the newest recorded check of a run found false; None if there is none.

    Claims that a rollback left behind don't count.
    """
    beside = cp.core.journals.entries(
        verdict_journal(run), newest_first=True, page=1, damage=pass_by
    )
    newest = next(beside, None)
    if newest is None or newest.kind != Kind.VERDICT:
        return None
    try:
        head = newest_readable(cp.core.journals, run)
        if head is None:
            return None
        branch = Branch(cp.core.journals, head)
        named = Meta(newest).checkpoints[:CLAIMS]
        seqs = [seq for seq in named if isinstance(seq, int) and seq in branch]
    except CheckpointCorruptedError:
        return None
    found = cp.store.entries_at([(run, seq) for seq in seqs])
    digests = {entry.seq: entry.digest.hex() for entry in found}
    for note in records.notes(cp.core, run, digests):
        return sum(
            verdict.status is VerificationStatus.FAILED
            for verdicts in note.checked.values()
            for verdict in verdicts.values()
        )
    return None


def _branch(cp: SyncCheckpointer, run: str, at: int | None = None) -> list[Entry]:
    """The live checkpoints that led to where a run is, or was at the checkpoint `at`.

    Newest first, without bodies: not proved.
    """
    journals = cp.core.journals
    end = newest_readable(journals, run) if at is None else journals.entry(run, at)
    if end is None:
        return []
    branch = Branch(journals, end)
    begin = None if at is None else at + 1
    before = cp.core.journals.entries(run, after=begin, newest_first=True, damage=pass_by)
    return [entry for entry in before if entry.seq in branch and is_live(entry)]


def _bound(needed: Iterable[rule.Requirement]) -> list[BoundClaim]:
    return [claim for one in needed for claim in one.claims]


def _own(made: Iterable[CheckpointClaims]) -> list[BoundClaim]:
    """Every claim of a branch with its checkpoint, oldest first, as if none was replaced."""
    return [
        BoundClaim(one.seq, claim.evidence, claim.facts)
        for one in made
        for pack in one.packs
        for claim in pack.claims
    ]


History = dict[tuple[int, str], list[Check]]
"""By the seq of the checkpoint and the digest of the claim, newest first."""


def _history(cp: SyncCheckpointer, run: str, digests: Mapping[int, str]) -> tuple[History, bool]:
    found: History = {}
    for number, note in enumerate(records.notes(cp.core, run, digests)):
        if number == CHECKS:
            return found, True
        for seq, verdicts in note.checked.items():
            for verdict in verdicts.values():
                found.setdefault((seq, verdict.evidence), []).append(
                    Check(
                        to_datetime(verdict.at),
                        verdict.status.value,
                        verdict.reason,
                        verdict.seconds,
                        note.worker,
                        note.by,
                    )
                )
    return found, False


def _shown(claim: BoundClaim, steps: Mapping[int, str | None], history: History) -> ShownClaim:
    evidence = claim.evidence
    checks = history.get((claim.seq, evidence.digest), [])
    expected: Any = legible(readable.to_json(evidence.expected))
    return ShownClaim(
        claim.seq,
        steps.get(claim.seq),
        str(evidence.evidence_type),
        evidence.description,
        evidence.subject,
        evidence.host,
        text_of(expected),
        () if claim.is_whole else tuple(sorted(claim.facts)),
        tuple(checks[:_HISTORY]),
        len(checks),
    )
