"""Where evidence decides: which facts bind a checkpoint, and what their verdicts mean for it.

The rule alone: no store, no clock, no look at the world. A claim states facts about a subject, such
as the digest of a file. A later claim replaces the same facts and never others: that a file exists
says nothing about its bytes. What is left of older claims still counts. Claims of one checkpoint do
not replace each other.

Where nothing is, or a file, nothing can be below: a claim of that replaces all facts below the path,
and is replaced by a later claim that something below it exists.

A pack that was not satisfied when its checkpoint was saved counts for that checkpoint alone. In a
pack that needs only some of its claims, those that were not verified then replace nothing.

A checkpoint verifies if every pack that binds it does, now: its own, and what is left of those of
its branch. Without any claim, nothing is verified.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from holdfast.evidence.claims import Evidence
from holdfast.evidence.packs import AtCommit, EvidencePack
from holdfast.evidence.verdicts import Verdict, VerificationStatus


class Claim(NamedTuple):
    """A claim of a pack: the facts that it states, or what is left of them."""

    evidence: Evidence
    facts: frozenset[str]
    replaces: bool = True  # whether older claims of its facts give way to it


class Pack(NamedTuple):
    """The claims of a pack, how many of them must verify, and whether for later checkpoints, too."""

    claims: tuple[Claim, ...]
    required: int
    binds: bool = True

    @classmethod
    def of(
        cls,
        pack: EvidencePack,
        at_commit: AtCommit = AtCommit.UNCHECKED,
        unproven: Collection[str] = (),
        facts: Mapping[str, Collection[str]] | None = None,
    ) -> Pack:
        """The pack as a checkpoint records it.

        `unproven` are the digests of the claims that were not verified then. `facts` has what is
        left of claims of which some were replaced, by their digests.
        """
        left = facts or {}
        some = pack.required < len(pack.evidence_list)
        checked = at_commit is AtCommit.SATISFIED
        claims = [
            Claim(
                claim,
                frozenset(left.get(claim.digest) or claim.facts),
                not some or (checked and claim.digest not in unproven),
            )
            for claim in pack.evidence_list
        ]
        return cls(tuple(claims), pack.required, at_commit is not AtCommit.NOT_SATISFIED)


class Group(NamedTuple):
    """The packs of one checkpoint, which do not replace each other."""

    at: int  # its seq in the run; -1: it is before the run's first
    packs: Sequence[Pack]


class CheckpointClaims(NamedTuple):
    """What was claimed with one checkpoint of a branch.

    It also inherits what was claimed `before` it, by checkpoints that are not on its branch any
    more: those of a fork's origin, and those that were deleted. They are oldest first, and its
    own claims replace theirs.
    """

    seq: int
    packs: Sequence[Pack] = ()
    before: Sequence[Group] = ()


class BoundClaim(NamedTuple):
    """What is left of a claim, and the checkpoint it was made with, whose state its check may need."""

    seq: int
    evidence: Evidence
    facts: frozenset[str]
    replaces: bool = True

    @property
    def key(self) -> tuple[int, str, frozenset[str]]:
        """Identifies it on the branch."""
        return self.seq, self.evidence.digest, self.facts

    @property
    def name(self) -> str:
        """Identifies it among what was claimed with its checkpoint."""
        return claim_name(self.evidence.digest, () if self.is_whole else self.facts)

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the claim was replaced."""
        return len(self.facts) == len(self.evidence.facts)


def claim_name(digest: str, facts: Collection[str]) -> str:
    """The name of a claim with this digest, of which only these facts are left, if not all."""
    return f"{digest} {' '.join(sorted(facts))}" if facts else digest


class Requirement(NamedTuple):
    """What is left of the claims of one pack, and how many of them must verify."""

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


Verdicts = Mapping[tuple[int, str, frozenset[str]], Verdict]
"""Verdicts by `BoundClaim.key`."""

Check = Callable[[Sequence[BoundClaim]], Sequence[Verdict]]
"""Checks claims now: one verdict for each, in their order."""


