"""Going back in a run of a walking flow: to before or after a node, with another state if wanted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from holdfast.codec.meta import CLAIMS_BEFORE, Meta, claimed_so_far, dump_meta
from holdfast.engine.flow import Wanted
from holdfast.engine.holding.here import running_here
from holdfast.engine.holding.observing import refuse_if_held
from holdfast.engine.program import Stored
from holdfast.engine.resume import takeover
from holdfast.engine.resume.history import History
from holdfast.engine.resume.takeover import Make
from holdfast.engine.walking import versions
from holdfast.engine.walking.plan import Plan
from holdfast.engine.walking.states import revived, updated
from holdfast.errors import CheckpointNotFoundError, RunActiveError, RunFinishedError
from holdfast.kernel import compose
from holdfast.kernel.appending import append_at
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.kernel.entries import state_seq
from holdfast.model import CheckpointType, Entry, Kind, Status, checkpoint_id


class _Place(NamedTuple):
    """A point of a run. Its very beginning has no entry."""

    entry: Entry | None
    next_steps: list[str] | None = None  # None: as it is recorded there
    given: Entry | None = None  # whose state a node within a branch is given

    @property
    def within_branch(self) -> bool:
        """Whether parallel branches are under way there."""
        return self.given is not None


def go_back(
    core: Core,
    make: Make,
    plan: Plan,
    run_id: str,
    wanted: Wanted,
    *,
    take_over: bool = False,
) -> Op[None]:
    """Append what makes the run continue from there, all or nothing.

    Raises `CheckpointNotFoundError`, `FlowChangedError`, `RunActiveError`, and `RunFinishedError`
    for a run that is over, unless it is to continue from an earlier point.
    """
    wanted.check()
    for name in (wanted.from_step, wanted.after_step):
        if name is not None and name not in plan.nodes:
            raise ValueError(f"{name!r} is not a node of {plan.flow!r}")
    if (yield partial(running_here, core, run_id)) is not None:
        raise RunActiveError(run_id, Status.RUNNING)
    while True:
        history: History = yield partial(History, core, run_id, whole=False)
        if not take_over:
            yield partial(refuse_if_held, core, history.head)
        drafts: list[Draft] = yield partial(_drafts, core, make, plan, history, wanted)
        if not drafts or (yield from append_at(core, run_id, history.head.seq, drafts)):
            return


def input_of(core: Core, make: Make, plan: Plan, run_id: str, node: str, seq: int | None) -> Stored:
    """The state that a node was given, the last time or the one saved at `seq`. Blocks."""
    if node not in plan.nodes:
        raise ValueError(f"{node!r} is not a node of {plan.flow!r}")
    history = History(core, run_id, whole=False)
    takeover.check_flow(make(), history)
    found = _last_of(core, plan, run_id, node) if seq is None else core.journals.entry(run_id, seq)
    if found is None or not _was_run(found) or versions.node_of(plan, found) != node:
        where = f"after {plan.node_word} {node!r}" if seq is None else checkpoint_id(run_id, seq)
        raise CheckpointNotFoundError(run_id, where)
    return versions.state_of(plan, history, _input(core, plan, found))


def _drafts(core: Core, make: Make, plan: Plan, history: History, wanted: Wanted) -> list[Draft]:
    """What is to be appended. Blocks."""
    takeover.check_flow(make(), history)
    over = history.head.status in (Status.COMPLETED, Status.CANCELLED)
    if over and not wanted.elsewhere:
        raise RunFinishedError(history.run, history.head.status)
    place = _place(core, plan, history, wanted, over)
    state = versions.state_of(plan, history, place.given or place.entry)
    if wanted.override is not None:
        if place.within_branch:
            raise ValueError(
                "what a node within parallel branches is given can't be overridden: continue "
                "after the node that forks instead"
            )
        state = _overridden(core, plan, history.run, state, wanted.override)
    if wanted.validate is not None:
        refused = wanted.validate(revived(state.value(), plan.state)) is False
        if refused:
            raise ValueError("validate= refused the state; nothing was run")
    moved = place.next_steps not in (None, _next_of(plan, place.entry))
    if not wanted.elsewhere and wanted.override is None:
        return []
    drafts = []
    target = None if place.entry is None else place.entry.seq
    if over or target != state_seq(history.head):
        drafts.append(compose.rollback_to(place.entry))
    if wanted.override is not None or moved:
        drafts.append(_edited(core, plan, history.run, place, state))
    return drafts


def _edited(core: Core, plan: Plan, run_id: str, place: _Place, state: Stored) -> Draft:
    """A checkpoint of a point of the run, with an edited state."""
    there = place.entry
    steps = 0 if there is None else (there.step_index or 0) + (there.status != Status.FAILED)
    next_steps = place.next_steps or _next_of(plan, there)
    visits = {} if there is None else versions.visits_of(plan, Meta(there))
    facts = {"flow_version": plan.version, "shape": plan.shape, "next_steps": next_steps}
    return Draft(
        Kind.CHECKPOINT.value,
        Status.OPEN.value,
        compose.encode(core, run_id, state.value()),
        step=None if there is None else there.step,
        step_index=steps - 1 if steps else None,
        type=CheckpointType.MANUAL_CHECKPOINT.value,
        meta=dump_meta(facts | ({"visits": visits} if visits else {}) | _claims_before(there)),
    )


def _claims_before(entry: Entry | None) -> dict[str, Any]:
    """What a checkpoint behind this one says of claims."""
    return {CLAIMS_BEFORE: True} if entry is not None and claimed_so_far(entry.meta) else {}


def _place(core: Core, plan: Plan, history: History, wanted: Wanted, over: bool) -> _Place:
    node = wanted.from_step or wanted.after_step
    if wanted.replay:
        found = next(filter(_was_run, core.journals.branch(history.run)), None)
    else:
        found = None if node is None else _last_of(core, plan, history.run, node)
    if found is not None:
        after = wanted.after_step is not None and found.status != Status.FAILED
        return _after(found) if after else _before(core, plan, found)
    entries = core.journals.branch_of(history.head)
    newest = next((entry for entry in entries if entry.kind == Kind.CHECKPOINT), None)
    skips = node is not None and node not in _next_of(plan, newest)
    if wanted.replay or wanted.after_step is not None or (over and skips):
        where = None if node is None else f"after {plan.node_word} {node!r}"
        raise CheckpointNotFoundError(history.run, where)
    return _Place(newest, None if node is None else [node])


def _after(entry: Entry) -> _Place:
    return _Place(entry, None, entry if entry.kind == Kind.RESULT else None)


def _before(core: Core, plan: Plan, entry: Entry) -> _Place:
    """Where the node, or the merge, that an entry was recorded after is next."""
    if entry.status == Status.FAILED:
        return _Place(entry)
    given, parent = _input(core, plan, entry), _parent(core, plan, entry)
    node = versions.node_of(plan, entry)
    if entry.kind == Kind.RESULT or node not in plan.nodes:
        return _Place(parent, None, given or entry)
    return _Place(parent, [node])


def _last_of(core: Core, plan: Plan, run_id: str, node: str) -> Entry | None:
    for entry in core.journals.branch(run_id):
        if _was_run(entry) and versions.node_of(plan, entry) == node:
            return entry
    return None


def _was_run(entry: Entry) -> bool:
    """Whether a node or a merge produced this, rather than an edit."""
    return entry.type != CheckpointType.MANUAL_CHECKPOINT


def _input(core: Core, plan: Plan, entry: Entry) -> Entry | None:
    """The entry with the state that a node was given; None for the run's beginning."""
    if entry.status == Status.FAILED:
        return entry
    if entry.kind != Kind.RESULT:
        return _parent(core, plan, entry)
    path = _path(entry)
    fork = path.rpartition(">")[0]
    for found in core.journals.branch_of(entry):
        if found.kind == Kind.CHECKPOINT or (
            found.seq != entry.seq and (_path(found) == path or found.step == fork)
        ):
            return found
    return None


def _next_of(plan: Plan, entry: Entry | None) -> list[str]:
    return versions.next_of(plan, None if entry is None else Meta(entry))


def _path(entry: Entry) -> str:
    return str(entry.step).rpartition("/")[0]


def _parent(core: Core, plan: Plan, entry: Entry) -> Entry | None:
    if entry.parent is None and Meta(entry).origin is None:
        return None
    parent = None if entry.parent is None else core.journals.entry(entry.run, entry.parent)
    if parent is None:  # it was deleted, or stayed in the run that this one is a fork of
        where = f"before {plan.node_word} {versions.node_of(plan, entry)!r}"
        raise CheckpointNotFoundError(entry.run, where)
    return parent


def _overridden(core: Core, plan: Plan, run_id: str, state: Stored, override: Any) -> Stored:
    """The state that someone wants instead. Raises `ReviveError` where it does not fit."""
    old = revived(state.value(), plan.state)
    new = override
    if callable(override) and not isinstance(override, Mapping):
        new = override(old)
    encoding = compose.encode(core, run_id, updated(plan.state, old, new))
    changed = Stored(encoding, core.journals.decode)
    revived(changed.value(), plan.state)
    return changed
