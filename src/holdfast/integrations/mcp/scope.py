"""Which runs of a store a server shows: all, or those of an owner, or some of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.operations.children import root_of


class Scope(NamedTuple):
    """The runs that may be seen. A child run may be if the run that it belongs to may."""

    owners: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()

    def has(self, cp: SyncCheckpointer, run: RunInfo) -> bool:
        """Whether a run may be seen."""
        if not self.owners and not self.runs:
            return True
        head = root_of(cp.core, run.run_id)
        root = None if head is None else cp.run(head.run)
        return (
            root is not None
            and (not self.runs or root.run_id in self.runs)
            and (not self.owners or root.owner in self.owners)
        )

    def find(self, cp: SyncCheckpointer, run_id: str) -> RunInfo:
        """The run of this id. Raises the same `LookupError` whether it is hidden or not there."""
        run = cp.run(run_id)
        if run is None or not self.has(cp, run):
            raise LookupError(f"there is no run {run_id!r}")
        return run

    def listed(self, cp: SyncCheckpointer, **where: Any) -> Iterator[RunInfo]:
        """The runs that match and may be seen, the last started first."""
        if len(self.owners) == 1:
            (where["owner"],) = self.owners
        for run in cp.iter_runs(**where):
            if self.has(cp, run):
                yield run
