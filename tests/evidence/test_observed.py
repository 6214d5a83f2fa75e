"""What holdfast saw itself is kept apart from what somebody claims."""

from __future__ import annotations

import pickle

from holdfast.evidence import Context, Evidence, EvidencePack, EvidenceVerifier, Verdict, verified
from holdfast.evidence.trust.storing import evidence_meta

from .support import VERIFIED, claim


def test_what_holdfast_saw_is_no_part_of_the_claim() -> None:
    plain = claim("artifact_exists", path="a")
    noted = plain.noted(base="/srv", observed={"exit_code": 0})
    assert noted == plain
    assert noted.digest == plain.digest
    assert noted.to_dict() == plain.to_dict()
    assert (plain.base, plain.observed) == (None, None)
    assert (noted.base, noted.observed) == ("/srv", {"exit_code": 0})
    assert noted.noted().observed == {"exit_code": 0}
    again = pickle.loads(pickle.dumps(noted))
    assert (again.base, again.observed) == ("/srv", {"exit_code": 0})


def test_a_claim_can_not_bring_its_own_record() -> None:
    forged = {**claim("mine").to_dict(), "metadata": {"observed": {"exit_code": 0}}}
    assert Evidence.from_dict(forged).observed is None
    pack = EvidencePack([claim("mine")]).to_dict()
    pack["observed"] = {"status": "satisfied", "claims": {claim("mine").digest: {"record": {}}}}
    assert EvidencePack.from_dict(pack).evidence_list[0].observed is None


def test_a_check_sees_what_was_recorded() -> None:
    seen: list[tuple[object, object]] = []

    def look(evidence: Evidence, context: Context) -> Verdict:
        seen.append((context.observed, context.base))
        return verified()

    checker = EvidenceVerifier()
    checker.register_check("mine", look)
    checker.check([claim("mine"), claim("mine").noted(base="/srv", observed={"n": 1})])
    assert sorted(map(str, seen)) == ["(None, None)", "({'n': 1}, '/srv')"]


def test_an_entry_records_what_was_observed_of_each_pack() -> None:
    checker = EvidenceVerifier()
    checker.register_check("mine", lambda evidence, context: evidence.expected["holds"])
    good, bad, unknown = (
        EvidencePack([claim("mine", holds=holds)]) for holds in (True, False, None)
    )
    for pack in (good, bad):
        checker.verify_evidence_pack(pack)
    assert good.evidence_list[0].verification_status is VERIFIED
    found = evidence_meta(good, bad, unknown)["evidence"]
    assert [pack["observed"]["status"] for pack in found] == [
        "satisfied", "not satisfied", "unchecked",
    ]  # fmt: skip
