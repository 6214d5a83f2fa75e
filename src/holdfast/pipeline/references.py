"""References to data such as `steps.draft.output.title`, and templates with them.

A reference begins with `parameters`, `pipeline_input`, `steps.ID.output` or the id of a step; keys
and positions follow, separated by dots. Nothing is ever evaluated: each part is looked up in plain
data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from copy import deepcopy
from functools import cached_property
from typing import Any, Final, NamedTuple

from holdfast.errors import UnresolvedError
from holdfast.pipeline.outputs import Seen
from holdfast.pipeline.problems import Nearest, Problems, WrongError, shown

MAX_PARTS: Final = 32
MAX_RENDERED: Final = 10_000_000  # characters of all texts of one template
ROOTS: Final = ("parameters", "pipeline_input", "steps")

# Every form stops at the next brace, so that no text takes more than one pass.
_TEMPLATE: Final = re.compile(r"(\{\{\{\{)|\{\{([^{}]*)\}\}|(\{\{+[^{}]*\}?)|\{([^{}]*)\}")
_SINGLE: Final = re.compile(r"(?:parameters|pipeline_input|steps)(?:\.[^\s]*)?")
_LIKE_ONE: Final = re.compile(r"\s*([\w-]+)\s*(?:[.|]|$)")  # in single braces
_EXPRESSION: Final = re.compile(r"\||\s[-+*/%<>=!&?]+\s|\[-?\d+\]")
_DEFAULT: Final = re.compile(r"([^|]*)\|\s*default\((.*)\)\s*", re.DOTALL)


class Scope:
    """What references are looked up in: the state of a run, and its parameters."""

    def __init__(self, state: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
        self._state = state
        self._defaults = parameters

    def get(self, root: str) -> Any:
        """Everything below one of `ROOTS`, to be looked at."""
        return self._parameters if root == "parameters" else self._state[root]

    def plain(self, root: str) -> Any:
        """Everything below one of `ROOTS`, to be handed on."""
        found = self.get(root)
        return found.whole() if isinstance(found, Seen) else found

    @cached_property
    def _parameters(self) -> dict[str, Any]:
        given = self._state["pipeline_input"]
        defaults = deepcopy(dict(self._defaults))  # steps may change what they are given
        return {**defaults, **given} if isinstance(given, Mapping) else defaults


class Reference(NamedTuple):
    """A way to a value."""

    text: str
    parts: tuple[str, ...]  # the first is one of `ROOTS`
    default: tuple[Any, ...] = ()  # what counts where there is no such value; empty: an error

    def look_up(self, scope: Scope) -> Any:
        """The value. Raises `UnresolvedError` where there is none."""
        root, *rest = self.parts
        value = scope.get(root) if rest else scope.plain(root)
        try:
            for number, part in enumerate(rest, 1):
                value = _within(value, part, self, number)
        except UnresolvedError:
            if not self.default:
                raise
            return deepcopy(self.default[0])
        return value


def _within(value: Any, part: str, reference: Reference, number: int) -> Any:
    if isinstance(value, Mapping):
        if part in value:
            return value[part]
        names = [name for name in value if isinstance(name, str)]
        if reference.parts[:number] == ("steps",):
            raise UnresolvedError(reference.text, f"step {part!r} has not run")
        reason = f"there is no {part!r}{Nearest(part, names)}"
    elif isinstance(value, list | tuple) and part.isascii() and part.isdigit() and len(part) < 10:
        if int(part) < len(value):
            return value[int(part)]
        reason = f"there are only {len(value)} items"
    else:
        kind = type(value).__name__
        reason = f"{'.'.join(reference.parts[:number])} is of type {kind}, and has no {part!r}"
    raise UnresolvedError(reference.text, reason)


def parse(text: object, steps: Collection[str]) -> Reference:
    """The reference in a text. Raises `ValueError` that says why it is none."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"must be a reference such as 'steps.fetch.output.n', not {shown(text)}")
    if _EXPRESSION.search(text):
        raise ValueError(
            f"{shown(text.strip())} is not a reference: nothing is computed; positions are words, "
            "too, as in rows.0.title; and all that may follow is | default(...)"
        )
    parts = tuple(text.strip().split("."))
    if len(parts) > MAX_PARTS or not all(parts):
        raise ValueError(f"{shown(text)} is not a reference: it is words with single dots between")
    first = parts[0]
    if first in steps and first not in ROOTS:
        return Reference(text.strip(), ("steps", *parts))
    if first not in ROOTS:
        known = (*ROOTS, *steps)
        raise WrongError(f"{shown(first)} is not a step", Nearest(first, known))
    if first != "steps" or len(parts) == 1:
        return Reference(text.strip(), parts)
    if parts[1] not in steps:
        raise WrongError(f"{shown(parts[1])} is not a step", Nearest(parts[1], steps))
    if len(parts) > 2 and parts[2] != "output":
        raise ValueError(f"after steps.{parts[1]} comes '.output', not {shown(parts[2])}")
    return Reference(text.strip(), (*parts[:2], *parts[3:]))


