"""What a store has of a thread already, compared with what is to be imported. Everything blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from holdfast.integrations.langgraph.databases.rows import Write
from holdfast.integrations.langgraph.layout import (
    CheckpointNote,
    Typed,
    WritesNote,
    note_of,
    typed_writes,
)
from holdfast.kernel.core import Core
from holdfast.kernel.playback import Playback
from holdfast.model import Kind, erases


class DiffersError(Exception):
    """The store has something else."""


class Known:
    """What the store has of a namespace.

    An import may add to it only if the database has all of it: see `has_more`.
    """

    def __init__(self, core: Core, run: str) -> None:
        self._core = core
        self._run = run
        self._has_more = False
        self._writes: dict[str, dict[tuple[str, int], list[bytes]]] = {}  # digests, by checkpoint
        for note, encoding in self._entries():
            if note is None or encoding is None:
                self._has_more = True
            elif isinstance(note, WritesNote):
                of = self._writes.setdefault(note.of, {})
                for idx, channel, typed in typed_writes(core.journals.decode(encoding)):
                    of.setdefault((note.task, idx), []).append(_digest(note.path, channel, typed))
        self._checkpoints = self._in_order()

    def check(self, note: CheckpointNote, state: Any) -> bool:
        """Whether the store has this checkpoint as its next one; False if it has no more.

        Raises `DiffersError` if its next one is another, and ValueError if that can't be told.
        """
        found = next(self._checkpoints, None)
        if found is None:
            return False
        if (found[0].id, found[0].parent, found[0].metadata) != (
            note.id,
            note.parent,
            note.metadata,
        ):
            raise DiffersError
        if found[1] != state:
            raise DiffersError
        return True

    def without(self, checkpoint: str, writes: list[Write]) -> list[Write]:
        """Those of a checkpoint's writes that the store does not have.

        Raises `DiffersError` where it has others, unless those may be replaced, as interrupts are.
        """
        known = self._writes.pop(checkpoint, {})
        new = []
        for write in writes:
            values = known.pop((write.task_id, write.idx), [])
            value = _digest(write.task_path, write.channel, write.value)
            if value not in values:
                if values and write.idx >= 0:
                    raise DiffersError
                new.append(write)
            elif write.idx < 0 and value != values[-1]:
                self._has_more = True
        self._has_more = self._has_more or bool(known)
        return new

    def has_more(self) -> bool:
        """Whether the store has what was not asked for: its thread went on."""
        return self._has_more or bool(self._writes) or next(self._checkpoints, None) is not None

    def _in_order(self) -> Iterator[tuple[CheckpointNote, Any]]:
        for note, encoding in self._entries():
            if note is None or encoding is None:
                raise ValueError(
                    f"the store has a run {self._run!r} that is no thread of LangGraph's, or of "
                    "which a part was deleted; import into another store, or delete it first"
                )
            if isinstance(note, CheckpointNote):
                yield note, self._core.journals.decode(encoding)

    def _entries(self) -> Iterator[tuple[CheckpointNote | WritesNote | None, bytes | None]]:
        states = Playback(self._core.journals)
        for entry in self._core.journals.entries(self._run, bodies=True):
            if entry.kind == Kind.OPEN or erases(entry):
                continue
            note = note_of(entry)
            yield note, None if note is None else states.encoding(entry)


def _digest(path: str, channel: str, value: Typed) -> bytes:
    found = hashlib.sha256(repr((path, channel, value[0])).encode(errors="surrogatepass"))
    found.update(value[1])
    return found.digest()
