"""What became of a begun step: committed, abandoned, rolled back, overtaken. Blocks."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.codec.meta import Meta
from holdfast.kernel.core import Core
from holdfast.kernel.entries import is_stub
from holdfast.model import Entry, Kind, Status


class BegunStep:
    """A begun step, and what was written to its task since. Blocks."""

    def __init__(self, core: Core, begun: Entry) -> None:
        self._begun = begun
        entries = proved(core, begun.run, after=begun.seq - 1)
        self.commit = commit_of(begun, entries)
        self._abandoned = begun.entry_id.hex() in abandoned(entries)
        self._followed = followed(entries)

    @property
    def waits(self) -> bool:
        """Whether it was neither abandoned nor rolled back."""
        return not self._abandoned and any(e.seq == self._begun.seq for e in self._followed)

    def why_not(self) -> str | None:
        """Why it can't be committed; None if it can."""
        if self._abandoned:
            return "it was abandoned; begin another"
        if not self.waits:
            return "its task was rolled back to before it, or deleted; begin it again"
        if self._overtaken():
            return (
                "another process has begun and committed steps since, and this one would return "
                "the task to its old snapshot; abandon_step() it, and begin again"
            )
        return None

    def _overtaken(self) -> bool:
        """Whether a step that another process began later was committed, for the same work item."""
        worker, item = Meta(self._begun).worker, Meta(self._begun).work_item
        later = {
            entry.entry_id.hex()
            for entry in self._followed
            if entry.kind == Kind.BEGIN
            and entry.seq > self._begun.seq
            and Meta(entry).worker not in (None, worker)
            and (item is None or Meta(entry).work_item in (None, item))
        }
        committed = (Meta(entry).begun for entry in self._followed if saved(entry))
        return worker is not None and any(name in later for name in committed)


def commit_of(begun: Entry, since: Iterable[Entry]) -> Entry | None:
    """The checkpoint that committed a begun step, among what was written since."""
    name = begun.entry_id.hex()
    return next((entry for entry in since if saved(entry) and Meta(entry).begun == name), None)


def proved(core: Core, run: str, after: int | None = None) -> list[Entry]:
    """The entries of a task, without their bodies. Raises `CheckpointCorruptedError`."""
    found = []
    for entry in core.journals.entries(run, after=after, bodies=True):
        if is_stub(entry):
            core.journals.check_stub(entry)
        found.append(entry._replace(body=b""))
    return found


def abandoned(entries: Iterable[Entry]) -> set[str | None]:
    """The ids, in hex, of the begun steps that were abandoned."""
    return {Meta(entry).begun for entry in entries if entry.kind == Kind.CANCEL}


def saved(entry: Entry) -> bool:
    """Whether it is a checkpoint that was not deleted."""
    return entry.kind == Kind.CHECKPOINT and entry.status != Status.DELETED


def followed(entries: list[Entry]) -> list[Entry]:
    """The begun steps and checkpoints that were not rolled back, newest first.

    `entries` are the newest ones of a run. Unlike in `Reader.trail`, deleting a checkpoint is no
    rollback: a step in flight may still be committed.
    """
    found: list[Entry] = []
    back_to: int | None = None
    for entry in reversed(entries):
        if entry.kind == Kind.OPEN or (
            entry.kind == Kind.TOMBSTONE and entry.status == Status.DELETED
        ):
            break
        if back_to is not None and entry.seq > back_to:
            continue
        if saved(entry) or (entry.kind == Kind.BEGIN and entry.status != Status.DELETED):
            found.append(entry)
        elif entry.kind == Kind.ROLLBACK:
            back_to = -1 if entry.parent is None else entry.parent
    return found
