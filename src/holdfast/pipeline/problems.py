"""What is wrong with a definition: where, in words, and what was perhaps meant."""

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
_MOST: Final = 20  # problems that are told at once
_COMPARED: Final = 1_000  # names that one is compared with
_CLOSER: Final = 12  # of them, those that are worth a close look


class Problems:
    """Gathers problems, so that all of them can be told at once."""

    def __init__(self) -> None:
        self._found: list[tuple[Where, tuple[object, ...]]] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def say(self, where: Where, *words: object) -> None:
        """There is a problem. The words are put together only if it is told."""
        self._found.append((where, words))

    def is_a(self, kind: type[Any], given: object, where: Where, words: str) -> bool:
        """Whether it is of this type; if not, that is a problem: "must be {words}"."""
        fits = isinstance(given, kind) and not (kind is int and isinstance(given, bool))
        if not fits:
            self.say(where, f"must be {words}, not {shown(given)}")
        return fits

    def keys(self, given: Mapping[Any, Any], known: Iterable[str], where: Where) -> None:
        """Whatever is not known is a problem: a word with a typo must not be passed over."""
        names = list(known)
        for key in given:
            if key not in names:
                self.say((*where, str(key)), "is not known here", Nearest(key, names))

    def settle(self, flow: str, place: Callable[[Where], str] | None = None) -> None:
        """Raise `InvalidFlowError` if anything was found. `place` says where in a file it is."""
        if not self._found:
            return
        told = [
            f"{place(where) if place else ''}{path_of(where)}{''.join(map(str, words))}"
            for where, words in self._found[:_MOST]
        ]
        if len(self._found) > _MOST:
            told.append(f"and {len(self._found) - _MOST} problems more")
        raise InvalidFlowError(flow, tuple(told))


def path_of(where: Where) -> str:
    """A place in a definition, in a program's words: `flow.paths[2].to: `."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return f"{text}: " if text else ""


class WrongError(ValueError):
    """What is wrong, in parts that are put together only when it is read."""

    def __str__(self) -> str:
        return "".join(map(str, self.args))


class Nearest(NamedTuple):
    """A hint at the name that was perhaps meant, to put behind a sentence.

    It takes a while to find, and is looked for when it is read.
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


def shown(given: object) -> str:
    """A value in an error's words, not too long."""
    try:
        text = repr(given)
    except (ValueError, RecursionError):  # a number of thousands of digits, or no end of lists
        return f"a {type(given).__name__} that is too large to be shown"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
