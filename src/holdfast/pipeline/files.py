"""Definitions in files: JSON or YAML, read as data, with the line of everything in them."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.errors import InvalidFlowError
from holdfast.pipeline.problems import Where, shown

MAX_BYTES: Final = 500_000
MAX_DEPTH: Final = 50

MAX_NUMBER: Final = 40  # characters: it takes longer and longer to make one of many

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_YAML_SUFFIXES: Final = (".yaml", ".yml")


class Read(NamedTuple):
    """A file's data, and where its parts stand."""

    path: str
    data: Any
    lines: dict[Where, int]

    def place(self, where: Where) -> str:
        """The line that a part stands in, or the nearest part around it: `line 12: `."""
        while where and where not in self.lines:
            where = where[:-1]
        return f"line {self.lines.get(where, 1)}: "


class _WrongError(ValueError):
    """A file that is not what it should be, and the line where that shows."""

    def __init__(self, line: int, words: str) -> None:
        super().__init__(line, words)
        self.line = line
        self.words = words


def read(path: str | os.PathLike[str]) -> Read:
    """What a `.json`, `.yaml` or `.yml` file says. Raises `InvalidFlowError`, and `OSError`."""
    name = os.fspath(path)
    suffix = Path(name).suffix.lower()
    if suffix not in (".json", *_YAML_SUFFIXES):
        raise InvalidFlowError(name, ("a definition's name ends in .json, .yaml or .yml",))
    with Path(name).open("rb") as file:
        body = file.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise InvalidFlowError(name, (f"it is larger than {MAX_BYTES:,} bytes",))
    lines: dict[Where, int] = {}
    try:
        text = body.decode()
        data = _yaml(text, lines) if suffix in _YAML_SUFFIXES else _Json(text, lines).read()
    except UnicodeDecodeError as error:
        raise InvalidFlowError(name, (f"it is not UTF-8: {error}",)) from None
    except _WrongError as error:
        raise InvalidFlowError(name, (f"line {error.line}: {error.words}",)) from None
    return Read(name, data, lines)


class _Json:
    """Reads JSON like the standard library, and remembers lines. A key may stand only once."""

    def __init__(self, text: str, lines: dict[Where, int]) -> None:
        self._text = text
        self._lines = lines
        self._at = 0
        self._seen = (0, 1)  # a position, and its line
        self._decoder = json.JSONDecoder()

    def read(self) -> Any:
        value = self._value(())
        if self._skip():
            raise self._wrong("there is more behind the end")
        return value

    def _line(self) -> int:
        at, line = self._seen
        line += self._text.count("\n", at, self._at)
        self._seen = self._at, line
        return line

    def _wrong(self, words: str) -> _WrongError:
        return _WrongError(self._line(), words)

    def _skip(self) -> str:
        """The next character that is not blank; empty at the end."""
        found = _BLANK.match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        return self._text[self._at : self._at + 1]

    def _value(self, where: Where) -> Any:
        char = self._skip()
        self._lines[where] = self._line()
        if len(where) > MAX_DEPTH:
            raise self._wrong(f"it is nested more than {MAX_DEPTH} deep")
        if char == "{":
            return self._mapping(where)
        if char == "[":
            return [self._value((*where, index)) for index in self._items("]")]
        value = self._plain()
        if isinstance(value, float) and not math.isfinite(value):
            raise self._wrong("no JSON: a number that is none, or too large")
        return value

    def _plain(self) -> Any:
        try:
            value, self._at = self._decoder.raw_decode(self._text, self._at)
        except ValueError as error:
            words = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise self._wrong(f"no JSON: {words}") from None
        return value

    def _mapping(self, where: Where) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in self._items("}"):
            if self._skip() != '"':
                raise self._wrong("no JSON: a key in quotes is missing")
            key = self._plain()
            if key in found:
                raise self._wrong(f"the key {shown(key)} stands here twice")
            if self._skip() != ":":
                raise self._wrong("no JSON: a ':' is missing")
            self._at += 1
            found[key] = self._value((*where, key))
        return found

    def _items(self, end: str) -> Iterator[int]:
        """Counts the items up to the end, and steps over what stands between them."""
        self._at += 1
        index = 0
        if self._skip() == end:
            self._at += 1
            return
        while True:
            yield index
            index += 1
            char = self._skip()
            if char not in (",", end) or not char:
                raise self._wrong(f"no JSON: a ',' or '{end}' is missing")
            self._at += 1
            if char == end:
                return


def _yaml(text: str, lines: dict[Where, int]) -> Any:
    try:
        import yaml
    except ImportError:
        raise ImportError(
            "a definition in YAML needs PyYAML: pip install 'holdfast[yaml]', or use JSON"
        ) from None
    try:
        fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        _see_that_it_is_small(yaml, fast, text)
        loader = fast(text)
        try:
            node = loader.get_single_node()
            return None if node is None else _built(loader, node, (), lines)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise _WrongError(line, f"no YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, _WrongError):
            raise
        raise _WrongError(1, f"no YAML: {error}") from None


def _see_that_it_is_small(yaml: Any, loader: Any, text: str) -> None:
    """Before anything is built: an alias may stand for a thousand others, and depth for the stack."""
    depth = 0
    for event in yaml.parse(text, loader):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise _WrongError(line, "aliases (*name) are not allowed in definitions")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _WrongError(line, f"it is nested more than {MAX_DEPTH} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _built(loader: Any, node: Any, where: Where, lines: dict[Where, int]) -> Any:
    """The data of a node, as the safe loader makes it, and where it stands."""
    line = node.start_mark.line + 1
    lines[where] = line
    if node.id == "sequence":
        return [
            _built(loader, item, (*where, index), lines) for index, item in enumerate(node.value)
        ]
    if node.id == "scalar":
        return _scalar(loader, node, line)
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = key_node.value if key_node.id == "scalar" else None
        if not isinstance(key, str) or key_node.tag == "tag:yaml.org,2002:merge":
            raise _WrongError(key_node.start_mark.line + 1, "a key must be text")
        if key in found:
            raise _WrongError(key_node.start_mark.line + 1, f"the key {shown(key)} stands twice")
        found[key] = _built(loader, value_node, (*where, key), lines)
        lines[(*where, key)] = key_node.start_mark.line + 1
    return found


def _scalar(loader: Any, node: Any, line: int) -> Any:
    kind = node.tag.rpartition(":")[2]
    if kind in ("int", "float") and len(node.value) > MAX_NUMBER:
        raise _WrongError(line, f"a number of more than {MAX_NUMBER} characters; quote it as text")
    try:
        return loader.construct_object(node)
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError):
        # What PyYAML raises depends on what it was about to make of it.
        raise _WrongError(line, f"no YAML: {shown(node.value)} is no {kind}") from None
