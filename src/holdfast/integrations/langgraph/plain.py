"""Stored values as plain data, for display: no type is imported, and LangGraph is not needed.

In MessagePack, an object is an Ext value with the name of its class and its fields. Whoever wrote
the bytes chooses nothing but text here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from itertools import pairwise
from typing import Any, Final, NamedTuple

import ormsgpack

from holdfast.integrations.langgraph.layout import Typed, typed_values, typed_writes

_DEEPEST: Final = 64
_SINGLE, _POSITIONAL, _KEYWORDS, _METHOD, _PYDANTIC_1, _PYDANTIC_2, _ARRAY, _SNAPSHOT = range(8)
_MESSAGES: Final = ("langchain_core.messages.", "langchain.schema.messages.")
_TEXT: Final = ("datetime.datetime", "decimal.Decimal", "zoneinfo.ZoneInfo")  # as it is stored
_LISTS: Final = ("builtins.set", "builtins.frozenset", "collections.deque")
_PEOPLE: Final = ("human", "user", "system", "developer", "chat")
_MACHINES: Final = ("ai", "assistant", "tool", "function", "remove")
_TOO_DEEP: Final = "<nested too deeply>"


class _Ext(NamedTuple):
    code: int
    data: bytes


def plain(typed: Typed) -> Any:
    """A value as plain data; what can't be read becomes a short text.

    Messages are dicts with "type", "content", "id" and so on. An object of another class is a dict
    of one item, the name of its class and its fields: `{"app.Order": {"number": 7}}`.
    """
    kind, data = typed
    try:
        if kind == "null":
            return None
        if kind in ("bytes", "bytearray"):
            return data
        if kind == "msgpack":
            return _plain(_unpacked(data), 0)
        if kind == "json":
            return _plain(json.loads(data), 0)
    except (ValueError, RecursionError):
        return f"<damaged {kind}, {len(data):,} bytes>"
    return f"<{kind}, {len(data):,} bytes>"


def channel_values(state: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a stored checkpoint as plain data. Raises `ValueError` for another state."""
    return {name: plain(typed) for name, typed in typed_values(state).items()}


def writes(value: object) -> list[tuple[str, Any]]:
    """The stored writes of a task as plain data, each with its channel. Raises `ValueError`."""
    return [(channel, plain(typed)) for _, channel, typed in typed_writes(value)]


def messages(value: object) -> list[Mapping[str, Any]] | None:
    """The messages that a plain value is, one or a list of them; None if it is something else."""
    found: list[Any] = value if isinstance(value, list) else [value]
    return found if found and all(map(is_message, found)) else None


def is_message(value: object) -> bool:
    """Whether a plain value is a message: of LangChain's classes, or a dict like one."""
    if not isinstance(value, Mapping) or "content" not in value:
        return False
    role = value.get("type") or value.get("role")
    return isinstance(role, str) and role in (*_PEOPLE, *_MACHINES)


def _unpacked(data: bytes) -> Any:
    return ormsgpack.unpackb(data, ext_hook=_Ext, option=ormsgpack.OPT_NON_STR_KEYS)


def _plain(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        return _TOO_DEEP
    if isinstance(value, _Ext):
        return _object(value, depth + 1)
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, dict):
        if value.get("lc") in (1, 2) and isinstance(value.get("id"), list):
            fields = value.get("kwargs") or value.get("args") or {}  # as older versions stored it
            return _named(".".join(map(str, value["id"])), _plain(fields, depth + 1))
        return {_key(key, depth): _plain(item, depth + 1) for key, item in value.items()}
    return value


def _key(key: Any, depth: int) -> str:
    return key if isinstance(key, str) else str(_plain(key, depth + 1))


def _object(ext: _Ext, depth: int) -> Any:
    """What an Ext value says: an object's class and fields, an array, or a channel's snapshot."""
    try:
        parts = _unpacked(ext.data)
    except ValueError:
        return f"<damaged object, {len(ext.data):,} bytes>"
    if ext.code == _SNAPSHOT:
        return _plain(parts, depth)
    if not isinstance(parts, list | tuple) or len(parts) < 3 or ext.code > _SNAPSHOT:
        return f"<unknown object, {len(ext.data):,} bytes>"
    if ext.code == _ARRAY:
        return f"<array of {_plain(parts[0], depth)}, shape {_plain(parts[1], depth)}>"
    name = f"{_plain(parts[0], depth)}.{_plain(parts[1], depth)}"
    if "Secret" in name and ext.code == _SINGLE:
        return "**********"
    return _named(name, _plain(parts[2], depth))


def _named(name: str, fields: Any) -> Any:
    """An object of a class, as a reader knows it."""
    if isinstance(fields, dict) and name.startswith(_MESSAGES):
        kind = name.rpartition(".")[2].removesuffix("Chunk").removesuffix("Message").lower()
        return {"type": kind} | fields
    if isinstance(fields, str):
        if name in _TEXT:
            return fields
        if name == "uuid.UUID" and len(fields) == 32:
            ends = (0, 8, 12, 16, 20, 32)
            return "-".join(fields[a:b] for a, b in pairwise(ends))
    if isinstance(fields, list):
        if name in _LISTS:
            return fields
        if name.startswith("pathlib."):
            return "/".join(map(str, fields)).replace("//", "/", 1)
        if name == "datetime.date" and len(fields) == 3:
            try:
                return date(*fields).isoformat()
            except (TypeError, ValueError):
                pass
    return {name: fields}
