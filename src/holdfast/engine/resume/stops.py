"""Why a run stopped, and whether somebody asked for it to be continued. Everything blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.codec.meta import Meta
from holdfast.kernel.core import Core
from holdfast.model import Entry, Kind, Status

TIMER: Final = "timer"
"""Why a run is paused that a worker continues when it is due."""

RESUME: Final = "resume"
"""What is requested of workers for a run that they would leave alone."""

WAITS: Final = ("child", "questions", TIMER)
"""Why a run is paused that nobody asked to pause: an answer lets it continue."""


def waits_by_itself(core: Core, head: Entry) -> bool:
    """Whether a run that is paused waits for something, and nobody asked it to pause. Blocks."""
    since = core.journals.trail(head.run, start=head.term, bodies=False)
    if any(entry.kind == Kind.REQUEST and Meta(entry).action == "pause" for entry in since):
        return False
    stop = next((entry for entry in since if entry.seq == head.term), None)
    return stop is not None and (stop.kind == Kind.QUESTION or Meta(stop).waits_for in WAITS)


def asks_to_resume(entry: Entry) -> bool:
    """Whether somebody asks workers to continue a run that stopped."""
    return entry.kind == Kind.REQUEST and Meta(entry).action == RESUME


def resume_requested(core: Core, head: Entry) -> Entry | None:
    """The entry that asks workers to continue the run with this head, if it has stopped. Blocks.

    A later request to pause takes it back.
    """
    if head.seq == head.term or head.status == Status.RUNNING or head.flow is None:
        return None  # without a flow, there is nothing that a worker could execute
    return last_to_resume(core.journals.trail(head.run, start=head.term + 1, bodies=False))


def last_to_resume(since: Iterable[Entry]) -> Entry | None:
    """The last request among these entries, if it asks workers to continue the run."""
    asked = [entry for entry in since if entry.kind == Kind.REQUEST]
    return asked[-1] if asked and asks_to_resume(asked[-1]) else None


def pause_requested(core: Core, head: Entry) -> bool:
    """Whether a run was asked to pause, and since then neither resumed nor asked to. Blocks."""
    since = core.journals.trail(head.run, start=head.term, bodies=False)
    asked = (Meta(e) for e in since if e.kind in (Kind.PAUSE, Kind.REQUEST))
    return [meta.action for meta in asked][-1:] == ["pause"]
