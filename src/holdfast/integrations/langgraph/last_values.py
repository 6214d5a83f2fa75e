"""Serialized values, kept so that a channel that did not change is not serialized again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Final

from holdfast.integrations.langgraph.layout import Typed

Serialized = tuple[Any, Any, Typed]
"""The version of a channel, its value, and the value as it is stored."""

_KEPT: Final = 256  # runs
_KEPT_BYTES: Final = 32 << 20


class LastValues:
    """The serialized values of the last checkpoint of each run, while they are small."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[str, dict[str, Serialized], int]]
        self._kept = OrderedDict()
        self._bytes = 0

    def after(self, run: str, checkpoint: str | None) -> dict[str, Serialized]:
        """By channel: version, value and serialized value of this checkpoint, if it was the last."""
        with self._lock:
            kept = self._kept.get(run)
        return {} if kept is None or kept[0] != checkpoint else kept[1]

    def keep(self, run: str, checkpoint: str, values: dict[str, Serialized]) -> None:
        """Keep the values of the run's last checkpoint."""
        weight = sum(len(typed[1]) for _, _, typed in values.values())
        with self._lock:
            before = self._kept.pop(run, None)
            self._bytes += weight - (0 if before is None else before[2])
            self._kept[run] = checkpoint, values, weight
            while len(self._kept) > _KEPT or (self._bytes > _KEPT_BYTES and len(self._kept) > 1):
                self._bytes -= self._kept.popitem(last=False)[1][2]
