"""Which of LangGraph's threads are not at their end. Everything here blocks.

The status of a thread is "open" whether it waits for an answer or is done: only what it holds
tells. See `holdfast.integrations.langgraph.layout`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.core import Core
from holdfast.model import Entry, Kind

_FLOW: Final = "langgraph"
_INTERRUPT: Final = "__interrupt__"
_TRIGGERS: Final = ("__start__", "branch:")  # these channels have a value until their node ran
_SENT: Final = "__pregel_tasks"  # this one has a list of tasks
_NONE_SENT: Final = b"\x90"  # an empty list


def is_unfinished(core: Core, head: Entry) -> bool:
    """Whether a thread of LangGraph's waits for an answer or has nodes to execute.

    True for one that is damaged, where nobody can tell. False for any other run.
    """
    if head.flow != _FLOW:
        return False
    try:
        written: list[Entry] = []
        for entry in core.journals.branch_of(head):
            if entry.kind == Kind.CHECKPOINT:
                state = core.journals.value(head.run, entry.seq, as_data=True)
                return _has_nodes_to_execute(state) or _asks(core, entry, written)
            written.append(entry)
    except CheckpointCorruptedError:
        return True
    return False


def _has_nodes_to_execute(state: Any) -> bool:
    values = state.get("channel_values") if isinstance(state, dict) else None
    if not isinstance(values, dict):
        return False
    if any(isinstance(name, str) and name.startswith(_TRIGGERS) for name in values):
        return True
    sent = values.get(_SENT)
    return isinstance(sent, list) and sent[1:] != [_NONE_SENT]


def _asks(core: Core, checkpoint: Entry, written: Iterable[Entry]) -> bool:
    """Whether a task asks for something, in writes after the checkpoint, or before it."""
    seqs = set(Meta(checkpoint).langgraph.get("early", ()))
    for entry in written:
        seqs |= {entry.seq, *Meta(entry).langgraph.get("also", ())}
    return any(
        _is_interrupt(core.journals.value(checkpoint.run, seq, as_data=True)) for seq in seqs
    )


def _is_interrupt(writes: Any) -> bool:
    rows = writes if isinstance(writes, list) else []
    return any(isinstance(row, list) and _INTERRUPT in row[:2] for row in rows)
