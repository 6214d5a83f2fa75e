"""Messages of agents as people read them: who says what, and what is called."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.codec.ascii_json import to_ascii
from holdfast.integrations.langgraph import plain
from holdfast.operations.diff import Change

_LONGEST: Final = 400  # characters of a text, unless all of it is wanted


def change_lines(change: Change) -> list[str]:
    """A change of a thread's channels, in which a message is one line."""
    sign, value = ("-", change.old) if change.op == "remove" else ("+", change.new)
    if change.op == "replace":
        return [str(change)]
    channel = change.path[0]
    if len(change.path) == 2 and plain.is_message(value):
        return [f"{sign} {channel}[{change.path[1]}] {_message_line(value)}"]
    spoken = plain.messages(value) if len(change.path) == 1 and isinstance(value, list) else None
    if not spoken:
        return [str(change)]
    return [f"{sign} {channel}[{n}] {_message_line(each)}" for n, each in enumerate(spoken)]


def _message_line(message: Mapping[str, Any]) -> str:
    return cut(f"{who(message)}: {' '.join(said(message)).strip()}")


def who(message: Mapping[str, Any]) -> str:
    """The role of who speaks, and the name if there is one."""
    role, name = message.get("type") or message.get("role"), message.get("name")
    return f"{role} {name}" if name else str(role)


def said(message: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a message, and what it calls."""
    content = message.get("content")
    for block in content if isinstance(content, list) else [content]:
        text = _block(block)
        if text:
            yield text
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, Mapping):
            yield f"calls {_call(call)}"


def _block(block: Any) -> str:
    """A part of a message: its text, or what else it is."""
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping):
        return "" if block is None else to_ascii(block)
    if isinstance(block.get("text"), str):
        return str(block["text"])
    kind = block.get("type")
    return "" if kind == "tool_use" else f"[{kind}]"  # calls are listed by themselves


def _call(call: Mapping[str, Any]) -> str:
    function, args = call.get("function"), call.get("args")
    if isinstance(function, Mapping):  # as OpenAI has it
        return f"{function.get('name')}({function.get('arguments')})"
    if not isinstance(args, Mapping):
        return f"{call.get('name')}({to_ascii(args)})"
    given = (f"{key}={to_ascii(value)}" for key, value in args.items())
    return f"{call.get('name')}({', '.join(given)})"


def cut(text: str) -> str:
    """The beginning of a text that is long."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"
