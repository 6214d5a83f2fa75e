"""What a walking flow makes of a run that it, or an older version of it, recorded."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from holdfast.engine.program import Stored
from holdfast.engine.resume.history import History, fact, meta
from holdfast.engine.walking.plan import Plan, changes
from holdfast.errors import FlowChangedError
from holdfast.model import CARRY_STATE, Entry, Kind

_ESCAPES: Final = str.maketrans({char: f"%{ord(char):02x}" for char in "%#/>"})
_NAMES: Final = re.compile(r"(^|/|>(?!merge$))([^#/>]+)")


def check(plan: Plan, history: History) -> None:
    """Raise `FlowChangedError` if a run of this history can't go on with this flow."""
    marks = [e for e in (history.opening, *history.entries) if "flow_version" in meta(e)]
    version = fact(marks[-1], "flow_version", str, None) if marks else None
    shape = meta(marks[-1]).get("shape") if marks else None
    states = [e for e in history.entries if e.kind in CARRY_STATE]
    if not any(e.kind == Kind.CHECKPOINT for e in states):
        states.insert(0, history.opening)
    for entry in states:
        made_by = fact(entry, "flow_version", str, plan.version)
        if made_by != plan.version and made_by not in plan.migrate:
            found = [f"it ran version {made_by} of {plan.flow!r}, and this is {plan.version}"]
            raise _changed(plan, history, found, made_by)
    if version != plan.version or shape == plan.shape:
        return
    began = history.begun_with
    found = [f"its {plan.node_word}s and {plan.edge_word}s are not those it ran with"]
    if began.get("shape") == shape:
        found = changes(plan, fact(history.opening, "structure", dict, {})) or found
    raise _changed(plan, history, found, version)


def _changed(plan: Plan, history: History, found: list[str], version: str) -> FlowChangedError:
    return FlowChangedError(
        history.run,
        tuple(found),
        f'{plan.making} another version and migrate={{"{version}": change}}, where change '
        "turns the recorded state into the new one (None: as it is).",
    )


def state_of(plan: Plan, history: History, entry: Entry | None) -> Stored:
    """The state an entry carries, as this version has it; None is the run's beginning."""
    entry = history.opening if entry is None else entry
    stored = history.stored(entry)
    version = fact(entry, "flow_version", str, plan.version)
    change = None if version == plan.version else plan.migrate.get(version)
    return stored if change is None else _Changed(stored, change)


def next_of(plan: Plan, entry: Entry | None) -> list[str]:
    """What was to run after an entry; None is the run's beginning."""
    if entry is None:
        return [plan.entry]
    names = map(str, fact(entry, "next_steps", list, []))
    return [plan.rename.get(name, name) for name in names]


def visits_of(plan: Plan, entry: Entry) -> dict[str, int]:
    """How often the run had come to each node that it may come to again."""
    visits: dict[str, int] = fact(entry, "visits", dict, {})
    return {plan.rename.get(name, name): count for name, count in visits.items()}


def node_of(plan: Plan, entry: Entry) -> str:
    """The node that an entry was recorded after."""
    name = str(meta(entry).get("step_name") or entry.step or "")
    return plan.rename.get(name, name)


def key_of(plan: Plan, entry: Entry) -> str:
    """What this version calls the visit that a result was recorded for."""
    renamed = {escaped(old): escaped(new) for old, new in plan.rename.items()}
    key = str(entry.step)
    if not renamed:
        return key
    return _NAMES.sub(lambda found: found[1] + renamed.get(found[2], found[2]), key)


def escaped(name: str) -> str:
    """A node's name without what keys are put together with: no two visits share a key."""
    return name.translate(_ESCAPES)


class _Changed(Stored):
    """A state of an older version, as the migration makes it."""

    __slots__ = ("_change", "_old")

    def __init__(self, old: Stored, change: Callable[[Any], Any]) -> None:
        self._old = old
        self._change = change

    def value(self) -> Any:
        return self._change(self._old.value())
