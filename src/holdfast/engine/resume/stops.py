"""Why a run stopped, and whether somebody asked for it to be continued. Everything blocks."""

from __future__ import annotations

from itertools import islice
from typing import Final

from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.core import Core
from holdfast.kernel.journal import Journals
from holdfast.logs import logger
from holdfast.model import Entry, Kind, Status

log = logger()

TIMER: Final = "timer"
"""Why a run is paused that a worker continues when it is due."""

RESUME: Final = "resume"
"""What is requested of workers for a run that they would leave alone."""

WAITS: Final = ("child", "questions", TIMER)
"""Why a run is paused that nobody asked to pause: an answer lets it continue."""


_UNHEARD: Final = 1000  # entries: a request is heard with the next save


def waits_by_itself(core: Core, head: Entry) -> bool:
    """Whether a run that is paused waits for something, and nobody asked it to pause. Blocks.

    A request may stand just before the entry by which the run stopped, if its holder died then.
    """
    since = core.journals.trail(head.run, start=head.term, bodies=False)
    if any(entry.kind == Kind.REQUEST and Meta(entry).action == "pause" for entry in since):
        return False
    stop = next((entry for entry in since if entry.seq == head.term), None)
    if stop is None or (stop.kind != Kind.QUESTION and Meta(stop).waits_for not in WAITS):
        return False
    before = requests_before(core.journals, head.run, stop.seq)
    return not before or Meta(before[0]).action != "pause"


def requests_before(journals: Journals, run: str, seq: int) -> list[Entry]:
    """The requests before an entry which was on its way to the store then, newest first. Blocks."""
    found = []
    before = journals.entries(run, newest_first=True, after=seq, damage=_unheard)
    for entry in islice(before, _UNHEARD):
        if entry.kind in (Kind.ROLLBACK, Kind.CLAIM, Kind.OPEN):
            break  # what was requested before that was heard then
        if entry.kind == Kind.REQUEST:
            found.append(entry)
    return found


def _unheard(error: CheckpointCorruptedError) -> None:
    log.warning("%s; a request to stop that it may have been is not heard", error)


def asks_to_resume(entry: Entry) -> bool:
    """Whether somebody asks workers to continue a run that stopped."""
    return entry.kind == Kind.REQUEST and Meta(entry).action == RESUME


def resume_requested(core: Core, head: Entry) -> Entry | None:
    """The entry that asks workers to continue the run with this head, if it has stopped. Blocks."""
    if head.seq == head.term or head.status == Status.RUNNING or head.flow is None:
        return None  # without a flow, there is nothing that a worker could execute
    since = core.journals.trail(head.run, start=head.term + 1, bodies=False)
    return next(filter(asks_to_resume, since), None)


def pause_requested(core: Core, head: Entry) -> bool:
    """Whether a run under way was asked to pause, and neither that was done nor taken back. Blocks."""
    since = core.journals.trail(head.run, start=head.term + 1, bodies=False)
    asked = [Meta(entry).action for entry in since if entry.kind == Kind.REQUEST]
    return asked[-1:] == ["pause"]
