"""Several verifiers vote on a claim: what their votes come to, and where a claim can be checked."""

from __future__ import annotations

import pickle
import socket
from pathlib import Path

import pytest

from holdfast.errors import InvalidEvidenceError
from holdfast.evidence import (
    Evidence,
    EvidencePack,
    EvidenceVerifier,
    Policy,
    Verdict,
    VerificationStatus,
    error,
    failed,
    file_evidence,
    inconclusive,
    this_host,
    verified,
)
from holdfast.evidence.trust.rule import BoundClaim
from holdfast.evidence.trust.voting import Voter, decide, vote_key
from tests.evidence.support import FAILED, INCONCLUSIVE, VERIFIED

HERE = socket.gethostname()


def bound(host: str | None = None) -> BoundClaim:
    claim = Evidence("artifact_exists", "it is there", {"path": "/a", "type": "file"}, host=host)
    return BoundClaim(1, claim, frozenset(claim.facts))


def voters(*given: tuple[str, Verdict | None]) -> list[Voter]:
    """Verifiers on these hosts, with what each found of the claim of `bound`."""
    return [
        Voter(
            f"{host}:{pid}",
            host,
            None if said is None else {vote_key(bound(label)): said for label in (None, "a")},
        )
        for pid, (host, said) in enumerate(given)
    ]


def decided(
    *given: tuple[str, Verdict | None], host: str | None = None, quorum: int | None = None
) -> VerificationStatus:
    return decide(bound(host), voters(*given), quorum, 0).verdict.status


YES, NO = verified(), failed("it is gone")
UNSURE, BROKEN = inconclusive("no time"), error("outside the roots")


def test_a_majority_of_those_asked_decides_unless_a_quorum_is_given() -> None:
    assert decided(("a", YES), ("b", YES), ("c", None)) is VERIFIED
    assert decided(("a", NO), ("b", NO), ("c", None)) is FAILED
    assert decided(("a", YES), ("b", None), ("c", None)) is INCONCLUSIVE
    assert decided(("a", YES), ("b", None), ("c", None), quorum=1) is VERIFIED
    assert decided(("a", YES), ("b", YES), ("c", YES), quorum=4) is INCONCLUSIVE


def test_what_was_not_decided_says_who_found_it_false_and_what_is_missing() -> None:
    def reason(*given: tuple[str, Verdict | None], quorum: int = 2, others: set[str]) -> str:
        return str(decide(bound(), voters(*given), quorum, 0, others).verdict.reason)

    alone = reason(("a", NO), quorum=2, others=set())
    assert "1 of 2 votes" in alone
    assert "a:0 found it false: it is gone" in alone
    assert "only 1 can vote, so a quorum of 2 can't be reached" in alone
    assert "there are some on b, c" in reason(others={"c", "b"})
    assert "start one" in reason(others=set())


def test_silence_and_those_who_could_not_look_are_no_votes() -> None:
    for absent in (None, UNSURE, BROKEN):
        assert decided(("a", absent), ("b", absent)) is INCONCLUSIVE
        assert decided(("a", absent), ("b", absent), quorum=1) is INCONCLUSIVE
        assert decided(("a", YES), ("b", absent), quorum=2) is INCONCLUSIVE
    assert decided() is INCONCLUSIVE


def test_disagreement_decides_nothing_however_many_there_are() -> None:
    found = decide(bound(), voters(*[("a", YES)] * 9, ("b", NO)), 1, 0)
    assert found.disputed
    assert found.verdict.status is INCONCLUSIVE
    assert "verifiers disagree" in str(found.verdict.reason)
    assert "b:9 did not: it is gone" in str(found.verdict.reason)


def test_a_labelled_claim_is_decided_by_its_own_host_alone() -> None:
    assert decided(("a", YES), ("b", NO), host="a", quorum=3) is VERIFIED
    assert decided(("b", YES), ("c", YES), host="a") is INCONCLUSIVE
    assert decided(("a", None), ("b", YES), host="a") is INCONCLUSIVE
    assert decide(bound("a"), voters(("a", YES), ("a", NO)), None, 0).disputed


def test_a_vote_on_another_checkpoint_or_claim_counts_for_nothing() -> None:
    other = bound()._replace(seq=2)
    assert decide(other, voters(("a", YES)), 1, 0).verdict.status is INCONCLUSIVE
    part = bound()._replace(facts=frozenset(["exists"]))
    assert decide(part, voters(("a", YES)), 1, 0).verdict.status is INCONCLUSIVE


def test_a_claim_on_another_host_is_inconclusive_here_and_says_whom_to_ask(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("m")
    seen = file_evidence("model", policy=Policy(base_path=tmp_path))
    verifier = EvidenceVerifier(tmp_path)
    here = file_evidence("model", policy=Policy(base_path=tmp_path), host=this_host())
    assert here.host == HERE
    there = Evidence(seen.evidence_type, "m", seen.expected, host="gpu-1")
    assert verifier.verify_evidence(here)
    assert not verifier.verify_evidence(there)
    assert there.verification_status is INCONCLUSIVE
    assert "only on gpu-1" in str(there.verification_error)
    assert "holdfast verify --worker" in str(there.verification_error)


def test_the_label_is_part_of_the_claim() -> None:
    plain = Evidence("artifact_exists", "x", {"path": "/a"})
    labelled = Evidence("artifact_exists", "x", {"path": "/a"}, host="gpu-1")
    assert labelled != plain
    assert labelled.metadata == {"host": "gpu-1"}
    for again in (Evidence.from_dict(labelled.to_dict()), pickle.loads(pickle.dumps(labelled))):
        assert (again, again.host) == (labelled, "gpu-1")
    assert EvidencePack([plain, labelled]).required == 2, "about two things"
    assert plain.subject != labelled.subject
    other = Evidence("artifact_exists", "x", {"path": "/a"}, host="gpu-2")
    assert other.subject != labelled.subject


@pytest.mark.parametrize("host", ["", "a/b", "a\nb", "a\0b", 7, ["gpu-1"], "x" * 101])
def test_a_label_must_be_the_name_of_a_machine(host: object) -> None:
    with pytest.raises(InvalidEvidenceError, match="host"):
        Evidence("artifact_exists", "x", {"path": "/a"}, {"host": host})


def test_what_this_machine_may_not_look_at_can_be_claimed_of_another(tmp_path: Path) -> None:
    verifier = EvidenceVerifier(tmp_path)
    there = Evidence("artifact_exists", "x", {"path": "/srv/model"}, host="gpu-1")
    verifier.refuse_unverifiable(EvidencePack([there]))
    malformed = Evidence("artifact_exists", "x", {"pth": "/srv/model"}, host="gpu-1")
    with pytest.raises(InvalidEvidenceError):
        verifier.refuse_unverifiable(EvidencePack([malformed]))
