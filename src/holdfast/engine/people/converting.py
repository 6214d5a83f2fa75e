"""Answers as the types that a question asks for, such as a Decimal for "1.50"."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from holdfast.codec.values import same
from holdfast.engine.people.fitting import MAX_DEPTH, problems_with, referred
from holdfast.engine.people.forms import FORMS, STORED_AS


def as_asked(value: Any, schema: Any) -> Any:
    """The answer (plain data) with its parts as the types that the schema asks for.

    What does not fit stays as it is, for the check to refuse.
    """
    return _part(value, schema, schema, 0)


def _part(value: Any, schema: Any, root: Any, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return value
    inner = partial(_part, root=root, depth=depth + 1)
    if "$ref" in schema:
        return inner(value, referred(schema["$ref"], root))
    if "anyOf" in schema:
        return _as_one_of(value, schema["anyOf"], root, depth)
    if "enum" in schema:
        return next((choice for choice in schema["enum"] if same(value, choice)), value)
    if schema.get("type") == "integer" and type(value) is float and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        return {key: inner(part, known.get(key, others)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        first, rest = schema.get("prefixItems", ()), schema.get("items")
        parts = [*first, *[rest] * (len(value) - len(first))]
        value = type(value)(map(inner, value, parts))
        if schema.get("type") == "array" and STORED_AS not in schema:
            return list(value)
    form = FORMS.get(schema.get(STORED_AS, ""))
    if form is None or type(value) is form.kind:
        return value
    try:
        return form.convert(value)
    except Exception:
        return value


def _as_one_of(value: Any, options: Any, root: Any, depth: int) -> Any:
    """The value as the first option asks for it that it fits."""
    defs = {name: root[name] for name in ("$defs", "definitions") if name in root}
    for option in options:
        converted = _part(value, option, root, depth + 1)
        if isinstance(option, Mapping) and not problems_with(converted, {**option, **defs}):
            return converted
    return value
