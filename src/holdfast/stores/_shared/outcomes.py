"""Which entries of a batch win, for stores that know the heads of its runs."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Entry, follows
from holdfast.store import ANY_HEAD, NO_HEAD, Behind, Head, outcomes, runs_beaten


def outcomes_by_heads(
    entries: Sequence[Entry], heads: dict[str, Head], behind: Behind = ANY_HEAD
) -> list[bool]:
    """The outcome of each entry, given the head of each run; the winners become the heads."""

    def place(entry: Entry) -> bool:
        won = follows(entry, heads.get(entry.run, NO_HEAD)[0])
        if won:
            heads[entry.run] = entry.seq, entry.digest
        return won

    return outcomes(entries, place, runs_beaten(behind, lambda run: heads.get(run, NO_HEAD)[1]))
