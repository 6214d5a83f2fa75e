"""What notebooks show of checkpoints, runs and questions: each a `_repr_html_` for its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.codec.summaries import pretty
from holdfast.markup import block, card

READERS: Final[dict[str, Callable[[Any], Any]]] = {}
"""By flow: what makes data for people of its states. Raises ValueError for what it can't read."""

_LARGE: Final = 1 << 20  # bytes of a state that is not shown


def _state(checkpoint: Any) -> str:
    if checkpoint.damage or not hasattr(type(checkpoint), "state"):
        return ""
    size = checkpoint.get_state_size()
    if size > _LARGE:
        return f"its state takes {size:,} bytes"
    return block(pretty(_read(checkpoint.flow, checkpoint.state)))


def _read(flow: str | None, state: Any) -> Any:
    reader = READERS.get(flow or "")
    try:
        return state if reader is None else reader(state)
    except ValueError:
        return state


def _shown(question: Any) -> str:
    return "" if question.shown is None else block(pretty(question.shown))


CHECKPOINT: Final = card(
    *("checkpoint_id", "step", "status", "created_at", "duration", "flow", "thread_id", "owner"),
    "damage",
    body=_state,
)
RUN: Final = card(
    *("run_id", "status", "step", "flow", "thread_id", "owner", "started_at", "updated_at"),
    *("questions", "due_at", "holder", "labels", "parent_id"),
)
QUESTION: Final = card(
    *("prompt", "run_id", "key", "choices", "assignees", "asked_at", "deadline"), body=_shown
)
