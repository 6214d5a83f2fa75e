"""Child runs that a run waits for, and what they ask people."""

from __future__ import annotations

from contextlib import suppress

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.engine.people.inbox import questions
from holdfast.engine.people.questions import Question
from holdfast.errors import HoldfastError
from holdfast.model import Status
from holdfast.views import threads


def awaited(cp: SyncCheckpointer, info: RunInfo) -> list[RunInfo]:
    """The child runs of a run that is paused."""
    if info.status != Status.PAUSED or info.flow in (None, threads.FLOW):
        return []
    with suppress(HoldfastError):  # the journal shows what is wrong with it
        return cp.children(info.run_id)
    return []


def asked_by_child(cp: SyncCheckpointer, info: RunInfo) -> list[Question]:
    """What the first child run asks that asks anything, if a paused run waits for it."""
    for child in awaited(cp, info):
        if child.questions and child.status == Status.PAUSED:
            with suppress(HoldfastError):
                if found := questions(cp.core, child.run_id):
                    return found
    return []
