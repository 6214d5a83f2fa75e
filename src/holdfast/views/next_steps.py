"""What to do about a run that waits for somebody, or is damaged: a sentence, and a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.engine.people.inbox import questions
from holdfast.errors import HoldfastError
from holdfast.model import Status
from holdfast.operations.verifying import Integrity
from holdfast.views import continuing, threads
from holdfast.views.commands import Commands
from holdfast.views.rescue import Advice, is_current_intact, rescue
from holdfast.views.runs import nobody


def next_for(
    commands: Commands,
    cp: SyncCheckpointer,
    info: RunInfo,
    facts: Mapping[str, Any],
    integrity: Integrity | None = None,
) -> Advice | None:
    """What to do next; None where nothing is to be done. Blocks.

    `facts` are what `doing` found, and `integrity` what `verify` found, if it was asked.
    """
    if integrity is not None and not integrity.ok and not is_current_intact(cp, integrity):
        return rescue(commands, cp, integrity)
    if info.flow is None or info.flow == threads.FLOW:
        return None
    source = continuing.source_of(cp, info.run_id)
    if facts.get("orphaned"):
        why = f"{nobody(facts['holder'])}; continue it with:"
        return Advice(why, commands.resume(info.run_id, (), source))
    if facts.get("answered"):
        resume = commands.resume(info.run_id, (), source)
        return Advice("it was answered; continue it with:", resume)
    if info.status == Status.FAILED:
        retry = commands.resume(info.run_id, (), source, name="retry")
        return Advice("when the cause is fixed, continue it with:", retry)
    if info.status == Status.PAUSED:
        return _paused(commands, cp, info.run_id, source, facts)
    return None


def _paused(
    commands: Commands,
    cp: SyncCheckpointer,
    run_id: str,
    source: str | None,
    facts: Mapping[str, Any],
) -> Advice | None:
    try:
        asked = questions(cp.core, run_id)
    except HoldfastError:  # `show` says what is damaged
        return None
    if asked:
        return Advice("it waits for an answer:", commands.answer(run_id, asked))
    if facts.get("due") is None:
        resume = commands.resume(run_id, (), source)
        return Advice("it is paused; continue it with:", resume)
    return None
