"""LangGraph's serializer, without pickle and with an allow-list: stored bytes never choose a type."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, Self

from langchain_core.documents import Document
from langchain_core.load.load import Reviver
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)
from langgraph.checkpoint.serde.base import SerializerProtocol, maybe_add_typed_methods
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

try:
    from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES as SAFE
except ImportError:  # it is private: without it, every type must be allowed by name
    SAFE = frozenset()

from holdfast.errors import CheckpointLoadError, ReviveError, SerializeError
from holdfast.errors.base import one_line
from holdfast.integrations.langgraph import messages
from holdfast.integrations.langgraph.layout import Typed

Allowed = Iterable[type | tuple[str, ...]]
"""Types, or their (module, name)."""

_PICKLERS: Final = ("pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal")
_ALLOW_LISTS: Final = ("_allowed_msgpack_modules", "_allowed_json_modules")  # True: every type
_INSTEAD: Final = (
    "allow=[...] instead of serde=, or a JsonPlusSerializer(allowed_msgpack_modules=[...]) that "
    "lists your types (None: no types of your own)"
)
_DATA: Final = frozenset({type(None), bool, int, float, str, bytes, bytearray, memoryview})
_MESSAGES: Final = Reviver(
    allowed_objects=[
        AIMessage,
        AIMessageChunk,
        ChatMessage,
        ChatMessageChunk,
        Document,
        FunctionMessage,
        FunctionMessageChunk,
        HumanMessage,
        HumanMessageChunk,
        RemoveMessage,
        SystemMessage,
        SystemMessageChunk,
        ToolMessage,
        ToolMessageChunk,
    ]
)
_CONTAINERS: Final = frozenset({list, tuple, set, frozenset, deque})
_THEIR_OWN: Final = ("langgraph", "langchain_core", "numpy")  # LangGraph knows what to do with them


class AllowListSerializer(JsonPlusSerializer):
    """LangGraph's own serializer, for messages, standard types and those that the caller allows.

    A value of another type is refused when it is saved: LangGraph would load it as a plain dict,
    or, without an allow-list, import whatever the stored bytes name.
    """

    def __init__(self, allow: Allowed = ()) -> None:
        super().__init__(allowed_msgpack_modules=tuple(allow) or None)
        self._leaves: set[type] = set(_DATA)  # types that need no further look

    def with_msgpack_allowlist(self, extra_allowlist: Allowed) -> Self:
        """A serializer that allows these types, too."""
        wider = super().with_msgpack_allowlist(extra_allowlist)
        assert isinstance(wider, type(self)), "it is a copy of this one"
        wider._leaves = set(_DATA)  # noqa: SLF001 - it is of this class
        return wider

    def dumps_typed(self, obj: Any) -> Typed:
        """The value, serialized. Raises `SerializeError` for a type that is not allowed."""
        packed = None if obj is None or isinstance(obj, bytes | bytearray) else messages.dumps(obj)
        typed = super().dumps_typed(obj) if packed is None else ("msgpack", packed)
        self._check((obj,))
        return typed

    def loads_typed(self, data: Typed) -> Any:
        """The value that was serialized. Raises `ReviveError` for a type that is not allowed."""
        kind, packed = data
        if kind == "msgpack":
            return messages.loads(packed, self._unpack_ext_hook, self._check_name)
        return super().loads_typed(data)

    def _check_name(self, module: str, name: str) -> None:
        """Raise unless a value of this type could have been saved."""
        if module.partition(".")[0] not in _THEIR_OWN and not self._is_allowed(module, name):
            raise _refused(module, name)

    def _is_allowed(self, module: str, name: str) -> bool:
        allowed = self._allowed_msgpack_modules
        key = (module, name)
        return key in SAFE or allowed is True or (allowed is not None and key in allowed)

    def _reviver(self, value: dict[str, Any]) -> Any:
        """An object in JSON, as old versions of LangGraph stored them."""
        path = value.get("id")
        if value.get("type") != "constructor" or not isinstance(path, list) or not path:
            return value
        if value.get("lc") == 2:
            return self._revive_lc2(value)
        if value.get("lc") == 1:
            try:
                return _MESSAGES(value)
            except ValueError:
                raise _refused(".".join(map(str, path[:-1])), str(path[-1])) from None
        return value

    def _check_allowed_json_modules(self, value: dict[str, Any]) -> None:
        *module, name = map(str, value["id"])
        if not self._is_allowed(".".join(module), name):
            raise _refused(".".join(module), name)

    def _check(self, values: Iterable[Any]) -> None:
        """Raise unless all of these, and what they hold, may be loaded again."""
        leaves = self._leaves
        for value in values:
            kind = type(value)
            if kind in leaves:
                continue
            if isinstance(value, dict):
                self._check(value.values())
                continue
            if kind not in _CONTAINERS:
                self._check_type(kind, value)
            parts = _parts(value)
            if parts is None:
                leaves.add(kind)
            else:
                self._check(parts)

    def _check_type(self, kind: type, value: Any) -> None:
        if (
            self._is_allowed(kind.__module__, kind.__name__)
            or kind.__module__.partition(".")[0] in _THEIR_OWN
            or isinstance(value, BaseException | re.Pattern | list)
            or (isinstance(value, str | int | float | bytes) and not isinstance(value, enum.Enum))
        ):
            return
        reason = (
            f"{kind.__module__}.{kind.__qualname__} is not among the types that checkpoints may "
            f"hold; allow it: HoldfastSaver(..., allow=[{kind.__name__}])"
        )
        raise SerializeError("channel_values", reason)


def _refused(module: str, name: str) -> ReviveError:
    reason = (
        f"it holds a value of the type {module}.{name}, which is not allowed; if you trust it, "
        f"allow it: HoldfastSaver(..., allow=[{name}])"
    )
    return ReviveError("channel_values", reason)


def _parts(value: Any) -> Iterable[Any] | None:
    """What LangGraph serializes of a value one by one; None if it does so as a whole."""
    if isinstance(value, list | set | frozenset | deque) or type(value) is tuple:
        return value
    if hasattr(value, "model_dump") or isinstance(value, enum.Enum | type):
        return None
    if hasattr(value, "_asdict"):
        return tuple(value._asdict().values())
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if type(value).__name__ == "Send":
        return (value.arg,)
    return None


def checked(serde: Any) -> SerializerProtocol:
    """The caller's own serializer. Raises `ValueError` if it uses pickle or loads every type."""
    found: Any = serde
    while found is not None:
        name = getattr(found, "__name__", "") or type(found).__module__
        if getattr(found, "pickle_fallback", False) or name.partition(".")[0] in _PICKLERS:
            raise ValueError(
                "holdfast stores no pickles: whoever can write to the store could run code; "
                f"give {_INSTEAD}"
            )
        if any(getattr(found, listed, None) is True for listed in _ALLOW_LISTS):
            raise ValueError(
                "this serializer loads whatever type the stored bytes name: whoever can write to "
                f"the store could run code; give {_INSTEAD}; one that encrypts takes such a "
                "serializer as its serde"
            )
        found = getattr(found, "serde", None)  # of one that encrypts
    return maybe_add_typed_methods(serde)


