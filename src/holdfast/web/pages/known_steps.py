"""The steps of runs, kept until something is added to them: to read 10,000 of them takes a while."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

from holdfast.checkpoint import RunInfo
from holdfast.views.step_reading import steps_of
from holdfast.views.steps import Steps
from holdfast.web.site import Site

_KEPT: Final = 16  # runs

_known: WeakKeyDictionary[Site, OrderedDict[tuple[str, int], Steps]] = WeakKeyDictionary()
_lock: Final = Lock()


def known_steps(site: Site, info: RunInfo) -> Steps:
    """The steps of a run, as they are or as they were read when it had the same entries."""
    key = info.run_id, info.seq
    with _lock:
        mine = _known.setdefault(site, OrderedDict())
        if key in mine:
            mine.move_to_end(key)
            return mine[key]
    made = steps_of(site.cp, info)
    with _lock:
        for other in [one for one in mine if one[0] == info.run_id]:
            del mine[other]
        mine[key] = made
        while len(mine) > _KEPT:
            mine.popitem(last=False)
    return made
