"""What is read from a database: checkpoints with their writes, thread by thread, oldest first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol

from holdfast.integrations.langgraph.databases.values import READABLE, put_together
from holdfast.integrations.langgraph.layout import Typed

TASKS: Final = "__pregel_tasks"
"""The channel of the tasks that a node sent."""

UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a checkpoint raises if a row of it is not as LangGraph's savers write it."""

_ENCRYPTED: Final = "+"


class Write(NamedTuple):
    """What a task wrote to a channel before its step was complete."""

    task_id: str
    task_path: str
    idx: int
    channel: str
    value: Typed


class Saved(NamedTuple):
    """One checkpoint as LangGraph saved it."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    parent_id: str | None
    fields: dict[str, Any]  # of the checkpoint, all but its channels
    channels: dict[str, Typed]
    metadata: dict[str, Any]
    writes: list[Write]


class Source(Protocol):
    """An open database whose tables are known. One snapshot of it is read."""

    name: str  # for messages, without secrets

    def check_types(self, threads: tuple[str, ...]) -> None:
        """Raise ValueError, with its place, for the first value that can't be taken over."""

    def count(self, threads: tuple[str, ...]) -> int:
        """How many checkpoints there are, of these threads or of all."""

    def checkpoints(self, threads: tuple[str, ...]) -> Iterator[Saved]:
        """Those checkpoints, ordered by thread, namespace and id."""


class Opener(Protocol):
    """Opens a database, or raises ValueError: it can't be read, or its tables are not known."""

    def __call__(self, where: str, /) -> AbstractContextManager[Source]:
        """By its path or URL."""


def check_columns(
    name: str,
    table: str,
    found: Mapping[str, str],
    known: Mapping[str, tuple[str, ...]],
    may_lack: frozenset[str] = frozenset(),
) -> None:
    """Raise ValueError unless a table has the columns that are known, each of a known type."""
    if not found:
        raise ValueError(f"{name} has no table {table!r}: it is no database of LangGraph's saver")
    new = sorted(found.keys() - known.keys())
    lacking = sorted(known.keys() - found.keys() - may_lack)
    other = sorted(
        column for column, kind in found.items() if column in known and kind not in known[column]
    )
    for columns, what in ((new, "unknown"), (lacking, "missing"), (other, "of another type")):
        if columns:
            raise ValueError(
                f"the table {table!r} of {name} has a layout that is not known here "
                f"({what}: {', '.join(columns)}); nothing was imported"
            )


class Place(NamedTuple):
    """Where something is in a database, for messages."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str | None = None

    def __str__(self) -> str:
        place = f"thread {self.thread_id!r}"
        place += f", namespace {self.checkpoint_ns!r}" if self.checkpoint_ns else ""
        return place + (f", checkpoint {self.checkpoint_id}" if self.checkpoint_id else "")


def check_type(place: Place, what: str, kind: str) -> None:
    """Raise ValueError unless values of this type can be taken over without running anything."""
    if kind in READABLE:
        return
    if kind == "pickle":
        reason = "is a pickle, which can run any code when it is read"
    elif _ENCRYPTED in kind:
        reason = f"is encrypted ({kind})"
    else:
        reason = f"is of the type {kind!r}, which is not known here"
    raise ValueError(f"{place}: {what} {reason}; nothing was imported")


def refused(place: Place, error: Exception) -> ValueError:
    """The error that says which checkpoint can't be read, and why."""
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
    return ValueError(f"{place} can't be read: {reason}; nothing was imported")


def send_pending(fields: dict[str, Any], channels: dict[str, Typed], kind: str, sends: Any) -> None:
    """Put the tasks that were sent where LangGraph has kept them since version 4 of its format."""
    if not sends:
        return
    channels[TASKS] = put_together(kind, sends)
    versions = fields["channel_versions"]
    versions[TASKS] = max(versions.values(), default=1)


def parsed_metadata(text: str | bytes | None) -> dict[str, Any]:
    """A checkpoint's metadata. Raises ValueError unless it is a JSON object."""
    return checked_metadata({} if text is None else json.loads(text))


def checked_metadata(found: object) -> dict[str, Any]:
    """A checkpoint's metadata. Raises ValueError unless it is an object."""
    if not isinstance(found, dict):
        raise ValueError("its metadata is no object")
    return found
