"""A run as one row of a list: its shape, what it is about, who executes it.

Each part reads a bounded number of entries, however long the run is; what can't be read is a part
of the row, and breaks none.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec.meta import Meta
from holdfast.codec.redaction import redacted
from holdfast.errors import CheckpointCorruptedError, KeyMissingError
from holdfast.errors.base import one_line
from holdfast.evidence.verdicts import VerificationStatus
from holdfast.kernel.pages import pass_by
from holdfast.model import Entry, Kind, Status, verdict_journal
from holdfast.views import runs, words
from holdfast.views.claims import NOT_CHECKED
from holdfast.views.pauses import pause_of
from holdfast.views.shapes import Shape, shape_of

_LONGEST: Final = 160  # characters of a note
_LARGEST: Final = 64 << 10  # bytes of a value that a note is taken from
_VERDICTS: Final = 4  # entries with verdicts that are looked at
_ENDED: Final = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)


class Note(NamedTuple):
    """What there is to say about a run, in a line."""

    text: str
    until: datetime | None = None  # follows the text
    bad: bool = False  # something is wrong


class Claims(NamedTuple):
    """The checkpoints of a run that something was claimed with, as far as they were looked at."""

    made: int
    verified: int  # of them, by the last recorded verdict
    refuted: int

    @property
    def unchecked(self) -> int:
        """How many have no verdict yet."""
        return self.made - self.verified - self.refuted

    def __str__(self) -> str:
        numbers = {
            "verified": self.verified,
            "not verified": self.refuted,
            NOT_CHECKED: self.unchecked,
        }
        found = [f"{number:,} {what}" for what, number in numbers.items() if number]
        return f"{words.plural(self.made, 'checkpoint')} with claims: {', '.join(found)}"


class Row(NamedTuple):
    """A run in a list."""

    run: RunInfo
    word: str  # its status, as `holdfast runs` says it
    note: Note | None
    shape: Shape
    claims: Claims | None
    took: float | None  # seconds until it ended, or until now; None if it was not begun
    stored: int  # bytes
    executor: str | None  # host and pid: who executes it, or did


def row_of(cp: SyncCheckpointer, run: RunInfo) -> Row:
    """The row of a run. Raises only if the store can't be reached."""
    word, facts = runs.doing(cp, run)
    left = word == runs.ORPHANED and not runs.has_died(word, facts)
    shape = shape_of(cp, run.run_id, "left" if left else word)
    if shape.newest is None and shape.damaged:
        word = "damaged"
    try:
        note, claims = _note(cp, run, word, facts, shape), _claims(cp, run.run_id, shape)
    except KeyMissingError:
        note, claims = Note("encrypted, and its key was not given"), None
    return Row(
        run,
        word,
        note,
        shape,
        claims,
        _took(run, word, shape),
        stored_bytes(cp, run.run_id),
        facts.get("holder") or _process(shape.holder),
    )


def stored_bytes(cp: SyncCheckpointer, run_id: str) -> int:
    """What the states of a run take in the store; 0 if that can't be read."""
    try:
        return cp.stats(run_id).stored_bytes
    except CheckpointCorruptedError:
        return 0


def _took(run: RunInfo, word: str, shape: Shape) -> float | None:
    if word == "submitted" or not shape.began:
        return None
    until = datetime.now(UTC) if word == "running" else run.updated_at
    return max(0.0, (until - run.started_at).total_seconds())


def _process(holder: str | None) -> str | None:
    """Host and pid of a holder, which is SLOT|NONCE|HOST|PLACE|PID|START."""
    parts = (holder or "").split("|")
    return f"{parts[2]}:{parts[4]}" if len(parts) == 6 else None


