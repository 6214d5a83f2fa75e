"""LangChain's messages to bytes and back: the same bytes that LangGraph makes, and faster.

A conversation is loaded at the beginning of each turn and saved after each step, so this is most
of what a long one costs. LangGraph calls the class, which validates fields that were valid when
they were stored, and has pydantic copy them to store them. Here the fields are put in place, and
taken from there, if they are of the types that both leave alone; for any other message, and for
any other object, LangGraph's way is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ormsgpack
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde import jsonplus

from holdfast.errors import ReviveError

Hook = Callable[[int, bytes], Any]
"""Makes a value of an Ext value's code and bytes."""

OPTION: Final = ormsgpack.OPT_NON_STR_KEYS

_PYDANTIC_2: Final = 5  # the code of an object with `model_dump`: module, name, fields
_VALIDATED: Final = (4, _PYDANTIC_2)  # codes of objects whose class makes its parts of plain data
_NAMED: Final = range(6)  # codes of objects, each with the module and name of its type
_SNAPSHOT: Final = 7  # the code of a snapshot of a delta channel
_TEXT_OR_NONE: Final = (str, type(None))
_READ_WITH: Final = "model_validate_json"  # what LangGraph stores behind the fields

_default: Callable[[Any], Any] | None = getattr(jsonplus, "_msgpack_default", None)
_option: int | None = getattr(jsonplus, "_option", None)


def dumps(value: Any) -> bytes | None:
    """The value as LangGraph's serializer packs it; None if that has to do it itself."""
    if _default is None or _option is None:  # they are private there
        return None
    return ormsgpack.packb(value, default=_packed, option=_option)


def _packed(value: Any) -> Any:
    kind = type(value)
    if kind in _ORDERS:
        fields = value.__dict__
        if (
            tuple(fields) == _ORDERS[kind]
            and not value.__pydantic_extra__
            and _are_plain(fields, kind)
        ):
            parts = (kind.__module__, kind.__name__, fields, _READ_WITH)
            try:
                return ormsgpack.Ext(_PYDANTIC_2, ormsgpack.packb(parts, option=_option))
            except ormsgpack.MsgpackEncodeError:
                pass  # it holds an object, of which pydantic may make something else
    assert _default is not None, "else nothing is packed here"
    return _default(value)


def loads(data: bytes, hook: Hook, check: Callable[[str, str], None]) -> Any:
    """The value that LangGraph's serializer packed, with its own hook for all but messages.

    `check` is called with the module and name of each type, and raises `ReviveError` for one that
    must not be loaded. The parts of a pydantic model are left to the model.
    """
    refused: list[ReviveError] = []

    def revive(code: int, packed: bytes) -> Any:
        if code in _NAMED:
            inner = hook if code in _VALIDATED else revive
            parts = ormsgpack.unpackb(packed, ext_hook=inner, option=OPTION)
            kind = _KINDS.get((parts[0], parts[1])) if code == _PYDANTIC_2 else None
            if kind is not None and _is_plain(parts[2], kind):
                return _put_in_place(kind, parts[2])
            try:
                check(parts[0], parts[1])
            except ReviveError as error:
                refused.append(error)  # ormsgpack raises an error of its own
                raise
        elif code == _SNAPSHOT:
            ormsgpack.unpackb(packed, ext_hook=revive, option=OPTION)
        return hook(code, packed)

    try:
        return ormsgpack.unpackb(data, ext_hook=revive, option=OPTION)
    except ValueError:
        if refused:
            raise refused[0] from None
        raise


def _is_plain(fields: Any, kind: type[BaseMessage]) -> bool:
    """Whether validation would leave the fields of a message as they are."""
    return type(fields) is dict and fields.keys() == _FIELDS[kind] and _are_plain(fields, kind)


def _are_plain(fields: dict[str, Any], kind: type[BaseMessage]) -> bool:
    return (
        type(fields["content"]) is str
        and type(fields["id"]) in _TEXT_OR_NONE
        and type(fields["name"]) in _TEXT_OR_NONE
        and type(fields["additional_kwargs"]) is dict
        and type(fields["response_metadata"]) is dict
        and not fields["additional_kwargs"]
        and _CHECKS[kind](fields)
    )


def _is_answer(fields: dict[str, Any]) -> bool:
    calls = fields["tool_calls"]
    return (
        fields["type"] == "ai"
        and type(calls) is list
        and (not calls or all(map(_is_call, calls)))
        and fields["invalid_tool_calls"] == []
        and _is_usage(fields["usage_metadata"])
    )


def _is_call(call: Any) -> bool:
    return (
        type(call) is dict
        and call.keys() == _CALL
        and type(call["name"]) is str
        and type(call["args"]) is dict
        and type(call["id"]) in _TEXT_OR_NONE
        and call["type"] == "tool_call"
    )


def _is_usage(usage: Any) -> bool:
    """Whether this counts tokens, without details."""
    if usage is None:
        return True
    return (
        type(usage) is dict
        and usage.keys() == _COUNTS
        and type(usage["input_tokens"]) is int
        and type(usage["output_tokens"]) is int
        and type(usage["total_tokens"]) is int
    )


def _is_result(fields: dict[str, Any]) -> bool:
    return (
        fields["type"] == "tool"
        and type(fields["tool_call_id"]) is str
        and fields["status"] in ("success", "error")
    )


_CALL: Final = {"name", "args", "id", "type"}
_COUNTS: Final = {"input_tokens", "output_tokens", "total_tokens"}
_CHECKS: Final[dict[type[BaseMessage], Callable[[dict[str, Any]], bool]]] = {
    HumanMessage: lambda fields: fields["type"] == "human",
    SystemMessage: lambda fields: fields["type"] == "system",
    AIMessage: _is_answer,
    ToolMessage: _is_result,
}


def _put_in_place(kind: type[BaseMessage], fields: dict[str, Any]) -> BaseMessage:
    """A message with these fields, as pydantic's `model_construct` makes it, only faster."""
    message = kind.__new__(kind)
    set_attribute = object.__setattr__  # pydantic's own looks for fields of these names
    set_attribute(message, "__dict__", fields)
    set_attribute(message, "__pydantic_fields_set__", set(fields))
    set_attribute(message, "__pydantic_extra__", {})
    set_attribute(message, "__pydantic_private__", None)
    return message


def _is_made_alike(kind: type[BaseMessage], given: dict[str, Any]) -> bool:
    """Whether a message made here is what its class makes: another pydantic may do otherwise."""
    made = kind(**given)
    fields = made.model_dump()
    again, ours = kind(**fields), _put_in_place(kind, dict(fields))
    return (
        fields.keys() == kind.model_fields.keys()
        and all(
            getattr(again, name) == getattr(ours, name)
            for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__")
        )
        and again.__pydantic_private__ is None
    )


_FIELDS: Final = {kind: frozenset(kind.model_fields) for kind in _CHECKS}
_KINDS: Final = {
    (kind.__module__, kind.__name__): kind
    for kind in _CHECKS
    if _is_made_alike(
        kind, {"content": "", **({"tool_call_id": ""} if kind is ToolMessage else {})}
    )
}
_ORDERS: Final = {kind: tuple(kind.model_fields) for kind in _KINDS.values()}
