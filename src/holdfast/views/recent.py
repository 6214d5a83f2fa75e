"""Statistics that the index does not have, from the journals of the newest runs.

Steps, failures, bytes and verdicts are in the entries of runs. Not all runs are read for them: a
limited number, the newest first. `Recent` says how many, and of how many.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import CheckpointInfo, to_datetime, to_micros
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec.meta import Meta, claimed_so_far, may_claim
from holdfast.codec.redaction import redacted
from holdfast.errors import CheckpointCorruptedError, HoldfastError
from holdfast.errors.base import one_line
from holdfast.evidence.trust import storing
from holdfast.heads import HOUR
from holdfast.kernel.core import Core
from holdfast.model import CARRY_STATE, Entry, Kind, Status, verdict_journal
from holdfast.store import RunFilter
from holdfast.views.statistics import Window, periods

MOST_RUNS: Final = 2000
MOST_ENTRIES: Final = 2000
"""Of one run, the newest."""
PATIENCE: Final = 4.0
"""Seconds after which no further run is read."""

OUTCOMES: Final = ("verified", "failed", "undecided")
_MOST_KINDS: Final = 200  # of steps, errors and types of evidence that are told apart
_MOST_FAILURES: Final = 1000  # whose errors are read
_LONGEST: Final = 160  # characters of a message
_UNREAD: Final = "not read"
_OTHER: Final = "other"
_COUNTER: Final = re.compile(r"#\d+|\[\d+\]")  # in a step's key: which one of its name it was


class StepTimes(NamedTuple):
    """How long a step took in the runs that were read."""

    flow: str
    step: str
    times: int
    median: float  # seconds
    p95: float
    longest: float
    run_id: str  # that the longest was in


class ErrorKind(NamedTuple):
    """How often something failed with one type of error in the runs that were read."""

    error: str
    runs: int  # that failed with it
    attempts: int  # failures of steps, also of those that were tried again
    message: str  # of the newest
    run_id: str
    at: datetime


class Recent(NamedTuple):
    """What the newest runs of a window say."""

    as_of: datetime
    runs: int  # that were started in the window
    read: int
    entries: int  # that were read
    in_part: int  # runs that are so long that only their newest entries were read
    damaged: int  # entries that can't be read
    starts: list[datetime]  # of the parts of the window
    unread: int  # the first parts, of which no run was read
    bytes: list[int]  # in each part: of states and results, whole and uncompressed
    checks: dict[str, dict[str, list[int]]]  # in each part: by type of evidence, then by outcome
    steps: list[StepTimes]  # the slowest first
    errors: list[ErrorKind]  # the most frequent first

    @property
    def whole(self) -> bool:
        """Whether everything in the window was read."""
        return self.read == self.runs and not self.in_part


def recent(
    cp: SyncCheckpointer,
    window: Window,
    flow: str | None = None,
    *,
    most: int = MOST_RUNS,
    patience: float = PATIENCE,
) -> Recent:
    """Read the newest runs that were started in a window, child runs included."""
    clock = cp.core.journals.clock
    now, until = clock.now(), clock.monotonic() + patience
    look = _Look(cp.core, window, now)
    since = RunFilter(flow=flow, since=to_micros(look.starts[0]))
    listed = [row for row, _ in cp.store.listed(since, limit=most)]
    read = 0
    for row in listed:
        if read and clock.monotonic() > until:
            break
        look.read(row.run)
        read += 1
    runs = len(listed)
    if runs == most:
        runs = max(runs, sum(part["started"] for part in periods(cp, window, now, flow)))
    return look.found(runs, read, 0 if read == runs else look.part(listed[read - 1].opened) or 0)


class _Look:
    """One look at the journals of runs. Adds up what they say."""

    def __init__(self, core: Core, window: Window, now: int) -> None:
        self.starts = window.starts(now)
        self._core = core
        self._now = now
        self._length = window.step * HOUR
        self._since = to_micros(self.starts[0])
        self._entries = self._in_part = self._damaged = 0
        self._bytes = [0] * len(self.starts)
        self._types: dict[str, str] = {}  # by digest of the claim
        self._checks: dict[str, dict[str, list[int]]] = {}
        self._times: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
        self._errors: dict[str, ErrorKind] = {}
        self._failures = 0

    def read(self, run: str) -> None:
        """Add one run, and the verdicts beside it."""
        claims = False
        for entry in self._newest(run):
            claims = claims or claimed_so_far(entry.meta)
            if may_claim(entry.meta):
                self._note_claims(entry)
            if self.part(entry.at) is not None:
                self._add(entry)
        for entry in self._newest(verdict_journal(run)) if claims else ():
            if entry.kind == Kind.VERDICT and entry.status != Status.DELETED:
                self._add_verdicts(entry)

    def part(self, at: int) -> int | None:
        """Which part of the window a time belongs to."""
        part = (at - self._since) // self._length
        return part if 0 <= part < len(self.starts) else None

    def found(self, runs: int, read: int, unread: int) -> Recent:
        """What all of it comes to."""
        steps = [_times(*which, given) for which, given in self._times.items()]
        return Recent(
            to_datetime(self._now),
            runs,
            read,
            self._entries,
            self._in_part,
            self._damaged,
            self.starts,
            unread,
            self._bytes,
            dict(sorted(self._checks.items())),
            sorted(steps, key=lambda one: -one.p95),
            sorted(self._errors.values(), key=lambda one: (-one.runs, -one.attempts)),
        )

    def _newest(self, run: str) -> Iterator[Entry]:
        entries = self._core.journals.entries(run, newest_first=True, damage=self._damage)
        for number, entry in enumerate(islice(entries, MOST_ENTRIES + 1)):
            if number == MOST_ENTRIES:
                self._in_part += 1
                return
            self._entries += 1
            yield entry

    def _damage(self, error: Exception) -> None:
        self._damaged += 1

    def _add(self, entry: Entry) -> None:
        part = self.part(entry.at)
        if entry.kind in CARRY_STATE and part is not None:
            self._bytes[part] += max(0, entry.size)
            took = entry.duration
            if entry.step and took is not None and math.isfinite(took) and took >= 0:
                which = entry.flow or "", _COUNTER.sub("", entry.step)
                if which in self._times or len(self._times) < _MOST_KINDS:
                    self._times[which].append((took, entry.run))
        elif entry.kind == Kind.FAIL:
            self._add_failure(entry)

    def _add_failure(self, entry: Entry) -> None:
        self._failures += 1
        try:
            of = Meta(entry).of
        except CheckpointCorruptedError:
            of = None
        if of == "rollback":  # of a run that failed already
            return
        error, message = self._error(entry)
        error = error if error in self._errors or len(self._errors) < _MOST_KINDS else _OTHER
        known = self._errors.get(error)
        if known is None:
            known = ErrorKind(error, 0, 0, message, entry.run, to_datetime(entry.at))
        self._errors[error] = known._replace(
            runs=known.runs + (of == "run"), attempts=known.attempts + (of != "run")
        )

    def _error(self, entry: Entry) -> tuple[str, str]:
        """The type and the message of a failure."""
        if self._failures > _MOST_FAILURES:
            return _UNREAD, ""
        value = self._value(entry)
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            return _UNREAD, ""
        return _short(value["type"]), _short(str(value.get("message", "")))

    def _note_claims(self, entry: Entry) -> None:
        try:
            claims = storing.claims_of(CheckpointInfo(entry))
        except HoldfastError:
            return
        packs = [*claims.packs, *(pack for group in claims.before for pack in group.packs)]
        for claim in (claim for pack in packs for claim in pack.claims):
            self._types[claim.evidence.digest] = str(claim.evidence.evidence_type)

    def _add_verdicts(self, entry: Entry) -> None:
        part = self.part(entry.at)
        value = None if part is None else self._value(entry)
        if part is None or not isinstance(value, dict):
            return
        try:
            given = [verdict for _, _, verdicts in value["checked"] for verdict in verdicts]
            told = Counter((self._types.get(one["evidence"]), one["status"]) for one in given)
        except (KeyError, TypeError, ValueError):
            self._damaged += 1
            return
        for (kind, status), count in told.items():
            name = _short(kind or "unknown")
            if name not in self._checks and len(self._checks) >= _MOST_KINDS:
                name = _OTHER
            outcome = status if status in OUTCOMES else OUTCOMES[-1]
            empty = {one: [0] * len(self.starts) for one in OUTCOMES}
            self._checks.setdefault(name, empty)[outcome][part] += count

    def _value(self, entry: Entry) -> Any:
        """What an entry carries, as data; None if it can't be read."""
        try:
            return self._core.journals.value(entry.run, entry.seq, as_data=True)
        except HoldfastError:
            self._damaged += 1
            return None


def _times(flow: str, step: str, given: list[tuple[float, str]]) -> StepTimes:
    given.sort()
    middle, most = (_rank(given, share) for share in (0.5, 0.95))
    longest, run = given[-1]
    return StepTimes(flow, step, len(given), middle, most, longest, run)


def _rank(given: list[tuple[float, str]], share: float) -> float:
    return given[max(0, math.ceil(share * len(given)) - 1)][0]


def _short(text: str) -> str:
    found = one_line(redacted(text))
    return found if len(found) <= _LONGEST else f"{found[: _LONGEST - 1]}…"
