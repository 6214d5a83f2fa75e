"""What pruning deletes, or would delete."""

from collections.abc import Sequence
from typing import Any, Final

from holdfast.checkpointer import SyncCheckpointer
from holdfast.operations.retention import UNFINISHED, Swept, policy_of
from holdfast.views import threads

_THREAD: Final = "langgraph"  # in the place of a status


def sweep(cp: SyncCheckpointer, run: str, *, dry_run: bool) -> Swept:
    """Apply the policies of this checkpointer to a run.

    Of a thread of LangGraph's, only what deletes all of it.
    """
    info = cp.run(run)
    if info is not None and info.flow == threads.FLOW and _is_thinned(cp, run):
        would = cp.retain(run, dry_run=True)
        if not would.whole:
            why = UNFINISHED if would.refused == UNFINISHED else _THREAD
            return Swept(run, 0, whole=False, refused=why)
    return cp.retain(run, dry_run=dry_run)


def _is_thinned(cp: SyncCheckpointer, run: str) -> bool:
    head = cp.core.journals.head(run)
    policy = None if head is None else policy_of(cp.core, head)
    return policy is not None and policy.thins_runs


def document(swept: Sequence[Swept], *, dry_run: bool) -> dict[str, Any]:
    """What went, or would go, as `holdfast prune --json` has it."""
    gone = [one for one in swept if one.checkpoints or one.whole]
    return {
        "dry_run": dry_run,
        "checkpoints": sum(one.checkpoints for one in gone),
        "runs": [
            {"run_id": one.run_id, "checkpoints": one.checkpoints, "whole": one.whole}
            for one in gone
        ],
        "refused": {one.run_id: one.refused for one in swept if one.refused},
    }


def why_kept(status: str) -> str:
    """Why a run of this status needs its checkpoints."""
    if status == _THREAD:
        return "it is a thread of LangGraph's; prune it with HoldfastSaver.prune([thread])"
    if status == UNFINISHED:
        return "it waits for an answer, or has nodes to execute; delete it with holdfast forget"
    if status == "failed":
        return "it failed, and needs them to be resumed; resume it to its end or cancel it first"
    return f"it is {status}"
