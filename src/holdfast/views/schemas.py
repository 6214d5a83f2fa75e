"""Parts of a JSON Schema, as forms for people need them."""

from collections.abc import Mapping
from typing import Any, Final

DEEPEST: Final = 8
"""References within references, and objects within objects, that a form follows."""


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
