"""Where evidence decides: which claims bind a checkpoint, and what their verdicts mean for it.

The rule alone: no store, no clock, no look at the world. A checkpoint verifies if, for every
subject claimed on its branch up to it, the newest claim is verified. A later claim supersedes
earlier ones on its subject, which are not checked again: the file was rewritten, and the newer
claim covers it. A claim that a directory is gone supersedes the claims on everything in it, and is
superseded by a later claim on anything in it. Claims of one checkpoint on one subject all count.
Without any claim, nothing is verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from holdfast.evidence.claims import Evidence
from holdfast.evidence.packs import EvidencePack
from holdfast.evidence.verdicts import Verdict, VerificationStatus


class CheckpointClaims(NamedTuple):
    """What was claimed with one checkpoint of a branch.

    A fork's first checkpoint also inherits the claims of its origin: `before` its own, oldest
    first, and its own supersede them.
    """

    seq: int
    packs: Sequence[EvidencePack] = ()
    before: Sequence[EvidencePack] = ()


class BoundClaim(NamedTuple):
    """A claim, and the checkpoint it was made with, whose state its check may need."""

    seq: int
    evidence: Evidence

    @property
    def key(self) -> tuple[int, str]:
        """Identifies it on the branch."""
        return self.seq, self.evidence.digest


class Requirement(NamedTuple):
    """The claims of one pack that nothing supersedes, and how many of them must verify."""

    claims: tuple[BoundClaim, ...]
    required: int


class Standing(NamedTuple):
    """What the claims say of a checkpoint.

    VERIFIED: it may be trusted. FAILED: it may not. INCONCLUSIVE or ERROR: it can't be checked
    now. PENDING: nothing was claimed on its branch, or not everything was checked yet.
    """

    seq: int
    status: VerificationStatus
    against: tuple[Evidence, ...] = ()  # why: the claims it needs that are not verified

    @property
    def holds(self) -> bool:
        """Whether it may be trusted."""
        return self.status is VerificationStatus.VERIFIED

    @property
    def reason(self) -> str:
        """Why it may not be trusted, in a line."""
        failed = self.status is VerificationStatus.FAILED
        shown = "; ".join(map(str, self.against[:5]))
        more = f"; and {len(self.against) - 5} more" if len(self.against) > 5 else ""
        return f"{'verification failed' if failed else 'could not be verified'}: {shown}{more}"


Verdicts = Mapping[tuple[int, str], Verdict]
"""Verdicts by `BoundClaim.key`."""

Check = Callable[[Sequence[BoundClaim]], Sequence[Verdict]]
"""Checks claims now: one verdict for each, in their order."""


def standings(
    branch: Sequence[CheckpointClaims], check: Check, only: Callable[[int], bool] | None = None
) -> Iterator[Standing]:
    """What the checkpoints of a branch are worth now, newest first; `only` some, by their seq.

    `branch` is oldest first. Each claim is checked once, when it is first needed, together with
    the others: stop at the first checkpoint that verifies, and nothing beyond it is checked. What
    failed fails every checkpoint back to the one it was claimed with.
    """
    verdicts: dict[tuple[int, str], Verdict] = {}
    failed: list[Requirement] = []
    claimed = [claims for claims in branch if claims.packs or claims.before]
    for seq, _, _ in reversed(branch):
        if only is not None and not only(seq):
            continue
        failed = [one for one in failed if one.claims[0].seq <= seq]
        if failed:
            yield _standing(seq, failed, verdicts)
            continue
        while claimed and claimed[-1].seq > seq:
            claimed.pop()
        needed = binding(claimed)
        missing = [c for claims, _ in needed for c in claims if c.key not in verdicts]
        if missing:
            verdicts.update(zip((claim.key for claim in missing), check(missing), strict=True))
        failed = [one for one in needed if _has_failed(one, verdicts)]
        yield _standing(seq, needed, verdicts)


def binding(branch: Sequence[CheckpointClaims]) -> list[Requirement]:
    """What must verify for the last checkpoint of a branch, which is oldest first.

    Of a pack that requires only some of its claims, superseded ones count as verified.
    """
    found: list[Requirement] = []
    newer = Newer()
    for seq, packs in _successive(branch):
        for pack in packs:
            claims = pack.evidence_list
            bound = tuple(BoundClaim(seq, c) for c in claims if not newer.supersedes(c))
            required = pack.required - (len(claims) - len(bound))
            if required > 0:
                found.append(Requirement(bound, required))
        newer.add(claim for pack in packs for claim in pack.evidence_list)
    return found[::-1]


class Newer:
    """The subjects of newer claims, which supersede older claims on them."""

    def __init__(self, claims: Iterable[Evidence] = ()) -> None:
        self._subjects: set[str] = set()
        self._gone: set[str] = set()
        self._inhabited: set[str] = set()  # directories that something is claimed to be in
        self.add(claims)

    def add(self, claims: Iterable[Evidence]) -> None:
        """Supersede older claims on the subjects of these, too."""
        for claim in claims:
            self._subjects.add(claim.subject)
            if claim.is_absence:
                self._gone.add(claim.subject)
                continue
            for directory in _above(claim.subject):
                if directory in self._inhabited:
                    break  # and so are those above it
                self._inhabited.add(directory)

    def supersedes(self, claim: Evidence) -> bool:
        """Whether an older claim no longer counts."""
        if claim.subject in self._subjects:
            return True
        if claim.is_absence:
            return claim.subject in self._inhabited
        return bool(self._gone) and any(name in self._gone for name in _above(claim.subject))


def _above(subject: str) -> Iterator[str]:
    """The directories that a path is in, the nearest first."""
    if subject.startswith("path:"):
        while "/" in subject:
            subject = subject.rpartition("/")[0]
            yield subject


def _successive(branch: Sequence[CheckpointClaims]) -> Iterator[tuple[int, Sequence[EvidencePack]]]:
    """The packs, newest first; those given together do not supersede each other."""
    for seq, packs, before in reversed(branch):
        if packs:
            yield seq, packs
        for older in reversed(before):
            yield seq, (older,)


def _has_failed(one: Requirement, verdicts: Verdicts) -> bool:
    """Whether it can't be satisfied any more, even if everything undecided verifies."""
    found = [_status(claim, verdicts) for claim in one.claims]
    return len(found) - found.count(VerificationStatus.FAILED) < one.required


def _standing(seq: int, needed: Sequence[Requirement], verdicts: Verdicts) -> Standing:
    if not needed:
        return Standing(seq, VerificationStatus.PENDING)
    against: list[Evidence] = []
    doubts = [VerificationStatus.VERIFIED]
    for claims, required in needed:
        found = [_status(claim, verdicts) for claim in claims]
        if found.count(VerificationStatus.VERIFIED) >= required:
            continue
        against += [
            claim.evidence
            for claim, status in zip(claims, found, strict=True)
            if status is not VerificationStatus.VERIFIED
        ]
        doubts += found
    failed = any(_has_failed(one, verdicts) for one in needed)
    status = VerificationStatus.FAILED if failed else max(doubts, key=_DOUBT.index)
    return Standing(seq, status, tuple(against))


_DOUBT: Final = (
    VerificationStatus.VERIFIED,
    VerificationStatus.FAILED,  # but the others are enough, or may be
    VerificationStatus.PENDING,
    VerificationStatus.INCONCLUSIVE,
    VerificationStatus.ERROR,
)


def _status(claim: BoundClaim, verdicts: Verdicts) -> VerificationStatus:
    found = verdicts.get(claim.key)
    return VerificationStatus.PENDING if found is None else found.status
