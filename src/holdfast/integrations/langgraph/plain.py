"""Stored values as plain data, for display: no type is imported, and LangGraph is not needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import ormsgpack

from holdfast.integrations.langgraph.layout import Typed, typed_values, typed_writes

_DEEPEST: Final = 64
_SNAPSHOT: Final = 7
_ARRAY: Final = 6
_PYDANTIC: Final = (4, 5)


def plain(typed: Typed) -> Any:
    """A value as plain data: objects as their fields, what can't be read as a short text.

    Messages are dicts with "type", "content", "id" and so on.
    """
    kind, data = typed
    if kind == "null":
        return None
    if kind in ("bytes", "bytearray"):
        return data
    if kind == "msgpack":
        try:
            return _unpacked(data, 0)
        except (ValueError, TypeError, LookupError, RecursionError):
            return f"<damaged msgpack, {len(data)} bytes>"
    return f"<{kind}, {len(data)} bytes>"


def channel_values(state: object) -> dict[str, Any]:
    """The values of a stored checkpoint as plain data. Raises `ValueError` for another state."""
    return {name: plain(typed) for name, typed in typed_values(state).items()}


def writes(value: object) -> list[tuple[str, Any]]:
    """The stored writes of a task as plain data, each with its channel. Raises `ValueError`."""
    return [(channel, plain(typed)) for _, channel, typed in typed_writes(value)]


def messages(value: object) -> list[Mapping[str, Any]] | None:
    """The messages that a plain value is, one or a list of them; None if it is something else."""
    found: list[Any] = value if isinstance(value, list) else [value]
    return found if found and all(map(_is_message, found)) else None


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and "content" in value and isinstance(value.get("type"), str)


def _unpacked(data: bytes, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")

    def show(code: int, inner: bytes) -> Any:
        found = _unpacked(inner, depth + 1)
        if code == _SNAPSHOT:
            return found
        if code == _ARRAY:
            return f"<array of {found[0]}, shape {tuple(found[1])}>"
        module, name, argument = found[:3]
        if "Secret" in str(name) and code not in _PYDANTIC:
            return "**********"
        if (module, name) == ("uuid", "UUID"):
            return "-".join(
                argument[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
            )
        return argument

    return ormsgpack.unpackb(data, ext_hook=show, option=ormsgpack.OPT_NON_STR_KEYS)
