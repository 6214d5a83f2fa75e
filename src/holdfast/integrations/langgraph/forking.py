"""A new thread from a checkpoint of another. Blocks.

The new thread has the history of the other up to there, with LangGraph's ids of its checkpoints,
so that parents, subgraphs and what delta channels are rebuilt from are found.
"""

from __future__ import annotations

from holdfast.errors import CheckpointNotFoundError, RunExistsError
from holdfast.integrations.langgraph.layout import CheckpointNote, note_of, opening_says, run_id
from holdfast.integrations.langgraph.listing import named
from holdfast.integrations.langgraph.thinning import copy_thread
from holdfast.integrations.langgraph.threads import Threads
from holdfast.kernel.core import Core
from holdfast.model import Kind, checkpoint_id, erases


def fork_thread(core: Core, run: str, thread: str, *, seq: int | None = None) -> str:
    """Begin a thread with the history of another: all of it, or up to the checkpoint at `seq`.

    Up to a checkpoint means as it was when that was saved: what its tasks wrote later is not in
    the new thread, and they run again. Returns the checkpoint, as RUN@SEQ. Raises
    `CheckpointNotFoundError`, `RunExistsError`, and ValueError for a run that is no thread, or
    only the namespace of a subgraph.
    """
    opening = core.journals.opening(run)
    threads = Threads(lambda: core)
    space = named(threads, run)
    if opening is None or opening_says(opening) is None or space.ns:
        raise ValueError(f"run {run!r} is no thread of LangGraph's, or only a subgraph of one")
    branch = core.journals.branch(run)
    found = next((e for e in branch if e.kind == Kind.CHECKPOINT and seq in (None, e.seq)), None)
    note = None if found is None else note_of(found)
    if found is None or not isinstance(note, CheckpointNote):
        raise CheckpointNotFoundError(run, "yet" if seq is None else checkpoint_id(run, seq))
    head = core.journals.checked_head(run_id(thread))
    if head is not None and not erases(head):
        raise RunExistsError(run_id(thread))
    origin = checkpoint_id(run, found.seq)
    until = None if seq is None else note.id
    copy_thread(threads, str(space.thread), thread, until=until, origin=origin)
    return origin
