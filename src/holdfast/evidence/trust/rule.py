"""Which checkpoints hold: the rule alone, without a store, a clock or a look at the world.

A checkpoint holds when for every subject that was claimed on its branch up to it the newest claim
is verified. A later claim on a subject supersedes the earlier ones, which are not asked again: the
file was rewritten, and the newer claim answers for it; that a directory is gone answers for all
that was in it, and what stands in it later answers for that. Claims of one checkpoint on one
subject stand beside each other. Where nothing was claimed at all, nothing is verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from holdfast.evidence.claims import Evidence
from holdfast.evidence.packs import EvidencePack
from holdfast.evidence.verdicts import Verdict, VerificationStatus


class Claims(NamedTuple):
    """What was claimed with one checkpoint of a branch.

    A fork's first checkpoint also answers for what was claimed before it, in its origin: those
    claims come `before` its own, oldest first, and its own supersede them.
    """

    seq: int
    packs: Sequence[EvidencePack] = ()
    before: Sequence[EvidencePack] = ()


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
    against: tuple[Evidence, ...] = ()  # why: claims without which it does not hold

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
    newer = Newer()
    for seq, packs in _successive(branch):
        for pack in packs:
            claims = pack.evidence_list
            asked = tuple(Claim(seq, claim) for claim in claims if not newer.answers_for(claim))
            required = pack.required - (len(claims) - len(asked))
            if required > 0:
                found.append(Due(asked, required))
        newer.add(claim for pack in packs for claim in pack.evidence_list)
    return found[::-1]


class Newer:
    """What newer claims are about: they answer for what older ones said of it."""

    def __init__(self, claims: Iterable[Evidence] = ()) -> None:
        self._subjects: set[str] = set()
        self._gone: set[str] = set()
        self._inhabited: set[str] = set()  # the directories that something stands in
        self.add(claims)

    def add(self, claims: Iterable[Evidence]) -> None:
        """Answer for what these are about, too."""
        for claim in claims:
            self._subjects.add(claim.subject)
            if claim.is_absence:
                self._gone.add(claim.subject)
                continue
            for directory in _above(claim.subject):
                if directory in self._inhabited:
                    break  # and so are those above it
                self._inhabited.add(directory)

    def answers_for(self, claim: Evidence) -> bool:
        """Whether an older claim need not be asked about any more."""
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


def _successive(branch: Sequence[Claims]) -> Iterator[tuple[int, Sequence[EvidencePack]]]:
    """The packs that stand beside each other, newest first."""
    for seq, packs, before in reversed(branch):
        if packs:
            yield seq, packs
        for older in reversed(before):
            yield seq, (older,)


def standing(branch: Sequence[Claims], verdicts: Verdicts) -> Standing:
    """How the last checkpoint of a branch stands by these verdicts; what has none is PENDING."""
    return _standing(branch[-1].seq, due(branch), verdicts)


def standings(
    branch: Sequence[Claims], check: Check, only: Callable[[int], bool] | None = None
) -> Iterator[Standing]:
    """How the checkpoints of a branch stand now, or `only` some by their seq, the newest first.

    Each claim is checked when it is first needed, together with the others, and once: whoever
    stops at the first that holds pays for nothing beyond it. What failed fails every checkpoint
    back to the one it was claimed with, which need not be asked about one by one.
    """
    verdicts: dict[tuple[int, str], Verdict] = {}
    failed: list[Due] = []
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
        asked = due(claimed)
        missing = [c for claims, _ in asked for c in claims if c.key not in verdicts]
        if missing:
            verdicts.update(zip((claim.key for claim in missing), check(missing), strict=True))
        failed = [one for one in asked if _has_failed(one, verdicts)]
        yield _standing(seq, asked, verdicts)


def _has_failed(one: Due, verdicts: Verdicts) -> bool:
    """Whether it can't be satisfied any more: what can't be told yet may make up for what failed."""
    found = [_status(claim, verdicts) for claim in one.claims]
    return len(found) - found.count(VerificationStatus.FAILED) < one.required


def _standing(seq: int, asked: Sequence[Due], verdicts: Verdicts) -> Standing:
    if not asked:
        return Standing(seq, VerificationStatus.PENDING)
    against: list[Evidence] = []
    doubts = [VerificationStatus.VERIFIED]
    for claims, required in asked:
        found = [_status(claim, verdicts) for claim in claims]
        if found.count(VerificationStatus.VERIFIED) >= required:
            continue
        against += [
            claim.evidence
            for claim, status in zip(claims, found, strict=True)
            if status is not VerificationStatus.VERIFIED
        ]
        doubts += found
    failed = any(_has_failed(one, verdicts) for one in asked)
    status = VerificationStatus.FAILED if failed else max(doubts, key=_DOUBT.index)
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
