"""Runs that failed: which, where and with what."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.errors import CheckpointCorruptedError
from holdfast.model import Kind
from holdfast.views.outcome import Failure, failure_from


class FailedRun(NamedTuple):
    """A run that failed, and with what; that is unknown where it can't be read."""

    info: RunInfo
    failure: Failure | None

    @property
    def error(self) -> str:
        """The type of the error, without the modules it is in."""
        return "unknown" if self.failure is None else self.failure.error_type.rpartition(".")[2]

    @property
    def told(self) -> str:
        """The error in a list."""
        message = "" if self.failure is None else self.failure.message
        return f"{self.error}: {message}" if message else self.error

    @property
    def step(self) -> str:
        """The step that failed; empty if the flow itself did."""
        return "" if self.failure is None else self.failure.step

    def document(self) -> dict[str, Any]:
        """As `holdfast retry --json` has it."""
        return {
            "run_id": self.info.run_id,
            "flow": self.info.flow,
            "step": self.step,
            "status": self.info.status,
            "error": None if self.failure is None else str(self.failure),
            "failed_at": self.info.updated_at,
        }


def failed_runs(
    cp: SyncCheckpointer,
    *,
    flows: Collection[str] | None = None,
    since: datetime | None = None,
    error: str | None = None,
) -> Iterator[FailedRun]:
    """The runs that failed, no child runs, the last started first.

    Of these flows; started since then; with an error of this type, by its name.
    """
    for info in cp.iter_runs(status="failed", since=since, roots=True):
        if info.flow is None or (flows is not None and info.flow not in flows):
            continue
        found = FailedRun(info, failure_of(cp, info))
        told = "" if found.failure is None else found.failure.error_type
        if error in (None, told, found.error):
            yield found


def failure_of(cp: SyncCheckpointer, info: RunInfo) -> Failure | None:
    """What a run failed with; None where that can't be read. Blocks."""
    journals = cp.core.journals
    try:
        head = journals.head(info.run_id)
        if head is None:
            return None
        last = head if head.seq == head.term else journals.entry(info.run_id, head.term)
        if last is None or last.kind != Kind.FAIL or not last.size:
            return None
        return failure_from(journals.value(info.run_id, last.seq, as_data=True))
    except CheckpointCorruptedError:
        return None


def grouped(runs: Sequence[FailedRun]) -> list[tuple[int, str, str, str]]:
    """How many failed in which flow and step, with which error: the most frequent first."""
    counts = Counter((one.info.flow or "", one.step, one.error) for one in runs)
    return [(n, *which) for which, n in counts.most_common()]
