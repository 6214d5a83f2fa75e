"""Whether what a database holds has the types that LangGraph's savers write.

Columns of SQLite take values of any type, and a state may have been written by anything. Each
function raises ValueError, which says what is wrong; whoever calls it knows where.
"""

from __future__ import annotations

from typing import Any

from holdfast.integrations.langgraph.databases.rows import Saved, Write
from holdfast.integrations.langgraph.databases.values import take_apart


def check_saved(saved: Saved) -> None:
    """Check a checkpoint: its columns, its state and the writes of its tasks."""
    for column in ("thread_id", "checkpoint_ns", "checkpoint_id"):
        check_text(f"the column checkpoints.{column}", getattr(saved, column))
    if saved.parent_id is not None:
        check_text("the column checkpoints.parent_checkpoint_id", saved.parent_id)
    fields = saved.fields
    if fields.get("id") != saved.checkpoint_id:
        raise ValueError(f"its state is that of another checkpoint, {fields.get('id')!r}")
    if not isinstance(fields.get("v"), int):
        raise ValueError(f"the version of its state (v) is {fields.get('v')!r}, not an integer")
    check_text("the time of its state (ts)", fields.get("ts"))
    for channel in saved.channels:
        check_text("the name of a channel in its state", channel)
    _check_versions("channel_versions", fields.get("channel_versions"))
    seen = fields.get("versions_seen")
    for node, versions in checked_dict("versions_seen", seen).items():
        check_text("the name of a node in versions_seen", node)
        _check_versions(f"versions_seen[{node!r}]", versions)
    updated = fields.get("updated_channels")
    if updated is not None and not isinstance(updated, list | tuple):
        raise ValueError(f"updated_channels in its state is {_kind(updated)}, not a list")
    for channel in updated or ():
        check_text("the name of a channel in updated_channels", channel)
    for write in saved.writes:
        _check_write(write)


def check_text(what: str, value: object) -> None:
    """Check that a value is text that can be stored."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is {_kind(value)}, not text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} is {value!r}, which is no valid Unicode") from None


def check_bytes(what: str, value: object) -> None:
    """Check that a value is bytes."""
    if not isinstance(value, bytes):
        raise ValueError(f"{what} is {_kind(value)}, not bytes")


def checked_dict(what: str, value: object) -> dict[Any, Any]:
    """The value, which must be a dict."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} is {_kind(value)}, not a dict")
    return value


def _check_versions(what: str, value: object) -> None:
    for channel, version in checked_dict(what, value).items():
        check_text(f"the name of a channel in {what}", channel)
        if isinstance(version, str):
            check_text(f"a version in {what}", version)
        elif not isinstance(version, int | float):
            raise ValueError(f"a version in {what} is {_kind(version)}, not a number or text")


def _check_write(write: Write) -> None:
    for column in ("task_id", "task_path", "channel"):
        check_text(f"the column {column} of one of its writes", getattr(write, column))
    if not isinstance(write.idx, int):
        raise ValueError(f"the column idx of one of its writes is {write.idx!r}, not an integer")
    kind, value = write.value
    check_bytes(f"what one of its tasks wrote to {write.channel!r}", value)
    take_apart(kind, value)


def _kind(value: object) -> str:
    return "missing" if value is None else f"of the type {type(value).__name__}"
