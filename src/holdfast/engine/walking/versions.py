"""How a walking flow reads a run that it, or an older version of it, recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, Final

from holdfast.codec.meta import Meta
from holdfast.engine.program import Stored
from holdfast.engine.resume.history import History
from holdfast.engine.walking.plan import Plan, changes
from holdfast.engine.walking.states import revived
from holdfast.errors import FlowChangedError, ReviveError
from holdfast.kernel import compose
from holdfast.migrations import Place, misfit
from holdfast.model import CARRY_STATE, Entry, Kind, checkpoint_id

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
        if made_by == plan.version:
            continue
        if plan.migrate is not None:
            plan.migrate.check(made_by, _place(history, entry))
            continue
        found = [f"it ran version {made_by} of {plan.flow!r}, and this is {plan.version}"]
        raise _changed(plan, history, found)
    if newest.flow_version != plan.version or newest.shape == plan.shape:
        return
    began = history.meta(history.opening)
    found = [f"its {plan.node_word}s and {plan.edge_word}s are not those it ran with"]
    if began.shape == newest.shape:
        found = changes(plan, began.structure) or found
    raise _changed(plan, history, found)


def _changed(plan: Plan, history: History, found: list[str]) -> FlowChangedError:
    return FlowChangedError(
        history.run,
        tuple(found),
        f"{plan.making} migrate=hf.Migrations(version=...), a higher version, whose functions turn "
        "the recorded states into new ones.",
    )


def state_of(plan: Plan, history: History, entry: Entry | None) -> Stored:
    """The state an entry carries, as this version has it; None is the run's beginning.

    Raises `MigrationError`.
    """
    entry = history.opening if entry is None else entry
    stored = history.stored(entry)
    version = history.meta(entry).flow_version or plan.version
    output = entry.kind == Kind.RESULT and not plan.branches_have_states
    if plan.migrate is None or version == plan.version or output:
        return stored
    return migrated(plan, history, entry, stored.value())


def partly(plan: Plan, history: History, entry: Entry, state: Any, old: int, new: int) -> Any:
    """A state of one older version as one of another, which recorded this entry."""
    assert plan.migrate is not None, "it was checked"
    journals = history.core.journals
    return plan.migrate.migrated(
        state, old, _place(history, entry), journals.stored_form, until=new
    )


def migrated(plan: Plan, history: History, entry: Entry, state: Any) -> Stored:
    """A state that an older version recorded with this entry, as this version has it.

    Raises `MigrationError`, also if it can't be stored or is no state of this flow.
    """
    assert plan.migrate is not None, "it was checked"
    core, place = history.core, _place(history, entry)
    encode = partial(compose.encode, core, history.run)
    version = history.meta(entry).flow_version
    made = plan.migrate.migrated(
        state, version, place, lambda value: core.journals.decode(encode(value))
    )
    stored = Stored(encode(made), core.journals.decode)
    try:
        plan.fit(stored.value())
    except ReviveError as error:
        reason = f"what it became is no state of this {plan.flow_word}: {misfit(error)}"
        raise plan.migrate.error(version, reason, "Correct the migration.", place) from error
    return stored


def inputs_of(plan: Plan, history: History) -> Any:
    """What a run of an older version began with, as this version would record it.

    None if this version began it. Raises `MigrationError`.
    """
    version = history.meta(history.opening).flow_version or plan.version
    if plan.migrate is None or version == plan.version:
        return None
    made = state_of(plan, history, None).value()
    return history.core.journals.stored_form(revived(made, plan.state))


def _place(history: History, entry: Entry) -> Place:
    return Place(history.run, checkpoint_id(history.run, entry.seq))


def next_of(plan: Plan, meta: Meta | None) -> list[str]:
    """The nodes that were to run after an entry; None is the run's beginning."""
    if meta is None:
        return [plan.entry]
    return named(plan, meta, map(str, meta.next_steps))


def visits_of(plan: Plan, meta: Meta) -> dict[str, int]:
    """How often the run had visited each node that is in a loop."""
    if not all(isinstance(count, int) for count in meta.visits.values()):
        meta.refuse("its visits are not all numbers")
    renamed = _renamed(plan, meta)
    return {renamed.get(name, name): count for name, count in meta.visits.items()}


def node_of(plan: Plan, entry: Entry, meta: Meta | None = None) -> str:
    """The node that an entry was recorded after."""
    meta = meta or Meta(entry)
    name = str(meta.step_name or entry.step or "")
    return _renamed(plan, meta).get(name, name)


def key_of(plan: Plan, entry: Entry) -> str:
    """What this version calls the visit that a result was recorded for."""
    names = _renamed(plan, Meta(entry)) if plan.rename else {}
    renamed = {escaped(old): escaped(new) for old, new in names.items()}
    key = str(entry.step)
    if not renamed:
        return key
    return _NAMES.sub(lambda found: found[1] + renamed.get(found[2], found[2]), key)


@lru_cache(maxsize=4096)
def escaped(name: str) -> str:
    """A node's name without what keys are put together with: no two visits share a key."""
    return name.translate(_ESCAPES)


def named(plan: Plan, meta: Meta, names: Iterable[str]) -> list[str]:
    """What this version calls nodes that an entry names."""
    renamed = _renamed(plan, meta)
    return [renamed.get(name, name) for name in names]


def _renamed(plan: Plan, meta: Meta) -> Mapping[str, str]:
    """The new names of nodes, by the names that an older version recorded."""
    return {} if meta.flow_version == plan.version else plan.rename
