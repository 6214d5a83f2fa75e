"""What steps are called, which were left behind, and which have not begun."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from holdfast.integrations.langgraph import layout
from holdfast.kernel.entries import state_seq
from holdfast.model import CARRY_STATE, Entry, Kind
from holdfast.views.steps import Execution

_MOST_AHEAD: Final = 50  # steps that have not begun, and are shown


def left_behind(entries: Iterable[Entry]) -> set[int]:
    """The seqs of entries that did not lead to the current state."""
    known = list(entries)
    if not any(entry.kind in (Kind.ROLLBACK, Kind.TOMBSTONE) for entry in known):
        return set()
    wanted = state_seq(known[-1]) if known else None
    found, again = set(), False  # whether the run went back to the checkpoint wanted
    for entry in reversed(known):
        if entry.kind not in CARRY_STATE:
            if again or entry.parent != wanted:
                found.add(entry.seq)
            again = again or (entry.kind == Kind.ROLLBACK and entry.parent == wanted)
        elif entry.seq == wanted:
            wanted, again = entry.parent, False
        elif wanted is None or entry.seq > wanted:
            found.add(entry.seq)
    return found


def split_key(key: str) -> tuple[str, str]:
    """The name and the group of a workflow's step, given its key: `a[3]/b#2`."""
    if not ("/" in key or "#" in key or "[" in key or "%" in key):
        return key, key
    first, _, rest = key.partition("/")
    group = first.partition("[")[0].partition("#")[0]
    name = f"{first} / {rest}" if rest else first
    return _plain(name), _plain(group)


def _plain(text: str) -> str:
    if "%" not in text:
        return text
    for code, char in (("%2F", "/"), ("%23", "#"), ("%5B", "["), ("%25", "%")):
        text = text.replace(code, char)
    return text


def name_in_thread(entry: Entry) -> str:
    """What LangGraph says of an entry of its thread."""
    note = layout.note_of(entry)
    if isinstance(note, layout.CheckpointNote):
        return str(note.metadata.get("source", "") or "checkpoint")
    if isinstance(note, layout.WritesNote):
        node = note.path.rpartition(", ")[2].strip("~")
        return node if node and not node.isdigit() else "writes of a task"
    return entry.step or "saved"


def not_started(structure: Mapping[str, Any], known: Collection[str]) -> Iterator[Execution]:
    """The nodes of a graph or pipeline that a run has not reached, nearest first."""
    nodes = structure.get("nodes")
    if not isinstance(nodes, list) or len(nodes) > _MOST_AHEAD:
        return
    ways = ways_of(structure)
    order = [str(structure.get("entry", ""))]
    for node in order:
        order += [target for source, target in ways if source == node and target not in order]
    for node in order:
        if node in nodes and node not in known:
            yield Execution(node, node, node, "not started", None, None, None)


def ways_of(structure: Mapping[str, Any]) -> list[tuple[str, str]]:
    """From which node to which a flow may go, as its opening recorded it."""
    found: list[tuple[str, str]] = []
    for kind in ("edges", "routes"):
        ways = structure.get(kind)
        for source, targets in ways.items() if isinstance(ways, dict) else ():
            for target in targets if isinstance(targets, list) else ():
                if (str(source), str(target)) not in found:
                    found.append((str(source), str(target)))
    return found
