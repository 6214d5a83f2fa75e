"""How much of a stored value a model is shown at once, and how it asks for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

MOST: Final = 20_000
"""Characters of one value, at most."""

_TEXT: Final = 2_000  # characters of one text
_KEY: Final = 200
_ITEMS: Final = 100  # of one list or object
_DEPTH: Final = 12


def select(value: Any, path: str, offset: int) -> Any:
    """The part of a JSON value at a JSON pointer, from an item or character on.

    Raises `LookupError` if there is no such part.
    """
    for name in path.split("/")[1:] if path else ():
        name = name.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            raise LookupError(f"there is nothing at {path!r}")
    return value[offset:] if isinstance(value, str | list) else value


def shorten(value: Any, most: int = MOST) -> tuple[Any, bool]:
    """A JSON value with what is too long, too much or too deep left out, and whether any is."""
    cutter = _Cutter(most)
    return cutter.cut(value, 0), cutter.has_cut


class _Cutter:
    def __init__(self, most: int) -> None:
        self._left = most
        self.has_cut = False

    def cut(self, value: Any, depth: int) -> Any:
        match value:
            case str():
                return self._text(value, _TEXT if depth else MOST)
            case list() | dict() if depth >= _DEPTH:
                return self._said(f"{len(value):,} items, nested too deep to show here")
            case list():
                items = [self.cut(item, depth + 1) for item in self._first(value)]
                return items + self._missing(len(value) - len(items))
            case dict():
                shown = {
                    self._text(key, _KEY): self.cut(value[key], depth + 1)
                    for key in self._first(value)
                }
                missing = self._missing(len(value) - len(shown))
                return shown | ({"…": missing[0]} if missing else {})
            case int() if abs(value) >= 1 << 64:
                return self._text(hex(value), _TEXT)
        self._left -= 8
        return value

    def _first(self, items: Any) -> Iterator[Any]:
        """As many as there is room for: at least one, so that a path can lead on."""
        for number, item in enumerate(items):
            if number >= _ITEMS or (number and self._left <= 0):
                return
            yield item

    def _text(self, text: str, most: int) -> str:
        most = max(min(most, self._left), 20)
        self._left -= min(len(text), most)
        if len(text) <= most:
            return text
        self.has_cut = True
        return f"{text[:most]}… ({len(text) - most:,} more characters)"

    def _missing(self, count: int) -> list[str]:
        return [self._said(f"{count:,} more items")] if count else []

    def _said(self, what: str) -> str:
        self.has_cut = True
        return f"… ({what})"
