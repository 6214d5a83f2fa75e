"""How one checkpoint differs from another."""

from typing import Any, NamedTuple

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.operations.diff import Diff
from holdfast.views import threads
from holdfast.views.messages import change_lines


class Comparison(NamedTuple):
    """The difference of two states. Of a LangGraph thread, that of its channels."""

    diff: Diff
    of_channels: bool

    def document(self) -> dict[str, Any]:
        """As `holdfast diff --json` has it."""
        return {"a": self.diff.old_id, "b": self.diff.new_id, "patch": self.diff.patch}

    def lines(self) -> list[tuple[str, str]]:
        """What was done ("add", "remove" or "replace") and a line about it, change by change."""
        return [
            (change.op, line)
            for change in self.diff.changes
            for line in (change_lines(change) if self.of_channels else [str(change)])
        ]


def compare(cp: SyncCheckpointer, info: RunInfo, a: str, b: str) -> Comparison:
    """How the state at the checkpoint `b` differs from that at `a`; both are given by their ids."""
    found = threads.diff(cp, a, b) if info.flow == threads.FLOW else None
    if found is not None:
        return Comparison(found, of_channels=True)
    return Comparison(cp.diff(info.run_id, a, b), of_channels=False)
