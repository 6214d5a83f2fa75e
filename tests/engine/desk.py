"""What the tests of verified resumes share: steps that write files, and keep count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast.checkpoint import CheckpointInfo
from holdfast.engine.events import CheckpointRejected, Event
from holdfast.evidence import Evidence
from holdfast.model import Entry, Kind


class Desk:
    """A directory that steps write to, and what was called, in order."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.calls: list[str] = []
        self.broken: set[str] = set()

    def __truediv__(self, name: str) -> Path:
        return self.place / name

    def write(self, name: str, text: str = "") -> str:
        """Write a file of this name; returns what is in it."""
        self.calls.append(name)
        if name in self.broken:
            raise OSError(f"{name} is broken")
        (self.place / name).write_text(text or f"this is {name}")
        return text or f"this is {name}"

    def call(self, name: str) -> str:
        """Note that this was called, and nothing else."""
        self.calls.append(name)
        if name in self.broken:
            raise OSError(f"{name} is broken")
        return name

    def take(self) -> list[str]:
        """What was called since this was asked last."""
        taken, self.calls = self.calls, []
        return taken

    def holds(self, *names: str) -> bool:
        """Whether these files are as `write` makes them."""
        return all((self.place / name).read_text() == f"this is {name}" for name in names)


def there(path: Path) -> Evidence:
    """The claim that a file is there."""
    return Evidence("artifact_exists", f"{path.name} is there", {"path": str(path), "type": "any"})


def rejected(events: list[Event]) -> list[str | None]:
    """The steps whose checkpoints were passed over, in the order of the events."""
    return [event.step for event in events if isinstance(event, CheckpointRejected)]


def entries(store: hf.Store, run: str) -> list[Entry]:
    """The journal of a run, without what says in the background that the run was left."""
    return [entry for entry in store.read(run, limit=1000) if entry.kind != Kind.RELEASE]


def kinds(store: hf.Store, run: str) -> list[str]:
    """What the journal of a run is made of."""
    return [entry.kind for entry in entries(store, run)]


def reasons(store: hf.Store, run: str) -> list[list[Any]]:
    """What the rollbacks of a run say about checkpoints that were passed over."""
    return [
        told
        for entry in entries(store, run)
        if entry.kind == Kind.ROLLBACK
        for told in CheckpointInfo(entry).meta.rejected or ()
    ]
