"""The shape of a run: what it did, piece by piece, small enough for a list of runs.

It is made from the fields of the newest entries: no body is read, and nothing of it is stored.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import Final, Literal, NamedTuple

from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec.meta import EVIDENCE, Meta
from holdfast.errors import CheckpointCorruptedError, KeyMissingError
from holdfast.kernel.pages import Found
from holdfast.model import CARRY_STATE, Entry, Kind, Status
from holdfast.views import words

LOOKED_AT: Final = 200
"""The newest entries of a run that its shape is made from."""

What = Literal[
    "earlier",
    "done",
    "restored",
    "failed",
    "waits",
    "queued",
    "crash",
    "running",
    "cancelled",
    "damaged",
]


_COPIED: Final = ('"copied"', '"origin"')  # in the metadata of what a fork began with
_STOPPED: Final = (Status.PAUSED, Status.SUBMITTED, Status.FAILED)


class Piece(NamedTuple):
    """Something that a run did or had done to it, and how long that took."""

    what: What
    seconds: float


class Shape(NamedTuple):
    """What a run did, oldest first, and what of it can be counted."""

    pieces: tuple[Piece, ...]
    whole: bool  # False: there are older entries than those that were looked at
    steps: int  # that were finished, and still count
    failures: int  # of attempts
    crashes: int
    damaged: int  # entries that can't be read
    claims: tuple[Entry, ...]  # the checkpoints that something was claimed with
    holder: str | None  # who executed it last, as its opening or claim says
    origin: str | None  # the checkpoint that it was forked from, if its opening was looked at
    began: bool  # whether it was executed, or saved, failed or tried anything of its own
    newest: Entry | None
    failure: Entry | None  # the newest one
    question: Entry | None  # the newest one
    request: Entry | None  # the newest one, to pause or to cancel

    def __str__(self) -> str:
        counted = [words.plural(self.steps, "step") + ("" if self.whole else " or more")]
        counted += [words.plural(self.failures, "failed attempt")] if self.failures else []
        counted += [f"{self.crashes:,} crash{'es' * (self.crashes > 1)}"] if self.crashes else []
        counted += [f"{self.damaged:,} damaged"] if self.damaged else []
        return ", ".join(counted)


def shape_of(cp: SyncCheckpointer, run_id: str, word: str) -> Shape:
    """The shape of a run that is shown with this word; see `holdfast.views.runs.doing`.

    An orphaned run whose process is not dead, but left it, has the word "left".
    """
    entries = cp.core.journals.scan(run_id, newest_first=True, page=LOOKED_AT + 1)
    found = list(islice(entries, LOOKED_AT + 1))
    whole = len(found) <= LOOKED_AT
    return _drawn(found[:LOOKED_AT][::-1], word, whole, now=cp.core.journals.clock.now())


class _Pen:
    """Draws pieces, entry by entry."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.counts: list[bool] = []  # by piece: whether it is a step that counts
        self.seqs: list[int] = []
        self.failures = 0
        self.crashes = 0
        self.claims: dict[int, Entry] = {}
        self.holder: str | None = None
        self.origin: str | None = None
        self.saved = False  # something that was not copied from the run it was forked from
        self.newest: dict[str, Entry] = {}  # by kind
        self._last: int | None = None  # when the entry before was written, in microseconds
        self._stopped = False
        self._tried: set[str | None] = set()  # steps with a failed attempt

    def add(self, what: What, seconds: float, seq: int, *, counts: bool = False) -> None:
        self.pieces.append(Piece(what, max(0.0, seconds)))
        self.counts.append(counts)
        self.seqs.append(seq)

    def draw(self, entry: Entry) -> None:
        """Draw what an entry says happened until it was written."""
        before = entry.at if self._last is None else self._last
        since = (entry.at - before) / 1e6
        self._last = entry.at
        self.newest[entry.kind] = entry
        if entry.kind in CARRY_STATE:
            tried = entry.step in self._tried
            took = entry.duration if entry.duration is not None and not tried else since
            self.add("done", took, entry.seq, counts=True)
            self.saved = self.saved or not any(mark in entry.meta for mark in _COPIED)
            if EVIDENCE in entry.meta:
                self.claims[entry.seq] = entry
        elif entry.kind == Kind.FAIL:
            self._fail(entry, since)
        elif entry.kind == Kind.ROLLBACK:
            self._go_back(entry)
        elif entry.kind in (Kind.OPEN, Kind.CLAIM):
            self._take(entry, since)
        elif self._stopped and entry.kind in (Kind.ANSWER, Kind.REQUEST):
            self.add("waits", since, entry.seq)
        self._stopped = entry.status in _STOPPED

    def _fail(self, entry: Entry, since: float) -> None:
        meta = Meta(entry)
        if meta.of == "attempt" or entry.status == Status.RUNNING:
            self._tried.add(entry.step)
            self.failures += 1
            self.add("failed", since, entry.seq)
        elif not self.pieces or self.pieces[-1].what != "failed":
            self.add("failed", since, entry.seq)

    def _go_back(self, entry: Entry) -> None:
        """What came after the place that a run went back to does not count any more."""
        kept = -1 if entry.parent is None else entry.parent
        for at, seq in enumerate(self.seqs):
            if seq > kept:
                self.counts[at] = False
        for seq in [seq for seq in self.claims if seq > kept]:
            del self.claims[seq]

    def _take(self, entry: Entry, since: float) -> None:
        meta = Meta(entry)
        self.holder = meta.holder or self.holder
        self.origin = meta.origin or self.origin
        if entry.kind == Kind.CLAIM and meta.why == "died":
            self.crashes += 1
            done = (at for at, piece in enumerate(self.pieces) if piece.what == "done")
            for at in done:
                self.pieces[at] = self.pieces[at]._replace(what="restored")
            self.add("crash", since, entry.seq)
        elif entry.kind == Kind.CLAIM and self._stopped:
            self.add("waits", since, entry.seq)

    def end(self, word: str, now: int) -> None:
        """Draw what goes on since the last entry."""
        since = 0.0 if self._last is None else (now - self._last) / 1e6
        last: dict[str, What] = {
            "running": "running",
            "orphaned": "crash",
            "left": "waits",
            "paused": "waits",
            "answered": "waits",
            "submitted": "queued",
            "cancelled": "cancelled",
        }
        if word in last:
            self.add(last[word], 0.0 if word == "cancelled" else since, -1)


