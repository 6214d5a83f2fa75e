"""The JSON Schema of a Python type. `fitting.py` checks values against schemas."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections import abc
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal, Union, get_args, get_origin

from holdfast.codec.registry import registered
from holdfast.codec.revive import can_be_revived, unwrapped
from holdfast.engine.people.forms import codec_form, form_of, named

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
_ABSTRACT: Final[dict[Any, Any]] = {  # what answers for them are
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Set: set,
    abc.MutableSet: set,
    abc.Mapping: dict,
    abc.MutableMapping: dict,
}


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type, as far as one describes it; an empty one allows anything.

    Raises `TypeError` for a class of which nothing that is stored can become an instance.
    """
    defs: dict[str, Any] = {}
    return _whole(_part(kind, defs), defs)


def schema_of_fields(hints: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of an object with these fields, by their types, and no others."""
    defs: dict[str, Any] = {}
    properties = {name: _part(hint, defs) for name, hint in hints.items()}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return _whole(schema, defs)


def _whole(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "$defs": defs} if defs else schema


def _part(kind: Any, defs: dict[str, Any], *within: Any) -> dict[str, Any]:
    """The schema of a part; the schemas it refers to go into `defs`, for the root.

    `within` are the types that contain it: a type that contains itself ends there.
    """
    kind = unwrapped(kind)
    if kind in _SIMPLE:
        return dict(_SIMPLE[kind])
    origin, args = get_origin(kind), get_args(kind)
    if origin is Union or origin is types.UnionType:
        return {"anyOf": [_part(arg, defs, *within) for arg in args]}
    if origin is Literal:
        return {"enum": list(args)}
    plain = _ABSTRACT.get(origin or kind)
    if plain is not None:
        return _part(plain[args] if args else plain, defs, *within)
    codec = registered(kind) if isinstance(kind, type) else None
    if codec is not None:
        return codec_form(codec.name, kind)
    if origin is list and args:
        return {"type": "array", "items": _part(args[0], defs, *within)}
    if origin is dict and args:
        return {"type": "object", "additionalProperties": _part(args[1], defs, *within)}
    form = form_of(origin or kind)
    if form is not None:
        return {**form, **_members(args, defs, within)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if hasattr(kind, "model_json_schema"):
        return _of_model(kind, defs)
    if kind in within:
        return {}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        required = [
            f.name
            for f in dataclasses.fields(kind)
            if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        ]
        return {**_object(kind, required, defs, within), "additionalProperties": False}
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple(kind, defs, within)
    if hasattr(kind, "__required_keys__"):
        return _object(kind, sorted(kind.__required_keys__), defs, within)
    if kind is not Any and isinstance(origin or kind, type):
        return _of_class(origin or kind)
    return {}


def _of_class(kind: type) -> dict[str, Any]:
    """The schema of any other class: of the plain type that it is a subclass of, if it is one."""
    if not can_be_revived(kind):
        raise TypeError(
            f"no answer can become a {kind.__name__}: ask for a dataclass, a pydantic model, a "
            "TypedDict, a NamedTuple, an Enum, or a plain type such as str, int or list[str], or "
            "register a codec for it (holdfast.register_codec)"
        )
    base = next((base for base in (bool, int, float, str) if issubclass(kind, base)), None)
    return {} if base is None else dict(_SIMPLE[base])


def _members(
    args: tuple[Any, ...], defs: dict[str, Any], within: tuple[Any, ...]
) -> dict[str, Any]:
    """What a tuple or set holds: `tuple[int, str]`, `tuple[int, ...]`, `set[int]`."""
    parts = [_part(arg, defs, *within) for arg in args if arg is not Ellipsis]
    if not parts:
        return {}
    if len(args) == 1 or args[-1] is Ellipsis:
        return {"items": parts[0]}
    return {"prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}


def _named_tuple(kind: Any, defs: dict[str, Any], within: tuple[Any, ...]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    parts = [_part(hints.get(name, Any), defs, *within, kind) for name in kind._fields]
    least = len(parts) - len(kind._field_defaults)
    limits = {"minItems": least, "maxItems": len(parts)}
    return {**(form_of(tuple) or {}), **({"prefixItems": parts} if parts else {}), **limits}


def _object(
    kind: Any, required: list[str], defs: dict[str, Any], within: tuple[Any, ...]
) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    properties = {name: _part(hint, defs, *within, kind) for name, hint in hints.items()}
    return {"type": "object", "properties": properties, "required": required}


def _of_model(kind: Any, defs: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = named(kind.model_json_schema())
    for name, part in schema.pop("$defs", {}).items():
        if defs.setdefault(name, part) != part:
            raise TypeError(f"two models called {name!r} in one answer; rename one of them")
    return schema
