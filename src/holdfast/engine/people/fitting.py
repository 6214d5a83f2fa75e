"""Whether a value fits a JSON Schema (2020-12). Values may be anyone's: checking them is bounded.

Plain schemas, such as `schema_of` makes of Python types, are checked here. Schemas that use more
keywords are checked by the library jsonschema, and patterns by RE2: the extra "schema".
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from holdfast.codec.values import same
from holdfast.engine.people.forms import CODEC, STORED_AS, unlike
from holdfast.engine.people.patterns import pattern
from holdfast.extras import install_command

MAX_CHECKS: Final = 200_000
"""How many parts of a value are looked at, at most."""
MAX_DEPTH: Final = 64
_MAX_PARTS: Final = 10_000  # of a schema
_MATCHING: Final = 1_000  # characters times instructions of a pattern that cost as much as a part

Schema = Mapping[str, Any]


def problems_with(value: Any, schema: Schema, where: str = "the answer") -> str:
    """What is wrong with a value (plain data), as a sentence; empty if it fits.

    The schema must be one that `check_schema` accepts.
    """
    look = _look if _is_plain(schema, "schema", schema) else _look_with_library
    try:
        return look(value, schema, where, _Budget(schema))
    except (_TooMuchError, RecursionError):
        return f"{where} is too large, or nested too deep, to be checked"
    except (ValueError, ArithmeticError) as error:  # numbers too large to divide, or to print
        return f"{where} can't be checked: {error}"


def check_schema(schema: object) -> None:
    """Raise `ValueError` for a schema that is invalid or can't be checked in bounded time.

    Also for references to anything but its own `$defs`, as nothing is ever fetched, and for a
    schema that needs a library that is not installed.
    """
    if not isinstance(schema, Mapping):
        raise ValueError(f"schema must be a JSON Schema, a dict, not {schema!r}")
    for count, (depth, part) in enumerate(_dicts_in(schema)):
        if depth > 2 * MAX_DEPTH or count > _MAX_PARTS:
            raise ValueError("schema is too large, or nested too deep")
        if isinstance(part.get("patternProperties"), dict):
            raise ValueError("schema: use propertyNames instead of patternProperties")
    if not _is_plain(schema, "schema", schema):
        _check_with_library(schema)


class _TooMuchError(Exception):
    """A value, or a schema that refers to itself, would take too long."""


class _Budget:
    """What may still be spent on one value."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.depth = 0
        self._left = MAX_CHECKS

    def spend(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0 or self.depth > MAX_DEPTH:
            raise _TooMuchError


# --- plain schemas


def _is_plain(schema: Any, where: str, root: Schema) -> bool:
    """Whether only keywords are used that are checked here. Raises `ValueError` for misused ones."""
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, Mapping):
        raise ValueError(f"{where} must be a JSON Schema, a dict, not {schema!r}")
    plain = _BEYOND.isdisjoint(schema)
    for keyword, argument in schema.items():
        here = f"{where}.{keyword}"
        fits = _ARGUMENTS.get(keyword)
        if fits is not None and not fits(argument):
            raise ValueError(f"{here} can't be {argument!r}")
        if keyword == "$ref" and referred(argument, root) is None:
            raise ValueError(f"{here} must name one of its own $defs, not {argument!r}")
        inner: Iterable[Any] = ()
        if keyword in ("properties", "$defs", "definitions"):
            inner = argument.values()
        elif keyword in ("anyOf", "prefixItems"):
            inner = argument
        elif keyword in ("items", "additionalProperties"):
            inner = [argument]
        for part in inner:
            plain &= _is_plain(part, here, root)
    return plain


def _look(value: Any, schema: Any, where: str, budget: _Budget) -> str:
    """What is wrong with a part of the value."""
    budget.spend(1)
    if not isinstance(schema, Mapping):
        return "" if schema else f"{where} is not allowed"
    budget.depth += 1
    wrong = (
        _itself(value, schema, where)
        or _combined(value, schema, where, budget)
        or _inside(value, schema, where, budget)
    )
    budget.depth -= 1
    return wrong


