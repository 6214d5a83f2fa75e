"""The heads index of a DuckDB file: in the memory of the one process that has the file.

It is made of the entries that change rows, when it is first asked, and then of those of runs that
were saved to since. So a save does nothing for it but to note the run, and it is never wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from holdfast.heads import ASKS, TOUCH, change_of, changes, fold
from holdfast.model import HIDDEN, Entry, Kind, Status
from holdfast.stores._shared.rows import Rows
from holdfast.stores._shared.table import NO_BODY

_NO_BODY: Final = f"{NO_BODY}, ''::BLOB"
_ENTRIES: Final = f"""
    SELECT {_NO_BODY} FROM (
        SELECT *, lag(status) OVER (PARTITION BY run ORDER BY seq) AS before FROM entries
        WHERE run >= ' ' AND ($runs IS NULL OR run IN (SELECT unnest($runs::VARCHAR[])))
    ) AS e
    WHERE e.term = e.seq OR e.seq % {TOUCH} = 0 OR e.status = 'deleted' OR e.before = 'deleted'
        OR e.kind IN ({", ".join(f"'{kind}'" for kind in ASKS)})
    ORDER BY e.run, e.seq
"""  # noqa: S608 - constants only
_HEADS: Final = f"""
    SELECT {_NO_BODY} FROM entries AS e WHERE (e.run, e.seq) IN (
        SELECT (run, max(seq)) FROM entries
        WHERE run IN (SELECT unnest(?::VARCHAR[])) GROUP BY run
    )
"""  # noqa: S608 - constants only


class Index:
    """Rows and statistics, as of the last question."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Make it anew at the next question."""
        self.rows = Rows()
        self._seqs: dict[str, int] = {}  # of the entries that were read last
        self._changed: set[str] | None = None  # runs to read again, None for all

    def note(self, entries: Collection[Entry]) -> None:
        """These are to be written."""
        if self._changed is not None:
            self._changed.update(
                entry.run for entry in entries if changes(entry) or not self.rows.get(entry.run)
            )

    def note_trim(self, run: str) -> None:
        """Entries of the run are to be changed."""
        if self._changed is not None:
            self._changed.add(run)

    def refresh(self, db: Any) -> Rows:
        """The rows as the entries are now."""
        if self._changed is None or self._changed:
            runs = None if self._changed is None else sorted(self._changed)
            for run, journal in _journals(db, runs):
                self._update(run, journal)
            self._changed = set()
        return self.rows

    def _update(self, run: str, journal: Sequence[Entry]) -> None:
        seq = self._seqs.get(run, -1)
        for entry in journal:
            left = entry.status != Status.DELETED or entry.kind == Kind.TOMBSTONE
            if entry.seq > seq and left and (change := change_of([entry])):
                self.rows.change(change)
        self.rows.put(run, fold(journal))
        self._seqs[run] = journal[-1].seq

    def repair(self, db: Any, *, write: bool) -> int:
        """As `Store.rebuild`."""
        rows = self.refresh(db)
        right = {run: fold(journal) for run, journal in _journals(db, None)}
        runs = rows.runs().union(right)
        wrong = [run for run in runs if right.get(run) != rows.get(run)]
        for run in wrong if write else ():
            rows.put(run, right.get(run))
        return len(wrong)


def heads_of(db: Any, runs: Sequence[str]) -> dict[str, Entry]:
    """The heads of runs, without bodies."""
    found = map(Entry._make, db.execute(_HEADS, [list(runs)]).fetchall())
    return {head.run: head for head in found}


def _journals(db: Any, runs: list[str] | None) -> Iterator[tuple[str, list[Entry]]]:
    """The entries that say something about rows, by run."""
    found = map(Entry._make, db.execute(_ENTRIES, {"runs": runs}).fetchall())
    for run, journal in groupby(found, attrgetter("run")):
        if not run.startswith(HIDDEN):
            yield run, list(journal)
