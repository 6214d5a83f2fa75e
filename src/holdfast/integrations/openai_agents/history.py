"""What the entries of a session come to. Reads only those that are new since the last time."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from holdfast.codec import values
from holdfast.errors import CheckpointCorruptedError, RunMismatchError
from holdfast.kernel.core import Core
from holdfast.kernel.entries import is_stub
from holdfast.model import Entry, Kind
from holdfast.operations.reading import outages_named


class Node(NamedTuple):
    """The newest item, and what came before it. Older nodes stay as they are."""

    item: bytes  # packed: everyone who asks gets a copy
    before: Node | None


class History:
    """The items of a session at its newest entry; thread-safe."""

    def __init__(self, run: str, flow: str) -> None:
        self._run = run
        self._flow = flow
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._head = -1
        self._newest: Node | None = None
        self._known_trims = 0  # deletions up to this seq were seen when everything was read
        self._at: dict[int, Node | None] = {}  # by seq: what a rollback may go back to

    def catch_up(self, core: Core) -> tuple[int, Node | None]:
        """Read what is new; returns the seq of the newest entry and the newest item. Blocks."""
        with self._lock, outages_named(self._run):
            try:
                core.journals.undisturbed(self._run, lambda: self._read(core))
            except CheckpointCorruptedError:
                if self._head < 0:
                    raise
                self._forget()  # what is known may have been deleted since
                core.journals.undisturbed(self._run, lambda: self._read(core))
            return self._head, self._newest

    def newest(self, limit: int | None) -> list[bytes]:
        """The newest items, oldest first. Any number below 0 means all, as for SQLite."""
        found: list[bytes] = []
        node = self._newest
        while node is not None and (limit is None or limit < 0 or len(found) < limit):
            found.append(node.item)
            node = node.before
        return found[::-1]

    def _read(self, core: Core) -> None:
        while self._was_trimmed(core):
            self._forget()  # what is known may have been deleted

    def _was_trimmed(self, core: Core) -> bool:
        """Read what is new, up to where it says that earlier entries were deleted meanwhile."""
        after = self._head if self._head >= 0 else None
        if after is None:
            self._known_trims = core.journals.head_seq(self._run) or 0
        for entry in core.journals.entries(self._run, bodies=True, after=after):
            if entry.kind == Kind.TRIM and entry.seq > self._known_trims:
                return True
            self._add(core, entry)
        return False

    def _add(self, core: Core, entry: Entry) -> None:
        newest = self._newest
        if entry.kind == Kind.OPEN and entry.flow != self._flow:
            raise RunMismatchError(self._run, "flow", entry.flow, self._flow)
        if entry.kind == Kind.ROLLBACK:
            newest = None if entry.parent is None else self._at.get(entry.parent)
        elif entry.kind == Kind.TOMBSTONE:
            newest = None
            self._at.clear()
        elif entry.kind == Kind.RESULT and not is_stub(entry):
            newest = _after(newest, core.journals.value(self._run, entry.seq, entry), entry)
        self._head, self._newest = entry.seq, newest
        if entry.kind == Kind.RESULT:
            self._at[entry.seq] = newest


def _after(newest: Node | None, done: Any, entry: Entry) -> Node | None:
    """The newest item after what an entry says was done."""
    match done:
        case {"add": list(items)}:
            for item in items:
                newest = Node(values.encode(item), newest)
            return newest
        case {"pop": _}:
            return None if newest is None else newest.before
        case {"clear": _}:
            return None
    raise CheckpointCorruptedError(entry.run, entry.seq, "it is not an entry of a session")
