"""The claims in force at the end of a branch, found by what they are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.evidence.claims import Evidence
from holdfast.evidence.trust.rule import BoundClaim, Claim, Pack, Replaced


class InForce:
    """What was claimed, checkpoint after checkpoint.

    Only packs that require all of their claims count here: of the others, none in particular has
    to be true.
    """

    def __init__(self) -> None:
        self._claims: dict[str, list[tuple[int, Claim]]] = {}  # by subject, oldest first
        self._below: dict[str, set[str]] = {}  # by path: what is directly below it
        self._count = 0

    def add(self, packs: Sequence[Pack]) -> None:
        """These packs were claimed with the next checkpoint."""
        self._count += 1
        for pack in packs:
            if not pack.binds or pack.required < len(pack.claims):
                continue
            for claim in pack.claims:
                self._put(claim.evidence.subject, claim)

    def about(self, evidence: Evidence) -> list[BoundClaim]:
        """What is in force on the subject of this claim, and below it if it is a directory."""
        subjects = [evidence.subject]
        if evidence.facts.get("kind") == "directory":
            subjects += self._all_below(evidence.subject)
        known = [(subject, self._claims.get(subject, ())) for subject in subjects]
        if not any(claims for _, claims in known):
            return []
        above = [self._claims.get(path, ()) for path in _above(evidence.subject)]
        wanted = {subject for subject, _ in known}
        by_checkpoint: dict[int, list[Claim]] = {}
        for claims in (*above, *(claims for _, claims in known)):
            for at, claim in claims:
                by_checkpoint.setdefault(at, []).append(claim)
        newer = Replaced()
        found: list[BoundClaim] = []
        for at in sorted(by_checkpoint, reverse=True):
            left = newer.left(at, by_checkpoint[at])
            found += [one for one in left if one.evidence.subject in wanted]
            newer.add(by_checkpoint[at])
        return found

    def _put(self, subject: str, claim: Claim) -> None:
        claims = self._claims.setdefault(subject, [])
        claims[:] = [
            (at, old) for at, old in claims if at == self._count or old.facts - claim.facts
        ]
        claims.append((self._count, claim))
        for path in _above(subject):
            below = self._below.setdefault(path, set())
            if subject in below:
                break
            below.add(subject)
            subject = path

    def _all_below(self, subject: str) -> Iterator[str]:
        for below in self._below.get(subject, ()):
            yield below
            yield from self._all_below(below)


def _above(subject: str) -> Iterator[str]:
    """The directories that a path is in, the nearest first; none for anything else."""
    while subject.startswith("path:") and "/" in subject:
        subject = subject.rpartition("/")[0]
        yield subject
