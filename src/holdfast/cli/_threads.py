"""Draws LangGraph's threads: messages, and the values of the other channels.

All of it is text of anyone's, and goes through `_show` on its way to a terminal.
"""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.cli import _show
from holdfast.integrations.langgraph import plain
from holdfast.views.messages import cut, said, who

_SHOWN: Final = 12  # messages, without --full
_INTERNAL: Final = ("__", "branch:")  # the channels by which LangGraph passes control
_STYLES: Final = {
    "human": "cyan",
    "user": "cyan",
    "ai": "green",
    "assistant": "green",
    "tool": "yellow",
    "function": "yellow",
    "system": "magenta",
    "developer": "magenta",
}


def draw_channels(channels: Mapping[str, Any], *, full: bool) -> None:
    """Draw the values of a thread's channels: messages as a conversation, the rest as JSON."""
    for name, value in channels.items():
        if name.startswith(_INTERNAL) and not value and not full:
            continue
        messages = plain.messages(value)
        if messages is not None:
            _show.say(f"{name} ({len(messages):,})", "bold")
            shown = messages if full else messages[-_SHOWN:]
            if len(shown) < len(messages):
                _show.say(
                    f"  … {len(messages) - len(shown):,} earlier; see them with --full", "dim"
                )
            for message in shown:
                _draw_message(message, full=full)
        elif full:
            _show.say(name, "bold")
            _show.print_pretty(value)
        else:
            _show.show(_show.cell(f"{name} ", "bold").add(cut(_show.to_json(value))))


def _draw_message(message: Mapping[str, Any], *, full: bool) -> None:
    begin = f"  {who(message)}: "
    style = _STYLES.get(str(message.get("type") or message.get("role")), "")
    texts = [text if full else cut(text) for text in said(message)]
    for line in "\n".join(texts).split("\n"):
        _show.show(_show.cell(begin, style).add(_show.clean(line)))
        begin = "    "
