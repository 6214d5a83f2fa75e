"""What a process is, on this machine or another."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from holdfast.kernel.processes import boot_id, start_of, this_host


class Identity(NamedTuple):
    """A process, distinct from every other one on any machine."""

    host: str  # the machine's name
    place: str  # boot and namespaces: a pid means the same process only within one place
    pid: int
    start: str  # when it started, in the place's own terms; empty where the system does not say

    @property
    def name(self) -> str:
        """Host and pid, for people."""
        return f"{self.host}:{self.pid}"

    def lives(self, place: str) -> bool | None:
        """Whether it is still running, seen from this place; None where that can't be told."""
        if self.place != place or not self.start:
            return None
        try:
            return start_of(self.pid) == self.start
        except OSError:
            return None


def this_process() -> Identity:
    """The process that calls this."""
    return _process(os.getpid())


@lru_cache(maxsize=2)
def _process(pid: int) -> Identity:
    host = this_host()
    spaces = []
    for name in ("pid", "time"):
        with suppress(OSError):
            # A container numbers its own processes, though it shares its host's boot id.
            spaces.append(Path(f"/proc/self/ns/{name}").readlink().name)
    try:
        start = start_of(pid) or ""
    except OSError:
        start = ""
    return Identity(host, " ".join((boot_id() or host, *spaces)), pid, start)
