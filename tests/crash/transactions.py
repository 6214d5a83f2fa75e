"""Saves whose own SQL leaves a row, and the question whether each entry has its row, once."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from holdfast.errors import ConflictError
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.kernel.ticket import Ticket
from holdfast.model import Kind, Status
from holdfast.store import WorkFailedError
from tests.crash.history import Violation


def save(core: Core, run: str, state: object, op_id: str) -> Op[int]:
    """Append a checkpoint and its row; returns its seq."""
    journals = core.journals
    tip = journals.tip(run)
    if tip is None:
        tip = yield partial(journals.fetch_tip, run, with_state=False)
    drafts = [Draft(Kind.CHECKPOINT.value, Status.OPEN.value, journals.encode(state), step=op_id)]
    if not tip.exists:
        drafts.insert(0, Draft(Kind.OPEN.value, Status.OPEN.value, parent=None))
    deadline = journals.clock.monotonic() + core.settings.deadline
    work = partial(_work, run, op_id)
    ticket = journals.extend(tip, drafts, deadline, only_at=tip.seq, work=work)
    if ticket is None:
        raise ConflictError(run, tip.seq)
    if not ticket.done:
        yield ticket
    raise_error(ticket)
    return ticket.entries[-1].seq


def raise_error(ticket: Ticket) -> None:
    """Return if what was submitted is durable, else raise why not: an error of `work` as it was."""
    if isinstance(ticket.error, WorkFailedError):
        raise ticket.error.error
    if ticket.error is not None:
        raise ticket.error


def _work(run: str, op_id: str, cursor: Any) -> None:
    cursor.execute("CREATE TABLE IF NOT EXISTS effects (run TEXT, op_id TEXT)")
    cursor.execute("INSERT INTO effects VALUES (?, ?)", (run, op_id))


def check_effects(url: str) -> list[Violation]:
    """Which entries have no row, and which rows no entry, or more than one."""
    with closing(sqlite3.connect(urlsplit(url).path[1:])) as db:
        entries = Counter(
            db.execute("SELECT run, step FROM holdfast_entries WHERE kind = 'checkpoint'")
        )
        made = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'effects'").fetchone()
        rows = Counter(db.execute("SELECT run, op_id FROM effects")) if made else Counter()
    return [
        Violation("exactly once", run, f"{op_id}: {entries[run, op_id]} entries, {count} rows")
        for (run, op_id), count in (entries | rows).items()
        if not entries[run, op_id] == rows[run, op_id] == 1
    ]
