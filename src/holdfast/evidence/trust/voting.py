"""What the votes of several verifiers on a claim come to.

The rule alone: no store, no clock. A verifier votes VERIFIED or FAILED; one that could not check a
claim abstains, and so does one that does not answer in time. A claim that is labelled with a host
is decided by the verifiers there: one vote is enough, as no other machine can see it. Any other
claim needs as many votes as the quorum says. Votes for both sides are a disagreement: then nothing
is decided, however many there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from holdfast.evidence.claims import Evidence
from holdfast.evidence.trust.rule import BoundClaim
from holdfast.evidence.verdicts import Verdict, VerificationStatus, inconclusive

_MOST: Final = 3  # names and reasons that a sentence gives
_VERIFIED, _FAILED = VerificationStatus.VERIFIED, VerificationStatus.FAILED


class Voter(NamedTuple):
    """A verifier that was asked about a checkpoint."""

    name: str  # host and pid
    host: str
    found: Mapping[str, Verdict] | None = None  # by `vote_key`; None: it has not answered


class Vote(NamedTuple):
    """What one verifier found of one claim."""

    voter: str  # host and pid
    host: str
    verdict: Verdict


class Decision(NamedTuple):
    """A claim, the votes on it, and what they come to."""

    evidence: Evidence
    verdict: Verdict
    votes: tuple[Vote, ...]  # of those who answered and were to be asked about this claim

    @property
    def disputed(self) -> bool:
        """Whether some found it true, and others false."""
        return {_VERIFIED, _FAILED} <= {vote.verdict.status for vote in self.votes}


def vote_key(claim: BoundClaim) -> str:
    """How a vote names a claim: what is left of it, and the checkpoint that it was made with."""
    return hashlib.sha256(f"{claim.seq} {claim.name}".encode()).hexdigest()[:32]


def decide(
    claim: BoundClaim,
    voters: Sequence[Voter],
    quorum: int | None,
    at: int,
    others: Collection[str] = (),
) -> Decision:
    """What the votes on a claim come to; without a quorum, a majority of those asked decides.

    `others` are the hosts of verifiers that were not to be asked.
    """
    evidence = claim.evidence
    asked = [one for one in voters if evidence.host in (None, one.host)]
    key = vote_key(claim)
    votes = tuple(
        Vote(one.name, one.host, one.found[key])
        for one in asked
        if one.found is not None and key in one.found
    )
    needed = 1 if evidence.host is not None else quorum or len(asked) // 2 + 1
    verdict = _verdict(votes, needed)
    if verdict is None:
        verdict = inconclusive(_undecided(evidence.host, asked, votes, needed, others))
    told = verdict._replace(at=at, attempts=max(1, len(votes)), evidence=evidence.digest)
    return Decision(evidence, told, votes)


def _verdict(votes: Sequence[Vote], needed: int) -> Verdict | None:
    """What was decided; None if nothing was."""
    by_status = {
        status: [vote for vote in votes if vote.verdict.status is status]
        for status in (_VERIFIED, _FAILED)
    }
    held, failed = by_status[_VERIFIED], by_status[_FAILED]
    if held and failed:
        return inconclusive(
            f"verifiers disagree: {_names(held)} verified it, {_names(failed)} did not: "
            f"{failed[0].verdict.reason}"
        )
    if len(held) >= needed:
        return Verdict(_VERIFIED)
    if len(failed) >= needed:
        return Verdict(_FAILED, f"{failed[0].verdict.reason} (on {_names(failed)})")
    return None


def _undecided(
    host: str | None,
    asked: Sequence[Voter],
    votes: Sequence[Vote],
    needed: int,
    others: Collection[str],
) -> str:
    where = "" if host is None else f" on {host}"
    if not asked and (host in others or (host is None and others)):
        names = sorted(others)
        return (
            "no worker on the hosts that were to be asked verifies claims; there are some on "
            f"{', '.join(names[:_MOST])}{_more(names)}"
        )
    if not asked:
        return f"no worker{where} verifies claims: start one with `holdfast worker --verify`"
    counted = [vote for vote in votes if vote.verdict.status in (_VERIFIED, _FAILED)]
    abstained = [vote for vote in votes if vote not in counted]
    answered = {vote.voter for vote in votes}
    silent = [one.name for one in asked if one.name not in answered]
    said = [f"{len(counted)} of {needed} votes{where}"]
    if needed > len(asked):
        said.append(f"only {len(asked)} can vote, so a quorum of {needed} can't be reached")
    false = [vote for vote in counted if vote.verdict.status is _FAILED]
    said += [f"{vote.voter} found it false: {vote.verdict.reason}" for vote in false[:_MOST]]
    said += [f"{vote.voter}: {vote.verdict.reason}" for vote in abstained[:_MOST]]
    if silent:
        said.append(f"no answer in time from {', '.join(silent[:_MOST])}{_more(silent)}")
    return "; ".join(said)


def _names(votes: Sequence[Vote]) -> str:
    return ", ".join(vote.voter for vote in votes[:_MOST]) + _more(votes)


def _more(several: Sequence[object]) -> str:
    return f" and {len(several) - _MOST} more" if len(several) > _MOST else ""
