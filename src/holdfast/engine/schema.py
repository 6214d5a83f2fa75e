"""What an answer must look like: JSON Schema from a type, and a check of the part of it we use."""

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
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type, as far as one describes it; an empty one allows anything."""
    if kind in _SIMPLE:
        return dict(_SIMPLE[kind])
    origin, args = get_origin(kind), get_args(kind)
    if origin is Union or origin is types.UnionType:
        return {"anyOf": [schema_of(arg) for arg in args]}
    if origin is Literal:
        return {"enum": list(args)}
    if origin is list and args:
        return {"type": "array", "items": schema_of(args[0])}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if hasattr(kind, "model_json_schema"):
        schema: dict[str, Any] = kind.model_json_schema()
        return schema
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        required = [
            f.name
            for f in dataclasses.fields(kind)
            if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        ]
        return _object(typing.get_type_hints(kind), required)
    if hasattr(kind, "__required_keys__"):
        return _object(typing.get_type_hints(kind), sorted(kind.__required_keys__))
    return {}


def _object(hints: dict[str, Any], required: list[str]) -> dict[str, Any]:
    properties = {name: schema_of(hint) for name, hint in hints.items()}
    return {"type": "object", "properties": properties, "required": required}


def problems_with(value: Any, schema: dict[str, Any], where: str = "the answer") -> str:
    """What is wrong with a value, in words; empty if it fits. Keywords it does not know pass."""
    if "enum" in schema and not any(
        value == choice and type(value) is type(choice) for choice in schema["enum"]
    ):
        return f"{where} must be one of {', '.join(map(repr, schema['enum']))}"
    if "anyOf" in schema:
        reasons = [problems_with(value, option, where) for option in schema["anyOf"]]
        return "" if "" in reasons else " or ".join(dict.fromkeys(reasons))
    wanted = schema.get("type")
    if wanted is not None:
        names = wanted if isinstance(wanted, list) else [wanted]
        if not any(_is(value, name) for name in names):
            return f"{where} must be of type {' or '.join(names)}, not {type(value).__name__}"
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                return f"{where} lacks {name!r}"
        for name, inner in schema.get("properties", {}).items():
            if name in value and (wrong := problems_with(value[name], inner, f"{where}.{name}")):
                return wrong
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            if wrong := problems_with(item, schema["items"], f"{where}[{index}]"):
                return wrong
    return ""


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool) and name in ("integer", "number"):
        return False
    return isinstance(value, _TYPES.get(name, (object,)))
