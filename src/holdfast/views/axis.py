"""The time axis of a run: where each moment is drawn, in percent of the width.

Long times without work are collapsed, and crashes get a place that can be seen. Between them, time
is drawn to scale.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from holdfast.views import words
from holdfast.views.steps import Execution, Steps

_COLLAPSED: Final = 10  # times the median step: a longer time without work is collapsed
_SHARE: Final = 0.2  # of all work: less takes no more room to scale than collapsed
_SHORTEST: Final = 200_000  # microseconds that are worth collapsing
_WIDTH: Final = 8.0  # percent, of a collapsed time
_AT_MOST: Final = 50.0  # percent, of all collapsed times together
_TEXT: Final = 7.5  # percent, of the text above a collapsed time, in a table of usual width
_TICK: Final = 9.5  # percent, of the text of a tick there
_EDGE: Final = 99.4  # percent: where a text ends that would be cut off
_NICE: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_UNITS: Final = (
    *(1000 * step for step in _NICE),
    *(1_000_000 * step for step in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)),
    *(3_600_000_000 * step for step in (2, 6, 12, 24, 48, 168, 720)),
)


class Piece(NamedTuple):
    """A stretch of time that is drawn to scale, or collapsed."""

    start: int
    end: int
    x: float
    width: float
    kind: str  # "work", "crash", "waits" or "idle"

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end - self.start) / 1e6


class Tick(NamedTuple):
    """A line across the rows."""

    x: float
    at: int | None  # a moment; None for a distance from the moment before
    after: float = 0.0  # that distance, in seconds


class Label(NamedTuple):
    """A text above the rows: a moment, a distance, or what a collapsed time is and how long."""

    x: float
    kind: str  # "tick", or that of a piece
    at: int | None = None
    seconds: float = 0.0
    at_end: bool = False  # it ends at x
    wide: bool = False  # there is room for it only in a table of usual width


class Axis:
    """Where moments are drawn."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces
        self._starts = [piece.start for piece in pieces]
        work = [piece for piece in pieces if piece.kind == "work"]
        width = sum(piece.width for piece in work)
        length = sum(piece.end - piece.start for piece in work)
        self.per_percent = length / width if width else 0.0
        """The microseconds of work that one percent of the width stands for."""

    def x(self, at: int) -> float:
        """Where a moment is, in percent."""
        if not self.pieces:
            return 0.0
        piece = self.pieces[max(0, bisect_right(self._starts, at) - 1)]
        length = piece.end - piece.start
        share = (at - piece.start) / length if length else 0.0
        return piece.x + piece.width * min(1.0, max(0.0, share))

    def ticks(self) -> list[Tick]:
        """The moments to name, far enough from each other: the time, or how long after the begin."""
        found: list[Tick] = []
        begin = self.pieces[0].start if self.pieces else 0
        for piece in self.pieces:
            if piece.kind != "work" or (found and piece.x - found[-1].x < 9):
                continue
            found.append(Tick(piece.x, piece.start))
            length = piece.end - piece.start
            least = length * 14 / max(piece.width, 0.1)
            step = next((unit for unit in _UNITS if unit >= least), 0)
            for number in range(1, int(length // step) + 1 if step else 0):
                at = piece.start + number * step
                x = self.x(at)
                if piece.x + piece.width - x > 7:
                    found.append(Tick(x, None, (at - begin) / 1e6))
        return found

    def labels(self) -> list[Label]:
        """The texts that there is room for: crashes first, then from left to right."""
        gaps = (
            _placed_label(piece.x + 0.4, piece.kind, None, piece.seconds)
            for piece in self.pieces
            if piece.kind != "work"
        )
        ticks = (_placed_label(tick.x, "tick", tick.at, tick.after) for tick in self.ticks())
        found = _fitting([*gaps, *ticks])
        narrow = _fitting(found, 2)
        return sorted(
            (label._replace(wide=label not in narrow) for label in found), key=lambda one: one.x
        )


def _text(kind: str) -> float:
    return _TICK if kind == "tick" else _TEXT


def _placed_label(x: float, kind: str, at: int | None, seconds: float) -> Label:
    """A label at its place, or at the edge if it would be cut off there."""
    at_end = x + _text(kind) > _EDGE
    return Label(_EDGE if at_end else x, kind, at, seconds, at_end=at_end)


def _fitting(labels: Iterable[Label], scale: int = 1) -> list[Label]:
    """Those that neither overlap nor repeat each other, with texts of so many times the width."""
    found: list[Label] = []
    for label in sorted(labels, key=lambda one: (one.kind != "crash", one.x)):
        start, end = _extent(label, scale)
        if end <= 100 and not any(
            _equal(label, other) or (start < stop and begin < end)
            for other in found
            for begin, stop in [_extent(other, scale)]
        ):
            found.append(label)
    return found


def _equal(one: Label, other: Label) -> bool:
    """Whether they name moments that read the same: a second one says nothing."""
    if one.kind != "tick" or other.kind != "tick":
        return False
    if one.at is not None and other.at is not None:
        return one.at // 1_000_000 == other.at // 1_000_000
    return one.at is other.at and words.span(one.seconds) == words.span(other.seconds)


def _extent(label: Label, scale: int) -> tuple[float, float]:
    """From where to where a label reaches, in percent."""
    width = scale * _text(label.kind)
    return (label.x - width, label.x) if label.at_end else (label.x, label.x + width)


def axis_of(steps: Steps, now: int, *, orphaned: bool) -> Axis:
    """The axis of a run. It ends with its last entry, or now if something is under way."""
    busy = sorted(_busy(steps, now))
    lengths = [last - first for first, last in busy if last > first]
    joined = _joined(busy)
    between = [later[0] - one[1] for one, later in pairwise(joined)]
    usual = median(
        lengths or between or [0]
    )  # where no step says how long it took: from save to save
    longest = max(
        _SHORTEST,
        _COLLAPSED * usual,
        _SHARE * sum(last - first for first, last in joined),
    )
    under_way = steps.status in ("running", "paused")
    end = max(now if under_way else 0, steps.last, joined[-1][1] if joined else 0)
    begin = min(steps.began, joined[0][0] if joined else steps.began)
    crashes = _crashes(steps, now, orphaned=orphaned)
    waits = [(one.start, one.end or now) for one in steps.executions if _waits(one) and one.start]
    stretches: list[tuple[int, int, str]] = []
    since = at = begin  # work that is not in a stretch yet began at `since`
    for first, last in [*joined, (end, end)]:
        if first > at:
            kind = _kind(at, first, crashes, waits, longest)
            if kind != "work":
                if at > since:
                    stretches.append((since, at, "work"))
                stretches.append((at, first, kind))
                since = first
        at = max(at, last)
    if at > since or not stretches:
        stretches.append((since, at, "work"))
    return Axis(_placed(stretches))


def _busy(steps: Steps, now: int) -> Iterable[tuple[int, int]]:
    """When something was executed. Waiting is not."""
    for one in steps.executions:
        if one.kind in ("question", "damage"):
            continue
        if one.kind == "sleep":
            yield from ((at, at) for at in (one.start, one.end) if at)
            continue
        if not one.tried and one.status == "completed" and one.end is not None:
            yield (one.start or one.end, one.end)
        for attempt in one.tried:
            if attempt.outcome != "cut off" and attempt.end is not None:
                yield (attempt.start or attempt.end, attempt.end)
        if one.status == "running" and one.start is not None and steps.status == "running":
            yield (one.start, now)
    for spell in steps.spells:
        yield (spell.start, spell.start)


def _waits(one: Execution) -> bool:
    return len(one.tried) > 1 or one.kind in ("question", "sleep") or one.status == "waits"


def _crashes(steps: Steps, now: int, *, orphaned: bool) -> list[tuple[int, int]]:
    found = [
        (before.end or before.start, spell.start)
        for before, spell in zip(steps.spells, steps.spells[1:], strict=False)
        if spell.why == "died"
    ]
    if orphaned:
        found.append((steps.last, now))
    return found


def _joined(busy: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for first, last in busy:
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


def _kind(
    start: int,
    end: int,
    crashes: list[tuple[int, int]],
    waits: list[tuple[int, int]],
    longest: float,
) -> str:
    """How a time without work is drawn."""
    if crashes and any(first < end and last > start for first, last in crashes):
        return "crash"
    if end - start <= longest:
        return "work"
    is_wait = any(first < end and last > start for first, last in waits)
    return "waits" if is_wait else "idle"


def _placed(stretches: list[tuple[int, int, str]]) -> list[Piece]:
    """The stretches with their places: collapsed ones have the same width, all others theirs."""
    collapsed = sum(1 for _, _, kind in stretches if kind != "work")
    works = [end - start for start, end, kind in stretches if kind == "work"]
    each = min(_WIDTH, _AT_MOST / collapsed) if collapsed else 0.0
    if not works:
        each = 100.0 / max(1, collapsed)
    left = 100.0 - each * collapsed
    total = sum(works) or 1
    pieces: list[Piece] = []
    x = 0.0
    for start, end, kind in stretches:
        share = (end - start) / total if sum(works) else 1 / max(1, len(works))
        width = each if kind != "work" else left * share
        pieces.append(Piece(start, end, x, width, kind))
        x += width
    return pieces
