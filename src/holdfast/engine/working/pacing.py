"""When a worker looks for runs, and when it tries again a run that it could not claim."""

from __future__ import annotations

import math
from time import monotonic
from typing import Final

from holdfast.changes import Change
from holdfast.model import Status

_AT_NEWS: Final = 2.0  # seconds between two looks while others change runs, at most
_MOST_HEARD: Final = 10_000
_MOST_TRIED: Final = 10_000
_FIRST_CALM: Final = 0.02  # seconds between two looks for new runs, after one in vain
_LONGEST_CALM: Final = 1.0
_MOST_TRIES: Final = 2.0  # in a second, of all runs that could not be claimed
_FIRST_PAUSE: Final = 1.0  # seconds, until a run that could not be claimed is tried again


class Pace:
    """When to look for runs: at once for new ones, soon after other changes, else now and then."""

    def __init__(self) -> None:
        self._heard: dict[str, None] = {}  # runs that changed, the newest last
        self._news = False  # others have changed runs since the last look
        self._new = False  # and some of them are new
        self._calm = 0.0  # seconds between two looks for new runs
        self._at_once = True
        self._last = 0.0  # when it looked last, by the monotonic clock, like the following
        self._latest = 0.0  # it looks then, at the latest
        self._earliest = 0.0  # and not before then: others are to have their share first

    def hear(self, change: Change) -> bool:
        """Take note of what others did to a run. Returns whether it is new: look soon."""
        self._news = True
        unknown = change.status is None and change.run_id not in self._heard
        new = unknown or change.status == Status.SUBMITTED
        self._new |= new
        if change.run_id is not None:
            self._heard[change.run_id] = None
            if len(self._heard) > _MOST_HEARD:
                del self._heard[next(iter(self._heard))]
        return new

    def is_time(self, at_news: float) -> bool:
        """Whether to look now; `at_news` is how many seconds after a look news may wait."""
        now = monotonic()
        if now < self._earliest:
            return False
        if self._at_once or now >= min(self._latest, self._soon):
            return True
        return self._news and now >= self._last + min(_AT_NEWS, at_news)

    @property
    def seconds_left(self) -> float:
        """Until the next look, if nothing happens before."""
        return max(min(self._latest, self._soon), self._earliest) - monotonic()

    @property
    def _soon(self) -> float:
        """When to look for new runs."""
        return self._last + self._calm if self._new else math.inf

    def begin(self) -> bool:
        """A look begins. Returns whether there were news since the last one."""
        news, self._news, self._new, self._at_once = self._news, False, False, False
        self._last = monotonic()
        return news

    def end(self, *, in_vain: bool) -> None:
        """The look is over. While all that is new is for others, it looks less and less often."""
        self._calm = min(max(_FIRST_CALM, 2 * self._calm), _LONGEST_CALM) if in_vain else 0.0

    def look_soon(self) -> None:
        """There may be something new."""
        self._new = True

    def look_at_once(self) -> None:
        """There may be something to begin."""
        self._at_once = True

    def look_within(self, seconds: float) -> None:
        """Look again in so many seconds, at the latest."""
        self._latest = monotonic() + seconds

    def look_no_later_than(self, moment: float) -> None:
        """Look again at this moment, unless that is to be done before."""
        self._latest = min(self._latest, moment)

    def wait_for_others(self, seconds: float) -> None:
        """Don't look for so many seconds: others should have taken their share by then."""
        self._earliest = monotonic() + seconds


class Backoff:
    """When runs that could not be claimed are tried again, by the monotonic clock."""

    def __init__(self) -> None:
        self._not_before: dict[str, float] = {}
        self._pauses: dict[str, float] = {}  # the next ones, in seconds

    def __contains__(self, run_id: str) -> bool:
        """Whether the last attempt to execute the run failed."""
        return run_id in self._pauses

    def not_before(self, run_id: str) -> float:
        """When the run may be tried again; 0 if it was not tried."""
        return self._not_before.get(run_id, 0.0)

    def put_off(self, run_id: str, longest: float) -> bool:
        """Try the run again after a pause that doubles each time. Returns whether it is the first.

        The more runs there are that can't be claimed, the longer are the pauses.
        """
        longest = max(longest, len(self._pauses) / _MOST_TRIES)
        pause = self._pauses.get(run_id, _FIRST_PAUSE)
        first = run_id not in self._pauses
        self._pauses[run_id] = min(2 * pause, longest)
        self._wait(run_id, pause)
        return first

    def executed(self, run_id: str, pause: float) -> None:
        """The run was executed: the next pause is a short one again. It is not tried before."""
        self._pauses.pop(run_id, None)
        self._wait(run_id, pause)

    def _wait(self, run_id: str, seconds: float) -> None:
        now = monotonic()
        if len(self._not_before) > _MOST_TRIED:
            self._not_before = {run: at for run, at in self._not_before.items() if at > now}
            self._pauses = {run: p for run, p in self._pauses.items() if run in self._not_before}
        self._not_before[run_id] = now + seconds
