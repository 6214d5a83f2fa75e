"""What people are asked: by child runs, until when, and what comes of it then."""

from __future__ import annotations

from contextlib import suppress

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.engine.people.inbox import questions
from holdfast.engine.people.questions import FAIL, Question
from holdfast.errors import HoldfastError
from holdfast.kernel.core import Core
from holdfast.model import Status
from holdfast.operations.children import children
from holdfast.views import cancelling, threads
from holdfast.views.values import short


def awaited(cp: SyncCheckpointer, info: RunInfo) -> list[RunInfo]:
    """The child runs of a run that is paused."""
    if info.status != Status.PAUSED or info.flow in (None, threads.FLOW):
        return []
    return _children(cp.core, info.run_id)


def asked_by_child(core: Core, run_id: str) -> list[Question]:
    """What the first child run of a paused run asks that asks anything."""
    for child in _children(core, run_id):
        asks = child.questions and child.status == Status.PAUSED
        if asks and not cancelling.is_to_cancel(core, child.run_id):
            with suppress(HoldfastError):
                if found := questions(core, child.run_id):
                    return found
    return []


def otherwise(asked: Question) -> str:
    """What comes of a question that nobody answers in time."""
    return "it fails" if asked.default is FAIL else short(asked.default)


def _children(core: Core, run_id: str) -> list[RunInfo]:
    with suppress(HoldfastError):  # the journal shows what is wrong with it
        return children(core, run_id)
    return []
