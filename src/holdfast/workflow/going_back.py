"""Going back in a run of a workflow: to before or after a step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.codec.meta import meta_text
from holdfast.engine.flow import Wanted
from holdfast.engine.holding.here import running_here
from holdfast.engine.holding.observing import refuse_if_held
from holdfast.engine.resume import takeover
from holdfast.engine.resume.history import History
from holdfast.errors import CheckpointNotFoundError, RunActiveError
from holdfast.kernel.appending import append_at
from holdfast.kernel.compose import rollback_to
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.model import Entry, Kind, Status
from holdfast.operations import forking
from holdfast.operations.answers import copied_meta

if TYPE_CHECKING:
    from holdfast.workflow.flow import Workflow


def go_back(
    core: Core,
    flow: Workflow[..., object],
    run_id: str,
    wanted: Wanted,
    *,
    take_over: bool = False,
) -> Op[None]:
    """Append what makes the run continue from there.

    Raises `CheckpointNotFoundError`, `FlowChangedError`, `RunActiveError`, and `ValueError` for
    what only flows with a state can do.
    """
    if wanted.override is not None or wanted.validate is not None:
        raise ValueError(
            f"{flow.name!r} is a workflow and has no state to override or validate: its steps "
            "have results, and from_step= makes one of them anew"
        )
    if (yield partial(running_here, core, run_id)) is not None:
        raise RunActiveError(run_id, Status.RUNNING)
    while True:
        history: History = yield partial(History, core, run_id, whole=True)
        if not take_over:
            yield partial(refuse_if_held, core, history.head)
        drafts: list[Draft] = yield partial(_drafts, core, flow, history, wanted)
        if (yield from append_at(core, run_id, history.head.seq, drafts)):
            return


def _drafts(
    core: Core, flow: Workflow[..., object], history: History, wanted: Wanted
) -> list[Draft]:
    """The rollback to where the run is to continue, and what it knew there beyond. Blocks."""
    takeover.check_flow(flow.program(), history)
    results = history.of(Kind.RESULT)
    name = wanted.after_step or wanted.from_step
    found = next(
        (
            place
            for place in range(len(results) - 1, -1, -1)
            if name in (None, results[place].step, history.meta(results[place]).step_name)
        ),
        None,
    )
    if found is None:
        raise CheckpointNotFoundError(history.run, f"of step {name!r}")
    last = found if wanted.after_step else found - 1
    target = results[last] if last >= 0 else None
    if target is not None:
        forking.refuse_undone(core, history.run, target.seq)
    back = rollback_to(target)
    begin = -1 if target is None else target.seq
    kept = [] if wanted.after_step else _still_hold(history)
    again = [_again(core, e) for e in kept if begin < e.seq < results[found].seq]
    return [back, *again]


def _still_hold(history: History) -> list[Entry]:
    """Decisions, questions, answers, and failures that the flow handled."""
    found = history.of(Kind.DECISION, Kind.QUESTION, Kind.ANSWER, Kind.FAIL)
    kept: list[Entry] = []
    for entry in found:
        meta = history.meta(entry)
        if entry.kind != Kind.FAIL or meta.of == "step":
            kept.append(entry)
        elif meta.of == "run":  # a resume has tried the steps again that it failed in
            failed = (meta.step, meta.cause, *meta.others)
            kept = [e for e in kept if e.kind != Kind.FAIL or e.step not in failed]
    return kept


def _again(core: Core, entry: Entry) -> Draft:
    """A decision, question, answer or failed step that still holds."""
    encoding = core.journals.chain(entry.run, entry.seq, entry).encoding if entry.size else None
    meta = copied_meta(entry) if entry.kind == Kind.QUESTION else meta_text(entry)
    return Draft(entry.kind, Status.OPEN.value, encoding, step=entry.step, meta=meta)
