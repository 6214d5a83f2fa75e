"""Engines that make the mistakes others have made. The checker must catch every one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.codec.meta import Meta
from holdfast.engine.resume import takeover
from holdfast.engine.resume.history import History
from holdfast.engine.run import hold, record
from holdfast.engine.run.hold import Hold
from holdfast.kernel.appending import append_at
from holdfast.kernel.draft import Draft
from holdfast.model import Entry, Kind
from holdfast.store import Work
from holdfast.workflow.deliveries import Deliveries
from holdfast.workflow.fibers import Fiber, Outcome
from holdfast.workflow.interpreter import Interpreter
from holdfast.workflow.workflow_program import WorkflowProgram


def break_engine(mutant: str) -> None:
    """Bring a mistake into this process. For workers only."""
    MUTANTS[mutant]()


def acknowledges_before_it_is_durable() -> None:
    really = Hold.append

    async def append(
        self: Any, drafts: Sequence[Draft], *, wait: bool = True, work: Work | None = None
    ) -> list[Entry]:
        held = getattr(self, "_held", [])
        ends = not drafts or any(d.kind != Kind.RESULT for d in drafts)
        self._held = [] if ends else list(drafts)
        return await really(self, [*held, *drafts] if ends else held, wait=wait, work=work)

    Hold.append = append  # type: ignore[method-assign]


def drops_the_step_that_a_request_came_before() -> None:
    def take_note(self: Any, entry: Entry, drafts: list[Draft]) -> None:
        really(self, entry, drafts)
        drafts[:] = [draft for draft in drafts if draft.kind != Kind.RESULT]

    really = Hold._take_note
    Hold._take_note = take_note  # type: ignore[method-assign]


def commits_beside_the_result() -> None:
    async def append(
        self: Any, drafts: Sequence[Draft], *, wait: bool = True, work: Work | None = None
    ) -> list[Entry]:
        if work is None:
            return await really(self, drafts, wait=wait)
        with self.core.journals.store._db.transaction(self.run) as db:
            work(db)
        return await really(self, drafts)

    really = Hold.append
    Hold.append = append  # type: ignore[method-assign]


def ignores_the_fence() -> None:
    vars(hold)["FROM_OUTSIDE"] = tuple(Kind)


def takes_over_without_a_claim() -> None:
    def unclaimed(core: Any, run: str, seq: int, drafts: list[Draft]) -> Any:
        if drafts[-1].kind == Kind.CLAIM:
            return core.journals.checked_head(run)
        return (yield from append_at(core, run, seq, drafts))

    takeover.append_at = unclaimed  # type: ignore[attr-defined]


def decides_anew() -> None:
    def decide(self: Any, name: str, make: Callable[[], Any]) -> Any:
        known = really(self, name, make)
        fresh = make()
        return known if isinstance(known, int) or known is None else fresh

    really = Interpreter.decide
    Interpreter.decide = decide  # type: ignore[method-assign]


def takes_another_branch() -> None:
    def known(self: Any, key: str, kind: str) -> Any:
        return None if key == "branch" else really(self, key, kind)

    really = Interpreter.known
    Interpreter.known = known  # type: ignore[method-assign]


def counts_attempts_anew() -> None:
    History.deaths = lambda self: 0  # type: ignore[method-assign]
    History.failed_attempts = lambda self: {}  # type: ignore[method-assign]


def does_not_record_what_is_undone() -> None:
    async def save(self: Any, drafts: Sequence[Draft], **options: Any) -> list[Entry]:
        return await really(self, [d for d in drafts if '"undone"' not in d.meta], **options)

    really = record.Recorder.save
    record.Recorder.save = save  # type: ignore[method-assign]


def forgets_what_to_undo() -> None:
    History.rolling_back = lambda self: None  # type: ignore[method-assign]
    WorkflowProgram.compensations = lambda self: []  # type: ignore[method-assign]


def does_every_item_again() -> None:
    def restore(self: Any, history: History, *, wary: bool = False) -> int:
        history.entries = [e for e in history.entries if "[" not in str(e.step)]
        return really(self, history, wary=wary)

    really = WorkflowProgram.restore
    WorkflowProgram.restore = restore  # type: ignore[method-assign]


def forgets_a_cancel() -> None:
    really = Hold._take_note

    def take_note(self: Any, entry: Entry, drafts: list[Draft]) -> None:
        really(self, entry, drafts)
        self.absorbed[:] = [e for e in self.absorbed if Meta(e).action != "cancel"]

    Hold._take_note = take_note  # type: ignore[method-assign]


def hands_results_over_as_they_are_asked_for() -> None:
    def recall(self: Any, fiber: Fiber, order: int, outcome: Outcome) -> Outcome | None:
        return really(self, fiber, 0, outcome)

    really = Deliveries.recall
    Deliveries.recall = recall  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[], None]] = {
    mistake.__name__: mistake
    for mistake in (
        acknowledges_before_it_is_durable, drops_the_step_that_a_request_came_before,
        commits_beside_the_result, ignores_the_fence, takes_over_without_a_claim, decides_anew, takes_another_branch,
        counts_attempts_anew, does_not_record_what_is_undone, forgets_what_to_undo,
        does_every_item_again, forgets_a_cancel, hands_results_over_as_they_are_asked_for,
    )
}  # fmt: skip
