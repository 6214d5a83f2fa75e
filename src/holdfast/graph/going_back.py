"""Going back in a run of a graph: to before or after a node, with another state if wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from holdfast import composing
from holdfast.appending import append_if
from holdfast.chains import state_seq
from holdfast.checkpoint import dump_meta
from holdfast.core import Core, Op
from holdfast.engine.history import History, meta
from holdfast.engine.program import Stored
from holdfast.errors import CheckpointNotFoundError
from holdfast.graph.plan import Plan
from holdfast.graph.states import revived, updated
from holdfast.journal import Draft
from holdfast.model import CheckpointType, Entry, Kind, Status, checkpoint_id


class Wanted(NamedTuple):
    """Where a run is to go on, and with what."""

    from_node: str | None = None
    after_node: str | None = None
    override: Any = None
    validate: Callable[[Any], object] | None = None
    replay: bool = False


class _Place(NamedTuple):
    """A point of a run: the checkpoint there, None for its very beginning, and what is next."""

    entry: Entry | None
    next_steps: list[str]


def go_back(core: Core, plan: Plan, run_id: str, wanted: Wanted) -> Op[None]:
    """Append what makes the run go on from there. Raises `CheckpointNotFoundError`."""
    if sum(bool(part) for part in (wanted.from_node, wanted.after_node, wanted.replay)) > 1:
        raise ValueError("give at most one of from_node, after_node and replay")
    for name in (wanted.from_node, wanted.after_node):
        if name is not None and name not in plan.nodes:
            raise ValueError(f"{name!r} is no node of {plan.flow!r}")
    history: History = yield partial(History, core, run_id, whole=False)
    current = _current(history)
    place = yield partial(_place, core, plan, history, wanted)
    state = yield partial(_state_at, history, place)
    overridden = _overridden(plan, state, wanted.override)
    _validate(plan, overridden or state, wanted.validate)
    if place.entry != current:
        target = place.entry
        back = Draft(
            Kind.ROLLBACK.value,
            Status.OPEN.value,
            parent=None if target is None else target.seq,
            step=None if target is None else target.step,
        )
        yield from append_if(core, run_id, partial(_behind, history.head.seq, run_id, back))
    moved = place.next_steps != _next_of(history, place.entry)
    if overridden is not None or moved:
        there = place.entry
        facts = {} if there is None else meta(there)
        draft = Draft(
            Kind.CHECKPOINT.value,
            Status.OPEN.value,
            composing.encode(core, run_id, (overridden or state).value()),
            step=None if there is None else there.step,
            step_index=None if there is None else there.step_index,
            type=CheckpointType.MANUAL_CHECKPOINT.value,
            meta=dump_meta(
                {"flow_version": plan.version, "shape": plan.shape}
                | facts
                | {"next_steps": place.next_steps}
            ),
        )
        yield from append_if(core, run_id, lambda head: draft)


def input_of(core: Core, plan: Plan, run_id: str, node: str, seq: int | None) -> Stored:
    """The state that a node was given, the last time or the one saved at `seq`. Blocks."""
    if node not in plan.nodes:
        raise ValueError(f"{node!r} is no node of {plan.flow!r}")
    history = History(core, run_id, whole=False)
    for entry in core.journals.branch(run_id):
        ran = entry.step == node and entry.kind == Kind.CHECKPOINT
        if ran and (seq is None or entry.seq == seq) and entry.status != Status.FAILED:
            before = None if entry.parent is None else core.journals.entry(run_id, entry.parent)
            return _revived(plan, history.inputs if before is None else history.stored(before))
    raise CheckpointNotFoundError(run_id, None if seq is None else checkpoint_id(run_id, seq))


class _revived(Stored):  # noqa: N801 - reads as what it does
    """A state with its type."""

    __slots__ = ("_plan", "_stored")

    def __init__(self, plan: Plan, stored: Stored) -> None:
        self._plan = plan
        self._stored = stored

    def value(self) -> Any:
        return revived(self._stored.value(), self._plan.state)


def _current(history: History) -> Entry | None:
    seq = state_seq(history.head)
    return next((e for e in history.entries if e.seq == seq), None)


def _place(core: Core, plan: Plan, history: History, wanted: Wanted) -> _Place:
    current = _current(history)
    node = wanted.from_node or wanted.after_node
    if wanted.replay:
        node = None if current is None else current.step
        if node is None:
            raise CheckpointNotFoundError(history.run)
    if node is None:
        return _Place(current, _next_of(history, current) or [plan.entry])
    for entry in core.journals.branch(history.run):
        if entry.kind != Kind.CHECKPOINT or entry.step != node or entry.status == Status.FAILED:
            continue
        if wanted.after_node is not None:
            return _Place(entry, _next_of(history, entry))
        before = None if entry.parent is None else core.journals.entry(history.run, entry.parent)
        return _Place(before, [node])
    if wanted.from_node is None:
        raise CheckpointNotFoundError(history.run, f"after node {node!r}")
    return _Place(current, [node])


def _next_of(history: History, entry: Entry | None) -> list[str]:
    return [] if entry is None else list(meta(entry).get("next_steps", ()))


def _state_at(history: History, place: _Place) -> Stored:
    return history.inputs if place.entry is None else history.stored(place.entry)


def _overridden(plan: Plan, state: Stored, override: Any) -> Stored | None:
    if override is None:
        return None
    old = revived(state.value(), plan.state)
    if callable(override) and not isinstance(override, Mapping):
        new = override(old)
    elif isinstance(override, Mapping):
        new = updated(plan.state, old, override)
    else:
        new = override
    return Stored(b"", lambda _: new)


def _validate(plan: Plan, state: Stored, validate: Callable[[Any], object] | None) -> None:
    if validate is None:
        return
    value = state.value()
    if validate(value if not isinstance(value, dict) else revived(value, plan.state)) is False:
        raise ValueError("validate= refused the state; nothing was run")


def _behind(seq: int, run_id: str, draft: Draft, head: Entry | None) -> Draft:
    if head is None or head.status == Status.DELETED:
        raise CheckpointNotFoundError(run_id)
    return draft