def _note(
    cp: SyncCheckpointer, run: RunInfo, word: str, facts: Mapping[str, Any], shape: Shape
) -> Note | None:
    """Why a run is as it is, or what it did last."""
    found: Note | None = None
    match word:
        case "damaged":
            found = Note(run.damage or "none of its entries can be read", bad=True)
        case "failed":
            found = _failure(cp, shape)
        case "orphaned":
            text = runs.nobody(facts.get("holder"))
            died = runs.has_died(word, facts)
            found = Note(f"{text}, nobody took over" if died else text, bad=True)
        case "paused":
            found = _pause(cp, run, shape)
        case "answered":
            found = Note("was answered, and waits for a worker")
        case "submitted":
            due = run.due_at
            later = due is not None and due > datetime.now(UTC)
            found = Note("begins", due) if later else Note("waits for a worker")
        case "cancelled":
            found = _cancelled(shape)
        case "running" if run.questions:
            found = _question(cp, shape)
    found = found or _plain(run, word, shape)
    if shape.damaged and word != "damaged":
        text = words.plural(shape.damaged, "damaged entry")
        found = Note(f"{text} · {found.text}" if found else text, bad=True)
    return None if found is None else found._replace(text=_cut(found.text))


def _plain(run: RunInfo, word: str, shape: Shape) -> Note | None:
    parts = []
    if shape.origin:
        parts.append(f"forked from {shape.origin}")
    if word == "running" and shape.failure is not None and shape.failure == shape.newest:
        parts.append(f"{shape.failure.step} failed, and is tried again")
    if shape.newest is not None and shape.newest.kind == Kind.ROLLBACK:
        to = shape.newest.parent
        parts.append("went back to the beginning" if to is None else f"went back to @{to}")
    if not parts and run.step:
        parts.append(f"after {run.step}" if word == "running" else run.step)
    if shape.crashes and word == "completed":
        parts.append("resumed after a crash")
    return Note(", ".join(parts)) if parts else None


def _failure(cp: SyncCheckpointer, shape: Shape) -> Note | None:
    value = _value(cp, shape.failure)
    kind, message = value.get("type"), value.get("message")
    if not kind:
        return None
    return Note(f"{str(kind).rpartition('.')[2]}: {message}", bad=True)


def _pause(cp: SyncCheckpointer, run: RunInfo, shape: Shape) -> Note | None:
    pause = pause_of(cp, run)
    if pause is None:
        return None
    asked = _question(cp, shape) if pause.why == "question" else None
    if asked is not None:
        return asked
    if pause.why == "timer" and pause.until is not None:
        return Note("sleeps until", pause.until)
    return Note(str(pause))


def _question(cp: SyncCheckpointer, shape: Shape) -> Note | None:
    value = _value(cp, shape.question)
    prompt = value.get("prompt")
    if not isinstance(prompt, str):
        return None
    who = [name for name in value.get("assignees") or () if isinstance(name, str)]
    return Note(f"{prompt} (for {', '.join(who)})" if who else prompt)


def _cancelled(shape: Shape) -> Note | None:
    head, request = shape.newest, shape.request
    for entry in (head, request):
        if entry is None or not entry.meta:
            continue
        try:
            meta = Meta(entry)
            if meta.action == "cancel":
                text = f"cancelled by {meta.by}" if meta.by else "cancelled"
                return Note(f"{text}: {meta.reason}" if meta.reason else text)
        except CheckpointCorruptedError:
            continue
    return None


def _claims(cp: SyncCheckpointer, run_id: str, shape: Shape) -> Claims | None:
    """What was claimed, and what the newest recorded verdicts say of it."""
    if not shape.claims:
        return None
    digests = {entry.seq: entry.digest.hex() for entry in shape.claims}
    known: dict[int, str] = {}
    core, journal = cp.core, verdict_journal(run_id)
    entries = core.journals.entries(journal, newest_first=True, page=_VERDICTS, damage=pass_by)
    for entry in islice(entries, _VERDICTS):
        found = _value(cp, entry).get("found") if entry.kind == Kind.VERDICT else None
        for each in found if isinstance(found, list) else ():
            match each:
                case [int(seq), str(digest), str(status)] if digests.get(seq) == digest:
                    known.setdefault(seq, status)
    verified = sum(status == VerificationStatus.VERIFIED for status in known.values())
    return Claims(len(digests), verified, len(known) - verified)


def _value(cp: SyncCheckpointer, entry: Entry | None) -> dict[str, Any]:
    """What an entry carries, if that is a small object that can be read."""
    if entry is None or not 0 < entry.size <= _LARGEST:
        return {}
    try:
        found = cp.core.journals.value(entry.run, entry.seq, as_data=True)
    except CheckpointCorruptedError:
        return {}
    return found if isinstance(found, dict) else {}


def _cut(text: str) -> str:
    text = one_line(str(redacted(text)))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
