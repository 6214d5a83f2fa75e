"""How LangGraph's threads are stored. Needs neither LangGraph nor a store.

Each namespace of a thread is a run (`run_id`) with the flow `FLOW`; a subgraph has a namespace of
its own. The journal is linear: LangGraph's ids and parents are metadata (the key "lg").

    OPEN          {"thread": thread id, "ns": namespace}
    CHECKPOINT    {"id": checkpoint id, "parent": its parent's, "early": seqs, "has": channels}
                  `put`. LangGraph's metadata is the checkpoint's own (`CheckpointInfo.metadata`),
                  its source and step are also `type` and `step_index`. The state is what `stored`
                  makes of the checkpoint. "early" lists writes that arrived before it; "has" names
                  the channels with a value, if the graph has delta channels.
    RESULT        {"of": checkpoint id, "task": task id, "path": task path, "also": seqs}
                  `put_writes`. The value is a list of writes, [index, channel, type, bytes].
                  Of two writes of one task with the same index the first counts, unless the
                  index is negative, which stands for errors, interrupts and the like. "also"
                  lists writes that arrived before their checkpoint, and that it does not list.

A value of a channel is what LangGraph's serializer made of it: [type, bytes]. One that grows, as
a list of messages does, grows at its end, so the kernel's deltas store what was added.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.codec import readable
from holdfast.codec.meta import Meta, dump_meta
from holdfast.kernel.entries import is_live
from holdfast.model import MAX_ID_BYTES, Entry, Kind

FLOW: Final = "langgraph"

Typed = tuple[str, bytes]
"""A value as LangGraph's serializer stores it: how, and the bytes."""

BETWEEN: Final = "|"
"""What separates the thread from the namespace; LangGraph has it between namespaces, too."""

SOURCES: Final = ("input", "loop", "update", "fork")
"""The sources of checkpoints that are also their `type`."""

_HASHED: Final = "%~"  # no escape looks like this
_KEPT: Final = 64  # bytes of a long thread id that are still readable
_PLAIN: Final = ("v", "id", "ts", "channel_versions", "versions_seen", "updated_channels")


