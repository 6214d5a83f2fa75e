"""Stored values as text for a page: what is large is cut, summarised, or left to be asked for.

Nothing here raises, whatever was stored: the text may come from anyone.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from holdfast.codec.redaction import (
    HIDDEN,
    MAP,
    hidden,
    is_secret,
    redacted,
    value_of_a_secret,
)
from holdfast.codec.summaries import is_summarised, summary
from holdfast.errors.base import one_line
from holdfast.integrations.langgraph import plain
from holdfast.views.messages import said, who

T = TypeVar("T")

INLINE: Final = 2_000
"""Characters of a value that are shown at once."""

LARGEST: Final = 1_000_000
"""Characters of a value that are shown if somebody asks; more can be downloaded."""

_SHORT: Final = 72  # characters that fit on a line
_URL: Final = 600  # characters beyond a cut that may tell that a password is before it


class Text(NamedTuple):
    """A value as text."""

    text: str  # all of it, or its beginning
    size: int  # characters of the value as JSON
    pointer: str = ""  # the JSON pointer of the value in its state
    is_cut: bool = False

    @property
    def is_too_large(self) -> bool:
        """Whether it can only be downloaded."""
        return self.size > LARGEST


class Field(NamedTuple):
    """A part of a value, by its name: an item of a dict or of a list."""

    name: str
    value: Text
    messages: tuple[tuple[str, str], ...] = ()  # who says what, if it is a conversation


def legible(tree: Any) -> Any:
    """A value in JSON's form without secrets; arrays, frames and bytes are a line about each."""
    return _summarised(redacted(tree))


def preview(tree: Any, name: str = "", pointer: str = "", *, messages: bool = False) -> Text:
    """The beginning of a value in JSON's form, which may be large, made legible.

    By its `name`, the value may be a secret.
    """
    part = _Beginning(INLINE)
    begun = legible({name: part.of(tree)})[name]
    text = text_of(begun, pointer, messages=messages)
    if not part.is_cut:
        return text
    return text._replace(size=len(_compact(tree)), is_cut=True)


def text_of(tree: Any, pointer: str = "", *, most: int = INLINE, messages: bool = False) -> Text:
    """The text of what `legible` gave, at most so many characters of it.

    With `messages`, one that looks like a message of an agent is what somebody says.
    """
    if tree == HIDDEN:
        return Text(HIDDEN, len(HIDDEN), pointer)
    if isinstance(tree, str):
        return Text(_clean(tree[:most]) if _is_prose(tree) else _compact(tree)[:most], len(tree),
                    pointer, len(tree) > most)  # fmt: skip
    if messages and plain.is_message(tree):
        spoken = f"{who(tree)}: {' '.join(said(tree)).strip()}"
        return Text(_clean(spoken[:most]), len(spoken), pointer, len(spoken) > most)
    text = _compact(tree)
    length = len(text)
    if length > _SHORT:
        text = _indented(tree, most)
    return Text(_clean(text), length, pointer, length > most)


def fields_of(tree: Any, *, start: int = 0, most: int) -> tuple[list[Field], int]:
    """Parts of a value in JSON's form, made legible, and how many parts it has."""
    if isinstance(tree, dict) and summary(tree) is None:
        shown = list(islice(tree.items(), start, start + most))
        return [_field(key, _name(key), value) for key, value in shown], len(tree)
    if isinstance(tree, list):
        numbered = list(enumerate(tree))[start : start + most]
        return [_field(str(at), f"[{at}]", value) for at, value in numbered], len(tree)
    return [Field("", preview(tree))], 1


def _field(key: str, name: str, value: Any) -> Field:
    spoken = plain.messages(value)
    told = tuple(map(_message, redacted(spoken[-_MESSAGES:]))) if spoken else ()
    return Field(name, preview(value, key, f"/{escaped(key)}"), told)


def at_pointer(tree: Any, pointer: str) -> Any:
    """The part of a JSON value at a JSON pointer. Raises `LookupError` if there is none."""
    for part in pointer.split("/")[1:] if pointer else ():
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(tree, dict) and name in tree:
            tree = tree[name]
        elif isinstance(tree, list) and name.isascii() and name.isdigit() and len(name) < 12:
            if int(name) >= len(tree):
                raise LookupError(pointer)
            tree = tree[int(name)]
        else:
            raise LookupError(pointer)
    return tree


def escaped(part: object) -> str:
    """A key as a JSON pointer has it."""
    return str(part).replace("~", "~0").replace("/", "~1")


class _Beginning:
    """The beginning of a value: so many characters, about.

    Secrets are hidden on the way: what is cut off may be what tells that something is one.
    """

    def __init__(self, most: int) -> None:
        self._left = most
        self.is_cut = False

    def of(self, tree: Any) -> Any:
        """As much of it as there is room for."""
        if isinstance(tree, str):
            self.is_cut = self.is_cut or len(tree) > self._left
            shown: str = redacted(tree[: self._left + _URL])[: self._left + 1]
            self._left -= len(shown)
            return shown
        if is_summarised(tree):
            self._left -= _SHORT
            return tree
        if isinstance(tree, dict):
            named = value_of_a_secret(tree)
            return {key: self._item(key, tree[key], named) for key in self._first(tree)}
        if isinstance(tree, list):
            return [self.of(item) for item in self._first(tree)]
        self._left -= len(str(tree))
        return tree

    def _item(self, key: str, item: Any, named: str | None) -> Any:
        if is_secret(key) or key == named:
            return self.of(hidden(item))
        if key != MAP or not isinstance(item, list):
            return self.of(item)
        return [self._pair(pair) for pair in self._first(item)]

    def _pair(self, pair: Any) -> Any:
        match pair:
            case [str() as key, value] if is_secret(key):
                return [key, self.of(hidden(value))]
        return self.of(pair)

    def _first(self, items: Iterable[T]) -> Iterator[T]:
        for item in items:
            if self._left <= 0:
                self.is_cut = True
                return
            yield item
            self._left -= 4  # what JSON has between them


_MESSAGES: Final = 40  # of a conversation that are shown: the newest


def _message(message: Mapping[str, Any]) -> tuple[str, str]:
    text = "\n".join(said(message))
    cut = f"{text[:INLINE]}…" if len(text) > INLINE else text
    return one_line(who(message)), _clean(cut)


def _summarised(tree: Any) -> Any:
    if isinstance(tree, list):
        return list(map(_summarised, tree))
    if not isinstance(tree, dict):
        return tree
    text = summary(tree)
    if text is not None:
        return f"<{text}>"
    return {key: _summarised(item) for key, item in tree.items()}


def _name(key: str) -> str:
    return one_line(key) if len(key) <= 200 else f"{one_line(key[:200])}…"


def _is_prose(text: str) -> bool:
    return len(text) > _SHORT or "\n" in text or (text.startswith("<") and text.endswith(">"))


def _compact(tree: Any) -> str:
    return json.dumps(tree, ensure_ascii=False)


def _indented(tree: Any, most: int) -> str:
    """The beginning of the value on many lines."""
    found: list[str] = []
    length = 0
    for chunk in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(tree):
        found.append(chunk)
        length += len(chunk)
        if length > 2 * most:  # lines are indented
            break
    return "".join(found)[: 2 * most]


def _clean(text: str) -> str:
    """The text with its lines, and with everything else that can't be seen escaped."""
    if text.isprintable():
        return text
    return "\n".join(one_line(line.replace("\t", "    ")) for line in text.split("\n"))