def _itself(value: Any, schema: Schema, where: str) -> str:
    names = schema.get("type", ())
    if STORED_AS in schema or CODEC in schema:
        if wrong := unlike(value, schema):
            return f"{where} {wrong}"
        names = ()
    names = [names] if isinstance(names, str) else names
    if names and not any(_is(value, name) for name in names):
        return f"{where} must be of type {' or '.join(names)}, not {type(value).__name__}"
    if "enum" in schema and not _is_one_of(schema["enum"], value):
        return f"{where} must be one of {', '.join(map(repr, schema['enum']))}"
    if "const" in schema and not same(value, schema["const"]):
        return f"{where} must be {schema['const']!r}"
    for keyword, (kind, fits, words) in _LIMITS.items():
        argument = schema.get(keyword)
        if argument is not None and _is(value, kind) and not fits(value, argument):
            return f"{where} {words.format(argument)}"
    return ""


def _is_one_of(choices: Sequence[Any], value: Any) -> bool:
    if isinstance(value, str):
        return value in choices  # much faster, and nothing else equals a text
    return any(same(value, choice) for choice in choices)


def _combined(value: Any, schema: Schema, where: str, budget: _Budget) -> str:
    if "$ref" in schema:
        wrong = _look(value, referred(schema["$ref"], budget.root), where, budget)
        if wrong:
            return wrong
    reasons = {}
    for option in schema.get("anyOf", ()):
        wrong = _look(value, option, where, budget)
        if not wrong:
            return ""
        reasons[wrong] = True
    return " or ".join(reasons)


def _inside(value: Any, schema: Schema, where: str, budget: _Budget) -> str:
    if _is(value, "array") or isinstance(value, set | frozenset):
        first, rest = schema.get("prefixItems", ()), schema.get("items", True)
        for index, item in enumerate(value if first or rest is not True else ()):
            part = first[index] if index < len(first) else rest
            if part is not True and (wrong := _look(item, part, f"{where}[{index}]", budget)):
                return wrong
    if not isinstance(value, dict):
        return ""
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where} lacks {name!r}"
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, part in value.items():
        inner = known.get(name, others)
        if inner is not True and (wrong := _look(part, inner, f"{where}.{name}"[:500], budget)):
            return wrong
    return ""


def referred(ref: str, root: Schema) -> Any:
    """What a reference names; None if nothing."""
    where, _, name = ref.removeprefix("#/").partition("/")
    known = root.get(where) if where in ("$defs", "definitions") else None
    return known.get(name) if isinstance(known, Mapping) and not set(name) & set("/~%") else None


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool) and name in ("integer", "number"):
        return False
    if isinstance(value, float) and name == "integer":
        return value.is_integer()
    return isinstance(value, _TYPES[name])


# --- all others


def _check_with_library(schema: Schema) -> None:
    jsonschema = _library("jsonschema")

    def refers(ref: object) -> bool:
        if isinstance(ref, str) and referred(ref, schema) is None:
            raise ValueError(f"$ref must name one of its own $defs, not {ref!r}")
        return True

    formats = jsonschema.FormatChecker(())
    formats.checks("uri-reference", ValueError)(refers)
    formats.checks("regex", ValueError)(lambda text: not isinstance(text, str) or pattern(text))
    unnamed = {keyword: part for keyword, part in schema.items() if keyword != "$id"}
    try:
        jsonschema.Draft202012Validator.check_schema(unnamed, format_checker=formats)
    except jsonschema.SchemaError as error:
        where = "".join(f".{step}" for step in error.absolute_path)
        raise ValueError(f"schema{where}: {error.cause or error.message[:500]}") from None


