"""Questions that are not open any more: who said what, and when, or why they are void.

Blocks, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec.meta import Meta
from holdfast.engine.people.questions import DEADLINE
from holdfast.errors import CheckpointCorruptedError
from holdfast.heads import Position
from holdfast.kernel.pages import pass_by
from holdfast.model import Entry, Kind, Status
from holdfast.operations import answers
from holdfast.views import cancelling
from holdfast.views.step_names import left_behind
from holdfast.views.step_questions import went_back
from holdfast.views.values import plain

RUNS: Final = 100
"""Runs that are looked at for one page of answers."""

ENTRIES: Final = 1000
"""The newest entries of each of them."""


_OVER: Final = (Status.COMPLETED, Status.CANCELLED)


class Answered(NamedTuple):
    """An answer, or what took its place."""

    run_id: str
    question: str  # its key
    prompt: str
    value: Any  # in JSON's form
    at: datetime
    by: str | None  # None: nobody said who, or nobody answered in time
    what: str  # "answered", "default", "expired" (nobody did in time), "skipped", "ignored", "void"
    signed: bool = False  # by that person, with a key that is trusted here
    void: str = ""  # why nothing depends on it any more


class Page(NamedTuple):
    """Answers, the newest first, in the runs that were looked at."""

    answers: list[Answered]
    runs: int  # that were looked at
    older: Position | None  # where the next page begins, if there are more runs


def page(cp: SyncCheckpointer, before: Position | None = None, *, runs: int = RUNS) -> Page:
    """The answers given in the runs that were started last, or last before that position."""
    rows = cp.store.listed(before=before, limit=runs)
    found: list[Answered] = []
    for row, _ in rows:
        try:
            found += of_run(cp, row.run)
        except CheckpointCorruptedError:
            continue
    found.sort(key=lambda one: one.at, reverse=True)
    older = rows[-1][0].position if len(rows) == runs else None
    return Page(found, len(rows), older)


def of_run(cp: SyncCheckpointer, run: str) -> Iterator[Answered]:
    """What a run asked, and asks no more, the newest first; only its newest entries are read."""
    newest = cp.core.journals.entries(run, newest_first=True, damage=pass_by)
    entries = list(islice(newest, ENTRIES))
    voided = _voided(entries)
    to_cancel = cancelling.request_of(cp.core, entries[0]) if entries else None
    given: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.kind == Kind.ANSWER:
            given.setdefault(str(entry.step), []).append(entry)
        elif entry.kind == Kind.QUESTION:
            ended, why = voided.get(entry.seq, (None, ""))
            said = given.pop(str(entry.step), ())
            for answer in said:
                yield _answered(cp, entry, answer)._replace(void=why)
            if ended is None and entries[0].status in _OVER:
                ended, why = entries[0], f"the run was {entries[0].status}"
            if ended is None and to_cancel is not None:
                ended, why = to_cancel, cancelling.WHY
            if ended is not None and not said:
                key, at = str(entry.step), to_datetime(ended.at)
                prompt = _prompt(cp, entry)
                yield Answered(run, key, prompt, None, at, None, "void", void=why)


def why_again(cp: SyncCheckpointer, run: str, question: str) -> Answered | None:
    """What was asked with the same key before, and is void: why an open question is asked again.

    None if it is asked for the first time, as far as the newest entries tell.
    """
    found = (one for one in of_run(cp, run) if one.question == question and one.void)
    return next(found, None)


def _voided(newest: Sequence[Entry]) -> dict[int, tuple[Entry, str]]:
    """The questions that a rollback left behind, by seq, with what it went back to."""
    left = left_behind(newest[::-1])
    found: dict[int, tuple[Entry, str]] = {}
    backs: list[Entry] = []
    for entry in newest:
        if entry.kind == Kind.ROLLBACK:
            backs.append(entry)
        elif entry.kind == Kind.QUESTION and entry.seq in left:
            behind = (one for one in reversed(backs) if (one.parent or -1) < entry.seq)
            back = next(behind, None)
            if back is not None:
                found[entry.seq] = back, f"the run {went_back(back)}"
    return found


def _answered(cp: SyncCheckpointer, question: Entry, answer: Entry) -> Answered:
    meta = Meta(answer)
    what = "answered"
    if meta.skipped_to is not None:
        what = "skipped"
    elif meta.by == DEADLINE:
        what = "expired" if meta.expired else "default"
    elif answers.doubt(cp.core, answer):
        what = "ignored"
    value = None
    if answer.size:
        value = plain(cp.core.journals.value(answer.run, answer.seq, as_data=True))
    by = None if meta.by == DEADLINE else meta.by
    signed = what == "answered" and answers.is_authentic(cp.core, answer)
    at = to_datetime(answer.at)
    prompt = _prompt(cp, question)
    return Answered(answer.run, str(answer.step), prompt, value, at, by, what, signed)


def _prompt(cp: SyncCheckpointer, question: Entry) -> str:
    asked = cp.core.journals.value(question.run, question.seq, as_data=True)
    return str(asked.get("prompt") or "") if isinstance(asked, dict) else ""
