"""The moments of a run's timeline, in words."""

from datetime import timedelta
from typing import Final

from holdfast.operations.timeline import Moment
from holdfast.views import words

_SOON: Final = timedelta(seconds=1)  # less is not worth a word
_WORDS: Final = {
    "open": "began",
    "sleep": "waits in",
    "claim": "claimed",
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
    "tombstone": "deleted up to here",
}


def what(moment: Moment) -> str:
    """What happened, in a few words."""
    if moment.status == "deleted":
        return f"({moment.kind}, deleted)"
    said = [_WORDS.get(moment.kind, ""), moment.step or ""]
    match moment.kind:
        case "request":
            said[1] = moment.note
        case "child":
            said[1] = moment.child or ""
        case "open":
            said[0] = beginning(moment)
        case "complete":
            said = said[:1]
    return " ".join(filter(None, said)) or "saved"


def note(moment: Moment) -> str:
    """What there is to say about it besides, with the time when it is to continue."""
    if moment.kind == "request":
        return ""  # `what` has it
    if moment.until is None or moment.until - moment.at < _SOON:
        return moment.note
    link = {"fail": "again", "open": "to begin"}.get(moment.kind, "until")
    when = f"{link} {words.moment(moment.until)}"
    return f"{moment.note}, {when}" if moment.note else when


def beginning(first: Moment) -> str:
    """How the run began."""
    return "submitted" if first.status == "submitted" else "began"
