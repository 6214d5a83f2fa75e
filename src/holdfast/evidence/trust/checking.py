"""Checking what was claimed in a run now, and noting down what was found."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import CheckpointInfo
from holdfast.errors import VerificationError
from holdfast.evidence.checks import CHECKS
from holdfast.evidence.claims import Evidence, EvidenceType
from holdfast.evidence.trust import records, rule
from holdfast.evidence.trust.gathering import Gathering, Place
from holdfast.evidence.trust.rule import Claim, Standing
from holdfast.evidence.verdicts import Verdict, VerificationStatus, verified
from holdfast.evidence.verifier import EvidenceVerifier
from holdfast.kernel.core import Core
from holdfast.model import Entry, checkpoint_id

_log: Final = logging.getLogger("holdfast.evidence")
_UNTOLD: Final = (VerificationStatus.INCONCLUSIVE, VerificationStatus.ERROR)


class Found(NamedTuple):
    """What looking for the newest checkpoint that holds came to."""

    entry: Entry | None
    rejected: list[tuple[Entry, Standing]]  # the newer ones with evidence, newest first


class Checker:
    """Checks what was claimed on a branch against the world as it is now.

    Without a verifier nothing is looked at: what was found last counts.
    """

    def __init__(self, core: Core, verifier: EvidenceVerifier | None) -> None:
        self._core = core
        self._verifier = verifier

    def check_own(self, entry: Entry) -> Standing:
        """Check the claims of one checkpoint alone, as when it has just been committed."""
        return self._check_last([entry])

    def check(self, entry: Entry) -> Standing:
        """Check whether a checkpoint holds: everything that was claimed on its branch up to it."""
        return self._check_last(_oldest_first(self._core.journals.branch_of(entry)))

    def check_beside(self, entry: Entry) -> Standing:
        """Check what a step claimed itself, beside the run that it stands for. Notes nothing."""

        def look(asked: Sequence[Claim]) -> list[Verdict]:
            if self.looks:
                return self.verdicts(asked, lambda claim: (entry.run, claim.seq))
            return self.recorded([entry], asked)

        return next(rule.standings([records.claims_of(CheckpointInfo(entry))], look))

    def newest(
        self,
        branch: Iterable[Entry],
        wanted: Callable[[Entry], bool],
        *,
        unclaimed: bool = False,
    ) -> Found:
        """The newest wanted checkpoint of a branch that holds now.

        `branch` are its checkpoints, checked, newest first: what `journals.branch` reads, or what
        the caller has read already. One that failed is passed over, and so is one that was checked and never held. Raises
        `VerificationError` for one that can't be told now but held before, or was never checked,
        and for one whose step stands for a run that was deleted, with its claims:
        to go on from an older one would throw good work away. With `unclaimed`, one up to which
        nothing was claimed at all will do, too, and what can't be told is never passed over: it
        was there when it was claimed.
        """
        branch = _oldest_first(branch)
        at = {entry.seq: entry for entry in branch}
        look = _Look(self, self._core, branch)
        standings: list[Standing] = []
        rejected: list[tuple[Entry, Standing]] = []
        held: Entry | None = None
        untold: VerificationError | None = None
        for standing in rule.standings(look.claims, look, lambda seq: wanted(at[seq])):
            entry = at[standing.seq]
            standings.append(standing)
            if standing.holds or (unclaimed and not standing.against):
                held = entry
                break
            if standing.status in _UNTOLD and (
                unclaimed or records.ever_held(self._core, entry) is not False
            ):
                untold = VerificationError(checkpoint_id(entry.run, entry.seq), standing.against)
                break
            if standing.against:
                _log.warning("%s@%d does not hold: %s", entry.run, entry.seq, reason(standing))
                rejected.append((entry, standing))
        look.note(standings)
        if untold is not None:
            raise untold
        return Found(held, rejected)

    def _check_last(self, branch: list[Entry]) -> Standing:
        look = _Look(self, self._core, branch)
        last = branch[-1].seq
        standing = next(rule.standings(look.claims, look, lambda seq: seq == last))
        look.note([standing])
        return standing

    # --- for one look

    def verdicts(self, claims: Sequence[Claim], made_at: Callable[[Claim], Place]) -> list[Verdict]:
        """One verdict for each claim. Those that need no snapshot are checked all at once."""
        assert self._verifier is not None
        groups: dict[Place | None, list[Claim]] = {}
        for claim in claims:
            place = made_at(claim) if _needs_snapshot(claim.evidence) else None
            groups.setdefault(place, []).append(claim)
        found: dict[tuple[int, str], Verdict] = {}
        for place, group in groups.items():
            snapshot = None if place is None else self._snapshot(*place)
            given = self._verifier.check([c.evidence for c in group], snapshot=snapshot)
            found.update(zip((claim.key for claim in group), given, strict=True))
        return [found[claim.key] for claim in claims]

    def recorded(self, branch: Sequence[Entry], claims: Sequence[Claim]) -> list[Verdict]:
        """What was found about the claims last. What was never found to fail is taken for good."""
        concerned: dict[int, set[str]] = {}
        for claim in claims:
            concerned.setdefault(claim.seq, set()).add(claim.evidence.digest)
        asked = [(entry, concerned[entry.seq]) for entry in branch if entry.seq in concerned]
        known = records.findings(self._core, branch[0].run, asked)
        found = []
        for claim in claims:
            verdict = known[claim.seq].verdicts.get(claim.evidence.digest)
            failed = verdict is not None and verdict.status is VerificationStatus.FAILED
            fine = verified()._replace(evidence=claim.evidence.digest)
            found.append(verdict if verdict is not None and failed else fine)
            claim.evidence.judge(found[-1])
        return found

    def note(
        self,
        run: str,
        standings: Sequence[Standing],
        checked: Sequence[tuple[Claim, Verdict]],
        digests: Mapping[int, bytes],
    ) -> None:
        """Append what was found, if the world was looked at."""
        if checked and self._verifier is not None:
            self._core.drive(records.record(self._core, run, standings, checked, digests))

    @property
    def looks(self) -> bool:
        """Whether the world is looked at, rather than what was found before."""
        return self._verifier is not None

    def _snapshot(self, run: str, seq: int) -> Mapping[str, Any] | None:
        """What was recorded with a claim: a whole state, or what the step itself came to."""
        state = self._core.journals.value(run, seq)
        return state if isinstance(state, Mapping) else None


class _Look:
    """One look at the claims of a branch, and what it found."""

    def __init__(self, checker: Checker, core: Core, branch: Sequence[Entry]) -> None:
        self._checker = checker
        self._branch = branch
        self._gathering = Gathering(core, needed=checker.looks)
        self._checked: list[tuple[Claim, Verdict]] = []
        self.claims = [self._gathering.claims(entry) for entry in branch]

    def __call__(self, claims: Sequence[Claim]) -> list[Verdict]:
        if self._checker.looks:
            verdicts = self._checker.verdicts(claims, self._made_at)
        else:
            verdicts = self._checker.recorded(self._branch, claims)
        self._checked += zip(claims, verdicts, strict=True)
        return verdicts

    def note(self, standings: Sequence[Standing]) -> None:
        digests = {entry.seq: entry.digest for entry in self._branch}
        run = self._branch[0].run if self._branch else ""
        self._checker.note(run, standings, self._checked, digests)

    def _made_at(self, claim: Claim) -> Place:
        return self._gathering.made_at(self._branch[0].run, claim)


def reason(standing: Standing) -> str:
    """Why a checkpoint does not hold, in a line."""
    more = len(standing.against) - 5
    shown = "; ".join(map(str, standing.against[:5]))
    return f"{shown}; and {more} more" if more > 0 else shown


def _oldest_first(branch: Iterable[Entry]) -> list[Entry]:
    """A branch, checked, without the states: all of them at once may take a lot of memory."""
    return [entry._replace(body=b"") for entry in branch][::-1]


def _needs_snapshot(evidence: Evidence) -> bool:
    """Whether what was recorded with the claim can matter to its check."""
    if evidence.evidence_type == EvidenceType.COMMAND_EXIT:
        return "recorded" not in evidence.metadata
    return evidence.evidence_type not in CHECKS
