"""Verifying files, side by side with hashing them one after the other by hand."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from time import sleep
from typing import Final

from bench.clock import clocked
from bench.report import Trial
from holdfast.evidence import Evidence, EvidenceType, EvidenceVerifier, HashCache

SETTLED_SECONDS: Final = 2.5  # a file that was just written is not remembered


def files(directory: Path, count: int, size: int) -> dict[str, Trial]:
    """So many files, all in the system's cache: hashed in parallel, or known to be the same.

    "cached" has a `HashCache` that has seen them before.
    """
    digests = _written(directory, count, size)
    claims = [
        Evidence(EvidenceType.FILE_SHA256, name, {"path": name, "sha256": digest})
        for name, digest in digests.items()
    ]
    warm = EvidenceVerifier(directory, hashes=HashCache())
    assert warm.verify_multiple(claims)["all_passed"]

    def by_hand(path: Path) -> dict[str, float]:
        with clocked() as spent:
            for name, digest in digests.items():
                with (directory / name).open("rb") as file:
                    assert hashlib.file_digest(file, "sha256").hexdigest() == digest
        return {"seconds": spent.seconds, "cpu_s": spent.cpu}

    def verify(verifier: EvidenceVerifier) -> dict[str, float]:
        with clocked() as spent:
            assert verifier.verify_multiple(claims)["all_passed"]
        return {"seconds": spent.seconds, "cpu_s": spent.cpu}

    return {
        "hashlib": by_hand,
        "holdfast": lambda path: verify(EvidenceVerifier(directory)),
        "holdfast, cached": lambda path: verify(warm),
    }


def _written(directory: Path, count: int, size: int) -> dict[str, str]:
    """The digest of each file by its name."""
    digests = {}
    for number in range(count):
        content = os.urandom(size)
        (directory / f"{number:05}.bin").write_bytes(content)
        digests[f"{number:05}.bin"] = hashlib.sha256(content).hexdigest()
    sleep(SETTLED_SECONDS)
    return digests
