"""The moments of a run's timeline, in words."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from holdfast.operations.timeline import Moment
from holdfast.views import words
from holdfast.views.voided import VOID, is_void

_SOON: Final = timedelta(seconds=1)  # less is not worth a word
_WORDS: Final = {
    "open": "began",
    "sleep": "waits in",
    "claim": "taken over",
    "release": "released",
    "child": "child run",
    "decision": "decided",
    "question": "asks",
    "answer": "answered",
    "request": "was asked to",
    "pause": "paused",
    "fail": "failed",
    "output": "output of",
    "complete": "completed",
    "cancel": "cancelled",
    "rollback": "went back",
    "begin": "begins",
    "trim": "thinned out",
    "damaged": "damaged",
    "tombstone": "deleted up to here",
}


def what(moment: Moment) -> str:
    """What happened, in a few words."""
    if moment.status == "deleted":
        return f"({moment.kind}, deleted)"
    said = [_WORDS.get(moment.kind, ""), moment.step or ""]
    if moment.kind == "checkpoint" and moment.status == "failed":
        said[0] = "failed"
    match moment.kind:
        case "request":
            said[1] = moment.note
        case "child":
            said[1] = moment.child or ""
        case "open":
            said[0] = beginning(moment)
        case "complete":
            said = said[:1]
        case "fail" if moment.status == "failed":
            said = ["the run failed"]
    return " ".join(filter(None, said)) or "saved"


class Note(NamedTuple):
    """What there is to say about a moment besides."""

    text: str
    until: datetime | None = None  # when it is to continue
    link: str = ""  # the word before that time

    def __str__(self) -> str:
        if self.until is None:
            return self.text
        when = f"{self.link} {words.moment(self.until)}"
        return f"{self.text}, {when}" if self.text else when


def note(moment: Moment) -> Note:
    """What there is to say about it besides, with the time when it is to continue."""
    if moment.kind == "request":
        return Note("")  # `what` has it
    if is_void(moment):
        return Note(f"{moment.note} ({VOID})" if moment.note else VOID)
    if moment.until is None or moment.until - moment.at < _SOON:
        return Note(moment.note)
    link = {"fail": "again", "open": "to begin"}.get(moment.kind, "until")
    return Note(moment.note, moment.until, link)


def is_told(moment: Moment, before: Moment | None) -> bool:
    """Whether a run's failure was told already, by the failure of its step just before it."""
    return (
        before is not None
        and (moment.kind, moment.status, before.kind) == ("fail", "failed", "fail")
        and moment.note == before.note
    )


def beginning(first: Moment) -> str:
    """How the run began."""
    return "submitted" if first.status == "submitted" else "began"
