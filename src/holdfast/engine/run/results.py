"""Recording what steps return, and handing it on to the flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.engine import events as ev
from holdfast.engine.options import Strategy
from holdfast.engine.program import Stored, Task
from holdfast.engine.run.execute import Finished
from holdfast.engine.run.failures import failure
from holdfast.engine.run.record import committing
from holdfast.errors import HoldfastError, StepFailedError
from holdfast.kernel.draft import Draft
from holdfast.store import Work

if TYPE_CHECKING:
    from holdfast.engine.run.loop import Run


_new: Final = tuple.__new__  # at half the price of a constructor: every step makes one


class Good(NamedTuple):
    """A finished step, ready to be saved."""

    done: Finished
    draft: Draft
    stored: Stored
    handed_on: Any


class Results:
    """Saves the results of one run's steps."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def prepared(self, done: Finished) -> Good | None:
        """A result as it will be recorded and handed on; None if it is more to do.

        Encoded, decoded and revived before it is saved: a value that can't be stored, or does not
        fit its type, fails the step, and the flow sees what a resume would see.
        """
        record = self._run.program.record(done.task, done.value)
        if record is None:
            return None
        if done.claims:
            record.meta = {**record.meta, **done.claims}
        core = self._run.core
        if record.before is not None and core.withholding.is_idle:
            apart = record.before.followed_by(record.value)
            if apart is not None:
                record.value = Stored(apart.encoding, core.journals.decode, apart)
        draft = self._run.recorder.draft(record, done.duration)
        assert draft.encoding is not None
        stored = record.value
        if not isinstance(stored, Stored):
            stored = Stored(draft.encoding, core.journals.decode)
        return _new(Good, (done, draft, stored, self._run.program.revive(done.task, stored)))

    async def save(self, good: list[Good]) -> list[tuple[Task, StepFailedError]]:
        """Save the results and hand them on. Returns those whose own transaction failed."""
        bad: list[tuple[Task, StepFailedError]] = []
        committed = [item for item in good if item.done.task.policy.commit is not None]
        plain = good
        if committed:
            plain = [item for item in good if item.done.task.policy.commit is None]
        if plain:
            await self._save_batch(plain, None)
        for item in committed:
            commit = item.done.task.policy.commit
            assert commit is not None
            show = self._run.program.show(item.done.task, item.stored)
            try:
                await self._save_batch([item], committing(commit, show))
            except HoldfastError:
                raise
            except Exception as error:  # the user's own part of the transaction
                done = item.done
                bad.append((done.task, failure(self._run.run_id, done.task, error, done.attempts)))
        return bad

    async def _save_batch(self, batch: list[Good], work: Work | None) -> None:
        run, urgent = self._run, work is not None
        if run.options.strategy is Strategy.MARKED:
            urgent = urgent or any(item.done.task.policy.marked for item in batch)
        for item in batch:
            if item.done.claims:
                run.steps.attempts.reading.note(item.done.claims)
        saved = await run.recorder.save([item.draft for item in batch], urgent=urgent, work=work)
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
