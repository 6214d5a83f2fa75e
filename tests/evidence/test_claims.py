from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.evidence import (
    Evidence,
    EvidencePack,
    EvidenceType,
    EvidenceVerifier,
    Verdict,
    VerificationStatus,
    verified,
)

from .support import claim

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
CLAIMS = st.builds(
    Evidence,
    st.sampled_from(EvidenceType) | st.text(min_size=1, max_size=20),
    st.text(),
    st.dictionaries(st.text(), PLAIN, max_size=4),
    st.dictionaries(st.text(), PLAIN, max_size=4),
)


@given(CLAIMS)
def test_a_claim_comes_back_exactly(evidence: Evidence) -> None:
    text = json.dumps(evidence.to_dict(), allow_nan=False)
    for again in (
        Evidence.from_dict(json.loads(text)),
        pickle.loads(pickle.dumps(evidence)),
        copy.deepcopy(evidence),
    ):
        assert again == evidence
        assert again.digest == evidence.digest
        assert hash(again) == hash(evidence)
        assert again.subject == evidence.subject
        assert again.to_dict() == evidence.to_dict()
        assert (again.expected, again.metadata) == (evidence.expected, evidence.metadata)
        assert type(again.evidence_type) is type(evidence.evidence_type)


def test_the_order_of_keys_is_no_part_of_a_claim_and_types_are() -> None:
    assert claim("x", a=1, b=2) == claim("x", b=2, a=1)
    assert len({claim("x", a=value) for value in (1, True, 1.0, "1", None, b"1", [1])}) == 7


@pytest.mark.parametrize(
    "name",
    ["evidence_type", "description", "expected", "metadata", "verified", "verification_status",
     "verification_error", "verified_at", "anything"],
)  # fmt: skip
def test_a_claim_is_fixed_and_its_verdict_is_not_ours_to_set(name: str) -> None:
    evidence = claim("file_sha256", path="a")
    with pytest.raises(AttributeError):
        setattr(evidence, name, True)
    with pytest.raises(AttributeError):
        delattr(evidence, name)


def test_what_goes_in_and_comes_out_is_copied() -> None:
    inner = {"path": "a", "list": [1]}
    evidence = Evidence("custom", "c", inner, {"m": inner})
    inner["list"].append(2)  # type: ignore[attr-defined]
    evidence.expected["list"].append(3)
    evidence.metadata["m"]["path"] = "b"
    assert evidence.expected == {"path": "a", "list": [1]}
    assert evidence.metadata == {"m": {"path": "a", "list": [1]}}


def test_a_new_claim_is_pending() -> None:
    evidence = Evidence(EvidenceType.COMMAND_EXIT, "done", {"exit_code": 0})
    assert evidence.verification_status is VerificationStatus.PENDING
    assert (evidence.verified, evidence.verification_error, evidence.verified_at) == (
        False, None, None,
    )  # fmt: skip
    assert evidence.metadata == {}


def test_a_stored_verdict_is_not_believed() -> None:
    evidence = claim("artifact_exists", path="gone")
    stored = evidence.to_dict() | {
        "verified": True,
        "verification_status": "verified",
        "verification_error": None,
        "verified_at": "2026-01-01T00:00:00+00:00",
    }
    assert Evidence.from_dict(stored).verification_status is VerificationStatus.PENDING


def test_a_verdict_is_a_view_and_no_part_of_the_claim() -> None:
    evidence = claim("custom", a=1)
    before = evidence.claim_dict()
    evidence.judge(verified()._replace(at=1_700_000_000_000_007, evidence=evidence.digest))
    assert evidence.verified
    assert evidence.claim_dict() == before
    assert evidence == claim("custom", a=1)
    at = datetime(2023, 11, 14, 22, 13, 20, 7, tzinfo=UTC)
    assert evidence.verified_at == at
    shown = {
        "verified": True,
        "verification_status": "verified",
        "verification_error": None,
        "verified_at": at.isoformat(),
    }
    assert evidence.to_dict() == before | shown  # the names of the design document
    assert Evidence.from_dict(evidence.to_dict()) == evidence
    assert pickle.loads(pickle.dumps(evidence)).verdict == evidence.verdict


def test_a_verdict_on_another_claim_is_refused() -> None:
    with pytest.raises(hf.InvalidEvidenceError):
        claim("custom", a=1).judge(verified()._replace(evidence=claim("custom", a=2).digest))
    with pytest.raises(hf.InvalidEvidenceError):
        claim("custom", a=1).judge(verified())


def test_verdicts_come_back_exactly() -> None:
    verdict = Verdict(VerificationStatus.FAILED, "gone", False, 7, 0.5, 2, "d" * 64)
    assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict
    wrong: list[dict[str, Any]] = [{}, {"status": "verified", "x": 1}, {"status": "sure"}]
    for data in [*wrong, {"status": "verified", "at": "now"}]:
        with pytest.raises(ValueError, match="not a verdict"):
            Verdict.from_dict(data)


