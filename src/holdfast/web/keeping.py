"""Answers that take long are kept for some seconds, for all who ask meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, Final, TypeVar

T = TypeVar("T")

_MOST: Final = 64  # answers; flows in URLs are the client's choice


class Kept:
    """Answers by question. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[Hashable, _Answer] = {}

    def get(self, question: Hashable, seconds: float, answer: Callable[[], T]) -> T:
        """The answer to a question, at most so old. Who asks meanwhile waits for the first."""
        with self._lock:
            known = self._answers.pop(question, None) or _Answer()
            self._answers[question] = known
            while len(self._answers) > _MOST:
                del self._answers[next(iter(self._answers))]
        with known.lock:
            if known.until is None or monotonic() >= known.until:
                known.value = answer()
                known.until = monotonic() + seconds
            value: T = known.value
            return value


class _Answer:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.until: float | None = None
        self.value: Any = None
