"""Answers as the types that a question asks for, such as a Decimal for "1.50"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.codec.values import same
from holdfast.engine.people.fitting import problems_with
from holdfast.engine.people.forms import FORMS, STORED_AS


def as_asked(value: Any, schema: Any) -> Any:
    """The answer (plain data) with its parts as the types that the schema asks for.

    What does not fit stays as it is, for the check to refuse.
    """
    if not isinstance(schema, Mapping):
        return value
    if "anyOf" in schema:
        return _as_one_of(value, schema["anyOf"])
    if "enum" in schema:
        return next((choice for choice in schema["enum"] if same(value, choice)), value)
    if schema.get("type") == "integer" and type(value) is float and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        return {key: as_asked(part, known.get(key, others)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        first, rest = schema.get("prefixItems", ()), schema.get("items")
        parts = [*first, *[rest] * (len(value) - len(first))]
        value = type(value)(map(as_asked, value, parts))
        if schema.get("type") == "array" and STORED_AS not in schema:
            return list(value)
    form = FORMS.get(schema.get(STORED_AS, ""))
    if form is None or type(value) is form.kind:
        return value
    try:
        return form.convert(value)
    except Exception:
        return value


def _as_one_of(value: Any, options: Any) -> Any:
    for option in options:
        converted = as_asked(value, option)
        if not _refers(option) and not problems_with(converted, option):
            return converted
    return value


def _refers(schema: Any) -> bool:
    """Whether it can be understood only with the `$defs` of the whole; no such part is converted."""
    if isinstance(schema, Mapping):
        return "$ref" in schema or any(map(_refers, schema.values()))
    return isinstance(schema, list | tuple) and any(map(_refers, schema))
