"""Stored values taken apart and put together again, byte for byte, whatever objects they hold.

In MessagePack, LangGraph's serializer makes an Ext value of an object: the name of its class and
its fields. Here it stays the bytes that it is.
"""

from __future__ import annotations

import json
from typing import Any, Final

import ormsgpack

from holdfast.integrations.langgraph.layout import Typed

READABLE: Final = frozenset(("null", "bytes", "bytearray", "msgpack", "json"))
"""The types that can be taken apart without running anything."""

_OPTION: Final = ormsgpack.OPT_NON_STR_KEYS
_ARRAY: Final = 6  # the code of an array; those below are objects, with class and fields


def take_apart(kind: str, data: bytes) -> Any:
    """A stored value in which objects stay bytes. Raises ValueError if it can't be read.

    The bytes of an object, too, are what LangGraph's serializer makes of one.
    """
    if kind == "null":
        return None
    if kind in ("bytes", "bytearray"):
        return bytes(data)
    if kind == "msgpack":
        try:
            return ormsgpack.unpackb(data, ext_hook=_keep, option=_OPTION)
        except ValueError as error:
            raise ValueError(f"a value, or an object in it, is damaged ({error})") from error
    if kind == "json":
        return json.loads(data)
    raise ValueError(f"its type is {kind!r}, which can't be read")


def put_together(kind: str, value: Any) -> Typed:
    """A part of what `take_apart` gave, as LangGraph's serializer would have stored it alone."""
    if value is None:
        return "null", b""
    if isinstance(value, bytes):
        return "bytes", value
    if kind == "json":
        return "json", json.dumps(value, ensure_ascii=False).encode()
    return "msgpack", ormsgpack.packb(value, option=_OPTION)


def is_plain(value: Any) -> bool:
    """Whether there is no object in what `take_apart` gave."""
    if isinstance(value, dict):
        return all(map(is_plain, value)) and all(map(is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | bytes)


def _keep(code: int, data: bytes) -> ormsgpack.Ext:
    parts = ormsgpack.unpackb(data, ext_hook=_keep, option=_OPTION) if code <= _ARRAY else ()
    if code < _ARRAY:
        match parts:
            case [str(), str(), _, *_]:
                pass
            case _:
                raise ValueError("an object without the name of its class, or without its fields")
    if code == _ARRAY and not isinstance(parts, list | tuple):
        raise ValueError("an array without its form")
    return ormsgpack.Ext(code, bytes(data))