def standings(
    branch: Sequence[CheckpointClaims], check: Check, only: Callable[[int], bool] | None = None
) -> Iterator[Standing]:
    """What the checkpoints of a branch are worth now, newest first; `only` some, by their seq.

    `branch` is oldest first. Each claim is checked once, when it is first needed, together with
    the others: stop at the first checkpoint that verifies, and nothing beyond it is checked. What
    failed fails every checkpoint back to the one it was claimed with, as older checkpoints need
    the same facts and more; but for one whose own claims replace them for itself alone.
    """
    verdicts: dict[tuple[int, str, frozenset[str]], Verdict] = {}
    failed: list[Requirement] = []
    claimed = [claims for claims in branch if claims.packs or claims.before]
    for seq, packs, _ in reversed(branch):
        if only is not None and not only(seq):
            continue
        failed = [one for one in failed if one.claims[0].seq <= seq]
        if failed and all(pack.binds for pack in packs):
            yield _standing(seq, failed, verdicts)
            continue
        while claimed and claimed[-1].seq > seq:
            claimed.pop()
        needed = binding(claimed, seq)
        missing = [c for claims, _ in needed for c in claims if c.key not in verdicts]
        if missing:
            verdicts.update(zip((claim.key for claim in missing), check(missing), strict=True))
        failed = [one for one in needed if _has_failed(one, verdicts)]
        yield _standing(seq, needed, verdicts)


def binding(branch: Sequence[CheckpointClaims], of: int) -> list[Requirement]:
    """What must verify for the checkpoint `of` at the end of a branch, which is oldest first.

    Of a pack that requires only some of its claims, those of which nothing is left count as
    verified.
    """
    found: list[Requirement] = []
    newer = Replaced()
    for seq, _, packs, own in successive(branch):
        counting = [pack for pack in packs if pack.binds or (own and seq == of)]
        for pack in counting:
            bound = tuple(newer.left(seq, pack.claims))
            required = pack.required - (len(pack.claims) - len(bound))
            if required > 0:
                found.append(Requirement(bound, required))
        newer.add(claim for pack in counting for claim in pack.claims if claim.replaces)
    return found[::-1]


class Replaced:
    """The facts that newer claims state, and which older ones give way to them."""

    def __init__(self, claims: Iterable[Claim | BoundClaim] = ()) -> None:
        self._facts: set[tuple[str, str]] = set()  # subject, name
        self._ends: set[str] = set()  # paths that nothing can be below: no directories
        self._present: set[str] = set()  # paths that something is at
        self._inhabited: set[str] = set()  # paths that something is below
        self.add(claims)

    def add(self, claims: Iterable[Claim | BoundClaim]) -> None:
        """Replace the facts that these state, too."""
        for claim in claims:
            subject = claim.evidence.subject
            self._facts.update((subject, fact) for fact in claim.facts)
            if not subject.startswith(_PATH):
                continue
            if _is_end(claim.evidence):
                self._ends.add(subject)
            if not _is_absence(claim.evidence):
                self._present.add(subject)
                for directory in _above(subject):
                    if directory in self._inhabited:
                        break  # and so are those above it
                    self._inhabited.add(directory)

    def add_packs(self, packs: Iterable[Pack]) -> None:
        """Replace the facts that these packs state for all later checkpoints."""
        self.add(c for pack in packs if pack.binds for c in pack.claims if c.replaces)

    def left(self, seq: int, claims: Iterable[Claim]) -> Iterator[BoundClaim]:
        """What is left of older claims, made with the checkpoint at `seq`."""
        for evidence, facts, replaces in claims:
            subject = evidence.subject
            if subject.startswith(_PATH):
                if _is_absence(evidence):
                    if subject in self._present:
                        continue
                elif self._ends and any(path in self._ends for path in _above(subject)):
                    continue
                if subject in self._inhabited and _is_end(evidence):
                    continue
            still = frozenset(fact for fact in facts if (subject, fact) not in self._facts)
            if still:
                yield BoundClaim(seq, evidence, still, replaces)


_PATH: Final = "path:"


def _is_end(evidence: Evidence) -> bool:
    """Whether it says that nothing is below a path: there is a file, or nothing at all."""
    return _is_absence(evidence) or evidence.facts.get("kind") == "file"


def _is_absence(evidence: Evidence) -> bool:
    """Whether it says that nothing is at a path."""
    return evidence.facts.get("exists") is False


def _above(subject: str) -> Iterator[str]:
    """The directories that a path is in, the nearest first."""
    while "/" in subject:
        subject = subject.rpartition("/")[0]
        yield subject


def successive(
    branch: Sequence[CheckpointClaims],
) -> Iterator[tuple[int, int, Sequence[Pack], bool]]:
    """What was claimed on a branch, which is oldest first, by checkpoint, newest first.

    The checkpoint of the branch, the one it was claimed with, the packs, and whether those are
    the same: else it inherits them.
    """
    for seq, packs, before in reversed(branch):
        if packs:
            yield seq, seq, packs, True
        for at, older in reversed(before):
            yield seq, at, older, False


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