def _drawn(found: Iterable[Found], word: str, whole: bool, *, now: int) -> Shape:
    pen, damaged, newest = _Pen(), 0, None
    for each in found:
        if isinstance(each, CheckpointCorruptedError):
            damaged += 1
            pen.add("damaged", 0.0, -1 if each.seq is None else each.seq)
            continue
        newest = each
        try:
            pen.draw(each)
        except CheckpointCorruptedError:  # of its metadata
            damaged += 1
            pen.add("damaged", 0.0, each.seq)
        except KeyMissingError:  # what its clear fields say was drawn
            continue
    pen.end(word, now)
    return Shape(
        tuple(pen.pieces),
        whole,
        sum(pen.counts),
        pen.failures,
        pen.crashes,
        damaged,
        tuple(pen.claims.values()),
        pen.holder,
        pen.origin,
        pen.saved or pen.holder is not None or pen.failures > 0 or damaged > 0 or not whole,
        newest,
        pen.newest.get(Kind.FAIL),
        pen.newest.get(Kind.QUESTION),
        pen.newest.get(Kind.REQUEST),
    )


class Bar(NamedTuple):
    """A piece on a strip: where it begins, and how long it is."""

    what: What
    start: float
    length: float


def strip(shape: Shape, width: float) -> list[Bar]:
    """The pieces on a strip of this width, in order. Neighbours of a kind join if there are many.

    Lengths grow with the logarithm of time: a wait of days leaves room for steps of milliseconds.
    """
    pieces: list[tuple[What, float]]
    pieces = [(piece.what, _weight(piece.seconds)) for piece in shape.pieces]
    most = int(width / _NARROWEST)
    if len(pieces) > most:
        pieces = list(_joined(pieces))
    if not shape.whole or len(pieces) > most:
        pieces = [("earlier", _SHORTEST), *pieces[1 - most :]]
    least = _NOTABLE * sum(length for _, length in pieces)
    pieces = [(what, max(length, least if what in _SHOWN else 0)) for what, length in pieces]
    room = width - _BETWEEN * (len(pieces) - 1)
    scale = min(1.0, room / max(1.0, sum(length for _, length in pieces)))
    bars: list[Bar] = []
    start = 0.0
    for what, length in pieces:
        bars.append(Bar(what, round(start, 1), round(length * scale, 1)))
        start += length * scale + _BETWEEN
    return bars


_NARROWEST: Final = 3.0
_BETWEEN: Final = 1.0
_SHORTEST: Final = 5.0  # of a piece that took no time
_PER_DECADE: Final = 4.5
_SHOWN: Final = ("crash", "waits", "running")  # however many steps there are beside them
_NOTABLE: Final = 0.08  # of the strip


def _weight(seconds: float) -> float:
    return _SHORTEST + _PER_DECADE * math.log10(1 + 1000 * seconds)


def _joined(pieces: Iterable[tuple[What, float]]) -> Iterator[tuple[What, float]]:
    for what, group in groupby(pieces, key=lambda piece: piece[0]):
        yield what, sum(length for _, length in group)
