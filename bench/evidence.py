"""Verifying files, side by side with hashing them one after the other by hand.

python -m bench.evidence [--quick] [--files N] [--kb SIZE] [--json FILE] [--dir DIRECTORY]
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Final

from bench.report import (
    Goal,
    Trial,
    arguments,
    as_json,
    environment,
    interleave,
    over,
    print_goals,
    print_measured,
    scratch,
    write,
)
from holdfast.evidence import Evidence, EvidenceType, EvidenceVerifier, HashCache

HASHLIB, COLD, CACHED = "hashlib, one by one", "holdfast, cold", "holdfast, cached"
KB: Final = 1000
SETTLED_SECONDS: Final = 2.5  # a file that was just written is not remembered


def main() -> None:
    """Measure, print the table, write the JSON."""
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--files", type=int, default=10_000, help="how many")
    parser.add_argument("--kb", type=int, default=250, help="the size of each")
    options = parser.parse_args()
    with scratch(options.dir) as directory:
        digests = _write_files(directory, options.files, options.kb * KB)
        time.sleep(SETTLED_SECONDS)
        trials = _trials(directory, digests)
        measured = interleave(directory, 3 if options.quick else 7, trials)
    goals = [
        Goal("cold, of hashlib", "x", 0.6, measured.paired(COLD, HASHLIB, "seconds", over)),
        Goal("cached, of cold", "x", 0.3, measured.paired(CACHED, COLD, "seconds", over)),
    ]
    print_measured(f"{options.files:,} files of {options.kb} KB", measured)
    print()
    print_goals(goals)
    write(
        options.json,
        {
            "environment": environment(),
            "files": options.files,
            "kb": options.kb,
            "results": measured,
            "goals": as_json(goals),
        },
    )


def _write_files(directory: Path, count: int, size: int) -> dict[str, str]:
    """The digest of each file by its name; all are in the system's cache afterwards."""
    digests = {}
    for number in range(count):
        content = os.urandom(size)
        (directory / f"{number:05}.bin").write_bytes(content)
        digests[f"{number:05}.bin"] = hashlib.sha256(content).hexdigest()
    return digests


def _trials(directory: Path, digests: dict[str, str]) -> dict[str, Trial]:
    claims = [
        Evidence(EvidenceType.FILE_SHA256, name, {"path": name, "sha256": digest})
        for name, digest in digests.items()
    ]
    warm = EvidenceVerifier(directory, hashes=HashCache())
    assert warm.verify_multiple(claims)["all_passed"]

    def by_hand(path: Path) -> dict[str, float]:
        start = time.perf_counter()
        for name, digest in digests.items():
            with (directory / name).open("rb") as file:
                assert hashlib.file_digest(file, "sha256").hexdigest() == digest
        return {"seconds": time.perf_counter() - start}

    def verify(verifier: EvidenceVerifier) -> dict[str, float]:
        start = time.perf_counter()
        assert verifier.verify_multiple(claims)["all_passed"]
        return {"seconds": time.perf_counter() - start}

    return {
        HASHLIB: by_hand,
        COLD: lambda path: verify(EvidenceVerifier(directory)),
        CACHED: lambda path: verify(warm),
    }


if __name__ == "__main__":
    main()
