"""A large file takes its time: it is not given up while it is being read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import EvidencePack, EvidenceVerifier, Policy, file_evidence
from holdfast.workflow import step, workflow

from .support import INCONCLUSIVE, VERIFIED, claim, sha256, status

MIB = 1 << 20


class Slow:
    """A clock that moves only when something is read."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.time = 1000.0
        self.reads = 0

    def now(self) -> int:
        return int(self.time * 1_000_000)

    def monotonic(self) -> float:
        return self.time


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Slow]:
    """Every read takes so many seconds."""
    readv = os.readv

    def make(seconds: float) -> Slow:
        clock = Slow(seconds)

        def read(descriptor: int, buffers: Any) -> int:
            clock.time += clock.seconds
            clock.reads += 1
            return readv(descriptor, buffers)

        monkeypatch.setattr(os, "readv", read)
        return clock

    return make


def zeros(path: Path, size: int) -> str:
    """A file of so many bytes; its digest."""
    with path.open("wb") as file:
        file.truncate(size)
    return hashlib.sha256(bytes(size)).hexdigest()


def found(path: Path, digest: str, clock: Slow, **options: Any) -> str:
    checker = EvidenceVerifier(policy=Policy(**options), attempts=1, clock=clock)
    return status(checker, claim("file_sha256", path=str(path), sha256=digest))


def test_a_file_that_is_being_read_is_not_late(
    tmp_path: Path, slow: Callable[[float], Slow]
) -> None:
    digest = zeros(tmp_path / "a", 4 * MIB)
    clock = slow(8)
    assert found(tmp_path / "a", digest, clock, check_seconds=10) == VERIFIED
    assert clock.time > 1100


def test_a_read_that_takes_too_long_is(tmp_path: Path, slow: Callable[[float], Slow]) -> None:
    digest = zeros(tmp_path / "a", 4 * MIB)
    clock = slow(12)
    assert found(tmp_path / "a", digest, clock, check_seconds=10) == INCONCLUSIVE
    assert clock.reads == 1


def test_the_time_of_a_call_grows_with_what_is_to_be_read(
    tmp_path: Path, slow: Callable[[float], Slow]
) -> None:
    digest = zeros(tmp_path / "a", 64 * MIB)
    clock = slow(0.02)  # 256 KiB in each: a bit more than 10 MiB/s
    assert found(tmp_path / "a", digest, clock, check_seconds=1, total_seconds=1) == VERIFIED
    assert clock.time > 1005


def test_files_that_take_long_together_are_all_checked(
    tmp_path: Path, slow: Callable[[float], Slow]
) -> None:
    digests = {tmp_path / str(n): zeros(tmp_path / str(n), 8 * MIB) for n in range(8)}
    claims = [claim("file_sha256", path=str(p), sha256=d) for p, d in digests.items()]
    checker = EvidenceVerifier(
        policy=Policy(total_seconds=1), attempts=1, clock=slow(0.02), workers=1
    )
    assert checker.verify_multiple(claims)["all_passed"]


def test_what_is_read_too_slowly_ends_all_the_same(
    tmp_path: Path, slow: Callable[[float], Slow]
) -> None:
    digest = zeros(tmp_path / "a", 64 * MIB)
    clock = slow(0.9)
    assert found(tmp_path / "a", digest, clock, check_seconds=1, total_seconds=1) == INCONCLUSIVE
    assert clock.time < 1010


def test_a_file_that_could_never_be_checked_can_not_be_claimed(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(hf.EvidencePolicyError, match="max_file_bytes"):
        file_evidence(tmp_path / "huge")
    told = claim("file_sha256", path="huge", sha256=sha256(b""), size=1 << 40)
    checker = EvidenceVerifier(tmp_path)
    with pytest.raises(hf.EvidencePolicyError, match="max_file_bytes"):
        checker.refuse_unverifiable(EvidencePack([told]))


def test_a_step_whose_output_is_too_large_to_be_checked_fails_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    @step(outputs="huge")
    def write() -> None:
        zeros(Path("huge"), 2 * MIB)

    @workflow
    async def flow() -> None:
        await write()

    verifier = EvidenceVerifier(policy=Policy(max_file_bytes=MIB))
    with (
        hf.Engine("memory://", verifier=verifier) as engine,
        pytest.raises(hf.StepFailedError, match="max_file_bytes"),
    ):
        engine.run_sync(flow(), run_id="r")
