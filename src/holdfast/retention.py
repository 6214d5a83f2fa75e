"""What may be deleted, and when: a policy, and the choice it makes. Nothing is deleted here."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from holdfast.model import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long checkpoints are kept. Off unless given; a live or paused run is never touched.

    A checkpoint goes when it is beyond the newest `keep_latest` of its run *and* older than
    `max_age`, as far as each is given; a run's current checkpoint always stays. A whole run goes
    once nothing was saved to it for `run_ttl`. With `archive`, what goes is first written to
    files in that directory: a whole run as an export, which `import_run` reads, single
    checkpoints as lines that `Checkpoint.from_dict` reads.
    """

    keep_latest: int | None = None
    max_age: timedelta | None = None
    run_ttl: timedelta | None = None
    archive: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.keep_latest is not None and self.keep_latest < 1:
            raise ValueError(f"keep_latest must be at least 1, not {self.keep_latest}")
        for name in ("max_age", "run_ttl"):
            age = getattr(self, name)
            if age is not None and age <= timedelta(0):
                raise ValueError(f"{name} must be longer than nothing, not {age}")
        if self.keep_latest is None and self.max_age is None and self.run_ttl is None:
            raise ValueError("a Retention needs keep_latest, max_age or run_ttl")

    @property
    def thins_runs(self) -> bool:
        """Whether it deletes single checkpoints, rather than only whole runs."""
        return self.keep_latest is not None or self.max_age is not None


def choose(
    live: Iterable[Entry], branch: list[int], *, before: int | None, keep_latest: int | None
) -> list[int]:
    """The seqs to delete: beyond the newest `keep_latest` and older than `before` (microseconds).

    `branch` lists the seqs that lead to the current state, newest first. Checkpoints that a
    rollback left behind are not on it, and never count as the newest.
    """
    kept = set(branch[: keep_latest or 0])
    return [e.seq for e in live if e.seq not in kept and (before is None or e.at < before)]
