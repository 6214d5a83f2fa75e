"""Speaking of data: references such as `steps.draft.output.title`, and templates with them.

A reference begins with `parameters`, `pipeline_input`, `steps.ID.output` or the id of a step, and
goes on with keys and positions, by dots. Nothing is ever evaluated: the words are looked up one by
one in plain data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from holdfast.errors import UnresolvedError
from holdfast.pipeline.findings import Findings, Where, nearest, shown

MAX_PARTS: Final = 32
MAX_RENDERED: Final = 1_000_000  # characters of one text
ROOTS: Final = ("parameters", "pipeline_input", "steps")

# Either form stops at the next brace, so that no text takes more than one pass.
_TEMPLATE: Final = re.compile(
    r"\{\{([^{}]*)\}\}|\{((?:parameters|pipeline_input|steps)(?:\.[^{}\s]*)?)\}"
)


class Scope:
    """What references can speak of: the state of a run, and its parameters."""

    def __init__(self, state: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
        self._state = state
        self._defaults = parameters

    def get(self, root: str) -> Any:
        """Everything below one of `ROOTS`."""
        if root != "parameters":
            return self._state[root]
        given = self._state["pipeline_input"]
        return {**self._defaults, **given} if isinstance(given, Mapping) else dict(self._defaults)


class Reference(NamedTuple):
    """A way to a value."""

    text: str
    parts: tuple[str, ...]  # the first is one of `ROOTS`

    def look_up(self, scope: Scope) -> Any:
        """The value. Raises `UnresolvedError` where there is none."""
        root, *rest = self.parts
        value = scope.get(root)
        for number, part in enumerate(rest, 1):
            value = _within(value, part, self, number)
        return value


def _within(value: Any, part: str, reference: Reference, number: int) -> Any:
    if isinstance(value, Mapping):
        if part in value:
            return value[part]
        names = [name for name in value if isinstance(name, str)]
        if reference.parts[:number] == ("steps",):
            raise UnresolvedError(reference.text, f"step {part!r} has not run")
        reason = f"there is no {part!r}{nearest(part, names)}"
    elif isinstance(value, list | tuple) and part.isascii() and part.isdigit() and len(part) < 10:
        if int(part) < len(value):
            return value[int(part)]
        reason = f"there are only {len(value)} items"
    else:
        kind = type(value).__name__
        reason = f"{'.'.join(reference.parts[:number])} is of type {kind}, and has no {part!r}"
    raise UnresolvedError(reference.text, reason)


def parse(text: object, steps: Collection[str]) -> Reference:
    """The reference that a text is. Raises `ValueError` that says why it is none."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"must be a reference such as 'steps.fetch.output.n', not {shown(text)}")
    parts = tuple(text.strip().split("."))
    if len(parts) > MAX_PARTS or not all(parts):
        raise ValueError(f"{shown(text)} is no reference: it is words with single dots between")
    first = parts[0]
    if first in steps and first not in ROOTS:
        return Reference(text.strip(), ("steps", *parts))
    if first not in ROOTS:
        known = (*ROOTS, *steps)
        raise ValueError(f"{first!r} is no step{nearest(first, known)}")
    if first != "steps":
        return Reference(text.strip(), parts)
    if len(parts) == 1:
        return Reference(text.strip(), parts)
    if parts[1] not in steps:
        raise ValueError(f"{parts[1]!r} is no step{nearest(parts[1], steps)}")
    if len(parts) > 2 and parts[2] != "output":
        raise ValueError(f"after steps.{parts[1]} comes '.output', not {parts[2]!r}")
    return Reference(text.strip(), (*parts[:2], *parts[3:]))


class Template:
    """Data with references in its texts. A text that is one reference becomes its very value."""

    def __init__(self, data: Any, steps: Collection[str], findings: Findings, where: Where) -> None:
        self._data = _parsed(data, steps, findings, where, 0)

    @classmethod
    def literal(cls, data: Any) -> Template:
        """Data without references, whatever it looks like."""
        template = cls(None, (), Findings(), ())
        template._data = data
        return template

    def render(self, scope: Scope) -> Any:
        """The data, with values in place of references. What they hold is not looked at again.

        Raises `UnresolvedError`.
        """
        return _rendered(self._data, scope)


class _Text(NamedTuple):
    """A text in pieces: texts and references."""

    pieces: tuple[str | Reference, ...]


def _parsed(data: Any, steps: Collection[str], findings: Findings, where: Where, depth: int) -> Any:
    if depth > MAX_PARTS:
        findings.say(where, f"is nested more than {MAX_PARTS} deep")
        return None
    if isinstance(data, Mapping):
        return {
            key: _parsed(value, steps, findings, (*where, str(key)), depth + 1)
            for key, value in data.items()
        }
    if isinstance(data, list | tuple):
        return [
            _parsed(value, steps, findings, (*where, index), depth + 1)
            for index, value in enumerate(data)
        ]
    return _text(data, steps, findings, where) if isinstance(data, str) else data


def _text(text: str, steps: Collection[str], findings: Findings, where: Where) -> str | _Text:
    pieces: list[str | Reference] = []
    end = 0
    for found in _TEMPLATE.finditer(text):
        try:
            reference = parse(found[1] if found[1] is not None else found[2], steps)
        except ValueError as error:
            findings.say(where, f"in {shown(found[0])}: {error}")
            continue
        pieces += [text[end : found.start()], reference]
        end = found.end()
    pieces.append(text[end:])
    if any(isinstance(piece, str) and "{{" in piece for piece in pieces):
        findings.say(where, "has a '{{' that begins no reference: they are {{ words.with.dots }}")
    if len(pieces) == 1:
        return text
    return _Text(tuple(piece for piece in pieces if piece != ""))


def _rendered(data: Any, scope: Scope) -> Any:
    if isinstance(data, _Text):
        if len(data.pieces) == 1 and isinstance(data.pieces[0], Reference):
            return data.pieces[0].look_up(scope)
        return _joined(data, scope)
    if isinstance(data, dict):
        return {key: _rendered(value, scope) for key, value in data.items()}
    if isinstance(data, list):
        return [_rendered(value, scope) for value in data]
    return data


def _joined(text: _Text, scope: Scope) -> str:
    written: list[str] = []
    size = 0
    for piece in text.pieces:
        words = piece if isinstance(piece, str) else _words(piece.look_up(scope))
        size += len(words)
        if size > MAX_RENDERED:
            raise UnresolvedError("a template", f"makes a text of more than {MAX_RENDERED:,}")
        written.append(words)
    return "".join(written)


def _words(value: Any) -> str:
    """A value within a text: as JSON, unless it is text itself."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