def _look_with_library(value: Any, schema: Schema, where: str, budget: _Budget) -> str:
    """What is wrong with the value. Each keyword that the library looks at is paid for."""
    _find_room_for(6 * MAX_DEPTH)  # it may crash at the end of the stack
    jsonschema = _library("jsonschema")
    usual = jsonschema.Draft202012Validator

    def paid(keyword: str, check: Callable[..., Any]) -> Callable[..., Any]:
        def look(validator: Any, argument: Any, part: Any, by: Schema) -> Iterator[Any]:
            budget.spend(_cost(keyword, argument, part))
            budget.depth += 1
            try:
                for error in check(validator, argument, part, by) or ():
                    budget.spend(5 + len(error.message) // 100)  # which shows the whole part
                    yield error
            finally:
                budget.depth -= 1

        return look

    def matches(validator: Any, argument: str, part: Any, by: Schema) -> Iterator[Any]:
        if isinstance(part, str):
            wanted = pattern(argument)
            budget.spend(len(part) * wanted.cost // _MATCHING)
            if len(part) > wanted.longest:
                yield jsonschema.ValidationError(f"has more than {wanted.longest} characters")
            elif not wanted.found_in(part):
                yield jsonschema.ValidationError(f"must match the pattern {argument!r}")

    def is_type(validator: Any, argument: Any, part: Any, by: Schema) -> Iterator[Any]:
        if STORED_AS not in by:
            yield from usual.VALIDATORS["type"](validator, argument, part, by)
        elif wrong := unlike(part, by):
            yield jsonschema.ValidationError(wrong)

    checks = {name: paid(name, check) for name, check in usual.VALIDATORS.items()}
    bounded = jsonschema.validators.extend(
        usual, {**checks, "pattern": matches, "type": paid("type", is_type)}
    )
    nothing_else = _library("referencing").Registry()  # without it, the library fetches references
    errors = bounded(schema, registry=nothing_else).iter_errors(value)
    error = jsonschema.exceptions.best_match(islice(errors, 1))
    if error is None:
        return ""
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path)
    reason = error.message if len(error.message) < 500 else f"see {error.validator!r} in its schema"
    return f"{where}{path[:500]} does not fit: {reason}"


def _find_room_for(calls: int) -> None:
    """Raise `RecursionError` unless so many calls fit on the stack."""
    if calls:
        _find_room_for(calls - 1)


def _cost(keyword: str, argument: Any, value: Any) -> int:
    """What the library takes for a keyword, in parts of a value."""
    size = len(value) if isinstance(value, list | dict) else 0
    if keyword == "uniqueItems" and size and not all(isinstance(item, str) for item in value):
        size *= size  # each is compared with each
    known = len(argument) if isinstance(argument, list | dict) else 0
    return 5 + size // 10 + known // 20


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(
            f"this schema needs the library jsonschema: {install_command('schema')}"
        ) from None


def _dicts_in(part: Any, depth: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    if isinstance(part, dict):
        yield depth, part
    if isinstance(part, dict | list) and depth < 3 * MAX_DEPTH:
        for inner in part.values() if isinstance(part, dict) else part:
            yield from _dicts_in(inner, depth + 1)


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}
_LIMITS: Final[dict[str, tuple[str, Callable[[Any, Any], bool], str]]] = {
    "minimum": ("number", lambda value, least: value >= least, "must be at least {}"),
    "maximum": ("number", lambda value, most: value <= most, "must be at most {}"),
    "exclusiveMinimum": ("number", lambda value, least: value > least, "must be above {}"),
    "exclusiveMaximum": ("number", lambda value, most: value < most, "must be below {}"),
    "minLength": ("string", lambda value, n: len(value) >= n, "must have at least {} characters"),
    "maxLength": ("string", lambda value, n: len(value) <= n, "must have at most {} characters"),
    "minItems": ("array", lambda value, n: len(value) >= n, "must have at least {} items"),
    "maxItems": ("array", lambda value, n: len(value) <= n, "must have at most {} items"),
}


def _is_list(argument: Any) -> bool:
    return isinstance(argument, list | tuple)


def _is_type(argument: Any) -> bool:
    names = argument if isinstance(argument, list) else [argument]
    return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)


def _is_limit(argument: Any) -> bool:
    return _is(argument, "number")


def _is_count(argument: Any) -> bool:
    return _is(argument, "integer") and argument >= 0


_ARGUMENTS: Final[dict[str, Callable[[Any], bool]]] = {
    "type": _is_type,
    "enum": _is_list,
    "required": lambda a: _is_list(a) and all(isinstance(name, str) for name in a),
    "$ref": lambda a: isinstance(a, str),
    **dict.fromkeys(("anyOf", "prefixItems"), lambda a: _is_list(a) and len(a) > 0),
    **dict.fromkeys(("properties", "$defs", "definitions"), lambda a: isinstance(a, Mapping)),
    **{k: _is_limit if kind == "number" else _is_count for k, (kind, _, _) in _LIMITS.items()},
}
_BEYOND: Final = frozenset(
    [
        "allOf",
        "contains",
        "dependentRequired",
        "dependentSchemas",
        "if",
        "maxProperties",
        "minProperties",
        "multipleOf",
        "not",
        "oneOf",
        "pattern",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    ]
)
"""The keywords that say something about a value and are left to the library."""
