"""What the journal of a resumed run tells the run loop."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

_NONE: Mapping[str, Any] = MappingProxyType({})


class Resumption(NamedTuple):
    """What happened in a run before: in a new one, nothing."""

    birth: str  # of the run
    is_new: bool = False
    epoch: int = 0
    claimed: bool = False  # something, about the world
    deaths: int = 0
    failed_attempts: Mapping[str, int] = _NONE
    cut_short: Mapping[str, int] = _NONE  # attempts that began and were dropped, by step
    due: Mapping[str, int] = _NONE  # when steps that wait are to continue, in microseconds
    deadlines: Mapping[str, int] = _NONE  # of open questions
    answers: Mapping[str, Any] = _NONE
    wanted: str | None = None
    waits: bool = False  # for answers that have not come
    repairs: bool = False  # it went back because checkpoints did not verify
    failure: BaseException | None = None  # it was being rolled back for this
    undone: Mapping[str, str] = _NONE  # the steps that were undone; why not, if that failed
