"""Where a run comes from, which runs were forked from it, and where it went back itself.

The index does not know of forks. A fork's opening does: it names the checkpoint that the fork began
with, and never changes. So the openings of those runs are read that may be forks, the newest first,
up to a limit that is told.
"""

import threading
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointCorruptedError, InvalidIdError
from holdfast.heads import RunHead
from holdfast.kernel.pages import pass_by
from holdfast.kernel.reader import all_listed
from holdfast.model import CARRY_STATE, Entry, Kind, checkpoint_id, split_checkpoint_id
from holdfast.store import RunFilter

LOOKED_AT: Final = 2_000
"""Runs whose openings are read in search of forks."""

SHOWN: Final = 200
"""Runs of a tree that are shown."""

_DEEPEST: Final = 50
_RELATED: Final = 500  # runs of the same thread, or with an id that begins with the run's
_REMEMBERED: Final = 200_000
_BATCH: Final = 500

Place = tuple[str, int]


class Node(NamedTuple):
    """A run in a tree of forks."""

    info: RunInfo | None  # None: it was deleted
    run_id: str
    at: int | None  # the seq of its origin where it was forked; None for the root
    depth: int
    parent: str | None


class WentBack(NamedTuple):
    """A rollback in a run: a branch that was left behind."""

    seq: int  # of the rollback
    to: int | None  # the checkpoint that it led to; None: the beginning
    at: datetime
    last: int | None  # the newest checkpoint that was left behind
    left: int  # how many were
    why: str


class Tree(NamedTuple):
    """A run, its origins and their forks, in the order to draw them."""

    nodes: list[Node]
    looked_at: int  # runs
    is_limited: bool  # whether there are older runs, which may be forks, too
    more: int  # forks that are not shown


class Origins:
    """Remembers which runs are forks of what: an opening never changes. Threads may share it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], str | None] = {}  # by the run, and when it was opened
        self._lock = threading.Lock()

    def of(self, cp: SyncCheckpointer, rows: Sequence[RunHead]) -> dict[str, str]:
        """The checkpoints that these runs began with, as far as they are forks. Blocks."""
        found = {}
        unknown = [row for row in rows if (row.run, row.opened) not in self._known]
        for start in range(0, len(unknown), _BATCH):
            batch = unknown[start : start + _BATCH]
            read = _openings(cp, [row.run for row in batch])
            with self._lock:
                if len(self._known) > _REMEMBERED:
                    self._known.clear()
                for row in batch:
                    self._known[row.run, row.opened] = read.get(row.run)
        for row in rows:
            origin = self._known.get((row.run, row.opened))
            if origin is not None:
                found[row.run] = origin
        return found


def tree(cp: SyncCheckpointer, info: RunInfo, origins: Origins) -> Tree:
    """The tree of forks that a run is in."""
    root, above = _root(cp, info.run_id)
    first = cp.run(root)
    rows, is_limited = _candidates(cp, first or info)
    known = origins.of(cp, rows)
    below: dict[str, list[tuple[int, str]]] = {}
    for run, origin in {**known, **above}.items():
        place = _place(origin)
        if place is not None:
            below.setdefault(place[0], []).append((place[1], run))
    nodes = list(islice(_drawn(cp, below, root), SHOWN + 1))
    total = sum(len(forks) for forks in below.values())
    more = max(0, total + 1 - SHOWN) if len(nodes) > SHOWN else 0
    return Tree(nodes[:SHOWN], len(rows), is_limited, more)


def origin_of(cp: SyncCheckpointer, run: str) -> Place | None:
    """The checkpoint that a run was forked from; None if it is no fork, or that can't be read."""
    found = _openings(cp, [run]).get(run)
    return None if found is None else _place(found)


def rollbacks(cp: SyncCheckpointer, run: str, *, most: int = 100) -> list[WentBack]:
    """Where a run went back, the newest first: at most so many."""
    journals = cp.core.journals
    found = []
    for moment in cp.timeline(run, newest_first=True, kinds=(Kind.ROLLBACK,), limit=most):
        if moment.kind != Kind.ROLLBACK:
            continue  # a damaged entry: the journal shows it
        seq = moment.seq
        parent = next(journals.entries(run, after=seq - 1, page=1, damage=pass_by)).parent
        left = list(_between(cp, run, parent, seq))
        why = moment.note.partition(": ")[2]
        last = left[-1] if left else None
        found.append(WentBack(seq, parent, moment.at, last, len(left), why))
    return found


