"""Whether a value fits a JSON Schema. Values may be anyone's: checking them is bounded.

Known are type, enum, const, minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength,
maxLength, pattern, items, minItems, maxItems, properties, required, additionalProperties, anyOf,
oneOf, allOf, not, and $ref to $defs. Other keywords (format, title, ...) say nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.engine.people.patterns import pattern

MAX_CHECKS: Final = 200_000
"""How many parts of a value are looked at, at most."""
MAX_DEPTH: Final = 64
_MATCHING: Final = 50  # what a pattern may cost in the time that a part takes

Schema = Mapping[str, Any]


def problems_with(value: Any, schema: Schema, where: str = "the answer") -> str:
    """What is wrong with a value (plain data), in words; empty if it fits."""
    try:
        return _Check(schema).look(value, schema, where)
    except _TooMuchError:
        return f"{where} is too large, or nested too deep, to be checked"


def check_schema(schema: object) -> None:
    """Raise `ValueError` where a known keyword is not used as JSON Schema has it."""
    if not isinstance(schema, Mapping):
        raise ValueError(f"schema must be a JSON Schema, a dict, not {schema!r}")
    _check_part(schema, "schema", 0, schema)


def _check_part(schema: object, where: str, depth: int, root: Schema) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise ValueError(f"{where} must be a JSON Schema, a dict, not {schema!r}")
    if depth > MAX_DEPTH:
        raise ValueError(f"{where} is nested too deep")
    for keyword, argument in schema.items():
        here = f"{where}.{keyword}"
        fits = _ARGUMENTS.get(keyword)
        if fits is not None and not fits(argument):
            raise ValueError(f"{here} can't be {argument!r}")
        if keyword == "pattern":
            pattern(argument)
        if keyword == "$ref" and _referred(argument, root) is None:
            raise ValueError(f"{here} must name one of its own $defs, not {argument!r}")
        inner: list[Any] = []
        if keyword in ("allOf", "anyOf", "oneOf"):
            inner = argument
        elif keyword in ("properties", "$defs", "definitions"):
            inner = list(argument.values())
        elif keyword in ("items", "additionalProperties", "not"):
            inner = [argument]
        for part in inner:
            _check_part(part, here, depth + 1, root)


class _TooMuchError(Exception):
    """A value, or a schema that refers to itself, would take too long."""


class _Check:
    """Checks one value, and gives up in time."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = MAX_CHECKS
        self._depth = 0

    def look(self, value: Any, schema: Any, where: str) -> str:
        """What is wrong with a part of the value."""
        self._spend(1)
        if self._depth > MAX_DEPTH:
            raise _TooMuchError
        if not isinstance(schema, Mapping):
            return "" if schema else f"{where} must be left out"
        self._depth += 1
        try:
            for keyword, (kind, fits, words) in _SIMPLE.items():
                argument = schema.get(keyword)
                if argument is not None and _is(value, kind) and not fits(value, argument):
                    return f"{where} {words.format(argument)}"
            return (
                self._itself(value, schema, where)
                or self._combined(value, schema, where)
                or self._parts(value, schema, where)
            )
        finally:
            self._depth -= 1

    def _spend(self, looks: int) -> None:
        self._left -= looks
        if self._left < 0:
            raise _TooMuchError

    def _itself(self, value: Any, schema: Schema, where: str) -> str:
        wanted = schema.get("type")
        if wanted is not None:
            names = wanted if isinstance(wanted, list) else [wanted]
            if not any(_is(value, name) for name in names):
                return f"{where} must be of type {' or '.join(names)}, not {type(value).__name__}"
        if "enum" in schema and not any(_same(value, choice) for choice in schema["enum"]):
            return f"{where} must be one of {', '.join(map(repr, schema['enum']))}"
        if "const" in schema and not _same(value, schema["const"]):
            return f"{where} must be {schema['const']!r}"
        if "pattern" in schema and isinstance(value, str):
            wanted = pattern(schema["pattern"])
            if len(value) > wanted.longest:
                return f"{where} must have at most {wanted.longest} characters"
            self._spend(len(value) * wanted.cost // _MATCHING)
            if not wanted.found_in(value):
                return f"{where} must match the pattern {schema['pattern']!r}"
        return ""

    def _combined(self, value: Any, schema: Schema, where: str) -> str:
        if "$ref" in schema:
            wrong = self.look(value, _referred(schema["$ref"], self._root), where)
            if wrong:
                return wrong
        for option in schema.get("allOf", ()):
            if wrong := self.look(value, option, where):
                return wrong
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                reasons = [self.look(value, option, where) for option in schema[keyword]]
                if "" not in reasons:
                    return " or ".join(dict.fromkeys(reasons))
                if keyword == "oneOf" and reasons.count("") > 1:
                    return f"{where} has several of the forms of which it must have one"
        if "not" in schema and not self.look(value, schema["not"], where):
            return f"{where} is what it must not be"
        return ""

    def _parts(self, value: Any, schema: Schema, where: str) -> str:
        if _is(value, "array") and "items" in schema:
            for index, item in enumerate(value):
                if wrong := self.look(item, schema["items"], f"{where}[{index}]"):
                    return wrong
        if not isinstance(value, dict):
            return ""
        for name in schema.get("required", ()):
            if name not in value:
                return f"{where} lacks {name!r}"
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, part in value.items():
            inner = known.get(name, others)
            if inner is not True and (wrong := self.look(part, inner, f"{where}.{name}"[:500])):
                return wrong
        return ""


def _referred(ref: str, root: Schema) -> Any:
    """What a reference names; None if nothing."""
    where, _, name = ref.removeprefix("#/").partition("/")
    known = root.get(where) if where in ("$defs", "definitions") else None
    return known.get(name) if isinstance(known, Mapping) else None


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool) and name in ("integer", "number"):
        return False
    return isinstance(value, _TYPES.get(name, (object,)))