@pytest.mark.parametrize(
    "wrong",
    [
        ("", "d", {}),
        (7, "d", {}),
        ("x" * 101, "d", {}),
        ("t", None, {}),
        ("t", "d", None),
        ("t", "d", [("a", 1)]),
        ("t", "d", {1: 2}),
        ("t", "d", {"f": print}),
        ("t", "d", {}, "m"),
        ("t", "d", {"x": "y" * 2_000_000}),
    ],
)
def test_what_is_no_plain_data_is_refused(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(hf.InvalidEvidenceError):
        Evidence(*wrong)


@pytest.mark.parametrize("data", [None, [], {}, {"evidence_type": "x"}, {"a": 1}])
def test_what_is_no_claim_is_refused(data: Any) -> None:
    with pytest.raises(hf.InvalidEvidenceError):
        Evidence.from_dict(data)
    with pytest.raises(hf.InvalidEvidenceError):
        Evidence.from_dict(claim("x").to_dict() | {"more": 1})


def test_paths_may_be_given_as_paths() -> None:
    assert claim("artifact_exists", path=Path("/a/b")) == claim("artifact_exists", path="/a/b")


SAME = [
    (claim("file_sha256", path="out/./a.txt", sha256="0"), claim("artifact_exists", path="out//a.txt")),
    (claim("artifact_exists", path="/a/b/"), claim("artifact_exists", path="//a/b")),
    (
        claim("db_row", table="t", where={"a": 1, "b": 2}, values={"c": 1}),
        claim("db_row", table="t", where={"b": 2, "a": 1}, values={"c": 2}),
    ),
    (
        claim("api_response", url="HTTP://Example.org:80", status=200),
        claim("api_response", url="http://example.org/#x", status=404),
    ),
    (
        claim("network_reachable", host="Example.org.", port=80),
        claim("network_reachable", host="example.org", port=80),
    ),
    (claim("container_running", container="/web"), claim("container_running", container="web", image="x")),
    (
        claim("process_exists", pid=7, start_time="a"),
        claim("process_exists", pid=7, start_time="b"),
    ),
    (
        claim("command_exit", {"command": ["make"]}, exit_code=0),
        claim("command_exit", {"command": ["make"], "why": "it must"}, exit_code=1),
    ),
    (claim("mine", {"subject": "s"}, a=1), claim("mine", {"subject": "s"}, a=2)),
]  # fmt: skip

OTHER = [
    (claim("artifact_exists", path="a"), claim("artifact_exists", path="b")),
    (claim("artifact_exists", path="a"), claim("artifact_exists", path="/a")),
    (claim("db_row", table="t", where={"a": 1}), claim("db_row", table="t", where={"a": "1"})),
    (claim("db_row", table="t", where={"a": 1}), claim("db_row", {"connection": "x"}, table="t", where={"a": 1})),
    (claim("db_row", table="t", where={"a": 1}), claim("db_row", {"db_path": "default"}, table="t", where={"a": 1})),
    (claim("api_response", url="http://a/x"), claim("api_response", url="http://a/X")),
    (claim("api_response", url="http://a/x"), claim("api_response", url="https://a/x")),
    (claim("network_reachable", host="a", port=1), claim("network_reachable", host="a", port=2)),
    (claim("command_exit", {"command": "a"}, exit_code=0), claim("command_exit", {"command": "b"}, exit_code=0)),
    (claim("mine", a=1), claim("mine", a=2)),
    (claim("artifact_exists", path=""), claim("artifact_exists", paths="")),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_claims_about_the_same_thing_have_one_subject(one: Evidence, other: Evidence) -> None:
    assert one.subject == other.subject
    assert one != other


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_claims_about_other_things_have_others(one: Evidence, other: Evidence) -> None:
    assert one.subject != other.subject


def test_values_beyond_json_survive() -> None:
    evidence = claim("mine", n=Decimal("1.50"), at=datetime(2026, 1, 1, tzinfo=UTC), t=(1, {2}))
    assert Evidence.from_dict(json.loads(json.dumps(evidence.to_dict()))).expected == {
        "n": Decimal("1.50"),
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "t": (1, {2}),
    }


def test_the_names_are_in_holdfast_itself() -> None:
    assert hf.Evidence is Evidence
    assert str(hf.VerificationStatus.VERIFIED) == "verified"
    assert {kind.value for kind in hf.EvidenceType} == {
        "artifact_exists", "file_sha256", "command_exit", "db_row",
        "network_reachable", "api_response", "container_running", "process_exists",
    }  # fmt: skip
    assert (hf.EvidencePack, hf.EvidenceVerifier) == (EvidencePack, EvidenceVerifier)