def serialized(serde: SerializerProtocol, channel: str, value: Any) -> Typed:
    """The value of a channel. Raises `SerializeError`, which names the channel."""
    path = f"channel_values.{channel}"
    try:
        return serde.dumps_typed(value)
    except SerializeError as error:
        raise SerializeError(path, error.reason) from None
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        reason = (
            f"LangGraph's serializer can't store it ({one_line(str(error))}); store plain values "
            "instead: list() of a range, item() of a numpy scalar, str() of a number beyond 64 bits"
        )
        raise SerializeError(path, reason) from error


def revived(serde: SerializerProtocol, typed: Typed, run: str) -> Any:
    """A stored value.

    Raises `CheckpointLoadError` for a pickle, a type not allowed, and what the serializer refuses.
    """
    kind = typed[0].partition("+")[0]  # what follows is how it was encrypted
    if kind == "pickle":
        raise CheckpointLoadError(run, "it holds a pickle, which is never loaded: it may run code")
    try:
        return serde.loads_typed(typed)
    except ReviveError as error:
        raise CheckpointLoadError(run, error.reason) from None
    except (TypeError, ValueError, LookupError, NotImplementedError, RecursionError) as error:
        reason = f"the serializer can't read a value of it: {one_line(str(error))}"
        raise CheckpointLoadError(run, reason) from error
