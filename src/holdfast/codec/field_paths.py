"""Paths to fields of stored values: `user.token`, `headers.*.Authorization`, `[*].password`.

A path begins at the value itself: a state, the inputs of a run by name, a step's result, an answer.
Names are separated by dots; `[0]` is an item of a list, `['a b']` a key that is no plain word, `*`
and `[*]` any key or item, and `**` any number of steps.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from holdfast.codec.registry import Coded
from holdfast.errors import SerializeError

_STEP: Final = re.compile(
    r"\.?(?P<word>[^.\[\]'\"\s*]+)|\.?(?P<deep>\*\*)|\.?(?P<any>\*)|\[(?P<each>\*)\]"
    r"|\[(?P<item>-?\d{1,9})\]|\[(?P<key>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\]"
)
_ANY: Final = object()
_DEEP: Final = object()

Make = Callable[[Any, str], Any]
"""What to put in the place of a value, given it and its path."""


class FieldPath:
    """One path, as it was written."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = tuple(_parsed(text))

    def __repr__(self) -> str:
        return f"FieldPath({self.text!r})"

    def replaced(self, tree: Any, make: Make) -> Any:
        """The tree of plain data, changed in place where the path leads to something.

        Raises `SerializeError` if it is nested too deeply for the stack that is left.
        """
        try:
            return _replaced(tree, self._steps, "", make)
        except RecursionError:
            raise SerializeError(self.text, "the value around it is nested too deeply") from None


def field_paths(what: str, given: Iterable[str]) -> tuple[FieldPath, ...]:
    """The paths in a list of texts. Raises `ValueError` for what is none, `TypeError` for no list."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{what} must be a list of paths such as ['user.token'], not {given!r}")
    return tuple(FieldPath(text) for text in given)


def _parsed(text: object) -> Iterator[Any]:
    if not isinstance(text, str) or not text or text.startswith("."):
        raise ValueError(f"{text!r} is no path; write it as 'user.token' or '[*].password'")
    at = 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None or (at == 0) is (found[0].startswith(".")) is True:
            raise ValueError(
                f"{text!r} is no path: at {text[at : at + 20]!r}; write names with dots between, "
                "[0], ['a key'], * for any and ** for any number of them"
            )
        if at and found[0][0] not in ".[":
            raise ValueError(f"{text!r} is no path: put a dot before {found[0]!r}")
        at = found.end()
        if found["word"] is not None:
            yield found["word"]
        elif found["item"] is not None:
            yield int(found["item"])
        elif found["key"] is not None:
            yield ast.literal_eval(found["key"])
        else:
            yield _DEEP if found["deep"] else _ANY


def _replaced(node: Any, steps: tuple[Any, ...], path: str, make: Make) -> Any:
    if not steps:
        return make(node, path)
    step, rest = steps[0], steps[1:]
    if step is _DEEP:
        if rest:
            node = _replaced(node, rest, path, make)
        return _each(node, lambda _: True, steps, path, make)
    return _each(node, lambda key: step is _ANY or _is(key, step), rest, path, make)


def _each(
    node: Any, wanted: Callable[[Any], bool], rest: tuple[Any, ...], path: str, make: Make
) -> Any:
    if type(node) is dict:
        for key, item in node.items():
            if wanted(key):
                node[key] = _replaced(item, rest, _joined(path, key), make)
        return node
    if type(node) is list or type(node) is tuple:
        found = [
            _replaced(item, rest, f"{path}[{index}]", make) if wanted(index) else item
            for index, item in enumerate(node)
        ]
        return type(node)(found)
    if type(node) is Coded:
        node.data = _each(node.data, wanted, rest, path, make)
    return node


def _is(key: Any, step: Any) -> bool:
    return bool(key == step and type(key) is type(step))


def _joined(path: str, key: Any) -> str:
    if type(key) is str and key.isidentifier():
        return f"{path}.{key}" if path else key
    return f"{path}[{key!r}]"
