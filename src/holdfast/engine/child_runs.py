"""A step that executes a run of its own: finding that run, starting it, resuming it.

The parent's journal says that the child is about to be executed, and the child's opening or claim
says under which claim of the parent. Both are durable before the child's first step, so whoever
has lost the parent begins nothing in the child.
"""

from __future__ import annotations

import hashlib
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from holdfast.checkpoint import RunInfo
from holdfast.engine import events as ev
from holdfast.engine.launch import ended, execute, outcome, resume, start
from holdfast.engine.opening import Link
from holdfast.engine.program import Task
from holdfast.engine.resume import trust
from holdfast.engine.resume.history import History
from holdfast.engine.resume.takeover import began_otherwise, drive, look
from holdfast.engine.run.loop import Run
from holdfast.errors import RunCancelledError, RunExistsError, RunFinishedError
from holdfast.kernel.appending import append_at
from holdfast.kernel.core import Core
from holdfast.model import MAX_ID_BYTES, Status, child_prefixes
from holdfast.operations import listing


class Parent(NamedTuple):
    """The run that a child run belongs to, and the step that it executes."""

    run: Run
    key: str

    @property
    def facts(self) -> dict[str, Any]:
        """What the child's opening says about it."""
        parent = self.run
        return {
            "parent": f"{parent.run_id}@{self.key}",
            "parent_birth": parent.birth,
            **self.term,
        }

    @property
    def term(self) -> dict[str, Any]:
        """What the child's openings and claims say: under which claim of the parent."""
        return {"parent_term": self.run.hold.term}

    async def note(self, child: str) -> None:
        """Say in the parent's journal that its child is about to be executed."""
        await self.run.hold.begin_to_append([self.run.recorder.child(self.key, child)])

    async def confirm(self) -> None:
        """Wait until that is durable. Raises `LeaseLostError`: the child is not ours to execute."""
        self.run.recorder.announce(await self.run.hold.append([]))


async def run_child(parent: Run, task: Task, *, hands_over: bool) -> Any:
    """Execute the child run of a step: start it, resume it, or look its result up."""
    assert task.child is not None
    core = parent.core
    make, inputs = task.child
    options, make_run = parent.options, partial(Run, parent=parent, of=task, hands_over=hands_over)
    see = partial(look, core, options=options)
    child_of = Parent(parent, task.key)
    while True:
        run_id, known = await see(partial(_find_child, core, parent, task))
        task.child_id = run_id
        status = None if known is None else known.status
        if status == Status.CANCELLED or (known is None and parent.wanted == "cancel"):
            raise RunCancelledError(run_id)
        if known is not None:
            break
        tip = core.journals.tip(parent.run_id)
        link = Link(None, None if tip is None else tip.owner)
        try:
            return await execute(
                await start(core, make, run_id, inputs, options, link, make_run, child_of)
            )
        except RunExistsError as taken:
            if taken.run_id != run_id:
                raise
            # Whoever held the parent before has just opened it.
    anew = None
    if task.policy.claims is not None and parent.behind.repairs:
        child: History = await see(partial(History, core, run_id, whole=True))
        begin_anew = partial(trust.begin_anew, core, parent.run_id, task.key, child)
        anew = await see(partial(begin_anew, options))
    rejected: tuple[ev.CheckpointRejected, ...] = ()
    if anew is not None:
        at = child.head.seq
        if await drive(core, append_at(core, run_id, at, anew.drafts), options):
            rejected = anew.rejected
    try:
        ready = await resume(core, make, run_id, inputs, options, make_run, child_of)
    except RunFinishedError as over:
        status = over.status
    else:
        return await execute(ready._replace(rejected=rejected + ready.rejected))
    if status == Status.COMPLETED:
        return await see(partial(outcome, core, make, run_id, inputs))
    # Whoever held the parent before has just ended it: how it ended is the outcome here, too.
    return await see(partial(ended, core, make, run_id))


def _find_child(core: Core, parent: Run, task: Task) -> tuple[str, RunInfo | None]:
    """The child run of a step: its id, and its status if it was started. Blocks.

    The next one takes its place if it is another run's, or of an earlier run with the parent's
    id; if it failed and was undone; or if the step is repaired and called with other inputs than
    before.
    """
    assert task.child is not None
    make, inputs = task.child
    ours = (f"{parent.run_id}@{task.key}", parent.birth)
    for number in count(1):
        run_id = child_id(parent.run_id, task.key, parent.behind.epoch, number)
        known = listing.last_known(core, run_id)
        if known is None:
            break
        history = History(core, run_id, whole=False)
        begun = history.meta(history.opening)
        if (begun.parent, begun.parent_birth) != ours:
            continue
        if parent.behind.repairs and began_otherwise(make(), history, inputs):
            continue
        if known.status != Status.FAILED or not history.rolled_back:
            break
    return run_id, known


def child_id(run_id: str, key: str, epoch: int, number: int = 1) -> str:
    """The id of a step's child run: the same whenever the step is tried again.

    No run that a user begins may have such an id.
    """
    full, shortened = child_prefixes(run_id)
    name = f"{full}{key}" + (f"~{epoch}" if epoch else "") + (f"~~{number}" if number > 1 else "")
    if len(name.encode()) <= MAX_ID_BYTES:
        return name
    return f"{shortened}{hashlib.sha256(name.encode()).hexdigest()}"
