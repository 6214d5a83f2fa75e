"""How what a node returns becomes the next state, for each kind of state."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, get_origin

from holdfast.codec import values
from holdfast.codec.fields import stored_fields
from holdfast.codec.records import stored_names
from holdfast.codec.revive import revive
from holdfast.engine.program import stored_form as plain_form


def revived(data: Any, kind: Any, *, advice: str = "") -> Any:
    """Plain data as a state of this type. Raises `ReviveError`, with the advice."""
    return data if kind is dict or kind is Any else revive(data, kind, advice=advice)


def stored_form(state: Any, kind: Any) -> Any:
    """The state as a store returns it. Raises `SerializeError` and `ReviveError`."""
    return revived(plain_form(state), kind)


def updated(kind: Any, state: Any, returned: Any) -> Any:
    """The state after a node was given `state` and returned this.

    Nothing means the state it was given, changed or not. Of a dict, the fields it names change.
    """
    if kind is dict and type(returned) is dict:  # fast path
        return {**state, **returned}
    if type(returned) is kind and _is_whole(returned.__class__):
        return returned
    kind = get_origin(kind) or kind
    if returned is None and has_fields(kind):
        return state
    if not isinstance(returned, Mapping):
        return returned
    if dataclasses.is_dataclass(kind):
        return _replaced(kind, state, returned)
    if hasattr(kind, "model_validate"):
        unknown = [name for name in returned if name not in kind.model_fields]
        if unknown:
            raise _unknown(kind, unknown)
        return revive({**values.decode(values.encode(state)), **returned}, kind)  # validated
    if is_mapping(kind):
        known = stored_names(kind)  # None for a dict, which may have any
        unknown = (
            [] if known is None else [n for n in returned if n not in known and n not in state]
        )
        if unknown:
            raise _unknown(kind, unknown)
        return {**state, **returned}
    return returned


@lru_cache(maxsize=256)
def _is_whole(kind: Any) -> bool:
    """Whether an instance is a state, and not some of its fields: it is a dataclass."""
    return not issubclass(kind, Mapping) and dataclasses.is_dataclass(kind)


def has_fields(kind: Any) -> bool:
    """Whether states of this type are made of named fields."""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "model_validate") or is_mapping(kind)


def is_mapping(kind: Any) -> bool:
    """Whether states of this type are dicts: a TypedDict, or dict itself."""
    plain = get_origin(kind) or kind
    return hasattr(plain, "__required_keys__") or (
        isinstance(plain, type) and issubclass(plain, dict)
    )


def fields_of(state: Any) -> dict[str, Any]:
    """A state's fields by name."""
    if isinstance(state, Mapping):
        return dict(state)
    if dataclasses.is_dataclass(state):
        return {name: getattr(state, name) for name in stored_fields(type(state))}
    return {name: getattr(state, name) for name in type(state).model_fields}


def merge_changes(before: Any, branches: dict[str, Any]) -> Any:
    """A merge that takes every field from the branch that changed it.

    Raises `ValueError` where two branches changed a field in different ways.
    """
    old = fields_of(before)
    changed: dict[str, Any] = {}
    by: dict[str, str] = {}
    for name, state in branches.items():
        new = fields_of(state)
        for field in {**old, **new}:
            value = new.get(field, _GONE)
            if _same(value, old.get(field, _GONE)):
                continue
            if field in changed and not _same(value, changed[field]):
                raise ValueError(
                    f"{by[field]!r} and {name!r} both changed {field!r}; "
                    "give the graph a merge= of your own that says what becomes of it"
                )
            changed[field], by[field] = value, name
    gone = {field for field, value in changed.items() if value is _GONE}
    if gone:  # only of a dict
        return {field: value for field, value in (old | changed).items() if field not in gone}
    return updated(type(before), before, changed)


_GONE: Final = object()


def _same(one: Any, other: Any) -> bool:
    """Whether two values are stored alike: NaN is like NaN, and True is not 1."""
    if one is _GONE or other is _GONE:
        return one is other
    if isinstance(one, set | frozenset):
        return type(one) is type(other) and bool(one == other)
    return values.encode(one) == values.encode(other)


def _replaced(kind: Any, state: Any, fields: Mapping[str, Any]) -> Any:
    known = {f.name for f in dataclasses.fields(kind)}
    unknown = [name for name in fields if name not in known]
    if unknown:
        raise _unknown(kind, unknown)
    return dataclasses.replace(state, **fields)


def _unknown(kind: Any, names: list[Any]) -> TypeError:
    listed = ", ".join(map(repr, names))
    return TypeError(f"{kind.__name__} has no field {listed}; return its fields, or a whole state")