def _between(cp: SyncCheckpointer, run: str, after: int | None, before: int) -> Iterator[int]:
    """The seqs of the checkpoints between two entries."""
    for entry in cp.core.journals.entries(run, after=after, damage=pass_by):
        if entry.seq >= before:
            return
        if entry.kind in CARRY_STATE:
            yield entry.seq


def _root(cp: SyncCheckpointer, run: str) -> tuple[str, dict[str, str]]:
    """The run that all others are forks of, and the origins on the way there."""
    above: dict[str, str] = {}
    while len(above) < _DEEPEST:
        place = origin_of(cp, run)
        if place is None or place[0] in above or place[0] == run:
            break
        above[run] = checkpoint_id(*place)
        run = place[0]
    return run, above


def _candidates(cp: SyncCheckpointer, root: RunInfo) -> tuple[list[RunHead], bool]:
    """The runs that may be forks of a run: those of its flow that are younger, and its kin."""
    since = int(root.started_at.timestamp() * 1e6)
    found: dict[str, RunHead] = {}
    related = [RunFilter(prefix=root.run_id)]
    if root.thread_id is not None:
        related.append(RunFilter(thread=root.thread_id))
    for where in related:
        for row, _ in all_listed(cp.store, where, limit=_RELATED):
            found[row.run] = row
    same = RunFilter(flow=root.flow, since=since, roots=True)
    for number, (row, _) in enumerate(all_listed(cp.store, same, limit=LOOKED_AT + 1)):
        if number == LOOKED_AT:
            return list(found.values()), True
        if row.flow == root.flow:
            found[row.run] = row
    return list(found.values()), False


def _openings(cp: SyncCheckpointer, runs: Sequence[str]) -> dict[str, str]:
    """The origins that the openings of runs name."""
    found: dict[str, str] = {}
    first = {entry.run: entry for entry in _read(cp, [(run, 0) for run in runs])}
    for run in runs:
        entry = first.get(run) or _first(cp, run)
        try:
            origin = None if entry is None or entry.kind != Kind.OPEN else Meta(entry).origin
        except CheckpointCorruptedError:
            continue
        if origin is not None:
            found[run] = origin
    return found


def _first(cp: SyncCheckpointer, run: str) -> Entry | None:
    """The opening of a run whose id was in use before: what was deleted left a tombstone."""
    two = islice(cp.core.journals.entries(run, page=2, damage=pass_by), 2)
    return next((entry for entry in two if entry.kind == Kind.OPEN), None)


def _read(cp: SyncCheckpointer, places: Sequence[Place]) -> list[Entry]:
    try:
        return cp.store.entries_at(places)
    except CheckpointCorruptedError:  # of one of them: the others are read one by one
        return [entry for run, seq in places for entry in _alone(cp, run, seq)]


def _alone(cp: SyncCheckpointer, run: str, seq: int) -> Iterator[Entry]:
    try:
        yield from cp.store.entries_at([(run, seq)])
    except CheckpointCorruptedError:
        return


def _place(origin: str) -> Place | None:
    try:
        return split_checkpoint_id(origin)
    except InvalidIdError:
        return None


def _drawn(
    cp: SyncCheckpointer, below: dict[str, list[tuple[int, str]]], root: str
) -> Iterator[Node]:
    """The runs of a tree, each before its forks, which are in the order of where they begin."""
    drawn: set[str] = set()
    waiting: list[Node] = [Node(None, root, None, 0, None)]
    while waiting:
        node = waiting.pop()
        if node.run_id in drawn:
            continue
        drawn.add(node.run_id)
        yield node._replace(info=_info(cp, node.run_id))
        forks = sorted(below.get(node.run_id, ()), reverse=True)
        waiting += [Node(None, run, seq, node.depth + 1, node.run_id) for seq, run in forks]


def _info(cp: SyncCheckpointer, run: str) -> RunInfo | None:
    try:
        return cp.run(run)
    except CheckpointCorruptedError:
        return None
