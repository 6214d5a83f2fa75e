"""What runs did over time, from the index alone."""

from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import to_datetime
from holdfast.checkpointer import SyncCheckpointer
from holdfast.heads import HOUR
from holdfast.retention import parse_age
from holdfast.views import totals


class Window(NamedTuple):
    """A length of time until now, and how it is divided."""

    name: str
    hours: int
    step: int  # hours that are counted together

    @property
    def each(self) -> str:
        """The length of a part in words, as in "runs per hour"."""
        return {1: "hour", 24: "day"}.get(self.step, f"{self.step} hours")

    def starts(self, now: int) -> list[datetime]:
        """When each part begins. The last one isn't over at `now`, in microseconds."""
        length = self.step * HOUR
        first = (now - self.hours * HOUR) // length
        return [to_datetime(length * part) for part in range(first, now // length + 1)]


def window_of(name: str, age: timedelta) -> Window:
    """The window of an age, in about thirty parts."""
    hours = max(1, -(-age // timedelta(hours=1)))
    return Window(name, hours, 1 if hours <= 48 else 6 if hours <= 14 * 24 else 24)


WINDOWS: Final = {name: window_of(name, parse_age(name)) for name in ("24h", "7d", "30d")}
"""By the word that URLs have for them."""


def over_time(cp: SyncCheckpointer, window: Window, flow: str | None = None) -> dict[str, Any]:
    """What runs did in each part of a window, for charts. Every run counts, also child runs."""
    now = cp.core.journals.clock.now()
    return {
        "since": window.name,
        "hours": window.step,
        "flow": flow,
        "as_of": to_datetime(now),
        "periods": periods(cp, window, now, flow),
    }


def periods(
    cp: SyncCheckpointer, window: Window, now: int, flow: str | None = None
) -> list[dict[str, Any]]:
    """What runs did in each part of a window until `now`, in microseconds."""
    until = to_datetime(now + 1)  # the part that begins now is one of them
    since = to_datetime(now) - timedelta(hours=window.hours)
    return totals.hours(cp, since, until, flow, together=window.step)
