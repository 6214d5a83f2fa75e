"""Continuing a run with another step."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.checkpoint import Checkpoint, CheckpointInfo
from holdfast.codec import values
from holdfast.codec.meta import CLAIMS_BEFORE, Meta, claimed_so_far, dump_meta
from holdfast.engine.flow import Wanted
from holdfast.engine.holding.here import running_here
from holdfast.engine.holding.observing import refuse_if_held
from holdfast.engine.people import inbox
from holdfast.engine.resume import takeover
from holdfast.engine.resume.history import History
from holdfast.engine.walking import time_travel, versions
from holdfast.errors import (
    CheckpointCorruptedError,
    CheckpointNotFoundError,
    RunActiveError,
    RunFinishedError,
    SerializeError,
)
from holdfast.kernel import compose
from holdfast.kernel.appending import append_if
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.model import CARRY_STATE, CheckpointType, Entry, Kind, Status
from holdfast.pipeline.pipeline_plan import PipelinePlan
from holdfast.pipeline.problems import Nearest


def go_to(
    core: Core,
    make: takeover.Make,
    plan: PipelinePlan,
    run_id: str,
    step: str,
    *,
    take_over: bool = False,
) -> Op[None]:
    """Continue a run with this step.

    One that has run is gone back to: with the state before it. One that has not is gone forward
    to: with the newest state, and the questions that are open are recorded as skipped. Raises
    `ValueError` for an unknown step, and what `going_back.go_back` raises.
    """
    if step not in plan.steps:
        raise ValueError(f"{step!r} is not a step of {plan.flow!r}{Nearest(step, plan.steps)}")
    if (yield partial(_has_run, core, plan, run_id, step)):
        wanted = Wanted(from_step=step)
        yield from time_travel.go_back(core, make, plan, run_id, wanted, take_over=take_over)
        return
    if (yield partial(running_here, core, run_id)) is not None:
        raise RunActiveError(run_id, Status.RUNNING)

    def decide(head: Entry | None) -> list[Draft]:
        if head is not None and not take_over:
            refuse_if_held(core, head)
        return _skipping(core, make, plan, run_id, step)

    yield from append_if(core, run_id, decide)


def _has_run(core: Core, plan: PipelinePlan, run_id: str, step: str) -> bool:
    return any(
        versions.node_of(plan, entry) == step and entry.type != CheckpointType.MANUAL_CHECKPOINT
        for entry in core.journals.branch(run_id)
    )


def _skipping(
    core: Core, make: takeover.Make, plan: PipelinePlan, run_id: str, step: str
) -> list[Draft]:
    history = History(core, run_id, whole=False)
    if history.head.status in (Status.COMPLETED, Status.CANCELLED):
        raise RunFinishedError(run_id, history.head.status)
    takeover.check_flow(make(), history)
    skipped = dump_meta({"skipped_to": step})
    drafts = [
        Draft(Kind.ANSWER.value, Status.OPEN.value, step=question.key, meta=skipped)
        for question in inbox.questions(core, run_id)
    ]
    entry, outputs = state_and_outputs(core, history.head)
    state = versions.state_of(plan, history, entry).value()
    state["steps"] |= {name_of(output): history.value(output) for output in outputs}
    meta = None if entry is None else Meta(entry)
    before = [] if entry is None or meta is None else meta.before or [versions.node_of(plan, entry)]
    facts: dict[str, Any] = {
        "flow_version": plan.version,
        "shape": plan.shape,
        "next_steps": [step],
        "before": [name for name in before if name in plan.steps],
    }
    known = outputs if entry is None else [entry, *outputs]
    if any(claimed_so_far(one.meta) for one in known):
        facts[CLAIMS_BEFORE] = True
    for name in ("visits", "since"):
        if meta is not None and name in meta.fields:
            facts[name] = meta.fields[name]
    kept = Draft(
        Kind.CHECKPOINT.value,
        Status.OPEN.value,
        compose.encode(core, run_id, state),
        step=None if entry is None else entry.step,
        step_index=None if entry is None else entry.step_index,
        type=CheckpointType.MANUAL_CHECKPOINT.value,
        meta=dump_meta(facts),
    )
    return [*drafts, kept]


def state_and_outputs(core: Core, entry: Entry) -> tuple[Entry | None, list[Entry]]:
    """The last whole state up to an entry, None being the run's beginning, and the outputs since.

    Those are of parallel branches, oldest first. Blocks.
    """
    outputs: list[Entry] = []
    for found in core.journals.branch_of(entry):
        if found.kind == Kind.CHECKPOINT:
            return found, outputs[::-1]
        outputs.append(found)
    return None, outputs[::-1]


def whole_state(core: Core, entry: Entry) -> Any:
    """The state of a checkpoint, also where it has only the output of a parallel branch. Blocks."""
    journals = core.journals
    if entry.kind != Kind.RESULT:
        return journals.value(entry.run, entry.seq, entry)
    base, outputs = state_and_outputs(core, entry)
    base = base or journals.opening(entry.run)
    if base is None:
        raise CheckpointCorruptedError(entry.run, entry.seq, "the run's beginning is gone")
    state, *found = (journals.value(e.run, e.seq, e) for e in (base, *outputs))
    state["steps"] |= dict(zip(map(name_of, outputs), found, strict=True))
    return state


def refuse_edited(core: Core, checkpoint: CheckpointInfo) -> None:
    """Raise `ValueError` if a loaded checkpoint's state is not the one that is stored. Blocks."""
    if not isinstance(checkpoint, Checkpoint):
        return
    run, seq = checkpoint.run_id, checkpoint.seq
    entry = core.journals.entry(run, seq)
    if entry is None or entry.kind not in CARRY_STATE:
        raise CheckpointNotFoundError(run, checkpoint.checkpoint_id)
    stored = (  # or, of a branch, its own output
        partial(whole_state, core, entry),
        partial(core.journals.value, run, seq, entry),
    )
    with suppress(SerializeError):  # what can't be stored was not loaded
        state = values.encode(checkpoint.state)
        if any(state == values.encode(load()) for load in stored):
            return
    raise ValueError(
        f"the state of {checkpoint.checkpoint_id} was changed after it was loaded, and a run "
        "continues with what is stored: load it again; or fork the run with state=, and resume "
        "the fork by its run_id"
    )


def name_of(entry: Entry) -> str:
    """The step whose output an entry carries."""
    return str(Meta(entry).step_name or entry.step)
