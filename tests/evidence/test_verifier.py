from __future__ import annotations

import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import (
    Context,
    Evidence,
    EvidencePack,
    EvidenceVerifier,
    Policy,
    Verdict,
    VerificationStatus,
    failed,
    inconclusive,
    refuse_unverifiable,
    verified,
)
from tests.waiting import PATIENCE, in_time, join, wait_until

from .support import ERROR, FAILED, INCONCLUSIVE, VERIFIED, claim, sha256, status, verifier


def mine(check: Any, **options: Any) -> EvidenceVerifier:
    """A verifier with a check of our own, for claims of type "mine"."""
    made = verifier(**options)
    made.register_check("mine", check)
    return made


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        (True, VERIFIED),
        (False, FAILED),
        (verified(), VERIFIED),
        (failed("no"), FAILED),
        (inconclusive("?"), INCONCLUSIVE),
        (1, ERROR),
        ("verified", ERROR),
        (None, ERROR),
        (Verdict(VerificationStatus.PENDING, "later"), ERROR),
        (tuple(verified()), ERROR),
    ],
)
def test_a_check_of_ones_own_says_what_it_found(returned: Any, found: str) -> None:
    assert status(mine(lambda evidence, context: returned), claim("mine")) == found


@pytest.mark.parametrize(
    ("raised", "found"),
    [
        (ValueError("odd"), ERROR),
        (OSError("disk"), ERROR),
        (AssertionError(), ERROR),
        (MemoryError(), ERROR),
        (SystemExit(0), ERROR),
        (KeyboardInterrupt(), ERROR),
        (TimeoutError(), INCONCLUSIVE),
        (hf.EvidencePolicyError("x", "y"), ERROR),
    ],
)
def test_a_check_that_breaks_says_nothing_about_the_claim(raised: Any, found: str) -> None:
    def check(evidence: Evidence, context: Context) -> bool:
        raise raised

    assert status(mine(check), claim("mine")) == found


def test_an_unknown_type_is_an_error_and_refused_at_commit() -> None:
    evidence = claim("unheard_of")
    assert status(EvidenceVerifier(), evidence) == ERROR
    with pytest.raises(hf.InvalidEvidenceError, match="unheard_of"):
        refuse_unverifiable(EvidencePack([evidence]), Policy())
    mine(lambda evidence, context: True).refuse_unverifiable(EvidencePack([claim("mine")]))


def test_holdfasts_own_checks_can_not_be_replaced() -> None:
    for name in ("file_sha256", ""):
        with pytest.raises(ValueError, match="name of your own"):
            EvidenceVerifier().register_check(name, lambda evidence, context: True)


def test_a_check_that_hangs_is_inconclusive_and_heard_no_more() -> None:
    go, done = threading.Event(), threading.Event()

    def check(evidence: Evidence, context: Context) -> bool:
        go.wait(60)
        done.set()
        return True

    evidence = claim("mine")
    with in_time():
        assert status(mine(check, check_seconds=0.1), evidence) == INCONCLUSIVE
    go.set()
    assert done.wait(PATIENCE)
    time.sleep(0.02)
    assert evidence.verification_status == INCONCLUSIVE


def test_those_that_hang_do_not_hold_up_the_others() -> None:
    go = threading.Event()

    def check(evidence: Evidence, context: Context) -> bool:
        return evidence.expected["n"] % 2 == 0 or go.wait(60)

    made = EvidenceVerifier(policy=Policy(check_seconds=1), workers=3)
    made.register_check("mine", check)
    claims = [claim("mine", n=number) for number in range(12)]
    with in_time():
        summary = made.verify_multiple(claims)
    go.set()
    assert summary == {
        "total": 12, "verified": 6, "failed": 0, "inconclusive": 6, "error": 0, "pending": 0,
        "success_rate": 0.5, "all_passed": False,
    }  # fmt: skip
    assert [evidence.verified for evidence in claims] == [True, False] * 6


def test_a_call_returns_by_its_own_deadline() -> None:
    go = threading.Event()
    made = EvidenceVerifier(policy=Policy(check_seconds=60, total_seconds=0.3), workers=2)
    made.register_check("mine", lambda evidence, context: go.wait(60))
    with in_time():
        summary = made.verify_multiple([claim("mine", n=number) for number in range(50)])
    go.set()
    assert summary["inconclusive"] == 50


