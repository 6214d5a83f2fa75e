"""Waiting that outlives the process: the moment to continue is recorded before anything waits."""

from __future__ import annotations

import asyncio
import math
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict, Unpack

from holdfast.checkpoint import to_micros
from holdfast.seams import SYSTEM_CLOCK, Clock

LONGEST: Final = timedelta(days=36_525).total_seconds()
LEAVE_AFTER: Final = 10.0
"""Seconds: a worker leaves a run that only waits, and for longer than this."""

_LOOK: Final = 60.0  # seconds, until the wall clock is looked at again: it may have been set


class Duration(TypedDict, total=False):
    """The parts of a duration."""

    days: float
    hours: float
    minutes: float
    seconds: float


class Sleep:
    """The function of a step that waits, for so many seconds or until a moment."""

    __name__ = "sleep"

    def __init__(
        self,
        duration: timedelta | float | None = None,
        *,
        until: datetime | None = None,
        passes_on: bool = False,
        **parts: Unpack[Duration],
    ) -> None:
        """Raises `TypeError` and `ValueError` for anything but one length or one moment."""
        if parts:
            if duration is not None:
                raise TypeError("sleep takes one duration, or days=, hours=, minutes= and seconds=")
            duration = timedelta(**parts)
        if (duration is None) == (until is None):
            raise TypeError("sleep needs either a duration, such as days=3, or until= a moment")
        if until is not None and not isinstance(until, datetime):
            raise TypeError(f"until must be a datetime, not {until!r}")
        self.seconds = None if duration is None else seconds_of("sleep", duration)
        self.until = None if until is None else to_micros(until)
        self._passes_on = passes_on

    def wakes_at(self, now: int) -> int:
        """When a sleep that begins now is over, in microseconds since the epoch."""
        return now + round((self.seconds or 0.0) * 1e6) if self.until is None else self.until

    def value(self, *args: Any) -> Any:
        """What the step returns: nothing, or what it was given."""
        return args[0] if self._passes_on else None

    async def __call__(self, *args: Any) -> Any:
        """Sleep without the engine, which records when to wake up."""
        now = SYSTEM_CLOCK.now()
        await until(SYSTEM_CLOCK, self.wakes_at(now), self.seconds)
        return self.value(*args)


async def until(clock: Clock, due: int, within: float | None = None) -> None:
    """Wait for a moment of the wall clock; with `within`, for that many seconds at most.

    That is for a clock that is set back: a sleep of an hour takes an hour all the same. Others get
    their turn even if the moment has passed: whoever follows the run may stop it here.
    """
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    end = math.inf if within is None else loop.time() + within
    while (left := min((due - clock.now()) / 1e6, end - loop.time())) > 0:
        await asyncio.sleep(min(left, _LOOK))


def pause_before(delay: timedelta | float | None, at: datetime | None) -> Sleep:
    """How long something that is delayed waits, or until when. Raises what `Sleep` does."""
    if delay is not None and at is not None:
        raise TypeError("give a delay, or at= a moment, not both")
    if at is not None:
        if not isinstance(at, datetime):
            raise TypeError(f"at must be a datetime, not {at!r}")
        return Sleep(until=at)
    return Sleep(0.0 if delay is None else seconds_of("delay", delay))


def seconds_of(what: str, duration: timedelta | float) -> float:
    """A duration in seconds. Raises `TypeError` and `ValueError` for what is none."""
    given: object = duration
    if isinstance(given, bool) or not isinstance(given, timedelta | int | float):
        raise TypeError(f"{what} takes a timedelta or a number of seconds, not {given!r}")
    seconds = given.total_seconds() if isinstance(given, timedelta) else float(given)
    if not 0 <= seconds <= LONGEST:
        raise ValueError(f"{what} must be between now and 100 years from now, not {given!r}")
    return seconds