def _same(one: Any, other: Any) -> bool:
    """Equal in JSON's eyes: true is not 1."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}
_SIMPLE: Final[dict[str, tuple[str, Callable[[Any, Any], bool], str]]] = {
    "minimum": ("number", lambda value, least: value >= least, "must be at least {}"),
    "maximum": ("number", lambda value, most: value <= most, "must be at most {}"),
    "exclusiveMinimum": ("number", lambda value, least: value > least, "must be above {}"),
    "exclusiveMaximum": ("number", lambda value, most: value < most, "must be below {}"),
    "minLength": ("string", lambda value, n: len(value) >= n, "must have at least {} characters"),
    "maxLength": ("string", lambda value, n: len(value) <= n, "must have at most {} characters"),
    "minItems": ("array", lambda value, n: len(value) >= n, "must have at least {} items"),
    "maxItems": ("array", lambda value, n: len(value) <= n, "must have at most {} items"),
}


def _is_type(argument: Any) -> bool:
    names = argument if isinstance(argument, list) else [argument]
    return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)


def _is_list(argument: Any) -> bool:
    return isinstance(argument, list | tuple)


def _is_number(argument: Any) -> bool:
    return _is(argument, "number")


def _is_count(argument: Any) -> bool:
    return _is(argument, "integer") and argument >= 0


def _is_names(argument: Any) -> bool:
    return _is_list(argument) and all(isinstance(name, str) for name in argument)


_ARGUMENTS: Final[dict[str, Callable[[Any], bool]]] = {
    "type": _is_type,
    "enum": _is_list,
    "required": _is_names,
    **dict.fromkeys(("pattern", "$ref"), lambda a: isinstance(a, str)),
    **dict.fromkeys(("properties", "$defs", "definitions"), lambda a: isinstance(a, Mapping)),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), lambda a: _is_list(a) and len(a) > 0),
    **{
        keyword: _is_number if kind == "number" else _is_count
        for keyword, (kind, _, _) in _SIMPLE.items()
    },
}
