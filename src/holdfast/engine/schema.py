"""JSON Schema of a type; how a value is checked against one is in `holdfast.engine.fitting`."""

from __future__ import annotations

import dataclasses
import types
import typing
from enum import Enum
from typing import Any, Final, Literal, Union, get_args, get_origin

_SIMPLE: Final[dict[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    list: {"type": "array"},
    dict: {"type": "object"},
    type(None): {"type": "null"},
    None: {"type": "null"},
}


def schema_of(kind: Any, *within: Any) -> dict[str, Any]:
    """The JSON Schema of a type, as far as one describes it; an empty one allows anything.

    `within` are the types that it is a part of: one that is part of itself ends there.
    """
    if kind in _SIMPLE:
        return dict(_SIMPLE[kind])
    origin, args = get_origin(kind), get_args(kind)
    if origin is Union or origin is types.UnionType:
        return {"anyOf": [schema_of(arg, *within) for arg in args]}
    if origin is Literal:
        return {"enum": list(args)}
    if origin is list and args:
        return {"type": "array", "items": schema_of(args[0], *within)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if hasattr(kind, "model_json_schema"):
        schema: dict[str, Any] = kind.model_json_schema()
        return schema
    if kind in within:
        return {}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        required = [
            f.name
            for f in dataclasses.fields(kind)
            if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        ]
        return _object(kind, required, within)
    if hasattr(kind, "__required_keys__"):
        return _object(kind, sorted(kind.__required_keys__), within)
    return {}


def _object(kind: Any, required: list[str], within: tuple[Any, ...]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    properties = {name: schema_of(hint, *within, kind) for name, hint in hints.items()}
    return {"type": "object", "properties": properties, "required": required}
