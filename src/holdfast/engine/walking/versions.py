"""How a walking flow reads a run that it, or an older version of it, recorded."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from holdfast.codec.meta import Meta
from holdfast.engine.program import Stored
from holdfast.engine.resume.history import History
from holdfast.engine.walking.plan import Plan, changes
from holdfast.errors import FlowChangedError
from holdfast.model import CARRY_STATE, Entry, Kind

_ESCAPES: Final = str.maketrans({char: f"%{ord(char):02x}" for char in "%#/>"})
_NAMES: Final = re.compile(r"(^|/|>(?!merge$))([^#/>]+)")


def check(plan: Plan, history: History) -> None:
    """Raise `FlowChangedError` if a run of this history can't continue with this flow."""
    metas = [history.meta(e) for e in (*reversed(history.entries), history.opening)]
    newest = next((meta for meta in metas if meta.flow_version is not None), metas[-1])
    states = [e for e in history.entries if e.kind in CARRY_STATE]
    if not any(e.kind == Kind.CHECKPOINT for e in states):
        states.insert(0, history.opening)
    for entry in states:
        made_by = history.meta(entry).flow_version or plan.version
        if made_by != plan.version and made_by not in plan.migrate:
            found = [f"it ran version {made_by} of {plan.flow!r}, and this is {plan.version}"]
            raise _changed(plan, history, found, made_by)
    if newest.flow_version != plan.version or newest.shape == plan.shape:
        return
    began = history.meta(history.opening)
    found = [f"its {plan.node_word}s and {plan.edge_word}s are not those it ran with"]
    if began.shape == newest.shape:
        found = changes(plan, began.structure) or found
    raise _changed(plan, history, found, plan.version)


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
    version = history.meta(entry).flow_version or plan.version
    change = None if version == plan.version else plan.migrate.get(version)
    return stored if change is None else _Changed(stored, change)


def next_of(plan: Plan, meta: Meta | None) -> list[str]:
    """The nodes that were to run after an entry; None is the run's beginning."""
    if meta is None:
        return [plan.entry]
    return [plan.rename.get(name, name) for name in map(str, meta.next_steps)]


def visits_of(plan: Plan, meta: Meta) -> dict[str, int]:
    """How often the run had visited each node that is in a loop."""
    if not all(isinstance(count, int) for count in meta.visits.values()):
        meta.refuse("its visits are not all numbers")
    return {plan.rename.get(name, name): count for name, count in meta.visits.items()}


def node_of(plan: Plan, entry: Entry, meta: Meta | None = None) -> str:
    """The node that an entry was recorded after."""
    name = str((meta or Meta(entry)).step_name or entry.step or "")
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
