"""What is wrong with a definition: where, in words, and what was perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from holdfast.errors import InvalidFlowError

Where = tuple[str | int, ...]
"""The way to a part of a definition: ("flow", "paths", 2, "to")."""

_LONGEST: Final = 100  # characters of a name that others are compared with
_MOST: Final = 20  # problems that are told at once


class Findings:
    """Gathers problems, so that all of them can be told at once."""

    def __init__(self) -> None:
        self._found: list[tuple[Where, str]] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def say(self, where: Where, words: str) -> None:
        """There is a problem."""
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
                self.say((*where, str(key)), f"is not known here{nearest(key, names)}")

    def settle(self, flow: str, place: Callable[[Where], str] | None = None) -> None:
        """Raise `InvalidFlowError` if anything was found. `place` says where in a file it is."""
        if not self._found:
            return
        told = [
            f"{place(where) if place else ''}{path_of(where)}{words}"
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


def nearest(name: object, known: Iterable[str]) -> str:
    """A hint at the name that was perhaps meant, to put behind a sentence."""
    names = list(known)
    if not isinstance(name, str) or len(name) > _LONGEST:
        return ""
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return f"; did you mean {close[0]!r}?"
    if 0 < len(names) <= 12:
        return f"; known are {', '.join(map(repr, names))}"
    return ""


def shown(given: object) -> str:
    """A value in an error's words, not too long."""
    text = repr(given)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
