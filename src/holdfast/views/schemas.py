"""Parts of a JSON Schema, as forms for people need them."""

from collections.abc import Mapping
from typing import Any, Final

DEEPEST: Final = 8
"""References within references, and objects within objects, that a form follows."""

_EXAMPLES: Final = {"boolean": True, "string": "TEXT", "integer": 1, "number": 1.5}
_NESTED: Final = 3  # objects within objects of an example: more is no example, but a manual
_FIELDS: Final = 8


def kind_of(schema: Mapping[str, Any]) -> str | None:
    """The one type that is asked for; None where there are several, or any will do."""
    named = schema.get("type")
    kinds = [one for one in (named if isinstance(named, list) else [named]) if one != "null"]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], str) else None


def resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with its own references resolved, and without the null of an optional value."""
    for _ in range(DEEPEST):
        if not isinstance(schema, Mapping):
            return {}
        reference, choices, named = schema.get("$ref"), schema.get("anyOf"), root.get("$defs")
        others = (
            [one for one in choices if one != {"type": "null"}] if isinstance(choices, list) else []
        )
        if isinstance(reference, str) and isinstance(named, Mapping):
            schema = named.get(reference.removeprefix("#/$defs/"))
        elif len(others) == 1 and isinstance(others[0], Mapping):
            schema = {
                **others[0],
                **{k: v for k, v in schema.items() if k in ("default", "description")},
            }
        else:
            return schema
    return {}


def example(schema: Any, root: Mapping[str, Any], depth: int = 0) -> Any:
    """A short value of the kind that is asked for, with the fields that are required, or else all.

    Whether it also fits the rest of the schema is to be checked.
    """
    schema = resolved(schema, root)
    choices, kind = schema.get("enum"), kind_of(schema)
    if isinstance(choices, list) and choices:
        return choices[0]
    if depth >= _NESTED:
        return None
    if kind == "array":
        return [example(schema.get("items"), root, depth + 1)]
    if kind != "object":
        return _EXAMPLES.get(kind or "")
    parts, needed = schema.get("properties"), schema.get("required")
    parts = parts if isinstance(parts, Mapping) else {}
    names = needed if isinstance(needed, list) and needed else list(parts)
    return {str(one): example(parts.get(one), root, depth + 1) for one in names[:_FIELDS]}
