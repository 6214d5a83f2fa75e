"""Checking a task's claims now, and noting down what was found."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast import reading
from holdfast.checkpoint import CheckpointInfo
from holdfast.core import Core
from holdfast.errors import VerificationError
from holdfast.evidence import holding, records
from holdfast.evidence.checks import CHECKS
from holdfast.evidence.claims import Evidence, EvidenceType
from holdfast.evidence.holding import Claim, Claims, Standing
from holdfast.evidence.verdicts import Verdict, VerificationStatus
from holdfast.evidence.verifier import EvidenceVerifier
from holdfast.model import Entry, checkpoint_id

_log: Final = logging.getLogger("holdfast.manager")
_UNTOLD: Final = (VerificationStatus.INCONCLUSIVE, VerificationStatus.ERROR)


class Found(NamedTuple):
    """What looking for the newest checkpoint that holds came to."""

    entry: Entry | None
    rejected: list[tuple[Entry, Standing]]  # the newer ones with evidence, newest first


class Checker:
    """Checks what was claimed on a branch against the world as it is now."""

    def __init__(self, core: Core, verifier: EvidenceVerifier) -> None:
        self._core = core
        self._verifier = verifier

    def check_own(self, entry: Entry) -> Standing:
        """Check the claims of one checkpoint alone, as when it has just been committed."""
        return self._check_last([entry])

    def check(self, entry: Entry) -> Standing:
        """Check whether a checkpoint holds: everything that was claimed on its branch up to it."""
        return self._check_last(list(self._core.journals.branch_of(entry))[::-1])

    def newest(self, run: str, wanted: Callable[[Entry], bool]) -> Found:
        """The newest wanted checkpoint on the task's branch that holds now.

        One that failed is passed over, and so is one that was checked and never held. Raises
        `VerificationError` for one that can't be told now but held before, or was never checked:
        to go on from an older one would throw good work away.
        """
        branch = list(self._core.journals.branch(run))[::-1]
        at = {entry.seq: entry for entry in branch}
        look = _Look(self, branch)
        standings: list[Standing] = []
        rejected: list[tuple[Entry, Standing]] = []
        held: Entry | None = None
        untold: VerificationError | None = None
        for standing in holding.standings(look.claims, look, lambda seq: wanted(at[seq])):
            entry = at[standing.seq]
            standings.append(standing)
            if standing.holds:
                held = entry
                break
            if standing.status in _UNTOLD and records.ever_held(self._core, entry) is not False:
                untold = VerificationError(checkpoint_id(run, entry.seq), standing.against)
                break
            if standing.against:
                why = "; ".join(map(str, standing.against[:5]))
                _log.warning("%s@%d does not hold: %s", run, entry.seq, why)
                rejected.append((entry, standing))
        look.note(standings)
        if untold is not None:
            raise untold
        return Found(held, rejected)

    def _check_last(self, branch: list[Entry]) -> Standing:
        look = _Look(self, branch)
        last = branch[-1].seq
        standing = next(holding.standings(look.claims, look, lambda seq: seq == last))
        look.note([standing])
        return standing

    def look_at(self, run: str, claims: Sequence[Claim]) -> list[Verdict]:
        """One verdict for each claim. Those that need no snapshot are checked all at once."""
        groups: dict[int | None, list[Claim]] = {}
        for claim in claims:
            seq = claim.seq if _needs_snapshot(claim.evidence) else None
            groups.setdefault(seq, []).append(claim)
        found: dict[tuple[int, str], Verdict] = {}
        for seq, group in groups.items():
            snapshot = None if seq is None else self._snapshot(run, seq)
            verdicts = self._verifier.check([c.evidence for c in group], snapshot=snapshot)
            found.update(zip((claim.key for claim in group), verdicts, strict=True))
        return [found[claim.key] for claim in claims]

    def note(
        self,
        run: str,
        standings: Sequence[Standing],
        checked: Sequence[tuple[Claim, Verdict]],
        digests: Mapping[int, bytes],
    ) -> None:
        """Append what was found, if there was anything to find."""
        if checked:
            self._core.drive(records.record(self._core, run, standings, checked, digests))

    def _snapshot(self, run: str, seq: int) -> Mapping[str, Any] | None:
        loaded = reading.load(self._core, run, seq=seq)
        state = None if loaded is None else loaded.state
        return state if isinstance(state, Mapping) else None


class _Look:
    """One look at the claims of a branch, and what it found."""

    def __init__(self, checker: Checker, branch: Sequence[Entry]) -> None:
        self._checker = checker
        self._run = branch[0].run if branch else ""
        self._digests = {entry.seq: entry.digest for entry in branch}
        self.claims = [
            Claims(entry.seq, records.pack_of(CheckpointInfo(entry))) for entry in branch
        ]
        self._checked: list[tuple[Claim, Verdict]] = []

    def __call__(self, claims: Sequence[Claim]) -> list[Verdict]:
        verdicts = self._checker.look_at(self._run, claims)
        self._checked += zip(claims, verdicts, strict=True)
        return verdicts

    def note(self, standings: Sequence[Standing]) -> None:
        self._checker.note(self._run, standings, self._checked, self._digests)


def _needs_snapshot(evidence: Evidence) -> bool:
    """Whether what was recorded with the claim can matter to its check."""
    if evidence.evidence_type == EvidenceType.COMMAND_EXIT:
        return "recorded" not in evidence.metadata
    return evidence.evidence_type not in CHECKS
