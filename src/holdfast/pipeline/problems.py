"""The problems of a definition: where each is, and what was perhaps meant."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from holdfast.errors import InvalidFlowError

Where = tuple[str | int, ...]
"""The way to a part of a definition: ("flow", "paths", 2, "to")."""

_LONGEST: Final = 100  # characters of a name that others are compared with
_MOST: Final = 20  # problems that are reported at once
_COMPARED: Final = 1_000  # names that one is compared with
_CLOSER: Final = 12  # of them, those that are worth a close look


class Problems:
    """Collects problems of one part of a definition, so that all are reported at once."""

    def __init__(
        self, where: Where = (), found: list[tuple[Where, tuple[object, ...]]] | None = None
    ):
        self._where = where
        self._found = [] if found is None else found

    def at(self, *where: str | int) -> Problems:
        """The problems of a part of this part; all of them are reported together."""
        return Problems((*self._where, *where), self._found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, *words: object) -> None:
        """There is a problem here. The words are joined only when they are shown."""
        self._found.append((self._where, words))

    def is_a(self, kind: Any, given: object, words: str) -> bool:
        """Whether it is of this type; if not, that is a problem: "must be {words}"."""
        fits = isinstance(given, kind)
        if not fits:
            self.add(f"must be {words}, not {shown(given)}")
        return fits

    def one_of(self, known: Iterable[str], given: object, words: str) -> bool:
        """Whether it is one of these names; if not, that is a problem: "is not a known {words}"."""
        names = list(known)
        fits = isinstance(given, str) and given in names
        if not fits:
            self.add(f"{shown(given)} is not a known {words}", Nearest(given, names))
        return fits

    def keys(self, given: Mapping[Any, Any], known: Iterable[str]) -> None:
        """Unknown keys are problems: one with a typo must not be ignored."""
        names = list(known)
        for key in given:
            if key not in names:
                self.at(str(key)).add("is not known here", Nearest(key, names))

    def settle(self, flow: str, place: Callable[[Where], str] | None = None) -> None:
        """Raise `InvalidFlowError` if there are any. `place` says where in a file each is."""
        if not self._found:
            return
        messages = [
            f"{place(where) if place else ''}{path_of(where)}{''.join(map(str, words))}"
            for where, words in self._found[:_MOST]
        ]
        if len(self._found) > _MOST:
            messages.append(f"and {len(self._found) - _MOST} problems more")
        raise InvalidFlowError(flow, tuple(messages))


def path_of(where: Where) -> str:
    """A place in a definition as a prefix: `flow.paths[2].to: `."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return f"{text}: " if text else ""


class WrongError(ValueError):
    """What is wrong, in parts that are joined only when they are shown."""

    def __str__(self) -> str:
        return "".join(map(str, self.args))


class Nearest(NamedTuple):
    """A hint at the name that was perhaps meant, to put behind a sentence.

    It takes a while to find, and is looked for when it is shown.
    """

    name: object
    known: Iterable[str]

    def __str__(self) -> str:
        if not isinstance(self.name, str) or len(self.name) > _LONGEST:
            return ""
        names = [name for name in islice(self.known, _COMPARED) if len(name) <= _LONGEST]
        wanted = _pairs(self.name)
        alike = heapq.nlargest(_CLOSER, names, key=lambda name: len(wanted & _pairs(name)))
        close = difflib.get_close_matches(self.name, alike, 1)
        if close:
            return f"; did you mean {close[0]!r}?"
        if 0 < len(names) <= 12:
            return f"; known are {', '.join(map(repr, names))}"
        return ""


def _pairs(name: str) -> set[tuple[str, str]]:
    return set(zip(f" {name}", f"{name} ", strict=True))


def shown(given: object, longest: int = _LONGEST) -> str:
    """A value for an error message, not too long."""
    try:
        text = repr(given)
    except (ValueError, RecursionError):  # a number of thousands of digits, or no end of lists
        return f"a {type(given).__name__} that is too large to be shown"
    return text if len(text) <= longest else f"{text[:longest]}…"
