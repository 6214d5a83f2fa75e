from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack, Verdict, VerificationStatus

from .support import claim

STATUSES = [status for status in VerificationStatus if status is not VerificationStatus.PENDING]


def claims(count: int) -> list[Evidence]:
    return [claim("mine", n=number) for number in range(count)]


def judged(*statuses: VerificationStatus) -> list[Evidence]:
    found = claims(len(statuses))
    for evidence, status in zip(found, statuses, strict=True):
        if status is not VerificationStatus.PENDING:
            evidence.judge(Verdict(status, "why", evidence=evidence.digest))
    return found


@pytest.mark.parametrize(
    ("count", "options", "says"),
    [
        (0, {}, "empty"),
        (0, {"require_all": False, "allow_partial": True, "min_verified": 1}, "empty"),
        (3, {"allow_partial": True}, "contradicts"),
        (3, {"allow_partial": True, "min_verified": 1}, "contradicts"),
        (3, {"min_verified": 1}, "contradicts"),
        (3, {"min_verified": 2}, "contradicts"),
        (3, {"require_all": False}, "contradicts"),
        (3, {"require_all": False, "min_verified": 1}, "contradicts"),
        (3, {"require_all": False, "allow_partial": True}, "verified by nothing"),
        (3, {"require_all": False, "allow_partial": True, "min_verified": 4}, "never"),
        (3, {"min_verified": 4}, "never"),
        (3, {"min_verified": -1}, "min_verified"),
        (3, {"min_verified": True}, "min_verified"),
        (3, {"require_all": False, "allow_partial": True, "min_verified": 1.5}, "min_verified"),
        (3, {"require_all": 1}, "True or False"),
        (10_001, {}, "the limit"),
    ],
)
def test_a_pack_that_leaves_open_what_it_takes_is_refused(
    count: int, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        EvidencePack(claims(count), **options)
    assert isinstance(caught.value, hf.InvalidEvidenceError)


def test_one_fact_does_not_count_twice() -> None:
    with pytest.raises(hf.InvalidEvidenceError, match="twice"):
        EvidencePack([claim("mine", n=1), claim("mine", n=1)])


def test_claims_that_exclude_each_other_are_refused() -> None:
    one, other = "a" * 64, "b" * 64
    with pytest.raises(hf.InvalidEvidenceError, match="never"):
        EvidencePack(
            [
                claim("file_sha256", path="x", sha256=one),
                claim("file_sha256", path="./x", sha256=other),
            ]
        )
    with pytest.raises(hf.InvalidEvidenceError, match="never"):
        EvidencePack(
            [
                claim("file_sha256", path="x", sha256=one),
                claim("artifact_exists", path="x", type="directory"),
            ]
        )
    EvidencePack(
        [
            claim("file_sha256", path="x", sha256=one),
            claim("file_sha256", path="x", sha256=one.upper()),
            claim("artifact_exists", path="x", type="file"),
            claim("artifact_exists", path="x"),
        ]
    )  # fmt: skip


def test_only_evidence_is_evidence() -> None:
    with pytest.raises(hf.InvalidEvidenceError):
        EvidencePack(["true"])  # type: ignore[list-item]


@given(st.lists(st.sampled_from(VerificationStatus), min_size=1, max_size=6), st.data())
def test_a_pack_is_verified_by_exactly_what_it_says(
    statuses: list[VerificationStatus], data: st.DataObject
) -> None:
    good = statuses.count(VerificationStatus.VERIFIED)
    assert EvidencePack(judged(*statuses)).is_verified is (good == len(statuses))
    assert EvidencePack(judged(*statuses), min_verified=len(statuses)).is_verified is (
        good == len(statuses)
    )
    least = data.draw(st.integers(1, len(statuses)))
    pack = EvidencePack(judged(*statuses), False, True, least)
    assert pack.is_verified is (good >= least)
    summary = pack.verification_summary()
    assert summary == {
        "total": len(statuses),
        **{status.value: statuses.count(status) for status in VerificationStatus},
        "success_rate": good / len(statuses),
        "all_passed": good == len(statuses),
        "is_verified": good >= least,
    }


@given(st.integers(1, 5), st.data())
def test_a_pack_comes_back_exactly(count: int, data: st.DataObject) -> None:
    least = data.draw(st.integers(0, count))
    pack = EvidencePack(claims(count), not least, bool(least), least)
    again = EvidencePack.from_dict(json.loads(json.dumps(pack.to_dict())))
    assert again == pack
    assert again.to_dict() == pack.to_dict()


@pytest.mark.parametrize(
    "data",
    [None, {}, {"evidence_list": []}, {**EvidencePack(claims(1)).to_dict(), "evidence_list": "ab"},
     {**EvidencePack(claims(1)).to_dict(), "verified": True}],
)  # fmt: skip
def test_what_is_no_pack_is_refused(data: Any) -> None:
    with pytest.raises(hf.InvalidEvidenceError):
        EvidencePack.from_dict(data)


def test_a_stored_pack_holds_no_verdicts() -> None:
    pack = EvidencePack(judged(VerificationStatus.VERIFIED))
    assert "verif" not in json.dumps(pack.claim_dict()).replace("min_verified", "")
    assert not EvidencePack.from_dict(pack.to_dict()).is_verified


def test_the_error_that_stops_a_rollback_names_what_failed() -> None:
    failed = tuple(judged(VerificationStatus.FAILED))
    error = hf.VerificationError("run@7", failed)
    assert error.evidence == failed
    assert "why" in str(error)
    assert isinstance(error, hf.CheckpointError)


def test_a_value_that_equals_nothing_is_no_conflict_with_itself() -> None:
    claim = Evidence("file_sha256", "odd", {"path": "a", "size": Decimal("sNaN")})
    assert EvidencePack([claim]).required == 1
