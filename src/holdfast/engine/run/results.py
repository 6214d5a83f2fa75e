"""Recording what steps return, and handing it on to the flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.engine import events as ev
from holdfast.engine.options import Strategy
from holdfast.engine.program import Stored
from holdfast.engine.run.execute import Finished
from holdfast.engine.run.failures import failure
from holdfast.engine.run.record import committing
from holdfast.errors import HoldfastError, StepFailedError
from holdfast.kernel.draft import Draft
from holdfast.model import Entry

if TYPE_CHECKING:
    from holdfast.engine.run.loop import Run


_new: Final = tuple.__new__  # at half the price of a constructor: every step makes one


class Good(NamedTuple):
    """A finished step, ready to be saved."""

    done: Finished
    draft: Draft
    stored: Stored
    handed_on: Any


Bad = tuple[Finished, StepFailedError]


class Results:
    """Saves the results of one run's steps."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def prepared(self, done: Finished) -> Good | None:
        """A result as it will be recorded and handed on; None if it is more to do.

        Encoded, decoded and revived before it is saved: a value that can't be stored, or does not
        fit its type, fails the step, and the flow sees what a resume would see.
        """
        run = self._run
        record = run.program.record(done.task, done.value)
        if record is None:
            return None
        if done.claims:
            record.meta = {**record.meta, **done.claims}
        core = run.core
        if record.before is not None and core.withholding.is_idle:
            apart = record.before.followed_by(record.value)
            if apart is not None:
                record.value = Stored(apart.encoding, core.journals.decode, apart)
        draft = run.recorder.draft(record, done.duration)
        assert draft.encoding is not None
        stored = record.value
        if not isinstance(stored, Stored):
            stored = Stored(draft.encoding, core.journals.decode)
        handed_on = run.program.revive(done.task, stored)
        if type(handed_on) is not type(done.value):
            run.program.came_back(done.task, done.value, handed_on)
        return _new(Good, (done, draft, stored, handed_on))

    async def save(self, good: list[Good]) -> list[Bad]:
        """Save the results and hand them on. Returns those whose own transaction failed."""
        run = self._run
        bad: list[Bad] = []
        for batch in _batches(good):
            task, urgent, work = batch[0].done.task, False, None
            if task.policy.commit is not None:
                result = run.program.show(task, batch[0].stored)
                urgent, work = True, committing(task.policy.commit, result)
            elif run.options.strategy is Strategy.MARKED:
                urgent = any(item.done.task.policy.marked for item in batch)
            drafts = []
            for item in batch:
                drafts.append(item.draft)
                if item.done.claims:
                    run.steps.attempts.reading.note(item.done.claims)
            try:
                saved = await run.recorder.save(drafts, urgent=urgent, work=work)
            except HoldfastError:
                raise
            except Exception as error:  # the user's own part of the transaction
                if work is None:
                    raise
                done = batch[0].done
                bad.append((done, failure(run.run_id, task, error, done.attempts)))
                continue
            self._hand_on(batch, saved)
        return bad

    def _hand_on(self, batch: list[Good], saved: list[Entry]) -> None:
        """They are saved: tell of them, and let the flow continue with them."""
        run = self._run
        run.steps.deaths = 0  # crashes before a finished step do not count any more
        for item in batch:
            task = item.done.task
            if run.heard:
                show = run.program.show(task, item.stored)
                spent = (item.done.duration, item.done.attempts)
                size = len(item.draft.encoding or b"")
                run.emit(ev.StepCompleted(run.run_id, task.key, task.name, *spent, show, size))
            run.program.accept(task, item.handed_on, item.stored)
        if run.heard:
            run.recorder.announce(saved)


def _batches(good: list[Good]) -> list[list[Good]]:
    """What is saved together: first all results without a transaction of their own."""
    apart = [item for item in good if item.done.task.policy.commit is not None]
    if not apart:
        return [good]
    plain = [item for item in good if item.done.task.policy.commit is None]
    return [*([plain] if plain else ()), *([item] for item in apart)]