def test_threads_end_with_their_work(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    made = EvidenceVerifier(tmp_path)
    made.verify_multiple([claim("artifact_exists", {"n": n}, path="a") for n in range(200)])
    wait_until(lambda: "holdfast-evidence" not in {t.name for t in threading.enumerate()})


def test_what_may_change_soon_is_tried_again_with_growing_pauses() -> None:
    times: list[float] = []

    def check(evidence: Evidence, context: Context) -> Verdict:
        times.append(time.monotonic())
        return inconclusive("busy", transient=True) if len(times) < 4 else verified()

    made = EvidenceVerifier(attempts=4, backoff=0.02)
    made.register_check("mine", check)
    evidence = claim("mine")
    assert status(made, evidence) == VERIFIED
    assert evidence.verdict is not None
    assert evidence.verdict.attempts == 4
    pauses = [after - before for before, after in pairwise(times)]
    assert all(pause >= least for pause, least in zip(pauses, (0.02, 0.04, 0.08), strict=True))


@pytest.mark.parametrize("verdict", [failed("no"), inconclusive("?"), verified()])
def test_what_will_not_change_is_not_tried_again(verdict: Verdict) -> None:
    calls: list[int] = []

    def check(evidence: Evidence, context: Context) -> Verdict:
        calls.append(1)
        return verdict

    status(mine(check), claim("mine"))
    assert len(calls) == 1


def test_trying_again_ends_at_the_deadline() -> None:
    made = EvidenceVerifier(policy=Policy(check_seconds=0.2), attempts=1000, backoff=0.05)
    made.register_check("mine", lambda e, c: inconclusive("busy", transient=True))
    with in_time():
        assert status(made, claim("mine")) == INCONCLUSIVE


def test_checks_run_at_the_same_time() -> None:
    meet = threading.Barrier(4)

    def check(evidence: Evidence, context: Context) -> bool:
        meet.wait(PATIENCE)
        return True

    made = EvidenceVerifier(workers=4)
    made.register_check("mine", check)
    assert made.verify_multiple([claim("mine", n=n) for n in range(4)])["all_passed"]


def test_a_new_look_replaces_what_was_found_before(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a")
    pack = EvidencePack([claim("file_sha256", path="a", sha256=sha256(b"a"))])
    made = EvidenceVerifier(tmp_path)
    assert made.verify_evidence_pack(pack)
    assert pack.is_verified
    path.unlink()
    assert not made.verify_evidence_pack(pack)
    assert not pack.is_verified
    assert pack.evidence_list[0].verification_status == FAILED


def test_some_may_fail_if_the_pack_says_so(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"")
    claims = [claim("artifact_exists", path=name) for name in "abc"]
    made = EvidenceVerifier(tmp_path)
    for least, holds in ((1, True), (2, True), (3, False)):
        pack = EvidencePack(claims, require_all=False, allow_partial=True, min_verified=least)
        assert made.verify_evidence_pack(pack) is holds
        assert pack.verification_summary()["verified"] == 2
    assert not made.verify_evidence_pack(EvidencePack(claims))


def test_nothing_at_all_has_not_passed() -> None:
    summary = EvidenceVerifier().verify_multiple([])
    assert (summary["total"], summary["all_passed"], summary["success_rate"]) == (0, False, 0.0)


def test_verdicts_are_counted_and_told(tmp_path: Path) -> None:
    told: list[tuple[str, VerificationStatus, float]] = []
    made = EvidenceVerifier(tmp_path, metrics=lambda *verdict: told.append(verdict))
    made.verify_multiple(
        [claim("artifact_exists", path="."), claim("artifact_exists", path="x"), claim("odd")]
    )
    assert [(kind, found) for kind, found, _ in told] == [
        ("artifact_exists", VERIFIED), ("artifact_exists", FAILED), ("odd", ERROR),
    ]  # fmt: skip
    assert all(seconds >= 0 for _, _, seconds in told)
    assert made.stats() == {
        "total": 3,
        "by_status": {"verified": 1, "failed": 1, "error": 1},
        "by_type": {"artifact_exists": {"verified": 1, "failed": 1}, "odd": {"error": 1}},
        "success_rate": 1 / 3,
    }


def test_a_hook_that_fails_changes_nothing(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def hook(*verdict: object) -> None:
        raise ValueError("no disk for metrics")

    made = EvidenceVerifier(tmp_path, metrics=hook)
    assert made.verify_evidence(claim("artifact_exists", path="."))
    assert "metrics hook" in caplog.text


def test_many_threads_may_share_one(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}").write_bytes(b"%d" % number)
    made = EvidenceVerifier(tmp_path)
    wrong: list[Evidence] = []

    def verify() -> None:
        for _ in range(5):
            claims = [
                claim("file_sha256", path=f"{n}", sha256=sha256(b"%d" % n)) for n in range(20)
            ]
            made.verify_multiple(claims)
            wrong.extend(evidence for evidence in claims if not evidence.verified)

    threads = [threading.Thread(target=verify) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert wrong == []
    assert made.stats()["total"] == 400


@pytest.mark.parametrize(
    "wrong",
    [{"workers": 0}, {"attempts": 0}, {"base_path": ".", "policy": Policy(base_path=Path())}],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"1 or more|twice"):
        EvidenceVerifier(**wrong)
    with pytest.raises(ValueError, match="more than 0"):
        Policy(check_seconds=0)


def test_a_policy_can_not_be_widened_afterwards() -> None:
    policy = Policy(connections={"a": "a.db"})
    with pytest.raises(TypeError):
        policy.connections["b"] = "b.db"  # type: ignore[index]
    with pytest.raises(AttributeError):
        policy.private_addresses = True  # type: ignore[misc]
