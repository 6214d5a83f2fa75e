"""Why a paused run is paused: it asks somebody, somebody paused it, it sleeps, or is to cancel."""

from datetime import datetime
from itertools import islice
from typing import Final, Literal, NamedTuple

from holdfast.checkpoint import RunInfo, to_datetime
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec.meta import Meta
from holdfast.engine.resume import stops
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.pages import pass_by
from holdfast.model import Entry, Kind, Status
from holdfast.views import cancelling, words

_LOOKED_AT: Final = 100  # entries before a pause, in search of who asked for it


class Pause(NamedTuple):
    """Why a run is paused."""

    why: Literal["question", "person", "timer", "child", "timeout", "cancel", "unknown"]
    by: str | None = None  # the person who asked for it, or to cancel, if that was given
    reason: str = ""  # that this person gave
    until: datetime | None = None  # when it is to continue by itself

    def __str__(self) -> str:
        match self.why:
            case "question":
                return "asks a person"
            case "timer" if self.until is not None:
                return f"sleeps until {words.moment(self.until)}"
            case "timer":
                return "sleeps"
            case "child":
                return "waits for a child run"
            case "timeout":
                return "ran out of time"
            case "person" | "cancel":
                text = f"paused by {self.by}" if self.by else "was paused"
                if self.why == "cancel":
                    text = f"{self.by} asked to cancel it" if self.by else "was asked to cancel"
                return f"{text}: {self.reason}" if self.reason else text
        return "paused"


def pause_of(cp: SyncCheckpointer, run: RunInfo) -> Pause | None:
    """Why a run is paused; None if it is not."""
    if run.status != Status.PAUSED:
        return None
    journals = cp.core.journals
    try:
        entry = journals.head(run.run_id)
        if (asked := cancelling.request_of(cp.core, entry)) is not None:
            return Pause("cancel", Meta(asked).by, Meta(asked).reason or "")
        if entry is not None and entry.seq != entry.term:
            entry = journals.entry(run.run_id, entry.term)
        return None if entry is None else _told(cp, run, entry)
    except CheckpointCorruptedError:  # `verify` reports it
        return Pause("unknown")


def _told(cp: SyncCheckpointer, run: RunInfo, entry: Entry) -> Pause:
    meta = Meta(entry)
    until = None if meta.due is None else to_datetime(meta.due)
    if meta.action is not None:
        asked = meta if meta.by or meta.reason else _request(cp, entry) or meta
        return Pause("person", asked.by, asked.reason or "")
    match meta.reason:
        case stops.TIMER:
            return Pause("timer", until=until)
        case "timeout":
            return Pause("timeout")
        case "child" if not run.questions:
            return Pause("child", until=until)
    return Pause("question", until=until)


def _request(cp: SyncCheckpointer, pause: Entry) -> Meta | None:
    """What its holder was asked before it paused the run; None if nobody held the run."""
    before = cp.core.journals.entries(pause.run, after=pause.seq, newest_first=True, damage=pass_by)
    for entry in islice(before, _LOOKED_AT):
        if entry.kind == Kind.REQUEST and Meta(entry).action == "pause":
            return Meta(entry)
        if entry.kind == Kind.QUESTION or (entry.kind == Kind.CLAIM and Meta(entry).again):
            continue  # its holder went on, to stop as it was asked to
        if entry.kind == Kind.PAUSE and Meta(entry).waits_for in stops.WAITS:
            continue
        if entry.kind == Kind.CLAIM or entry.status != Status.RUNNING:
            return None  # what was asked before is done
    return None
