"""Questions that were answered: who said what, and when. Blocks, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec.meta import Meta
from holdfast.engine.people.questions import DEADLINE
from holdfast.errors import CheckpointCorruptedError
from holdfast.heads import Position
from holdfast.kernel.core import Core
from holdfast.kernel.pages import pass_by
from holdfast.model import Entry, Kind
from holdfast.operations import answers
from holdfast.views.step_names import left_behind
from holdfast.views.values import plain
from holdfast.views.voided import VOID

RUNS: Final = 100
"""Runs that are looked at for one page of answers."""

ENTRIES: Final = 1000
"""The newest entries of each of them."""


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
            found += _of_run(cp, row.run)
        except CheckpointCorruptedError:
            continue
    found.sort(key=lambda one: one.at, reverse=True)
    older = rows[-1][0].position if len(rows) == runs else None
    return Page(found, len(rows), older)


def in_words(core: Core, answer: Entry, *, current: bool) -> str:
    """Who gave an answer, and whether it still counts."""
    meta = Meta(answer)
    told = f"answered by {meta.by}" if meta.by else "answered"
    if answers.is_authentic(core, answer):
        told = f"answered, signed by {meta.by}"
    if meta.expired:
        told = "nobody answered in time"
    return told if current else f"{told} ({VOID})"


def _of_run(cp: SyncCheckpointer, run: str) -> Iterator[Answered]:
    journals = cp.core.journals
    newest = list(islice(journals.entries(run, newest_first=True, damage=pass_by), ENTRIES))
    void = left_behind(newest[::-1])
    given: dict[str, list[Entry]] = {}
    for entry in newest:
        if entry.kind == Kind.ANSWER:
            given.setdefault(str(entry.step), []).append(entry)
        elif entry.kind == Kind.QUESTION:
            for answer in given.pop(str(entry.step), ()):
                found = _answered(cp, entry, answer)
                yield found._replace(what="void") if entry.seq in void else found


def _answered(cp: SyncCheckpointer, question: Entry, answer: Entry) -> Answered:
    asked = cp.core.journals.value(question.run, question.seq, as_data=True)
    prompt = asked.get("prompt") if isinstance(asked, dict) else None
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
    return Answered(answer.run, str(answer.step), str(prompt or ""), value, at, by, what, signed)
