"""Finding the run of a thread, and having it go on from another step."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from holdfast import composing
from holdfast.appending import append_if
from holdfast.checkpoint import dump_meta
from holdfast.core import Core, Op
from holdfast.engine import live, requests, running
from holdfast.engine.history import History, meta
from holdfast.engine.walking import going_back, versions
from holdfast.errors import CheckpointNotFoundError, RunActiveError, RunFinishedError
from holdfast.journal import Draft
from holdfast.model import CheckpointType, Entry, Kind, Status, check_id, thread_journal
from holdfast.pipeline.findings import nearest
from holdfast.pipeline.plan import PipelinePlan
from holdfast.reading import outages_named


def newest_run(core: Core, thread_id: str, flow: str | None = None) -> str:
    """The run of a thread that was begun last, of this flow if given. Blocks.

    A run that died before it was durable is not passed over for an older one: what was asked for
    last did not happen. Raises `CheckpointNotFoundError`.
    """
    name = thread_journal(check_id("thread_id", thread_id))
    with outages_named(thread_id):
        for member in core.journals.entries(name, newest_first=True):
            if member.kind != Kind.MEMBER:
                continue
            run_id: str = json.loads(member.meta)["run"]
            head = core.journals.head(run_id)
            if head is None:
                missing = CheckpointNotFoundError(run_id)
                missing.add_note(
                    f"the newest run of thread {thread_id!r} was never begun: run it again"
                )
                raise missing
            known = head.status != Status.DELETED and head.thread == thread_id
            if known and flow in (None, head.flow):
                return run_id
    raise CheckpointNotFoundError(thread_id)


def go_to(core: Core, make: running.Make, plan: PipelinePlan, run_id: str, step: str) -> Op[None]:
    """Have a run go on with this step.

    One that has run is gone back to: with the state before it. One that has not is gone forward
    to: with the newest state, and the questions that are open are recorded as skipped. Raises
    `ValueError` for an unknown step, and what `going_back.go_back` raises.
    """
    if step not in plan.steps:
        raise ValueError(f"{step!r} is no step of {plan.flow!r}{nearest(step, plan.steps)}")
    if (yield partial(_has_run, core, plan, run_id, step)):
        wanted = going_back.Wanted(from_node=step)
        yield from going_back.go_back(core, make, plan, run_id, wanted)
        return
    if live.find(core, run_id) is not None:
        raise RunActiveError(run_id, Status.RUNNING)
    yield from append_if(core, run_id, lambda _: _skipping(core, make, plan, run_id, step))


def _has_run(core: Core, plan: PipelinePlan, run_id: str, step: str) -> bool:
    return any(
        versions.node_of(plan, entry) == step and entry.type != CheckpointType.MANUAL_CHECKPOINT
        for entry in core.journals.branch(run_id)
    )


def _skipping(
    core: Core, make: running.Make, plan: PipelinePlan, run_id: str, step: str
) -> list[Draft]:
    history = History(core, run_id, whole=True)
    if history.head.status in (Status.COMPLETED, Status.CANCELLED):
        raise RunFinishedError(run_id, history.head.status)
    running.check_flow(make(), history)
    skipped = dump_meta({"skipped_to": step})
    drafts = [
        Draft(Kind.ANSWER.value, Status.OPEN.value, step=question.key, meta=skipped)
        for question in requests.open_questions(history)
    ]
    state, entry, before = standing(plan, history)
    facts: dict[str, Any] = {
        "flow_version": plan.version,
        "shape": plan.shape,
        "next_steps": [step],
        "after": before,
    }
    for name in ("visits", "since"):
        if entry is not None and name in meta(entry):
            facts[name] = meta(entry)[name]
    kept = Draft(
        Kind.CHECKPOINT.value,
        Status.OPEN.value,
        composing.encode(core, run_id, state),
        step=None if entry is None else entry.step,
        step_index=None if entry is None else entry.step_index,
        type=CheckpointType.MANUAL_CHECKPOINT.value,
        meta=dump_meta(facts),
    )
    return [*drafts, kept]


def standing(
    plan: PipelinePlan | None, history: History, up_to: int | None = None
) -> tuple[dict[str, Any], Entry | None, list[str]]:
    """The state a run stands at, or stood at then, branches included.

    Also the last whole one's entry, and the steps that led there.
    """
    found: Entry | None = None
    beside: list[Entry] = []
    for entry in history.of(Kind.CHECKPOINT, Kind.RESULT):
        if up_to is not None and entry.seq > up_to:
            break
        if entry.kind == Kind.CHECKPOINT:
            found, beside = entry, []
        else:
            beside.append(entry)
    if plan is None:
        state = history.value(found or history.opening)
    else:
        state = versions.state_of(plan, history, found).value()
    before = [] if found is None else meta(found).get("after") or [_name(found)]
    for entry in beside:
        state["steps"].pop(_name(entry), None)
        state["steps"][_name(entry)] = history.value(entry)
    return state, found, [name for name in before if plan is None or name in plan.steps]


def _name(entry: Entry) -> str:
    return str(meta(entry).get("step_name") or entry.step)
