"""Who executes a run: the process that opened it or took it over last, and whether it is alive."""

from __future__ import annotations

import os
import re
import socket
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.checkpoint import RunInfo, to_datetime
from holdfast.codec.meta import Meta
from holdfast.engine.run import live
from holdfast.errors import RunActiveError
from holdfast.kernel.core import Core
from holdfast.kernel.processes import boot_id, start_of
from holdfast.model import FROM_OUTSIDE, Entry, Kind, Status

SILENT_SECONDS: Final = 900.0
"""After so long without a new entry, a holder on another machine is considered dead."""

_NUMBER: Final = re.compile("[0-9]{1,10}")
_TAKEN: Final = (Kind.OPEN, Kind.CLAIM)
_FAR: Final = 10_000  # entries: a holder further back than this is not looked for


class Holder(NamedTuple):
    """A process, distinct from every other one on any machine."""

    host: str  # the machine's name
    place: str  # the pid namespace: the same number means the same process only within one
    pid: int
    start: str

    @property
    def is_here(self) -> bool:
        """Whether its pid means the same process here."""
        return self.place == this_process().place

    @property
    def is_alive(self) -> bool | None:
        """Whether it is still running; None where this process can't tell."""
        if not self.is_here or not self.start:
            return None
        try:
            return start_of(self.pid) == self.start
        except OSError:
            return None

    @property
    def name(self) -> str:
        """Host and pid, for people."""
        return f"{self.host}:{self.pid}"

    def __str__(self) -> str:
        return "|".join((self.host, self.place, str(self.pid), self.start))

    @classmethod
    def parse(cls, text: object) -> Holder | None:
        """The holder that this text, made by `str`, describes; None if it is not valid."""
        parts = text.split("|") if isinstance(text, str) else []
        if len(parts) != len(cls._fields) or not _NUMBER.fullmatch(parts[2]):
            return None
        return cls(parts[0], parts[1], int(parts[2]), parts[3])


class Activity(NamedTuple):
    """Whether a run is being executed, and by which process."""

    holder: str | None  # host and pid, dead or alive; None if none is known
    orphaned: bool  # the run is under way, and its holder is dead
    answered: bool  # it paused for an answer, which has come: it waits to be resumed


def activity_of(core: Core, run: RunInfo, *, silent: float = SILENT_SECONDS) -> Activity:
    """Who executes a run, according to its journal and this machine. Writes nothing. Blocks.

    A holder on another machine is considered dead when it has recorded nothing for `silent`
    seconds. A run that is not under way has no holder.
    """
    if run.status != Status.RUNNING:
        return Activity(None, orphaned=False, answered=False)
    last, holder = last_holder(core, run.run_id)
    if last is not None and last.status == Status.PAUSED:
        return Activity(None, orphaned=False, answered=True)
    lives = live.is_executed_here(run.run_id) or is_at_work(
        holder, run.updated_at > silent_since(core, silent)
    )
    return Activity(None if holder is None else holder.name, orphaned=not lives, answered=False)


def is_at_work(holder: Holder | None, heard_of: bool) -> bool:
    """Whether a holder is alive; where that is unknown, whether it was `heard_of` lately."""
    if holder == this_process():
        return False  # the caller has ruled out the runs of this process
    lives = None if holder is None else holder.is_alive
    return heard_of if lives is None else lives


def silent_since(core: Core, silent: float) -> datetime:
    """A holder that recorded nothing since this time has been silent for `silent` seconds."""
    return to_datetime(core.journals.clock.now()) - timedelta(seconds=silent)


def last_holder(core: Core, run: str) -> tuple[Entry | None, Holder | None]:
    """The newest entry that a holder of the run wrote, and which one, if known. Blocks."""
    entries = islice(core.journals.entries(run, newest_first=True, bodies=False), _FAR)
    last = next((e for e in entries if e.kind not in FROM_OUTSIDE), None)
    if last is None:
        return None, None
    taken = next((e for e in chain([last], entries) if e.kind in _TAKEN), None)
    return last, None if taken is None else Holder.parse(Meta(taken).worker)


def refuse_if_held(core: Core, run: str) -> None:
    """Raise `RunActiveError` if another living process of this machine executes the run. Blocks."""
    last, holder = last_holder(core, run)
    if last is None or last.status != Status.RUNNING:
        return
    if holder is not None and holder != this_process() and holder.is_alive:
        raise RunActiveError(run, last.status, holder.name)


def this_process() -> Holder:
    """The process that calls this."""
    return _process(os.getpid())


@lru_cache(maxsize=2)
def _process(pid: int) -> Holder:
    host = socket.gethostname().replace("|", "_")
    try:
        # A container numbers its own processes, though it shares its host's boot id.
        space = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        space = ""
    try:
        start = start_of(pid) or ""
    except OSError:
        start = ""
    return Holder(host, f"{boot_id() or host} {space}".strip(), pid, start)
