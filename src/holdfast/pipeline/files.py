"""Definitions in files: JSON or YAML, read as data, with the line of every part."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.errors import InvalidFlowError
from holdfast.extras import missing_extra
from holdfast.pipeline.problems import Where, shown

MAX_BYTES: Final = 500_000
MAX_DEPTH: Final = 50

MAX_NUMBER: Final = 40  # characters: it takes longer and longer to make one of many

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')  # of valid JSON
_FLOAT: Final = re.compile(r"-?(?:NaN|Infinity|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")
_YAML_SUFFIXES: Final = (".yaml", ".yml")


class Read(NamedTuple):
    """A file's data, and the line of each part."""

    path: str
    data: Any
    lines: dict[Where, int]

    def place(self, where: Where) -> str:
        """The line of a part, or of the nearest part around it: `line 12: `."""
        while where and where not in self.lines:
            where = where[:-1]
        return f"line {self.lines.get(where, 1)}: "


class _WrongError(ValueError):
    """What is wrong with a file, and in which line."""

    def __init__(self, line: int, words: str) -> None:
        super().__init__(line, words)
        self.line = line
        self.words = words


def read(path: str | os.PathLike[str]) -> Read:
    """Read a `.json`, `.yaml` or `.yml` file. Raises `InvalidFlowError`, and `OSError`."""
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
        data = _yaml(text, lines) if suffix in _YAML_SUFFIXES else _json(text, lines)
    except UnicodeDecodeError as error:
        raise InvalidFlowError(name, (f"it is not UTF-8: {error}",)) from None
    except _WrongError as error:
        raise InvalidFlowError(name, (f"line {error.line}: {error.words}",)) from None
    return Read(name, data, lines)


def _json(text: str, lines: dict[Where, int]) -> Any:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise _WrongError(error.lineno, f"invalid JSON: {error.msg}") from None
    except RecursionError:
        raise _WrongError(1, f"it is nested more than {MAX_DEPTH} deep") from None
    except ValueError as error:  # a number of thousands of digits
        raise _WrongError(1, f"invalid JSON: {error}") from None
    _note_lines(text, lines)
    return data


def _note_lines(text: str, lines: dict[Where, int]) -> None:
    """The line of every value in valid JSON. A key may occur once, and numbers must be finite."""
    line, end = 1, 0
    around: list[Any] = []  # the key or index in each list or mapping around the value
    keys: list[set[str] | None] = []  # of each of them; None: a list
    for found in _TOKEN.finditer(text):
        line += text.count("\n", end, found.start())
        word, end = found[0], found.start()
        if word in "]}":
            around.pop()
            keys.pop()
        elif word == ",":
            around[-1] = None if keys[-1] is not None else around[-1] + 1
        elif keys and keys[-1] is not None and around[-1] is None:
            key = around[-1] = json.loads(word)
            if key in keys[-1]:
                raise _WrongError(line, f"the key {shown(key)} occurs twice")
            keys[-1].add(key)
        elif word != ":":
            lines[tuple(around)] = line
            if len(around) > MAX_DEPTH:
                raise _WrongError(line, f"it is nested more than {MAX_DEPTH} deep")
            if word in "[{":
                around.append(0 if word == "[" else None)
                keys.append(None if word == "[" else set())
            elif _FLOAT.fullmatch(word) and not math.isfinite(float(word)):
                raise _WrongError(line, "invalid JSON: a number is not finite, or too large")


def _yaml(text: str, lines: dict[Where, int]) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise missing_extra("yaml", error, "a definition in YAML", "PyYAML") from None
    try:
        fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        _check_size(yaml, fast, text)
        loader = fast(text)
        try:
            node = loader.get_single_node()
            return None if node is None else _built(loader, node, (), lines)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise _WrongError(line, f"invalid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, _WrongError):
            raise
        raise _WrongError(1, f"invalid YAML: {error}") from None


def _check_size(yaml: Any, loader: Any, text: str) -> None:
    """Limits before anything is built: aliases multiply, and depth costs stack."""
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
    """The data of a node, as the safe loader makes it; notes its line."""
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
            raise _WrongError(key_node.start_mark.line + 1, f"the key {shown(key)} occurs twice")
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
        raise _WrongError(line, f"invalid YAML: {shown(node.value)} is not a {kind}") from None