def run_id(thread: str, ns: str = "") -> str:
    """The run that holds a namespace of a thread; the main one has the id of the thread.

    Characters that no run id may have are escaped; what is too long is cut and hashed.
    """
    if thread.isalnum() and thread.isascii() and len(thread) <= MAX_ID_BYTES // 2:
        root = thread
    else:
        root = _escaped(thread).replace(BETWEEN, "%7C") or "%"
        root = _shortened(root, thread, MAX_ID_BYTES // 2)
    if not ns:
        return root
    room = MAX_ID_BYTES - len(f"{root}{BETWEEN}".encode())
    return f"{root}{BETWEEN}{_shortened(_escaped(ns), ns, room)}"


def namespaces_prefix(thread: str) -> str:
    """What the ids of the runs of a thread begin with, but for the main one."""
    return f"{run_id(thread)}{BETWEEN}"


def thread_and_ns(run: str) -> tuple[str, str] | None:
    """The thread and namespace that a run holds, by its id alone; None if a part was hashed."""
    thread, _, ns = run.partition(BETWEEN)
    if _HASHED in run:
        return None
    return _unescaped("" if thread == "%" else thread), _unescaped(ns)


def _escaped(text: str) -> str:
    text = text.replace("%", "%25").replace("//", "/%2F")
    if text.isprintable():
        return text
    return _REFUSED.sub(_as_bytes, text)


_REFUSED: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def _as_bytes(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode(errors="surrogatepass"))


def _unescaped(text: str) -> str:
    if "%" not in text:
        return text
    raw = re.sub(
        b"%([0-9A-F]{2})",
        lambda found: bytes.fromhex(found[1].decode()),
        text.encode(errors="surrogatepass"),
    )
    return raw.decode(errors="surrogatepass")


def _shortened(text: str, origin: str, most: int) -> str:
    if len(text.encode()) <= most:
        return text
    kept = text.encode()[:_KEPT].decode(errors="ignore")
    return f"{kept}{_HASHED}{hashlib.sha256(origin.encode(errors='surrogatepass')).hexdigest()}"


class CheckpointNote(NamedTuple):
    """What the entry of a checkpoint says of it."""

    id: str
    parent: str | None
    metadata: Mapping[str, Any]
    early: tuple[int, ...] = ()  # the seqs of writes that arrived before it
    has: tuple[str, ...] | None = None  # the channels with a value; None: its state says


class WritesNote(NamedTuple):
    """What the entry of a task's writes says of them."""

    of: str  # the checkpoint that they belong to
    task: str
    path: str = ""
    also: tuple[int, ...] = ()  # the seqs of more writes of the same checkpoint


def dump_opening(thread: str, ns: str, origin: str = "") -> str:
    """The metadata of the entry that opens a namespace's run, perhaps as a fork of `origin`."""
    facts = {"origin": origin} if origin else {}
    return dump_meta({"lg": {"thread": thread, "ns": ns}, **facts})


def dump_checkpoint(note: CheckpointNote) -> str:
    """The metadata of a checkpoint's entry. Raises `SerializeError`."""
    facts: dict[str, Any] = {"id": note.id}
    if note.parent is not None:
        facts["parent"] = note.parent
    if note.early:
        facts["early"] = list(note.early)
    if note.has is not None:
        facts["has"] = list(note.has)
    metadata = readable.to_json(dict(note.metadata), root="metadata")
    return dump_meta({"lg": facts, "metadata": metadata})


def dump_writes(note: WritesNote) -> str:
    """The metadata of the entry of a task's writes."""
    facts: dict[str, Any] = {"of": note.of, "task": note.task}
    if note.path:
        facts["path"] = note.path
    if note.also:
        facts["also"] = list(note.also)
    return dump_meta({"lg": facts})


def note_of(entry: Entry, *, metadata: bool = True) -> CheckpointNote | WritesNote | None:
    """What an entry says; None if it is neither a checkpoint nor writes of LangGraph's.

    Without `metadata`, LangGraph's own is left out, which takes most of the time. Raises
    `CheckpointCorruptedError` for metadata of another form.
    """
    if not is_live(entry) or not entry.meta:
        return None
    meta = Meta(entry)
    facts = meta.langgraph
    try:
        if entry.kind == Kind.CHECKPOINT and "id" in facts:
            has = facts.get("has")
            return CheckpointNote(
                facts["id"],
                facts.get("parent"),
                readable.from_json(dict(meta.metadata or {})) if metadata else {},
                tuple(facts.get("early", ())),
                None if has is None else tuple(has),
            )
        if entry.kind == Kind.RESULT and "of" in facts:
            return WritesNote(
                facts["of"], facts["task"], facts.get("path", ""), tuple(facts.get("also", ()))
            )
    except (KeyError, TypeError, ValueError) as error:
        meta.refuse(f"its metadata is not of LangGraph's form: {error}")
    return None


def opening_says(opening: Entry) -> tuple[str, str] | None:
    """The thread and namespace that a run's opening names; None if it names none."""
    facts = Meta(opening).langgraph
    thread, ns = facts.get("thread"), facts.get("ns")
    return (thread, ns) if isinstance(thread, str) and isinstance(ns, str) else None


def stored(
    checkpoint: Mapping[str, Any], values: Mapping[str, Typed], other: Typed | None = None
) -> dict[str, Any]:
    """The state to store: the checkpoint with its values, and the rest of its keys, serialized."""
    state: dict[str, Any] = {key: checkpoint[key] for key in _PLAIN if key in checkpoint}
    if other is not None:
        state["other"] = list(other)
    state["channel_values"] = {name: list(typed) for name, typed in values.items()}
    return state


def other_keys(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """What a checkpoint has beside its values that only LangGraph's serializer may store."""
    return {k: v for k, v in checkpoint.items() if k not in _PLAIN and k != "channel_values"}


def typed_values(state: object) -> dict[str, Typed]:
    """The serialized values of a stored state. Raises `ValueError` for any other state."""
    found = state.get("channel_values") if isinstance(state, dict) else None
    if not isinstance(found, dict):
        raise ValueError("it is not the state of a LangGraph checkpoint")
    return {name: as_typed(value) for name, value in found.items()}


def as_typed(value: object) -> Typed:
    """A serialized value as it was stored. Raises `ValueError` for anything else."""
    match value:
        case [str() as kind, bytes() as data]:
            return kind, data
    raise ValueError("it holds a value that LangGraph's serializer did not write")


def stored_writes(writes: Sequence[tuple[int, str, Typed]]) -> list[Any]:
    """The value to store for the writes of a task, each with its index and channel."""
    return [[index, channel, *typed] for index, channel, typed in writes]


def typed_writes(value: object) -> list[tuple[int, str, Typed]]:
    """The writes of a task, as `stored_writes` got them. Raises `ValueError` for anything else."""
    if not isinstance(value, list):
        raise ValueError("it does not hold the writes of a task")
    found: list[tuple[int, str, Typed]] = []
    for row in value:
        match row:
            case [int() as index, str() as channel, str() as kind, bytes() as data]:
                found.append((index, channel, (kind, data)))
            case _:
                raise ValueError("it does not hold the writes of a task")
    return found
