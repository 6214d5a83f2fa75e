"""Who carries a run out: written into its journal when it is begun or taken over."""

from __future__ import annotations

import os
import re
import socket
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.engine.resume.history import meta
from holdfast.engine.run.hold import ABSORBED
from holdfast.errors import RunActiveError
from holdfast.kernel.core import Core
from holdfast.kernel.processes import boot_id, start_of
from holdfast.model import Entry, Kind, Status

WORKER: Final = "worker"
"""In the `meta` of an opening or a claim: who wrote it."""

_NUMBER: Final = re.compile("[0-9]{1,10}")
_TAKEN: Final = (Kind.OPEN, Kind.CLAIM)
_FAR: Final = 10_000  # entries: behind so many, who took a run over is not looked for


class Worker(NamedTuple):
    """A process, told apart from every other one on any machine."""

    host: str  # as people call the machine
    place: str  # the processes that are known here by these numbers
    pid: int
    start: str

    @property
    def is_here(self) -> bool:
        """Whether its number means the same process here."""
        return self.place == this_worker().place

    @property
    def is_alive(self) -> bool | None:
        """Whether it is still running; None where that can't be told here."""
        if not self.is_here or not self.start:
            return None
        try:
            return start_of(self.pid) == self.start
        except OSError:
            return None

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.host}:{self.pid}"

    def __str__(self) -> str:
        return "|".join((self.host, self.place, str(self.pid), self.start))

    @classmethod
    def parse(cls, text: object) -> Worker | None:
        """The worker that this was written by; None if it is nothing of the kind."""
        parts = text.split("|") if isinstance(text, str) else []
        if len(parts) != len(cls._fields) or not _NUMBER.fullmatch(parts[2]):
            return None
        return cls(parts[0], parts[1], int(parts[2]), parts[3])


def last_work(core: Core, run: str) -> tuple[Entry | None, Worker | None]:
    """The newest entry of a run that a worker wrote, and which one, as far as is known. Blocks."""
    entries = islice(core.journals.entries(run, newest_first=True, bodies=False), _FAR)
    last = next((e for e in entries if e.kind not in ABSORBED), None)
    if last is None:
        return None, None
    taken = next((e for e in chain([last], entries) if e.kind in _TAKEN), None)
    return last, None if taken is None else Worker.parse(meta(taken).get(WORKER))


def refuse_living(core: Core, run: str) -> None:
    """Raise `RunActiveError` if another process of this machine is carrying the run out. Blocks."""
    last, worker = last_work(core, run)
    if last is None or last.status != Status.RUNNING:
        return
    if worker is not None and worker != this_worker() and worker.is_alive:
        raise RunActiveError(run, last.status, worker.name)


def this_worker() -> Worker:
    """This process."""
    return _worker(os.getpid())


@lru_cache(maxsize=2)
def _worker(pid: int) -> Worker:
    host = socket.gethostname().replace("|", "_")
    try:
        # A container counts its processes by itself, though its system is its host's.
        space = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        space = ""
    try:
        start = start_of(pid) or ""
    except OSError:
        start = ""
    return Worker(host, f"{boot_id() or host} {space}".strip(), pid, start)