class Template:
    """Data with references in its texts. A text that is one reference becomes its very value."""

    def __init__(self, data: Any, steps: Collection[str], problems: Problems) -> None:
        self._data = _parsed(data, steps, problems, 0)

    @classmethod
    def literal(cls, data: Any) -> Template:
        """Data without references, whatever it looks like."""
        template = cls(None, (), Problems())
        template._data = data
        return template

    def render(self, scope: Scope) -> Any:
        """The data, with values in place of references. What they hold is not looked at again.

        Raises `UnresolvedError`.
        """
        return _Rendering(scope).of(self._data)


class _Text(NamedTuple):
    """A text in pieces: texts and references."""

    pieces: tuple[str | Reference, ...]


def _parsed(data: Any, steps: Collection[str], problems: Problems, depth: int) -> Any:
    if depth > MAX_PARTS:
        problems.add(f"is nested more than {MAX_PARTS} deep")
        return None
    if isinstance(data, Mapping):
        for key in data:
            if isinstance(key, str) and "{{" in key:
                problems.at(key).add("is a key, and those can't be templates")
        return {
            key: _parsed(value, steps, problems.at(str(key)), depth + 1)
            for key, value in data.items()
        }
    if isinstance(data, list | tuple):
        return [
            _parsed(value, steps, problems.at(index), depth + 1) for index, value in enumerate(data)
        ]
    return _text(data, steps, problems) if isinstance(data, str) else data


def _text(text: str, steps: Collection[str], problems: Problems) -> str | _Text:
    pieces: list[str | Reference] = []
    end = 0
    for found in _TEMPLATE.finditer(text):
        _, double, lost, single = found.groups()
        if single is not None and not _means_one(single, steps):
            continue
        piece: str | Reference = "{{"
        try:
            if lost:
                raise ValueError("begins no reference: they are {{ words.with.dots }}")
            if double is not None:
                piece = _parsed_double(double, steps)
            elif single is not None:
                piece = _parsed_single(single, steps)
        except ValueError as error:
            problems.add(f"in {shown(found[0])}: ", error)
        pieces += [text[end : found.start()], piece]
        end = found.end()
    pieces = [piece for piece in (*pieces, text[end:]) if piece != ""]
    if any(isinstance(piece, Reference) for piece in pieces):
        return _Text(tuple(pieces))
    return "".join(map(str, pieces))


def _means_one(single: str, steps: Collection[str]) -> bool:
    """Whether text in single braces looks like a reference rather than plain braces."""
    like = _LIKE_ONE.match(single)
    return like is not None and (like[1] in ROOTS or like[1] in steps)


def _parsed_single(text: str, steps: Collection[str]) -> Reference:
    if not _SINGLE.fullmatch(text):
        raise ValueError(f"is not a reference: write {{{{ {text.strip()} }}}}")
    return parse(text, steps)


def _parsed_double(text: str, steps: Collection[str]) -> Reference:
    with_default = _DEFAULT.fullmatch(text)
    if with_default is None:
        return parse(text, steps)
    try:
        default = json.loads(with_default[2])
    except (ValueError, RecursionError):
        raise ValueError(
            f"{shown(with_default[2])} is not JSON: a default is default(null), default(0), "
            'default("none") or the like'
        ) from None
    return parse(with_default[1], steps)._replace(default=(default,))


class _Rendering:
    """Puts values in place of references, and counts what that makes."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._left = MAX_RENDERED

    def of(self, data: Any) -> Any:
        if isinstance(data, _Text):
            if len(data.pieces) == 1 and isinstance(data.pieces[0], Reference):
                return data.pieces[0].look_up(self._scope)
            return "".join(map(self._written, data.pieces))
        if isinstance(data, dict):
            return {key: self.of(value) for key, value in data.items()}
        if isinstance(data, list):
            return [self.of(value) for value in data]
        return data

    def _written(self, piece: str | Reference) -> str:
        words = piece if isinstance(piece, str) else _words(piece, piece.look_up(self._scope))
        self._left -= len(words)
        if self._left < 0:
            raise UnresolvedError("a template", f"makes a text of more than {MAX_RENDERED:,}")
        return words


def _words(reference: Reference, value: Any) -> str:
    """A value within a text: as JSON, unless it is text itself."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnresolvedError(reference.text, f"can't be written as text: {error}") from None
