"""The secrets that this process has revealed: their values are taken out of texts that are kept.

A step that fails may quote a secret in its error. Before such a text is recorded, logged or sent,
`scrubbed` replaces the values that are known here. They are known as long as a `Secret` with the
value is alive, and while a run is executed that revealed it. Nothing of this is stored anywhere.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from enum import Enum
from typing import Any, Final
from urllib.parse import quote

from holdfast.seams import on_fork

SHORTEST: Final = 6
"""Shorter values are not looked for: they would be found by chance."""

_MOST: Final = 1_000  # of what one run revealed, so that it can't grow without end
_DEEPEST: Final = 20


_NONE: Final[frozenset[str]] = frozenset()


class Revealed:
    """A value that was revealed, as the texts by which it may be quoted."""

    __slots__ = ("__weakref__", "exact", "name", "texts")

    def __init__(self, value: object, name: str) -> None:
        leaves = list(_leaves(value, 0))
        found = {form for text in map(_text, leaves) for form in _forms(text)}
        self.texts = tuple(sorted(found, key=len, reverse=True))
        self.exact = frozenset(map(repr, leaves))  # also of those that are too short for a text
        self.name = name


class _Kept:
    """What one run has revealed, until it stops."""

    def __init__(self) -> None:
        self.values: dict[frozenset[str], Revealed] = {}
        self.over = False


_OF_RUN: ContextVar[_Kept | None] = ContextVar("holdfast_revealed", default=None)


class _Registry:
    """All values that are looked for."""

    def __init__(self) -> None:
        self.living: weakref.WeakSet[Revealed] = weakref.WeakSet()
        self.used = False  # most programs have no secrets, and need not look for any
        self._reset()
        on_fork(self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()

    def add(self, known: Revealed) -> None:
        kept = _OF_RUN.get()
        with self._lock:
            self.used = True
            self.living.add(known)
            if kept is not None and not kept.over and len(kept.values) < _MOST:
                kept.values.setdefault(known.exact, known)

    def leaves(self) -> list[frozenset[str]]:
        with self._lock:
            return [one.exact for one in self.living]

    def found_in(self, text: str) -> list[tuple[str, str]]:
        with self._lock:
            found = [(part, one.name) for one in self.living for part in one.texts if part in text]
        return sorted(found, key=lambda pair: len(pair[0]), reverse=True)


_registry: Final = _Registry()


def note(value: object, name: str) -> Revealed:
    """Look for this value from now on, as long as the result is kept or this run is executed."""
    known = Revealed(value, name)
    if known.exact:
        _registry.add(known)
    return known


class Executing:
    """Keeps in mind what is revealed here until the block ends: a run is executed in it."""

    def __enter__(self) -> None:
        self._kept = _Kept()
        self._token = _OF_RUN.set(self._kept)

    def __exit__(self, *_: object) -> None:
        self._kept.over = True
        self._kept.values.clear()
        with suppress(ValueError):  # a stream may end in another context than it began in
            _OF_RUN.reset(self._token)


def scrubbed(text: str) -> str:
    """The text without the values that were revealed: each is replaced by the secret's name."""
    if not _registry.used:
        return text
    for part, name in _registry.found_in(text):
        text = text.replace(part, f"<secret {name}>")
    return text


def scrubbed_tree(tree: Any) -> Any:
    """A value in JSON's form without the values that were revealed, in any of its texts."""
    if not _registry.used:
        return tree
    if isinstance(tree, str):
        return scrubbed(tree)
    if isinstance(tree, list):
        return [scrubbed_tree(item) for item in tree]
    if isinstance(tree, dict):
        return {scrubbed(key): scrubbed_tree(item) for key, item in tree.items()}
    return tree


def hidden_leaves() -> frozenset[str]:
    """The `repr` of each text and number that was revealed: no digest is made of them."""
    return frozenset().union(*_registry.leaves()) if _registry.used else _NONE


def quotes_secret(text: str) -> bool:
    """Whether a value that was revealed is in the text."""
    return _registry.used and bool(_registry.found_in(text))


def _leaves(value: Any, depth: int) -> Iterator[Any]:
    """The texts and numbers in a value, and in the fields of an object."""
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str | bytes | bytearray | int | float):
        yield value
    elif depth < _DEEPEST and isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item, depth + 1)
    elif depth < _DEEPEST and isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _leaves(item, depth + 1)
    elif depth < _DEEPEST and not isinstance(value, type):
        yield from _of_object(value, depth + 1)


def _of_object(value: Any, depth: int) -> Iterator[Any]:
    of: Any = type(value)
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name, None), depth)
    elif hasattr(of, "__pydantic_fields__"):
        yield from _leaves(vars(value), depth)
    elif hasattr(of, "get_secret_value"):  # pydantic's own
        yield from _leaves(value.get_secret_value(), depth)
    elif isinstance(value, Enum):
        yield from _leaves(value.value, depth)
    elif of.__str__ is not object.__str__ and not hasattr(value, "__len__"):
        yield str(value)  # of a UUID or a Decimal, for example


def _text(leaf: Any) -> str:
    return leaf.decode(errors="replace") if isinstance(leaf, bytes | bytearray) else str(leaf)


def _forms(text: str) -> tuple[str, ...]:
    """The text as it is, and as it is quoted by `repr`, in JSON and in URLs."""
    if len(text) < SHORTEST:
        return ()
    return (
        text,
        repr(text)[1:-1],
        json.dumps(text)[1:-1],
        quote(text, safe="", errors="replace"),
    )
