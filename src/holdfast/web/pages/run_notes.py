"""What became of the processes that executed a run, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.views import words
from holdfast.views.steps import Spell, Steps

_MOST: Final = 8  # of a kind; a run that sleeps a lot is released a lot


class Part(NamedTuple):
    """A part of a sentence: a text, or a moment."""

    text: str = ""
    at: datetime | None = None
    bold: bool = False


class Note(NamedTuple):
    """A sentence, and the shape before it."""

    chip: str
    parts: tuple[Part, ...]


def notes_of(steps: Steps, *, orphaned: bool, died: bool) -> list[Note]:
    """What happened between the processes of a run, oldest first."""
    found = list(_changes(steps))
    hidden = len(found) - _MOST
    if hidden > 0:
        found = found[-_MOST:]
        text = f"{words.plural(hidden, 'change')} of process before these; the journal has them."
        found.insert(0, Note("new", (Part(text),)))
    if orphaned and steps.spells:
        last = steps.spells[-1]
        ended = steps.last if died or last.end is None else last.end
        wrote = "wrote its last entry" if died else "released the run"
        parts = (
            Part(f"{_process(last)} {wrote} at "),
            Part(at=to_datetime(ended)),
            Part(f"{' and is dead' if died else ''}. Nobody executes the run: "),
            Part("your program continues it when it is started again, or a worker does."),
        )
        found.append(Note("orp" if died else "can", parts))
    for mark in steps.marks:
        if mark.kind == "rollback":
            went = Part("At "), Part(at=to_datetime(mark.at)), Part(f", the run {mark.text}")
            found.append(Note("can", (*went, Part("; what came after that was left behind."))))
    if steps.deleted:
        text = f"{words.plural(steps.deleted, 'entry')} of it were deleted; their steps are gone."
        found.append(Note("can", (Part(text),)))
    return found


def _changes(steps: Steps) -> Iterator[Note]:
    for before, spell in zip(steps.spells, steps.spells[1:], strict=False):
        if before.ended == "paused" and spell.why == "released":
            continue  # it waited, and the row of what it waited for says so
        yield Note("orp" if spell.why == "died" else "can", tuple(_sentence(before, spell)))


def _sentence(before: Spell, spell: Spell) -> Iterator[Part]:
    ended = before.end if before.end is not None else before.start
    if spell.why == "died":
        yield Part(f"{_process(before)} wrote its last entry at ")
        yield Part(at=to_datetime(ended))
        yield Part(f" and died. {_process(spell)} took over at ")
    elif spell.why == "taken_over":
        yield Part(f"{_process(before)} was alive when {_process(spell).lower()} took over at ")
    else:
        yield Part(f"{_process(before)} released the run at ")
        yield Part(at=to_datetime(ended))
        yield Part(f". {_process(spell)} continued at ")
    yield Part(at=to_datetime(spell.start))
    if spell.restored:
        yield Part(f", restored {words.plural(spell.restored, 'step')} (hatched)")
    if spell.first:
        yield Part(" and continued with " if spell.restored else " and began with ")
        yield Part(spell.first, bold=True)
    yield Part(".")


def _process(spell: Spell) -> str:
    return f"Process {spell.pid} on {spell.host}" if spell.pid else "A process"
