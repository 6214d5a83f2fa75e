"""Names for what a workflow does, the same in every replay, and the check that they are.

A key is a path: a step's own name, `#2` behind it for the second of that name, `[3]` for an item
of a for_each, and `/` before what happens within. The keys recorded in one scope come back in
their order, or the flow is not the one that recorded them.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable

_SPECIAL = re.compile(r"[%/#\[]")
_ITEM = re.compile(r"\[\d+\]$")


class Mismatch(Exception):  # noqa: N818 - its catcher raises FlowChangedError
    """The flow asks for something else than was recorded."""

    def __init__(self, recorded: str, asked: str) -> None:
        super().__init__(recorded, asked)
        self.recorded = recorded
        self.asked = asked


class Scope:
    """A sequence of names: a workflow, a branch of it, or what belongs to one step."""

    def __init__(
        self, path: str, recorded: Iterable[str] = (), within: Scope | None = None
    ) -> None:
        self.path = path
        # There, it counts as asked for once something is asked for here: not if that is known.
        self._within = None if within is None or within.knows(path) else within
        self._pending = deque(recorded)
        self._recorded = frozenset(self._pending)
        self._had: set[str] = set()
        self._counts: dict[str, int] = {}
        self.decisions = 0

    def key(self, name: str) -> str:
        """The key for the next thing of this name."""
        part = _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", name)
        count = self._counts[part] = self._counts.get(part, 0) + 1
        if count > 1:
            part = f"{part}#{count}"
        return f"{self.path}/{part}" if self.path else part

    def expect(self, keys: Collection[str]) -> None:
        """The flow now asks for these, at once. Raises `Mismatch` where something else was recorded."""
        if self._within is not None:
            within, self._within = self._within, None
            within.expect([self.path])
        if not self._pending or not keys:
            return
        if len(keys) == 1 and not self._had and not self.path and self._pending[0] in keys:
            self._pending.popleft()  # as recorded, one after the other
            return
        asked = {key.removeprefix(f"{self.path}/") if self.path else key for key in keys}
        if self._pending[0] not in asked:
            raise Mismatch(self._pending[0], min(asked))
        self._had |= asked
        while self._pending and self._pending[0] in self._had:
            self._pending.popleft()
        new = sorted(asked - self._recorded)
        if self._pending and new:
            raise Mismatch(self._pending[0], new[0])

    def knows(self, key: str) -> bool:
        """Whether something was recorded under this key here, or within it."""
        return (key.removeprefix(f"{self.path}/") if self.path else key) in self._recorded

    @property
    def asked(self) -> bool:
        """Whether the flow has asked for anything here, but for decisions."""
        return sum(self._counts.values()) > self.decisions

    def end(self) -> None:
        """The flow asks for nothing more here. Raises `Mismatch` where something was recorded."""
        if self._pending:
            raise Mismatch(self._pending[0], "its end")


class Unordered(Scope):
    """A scope in which tasks ask for things side by side: what was recorded may come in any order."""

    def __init__(self, path: str, recorded: Iterable[str] = ()) -> None:
        super().__init__(path)
        self._left = dict.fromkeys(recorded)

    @property
    def left(self) -> str | None:
        """The first key that was recorded here and not asked for again."""
        return next((f"{self.path}/{name}" for name in self._left), None)

    def expect(self, keys: Collection[str]) -> None:
        """The flow now asks for these."""
        for key in keys:
            self._left.pop(key.removeprefix(f"{self.path}/"), None)

    def end(self) -> None:
        """The flow asks for nothing more here. Raises `Mismatch` where something was recorded."""
        if self.left is not None:
            raise Mismatch(self.left, "its end")


def orders(keys: Iterable[str]) -> dict[str, list[str]]:
    """For each scope the names recorded in it, in the order they first appear."""
    found: dict[str, dict[str, None]] = {}
    top = found.setdefault("", {})
    for key in keys:
        if "/" not in key:
            top.setdefault(_ITEM.sub("", key) if key.endswith("]") else key)
            continue
        parts = key.split("/")
        for depth, part in enumerate(parts):
            names = found.setdefault("/".join(parts[:depth]), {})
            names.setdefault(_ITEM.sub("", part))
    return {path: list(names) for path, names in found.items() if names}
