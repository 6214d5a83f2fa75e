"""Which checkpoints hold: the rule alone, without a store, a clock or a look at the world.

A checkpoint holds when for every subject that was claimed on its branch up to it the newest claim
is verified. A later claim on a subject supersedes the earlier ones, which are not asked again: the
file was rewritten, and the newer claim answers for it. Claims of one checkpoint on one subject
stand beside each other. Where nothing was claimed at all, nothing is verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from holdfast.evidence.claims import Evidence
from holdfast.evidence.packs import EvidencePack
from holdfast.evidence.verdicts import Verdict, VerificationStatus


class Claims(NamedTuple):
    """What was claimed with one checkpoint of a branch."""

    seq: int
    pack: EvidencePack | None


class Claim(NamedTuple):
    """One claim, and the checkpoint that it was made with: that says what was recorded then."""

    seq: int
    evidence: Evidence

    @property
    def key(self) -> tuple[int, str]:
        """Tells it from every other claim of the branch."""
        return self.seq, self.evidence.digest


class Due(NamedTuple):
    """The claims of one checkpoint that nothing supersedes, and how many of them must verify."""

    claims: tuple[Claim, ...]
    required: int


class Standing(NamedTuple):
    """How a checkpoint stands.

    VERIFIED: it holds. FAILED: it does not. INCONCLUSIVE or ERROR: it can't be told now. PENDING:
    nothing was claimed on its branch, or not all of it was checked yet.
    """

    seq: int
    status: VerificationStatus
    against: tuple[Evidence, ...] = ()  # why: the claims that are missing for it to hold

    @property
    def holds(self) -> bool:
        """Whether it may be trusted."""
        return self.status is VerificationStatus.VERIFIED


Verdicts = Mapping[tuple[int, str], Verdict]
"""What was found, by `Claim.key`."""

Check = Callable[[Sequence[Claim]], Sequence[Verdict]]
"""Looks at the world now: one verdict for each claim, in their order."""


def due(branch: Sequence[Claims]) -> list[Due]:
    """What must be checked for the last checkpoint of a branch, which comes oldest first.

    Of a pack that requires only some of its claims, those that were superseded count as kept.
    """
    found: list[Due] = []
    superseded: set[str] = set()
    for seq, pack in reversed(branch):
        if pack is None:
            continue
        claims = pack.evidence_list
        asked = tuple(Claim(seq, claim) for claim in claims if claim.subject not in superseded)
        required = pack.required - (len(claims) - len(asked))
        if required > 0:
            found.append(Due(asked, required))
        superseded.update(claim.subject for claim in claims)
    return found[::-1]


def standing(branch: Sequence[Claims], verdicts: Verdicts) -> Standing:
    """How the last checkpoint of a branch stands by these verdicts; what has none is PENDING."""
    return _standing(branch[-1].seq, due(branch), verdicts)


def standings(
    branch: Sequence[Claims], check: Check, only: Callable[[int], bool] | None = None
) -> Iterator[Standing]:
    """How the checkpoints of a branch stand now, or `only` some by their seq, the newest first.

    Each claim is checked when it is first needed, together with the others, and once: whoever
    stops at the first that holds pays for nothing beyond it.
    """
    verdicts: dict[tuple[int, str], Verdict] = {}
    for end in range(len(branch), 0, -1):
        if only is not None and not only(branch[end - 1].seq):
            continue
        asked = due(branch[:end])
        missing = [c for claims, _ in asked for c in claims if c.key not in verdicts]
        if missing:
            verdicts.update(zip((claim.key for claim in missing), check(missing), strict=True))
        yield _standing(branch[end - 1].seq, asked, verdicts)


def _standing(seq: int, asked: Sequence[Due], verdicts: Verdicts) -> Standing:
    if not asked:
        return Standing(seq, VerificationStatus.PENDING)
    failed = False
    found_so_far = [VerificationStatus.VERIFIED]
    against: list[Evidence] = []
    for claims, required in asked:
        found = [_status(claim, verdicts) for claim in claims]
        if found.count(VerificationStatus.VERIFIED) >= required:
            continue
        against += [
            claim.evidence
            for claim, status in zip(claims, found, strict=True)
            if status is not VerificationStatus.VERIFIED
        ]
        # What can't be told yet may still make up for what failed.
        failed = failed or len(found) - found.count(VerificationStatus.FAILED) < required
        found_so_far += found
    status = VerificationStatus.FAILED if failed else max(found_so_far, key=_DOUBT.index)
    return Standing(seq, status, tuple(against))


_DOUBT: Final = (
    VerificationStatus.VERIFIED,
    VerificationStatus.FAILED,  # among others that are enough, or may be
    VerificationStatus.PENDING,
    VerificationStatus.INCONCLUSIVE,
    VerificationStatus.ERROR,
)


def _status(claim: Claim, verdicts: Verdicts) -> VerificationStatus:
    found = verdicts.get(claim.key)
    return VerificationStatus.PENDING if found is None else found.status
