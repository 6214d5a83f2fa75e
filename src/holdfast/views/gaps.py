"""What the time between two entries of a run was: a step's, a pause before a retry, or nobody's."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from holdfast.checkpoint import to_micros
from holdfast.model import Kind
from holdfast.operations.timeline import Moment
from holdfast.views import words
from holdfast.views.steps import Attempt, Execution, Steps

_LEAST: Final = 0.1  # seconds; less is not worth a word
_UNCLEAR: Final = ("died", "taken over")  # how far such a process got is not recorded
_EVER: Final = 1 << 62


class Span(NamedTuple):
    """A time, in microseconds since the epoch."""

    start: int
    end: int


class Gaps:
    """Tells the times of a run in which a step was executed from those in which none was."""

    def __init__(self, steps: Steps) -> None:
        self._busy: list[Span] = []
        self._resting: list[Span] = []
        self._held: list[Span] = []
        self._unclear = {spell.end for spell in steps.spells if spell.ended in _UNCLEAR}
        for one in steps.executions:
            if one.kind in ("step", "sleep"):
                self._add(one)
        for spell in steps.spells:
            self._held.append(Span(spell.start, _EVER if spell.end is None else spell.end))
        self._busy, self._resting, self._held = map(
            _merged, (self._busy, self._resting, self._held)
        )

    def _add(self, one: Execution) -> None:
        if not one.tried and one.start is not None and one.end is not None:
            self._busy.append(Span(one.start, one.end))
        before: Attempt | None = None
        for attempt in one.tried:
            if attempt.outcome == "cut off" or attempt.start is None or attempt.end is None:
                before = None if attempt.outcome == "cut off" else attempt
                continue
            self._busy.append(Span(attempt.start, attempt.end))
            if before is not None and before.end is not None:
                self._resting.append(Span(before.end, attempt.start))
            before = attempt
        last = one.tried[-1] if one.tried else None
        if one.due is not None and last is not None and last.outcome == "failed" and last.end:
            self._resting.append(Span(last.end, one.due))

    def between(self, before: Moment, moment: Moment) -> str:
        """What else the time between an entry and the next one was; empty if a step took it."""
        if "damaged" in (before.kind, moment.kind):
            return ""
        whole = Span(to_micros(before.at), to_micros(moment.at))
        left = list(_without([whole], self._busy))
        working = list(_without(left, self._resting))
        resting = _seconds(left) - _seconds(working)
        nobodys = list(_without(working, self._held))
        free = _seconds(nobodys)
        unknown = _seconds(working) - free
        if not self._held or whole.start in self._unclear:
            free, unknown = 0.0, free + unknown
        elif moment.kind == Kind.FAIL and moment.took is None:
            unknown = 0.0  # the attempt that failed; when it began is not recorded
        told = (
            (resting, "waited {} to try again"),
            (free, "nobody executed it for {}"),
            (unknown, "nothing recorded for {}"),
        )
        return ", ".join(said.format(words.span(time)) for time, said in told if time >= _LEAST)


def _seconds(spans: Iterable[Span]) -> float:
    return sum(span.end - span.start for span in spans) / 1e6


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The same times, in order, as spans of which no two overlap."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def _without(spans: Iterable[Span], merged: list[Span]) -> Iterator[Span]:
    """The parts of these spans, in order, in none of those that are merged."""
    for start, end in spans:
        at = start
        for other in islice(merged, bisect_right(merged, at, key=lambda span: span.end), None):
            if other.start >= end:
                break
            if other.start > at:
                yield Span(at, other.start)
            at = other.end
        if at < end:
            yield Span(at, end)
