"""What pruning deletes, or would delete."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from holdfast.checkpointer import SyncCheckpointer
from holdfast.errors import CheckpointNotFoundError
from holdfast.kernel.reader import all_runs
from holdfast.model import Entry, check_id
from holdfast.operations.blocks import in_blocks
from holdfast.operations.retention import UNFINISHED, Swept, policy_of, retain_behind
from holdfast.views import threads

_THREAD: Final = "langgraph"  # in the place of a status


def sweep(cp: SyncCheckpointer, run_id: str, *, dry_run: bool) -> Swept:
    """Apply the policies of this checkpointer to a run.

    Of a thread of LangGraph's, only what deletes all of it.
    """
    head = cp.core.journals.head(check_id("run_id", run_id))
    if head is None:
        raise CheckpointNotFoundError(run_id)
    return _sweep(cp, head, dry_run=dry_run)


def sweep_all(cp: SyncCheckpointer, *, dry_run: bool) -> Iterator[Swept]:
    """As `sweep`, for all runs, ordered by id.

    Some are deleted at once (`Store.together`), in blocks that are short for those who save
    meanwhile.
    """
    try:
        yield from in_blocks(
            cp.store,
            all_runs(cp.store),
            lambda head: _sweep(cp, head, dry_run=dry_run),
            alone=dry_run or _archives(cp),
        )
    finally:
        if not dry_run:
            cp.store.scrub()


def _sweep(cp: SyncCheckpointer, head: Entry, *, dry_run: bool) -> Swept:
    policy = policy_of(cp.core, head) if head.flow == threads.FLOW else None
    if policy is not None and policy.thins_runs:
        would = retain_behind(cp.core, head, dry_run=True)
        if not would.whole:
            why = UNFINISHED if would.refused == UNFINISHED else _THREAD
            return Swept(head.run, 0, whole=False, refused=why)
    return retain_behind(cp.core, head, dry_run=dry_run)


def _archives(cp: SyncCheckpointer) -> bool:
    """Whether what is deleted is written to files first, which takes long."""
    return any(policy.archive is not None for policy in cp.core.settings.retention)


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
