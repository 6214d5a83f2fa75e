"""The run loop: executes what is ready, records the values, hands them on, until the flow ends."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, Final

from holdfast.codec.meta import Meta
from holdfast.engine import events as ev
from holdfast.engine.options import Options
from holdfast.engine.program import Program, Ready, Task
from holdfast.engine.resume.history import answer_in
from holdfast.engine.run import ending, left, pausing
from holdfast.engine.run.calling import as_failure
from holdfast.engine.run.execute import Finished, Steps
from holdfast.engine.run.failures import failure, message_of
from holdfast.engine.run.hold import Hold
from holdfast.engine.run.pausing import Waits
from holdfast.engine.run.record import Recorder
from holdfast.engine.run.results import Bad, Good, Results
from holdfast.engine.run.resumption import Resumption
from holdfast.engine.run.telling import Telling
from holdfast.errors import (
    CheckpointSaveError,
    HoldfastError,
    RunCancelledError,
    RunError,
    UnsavedWarning,
)
from holdfast.errors.base import one_line
from holdfast.kernel.core import Core
from holdfast.logs import about, logger
from holdfast.model import Kind, Status
from holdfast.operations.answers import counts
from holdfast.revealed import Executing

log = logger()

_LONGEST_REASON: Final = 500  # characters of why a run was left


class Run(Telling):
    """One run, from its current state to where it stops: its end, a pause, a failure."""

    def __init__(
        self,
        program: Program,
        hold: Hold,
        options: Options,
        behind: Resumption,
        *,
        parent: Run | None = None,
        of: Task | None = None,
        hands_over: bool = True,
    ) -> None:
        self.program = program
        self.hold = hold
        self.core: Core = hold.core
        self.run_id = hold.run
        self.options = options
        self.behind = behind
        self.birth = behind.birth
        super().__init__(hold.core, options, parent, hands_over=hands_over)
        self.wanted = behind.wanted  # "pause", "cancel" or "timeout", once it is to stop
        self.undoing = False
        self.children: set[Run] = set()  # under way
        self.recorder = Recorder(
            hold, program.flow, options, self.emit, behind.epoch, claimed=behind.claimed
        )
        self.steps = Steps(self, behind)
        self.results = Results(self)
        program.abandon = self.steps.abandon
        self._of = of  # the step of the parent that it executes
        self.paused = behind.waits  # the journal says so already
        self._stale = False  # the lease could not be renewed: nothing more may begin
        self._asked: float | None = None  # since when the loop has not turned
        self.waits = Waits(program, dict(behind.deadlines))
        self._answers_came = False
        self.task: asyncio.Task[Any] | None = None  # the one that executes it
        self.began = perf_counter()
        self._due: float | None = None  # by the clock of the loop: when it times out

    async def main(self) -> Any:
        """Execute the run; returns its result, or raises what ended it."""
        timer = None
        self.loop = asyncio.get_running_loop()
        if not self.hands_over:  # else whoever reads its events executes it
            self.steps.executed_by(asyncio.current_task(self.loop))
        parent = self.parent
        if parent is not None:
            parent.children.add(self)
            if parent.wanted is not None:
                self.ask(parent.wanted)
            elif self._of is not None and self._of.abandoned:
                self.ask("cancel")
        elif self.options.timeout is not None:
            if self._due is None:
                self._due = self.loop.time() + self.options.timeout
            timer = self.loop.call_at(self._due, self.ask, "timeout")
        try:
            with Executing():
                result = await self._work()
            self._warn_if_unsaved()
            return result
        except BaseException as error:
            if isinstance(error, RunCancelledError) and error.run_id == self.run_id:
                self.cancelled()
            self.leave(error)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            ends_later = self.steps.drop()
            if parent is not None:
                parent.children.discard(self)
            self.program.close()
            for child in self.children:
                self.hold.presence.forget(child)
            if self.recorder.stopped and not ends_later and not self.children:
                ending.let_go(self)

    @property
    def saved(self) -> bool:
        """Whether the store has everything that was to be saved so far."""
        return self.recorder.degraded is None

    def _warn_if_unsaved(self) -> None:
        """Warn whoever gets only the result; an event says it to the others."""
        error = self.recorder.degraded
        if error is not None and self.parent is None and not self.options.listening:
            warnings.warn(UnsavedWarning(self.run_id, str(error)), stacklevel=2)

    def leave(self, error: BaseException | None = None) -> None:
        """Remember which steps are under way, if the journal does not say that the run stopped.

        An error of ours is why nobody executes it any more: the journal will say so.
        """
        if self.recorder.stopped:
            return
        cut_short = self.steps.cut_short()
        tip = self.core.journals.tip(self.run_id)
        if tip is not None:
            left.remember(tip.digest, cut_short)
        facts: dict[str, Any] = {"cut_short": cut_short} if cut_short else {}
        if isinstance(error, HoldfastError):
            facts["reason"] = one_line(message_of(error)[:_LONGEST_REASON])
        self.steps.drop()
        self.hold.presence.leave(self, facts, self.steps.attempts.ending)

    def take_place_of(self, earlier: Run) -> None:
        """Replace a run that had to go back: for its callers it is the same run."""
        self.events, self.told_end = earlier.events, earlier.told_end
        self.wanted = self.wanted or earlier.wanted
        self.began, self._due = earlier.began, earlier._due

    def is_within(self, run_id: str) -> bool:
        """Whether it is this run, or a child run of it."""
        return self.run_id == run_id or (self.parent is not None and self.parent.is_within(run_id))

    def ask(self, action: str) -> None:
        """Stop as soon as possible. A pause waits for running steps, but not for those that only wait.

        All else interrupts them.
        """
        if self.undoing:
            return  # it is ending already
        if self.wanted != "cancel":
            self.wanted = action
        for child in tuple(self.children):
            child.ask(action)
        self.steps.interrupt(only_waiting=action == "pause")

    def check_lease(self) -> None:
        """Raise if this process has lost the run, or can't know whether it has."""
        self.hold.check()
        if self._stale:
            why = "the lease of this process could not be renewed"
            raise CheckpointSaveError(self.run_id, why)

    def stop_from_anywhere(self) -> None:
        """Stop what is under way unless the lease is fresh, once, in the thread of the run's loop."""
        if self.loop is not None and not self.loop.is_closed():
            with suppress(RuntimeError):  # it was closed just now
                self.loop.call_soon_threadsafe(self._stop_if_stale)

    def _stop_if_stale(self) -> None:
        lease = self.hold.lease
        if lease is None or lease.is_fresh or not (lease.lost or self.recorder.fatal):
            return
        if self._stale:  # steps are cleaning up
            return
        self._stale = True
        self.steps.interrupt()

    def lag(self) -> float:
        """How late the run's event loop is. Asked for every now and then, from any thread."""
        if self.loop is None or self.loop.is_closed() or self.options.blocking:
            return 0.0
        now = self.core.journals.clock.monotonic()
        if self._asked is not None:
            return now - self._asked
        self._asked = now
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._turned)
        return 0.0

    def _turned(self) -> None:
        self._asked = None

    def ask_from_anywhere(self, action: str) -> None:
        """`ask`, in the thread of the run's own loop."""
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.ask, action)
            return
        self.ask(action)

    # --- the loop

    async def _work(self) -> Any:
        program, steps = self.program, self.steps
        for key, value in self.behind.answers.items():
            program.answer(key, value)
        await self.hold.look()
        while True:
            self.check_lease()
            try:
                ready = program.ready()
            except (Exception, SystemExit) as raised:
                error = as_failure(raised, self.options.in_worker)
                if isinstance(error, HoldfastError) and not isinstance(error, RunError):
                    raise  # the flow changed, for example: nothing is recorded about that
                return await self._end_with(error)
            tasks = ready.tasks
            if self.hold.absorbed:
                self.listen()  # who is asked to pause does not pause for a question
            if ready.records or ready.skipped or ready.changed:
                await self._note_decisions(ready)
            if self.hold.absorbed:
                self.listen()
            if self.behind.failure is not None:  # it was being rolled back
                tasks = self._to_catch_up(tasks)
                if not tasks and not (steps.running and program.catching_up):
                    if isinstance(self.behind.failure, RunCancelledError):
                        return await ending.cancel(self)
                    return await ending.fail(self, self.behind.failure)
            elif self.wanted == "cancel":  # child runs that were begun are to be cancelled, too
                tasks = [*self._to_catch_up(tasks), *(t for t in tasks if t.child is not None)]
            elif self.wanted is not None:
                tasks = []
            if tasks or steps.running:
                await self.take_up()
                fatal = await self._record(await steps.execute(tasks))
                if fatal is not None:
                    return await self._end_with(*fatal)
                due = None if tasks else steps.idle_until()
                if due is not None:
                    await pausing.pause_until(self, due)
            elif self.wanted == "cancel":
                return await ending.cancel(self)
            elif self.wanted == "timeout":
                await ending.time_out(self)
            elif ready.done and self.wanted is None:
                return await ending.complete(self)
            elif not self.answered():
                await pausing.pause(self)

    def _to_catch_up(self, tasks: Sequence[Task]) -> list[Task]:
        """What the flow's own code waits for before it comes past all that is to be undone."""
        waits = [task for task in tasks if not task.recorded]
        return waits if waits and self.program.catching_up else []

    async def take_up(self) -> None:
        """Claim the run if the journal says that it stopped: an answer or a request came meanwhile.

        Called before anything is executed or recorded. Raises `CheckpointSaveError`, whatever
        `on_save_failure` says: another process may hold the run.
        """
        if self.paused:
            self.recorder.stopped = False  # from here on it is to be released, if it is left
            if self.parent is not None and self._of is not None:
                await self.parent.note_child(self._of.key, self.run_id)
            await self.hold.claim_again()
            self.paused = False
            self.steps.resting.go_on()

    async def note_child(self, key: str, child: str) -> None:
        """Record that a child run is about to be executed. Raises `LeaseLostError`: it may not be."""
        self.recorder.announce(await self.hold.append([self.recorder.child(key, child)]))

    async def hear(self) -> None:
        """Take note of requests that have not reached this run: a child run acted on them.

        That was executed by another process, perhaps, which heard what the run above was asked.
        """
        if self.parent is not None:
            await self.parent.hear()
        try:
            self.recorder.announce(await self.hold.listen())
        except CheckpointSaveError:
            if self.recorder.fatal:
                raise
        self.listen()

    async def _end_with(self, error: BaseException, done: Finished | None = None) -> Any:
        """The run failed. The results of the steps beside the failure are kept."""
        self.stop_waiting()
        if self.steps.running:
            await self.take_up()
        while self.steps.running:
            await self._record(await self.steps.execute(()))
        return await ending.fail(self, error, done)

    def stop_waiting(self) -> None:
        """End what only waits, here and in child runs: the moments are recorded."""
        self.steps.interrupt(only_waiting=True)
        for child in self.children:
            child.stop_waiting()

    async def _note_decisions(self, ready: Ready) -> None:
        """Record decisions and questions before anything is done about them."""
        for key, name, reason in ready.skipped:
            self.emit(ev.StepSkipped(self.run_id, key, name, reason))
        for key, name in ready.changed:
            log.warning(
                "run %s calls step %s with other arguments now; its recorded result is used",
                self.run_id,
                key,
                extra=about(self.run_id, key),
            )
            self.emit(ev.StepArgumentsChanged(self.run_id, key, name))
        if not ready.records:
            return
        await self.take_up()
        asked = [record for record in ready.records if record.kind == Kind.QUESTION]
        busy = ready.tasks or self.steps.running or self.wanted is not None
        stops = bool(asked) and not busy  # nothing else to do
        for record in asked:
            self.waits.add_question(record, self.core.journals.clock.now())
            record.meta = {**record.meta, "questions": len(self.program.questions())}
        if stops:
            last = ready.records[-1]
            last.meta = {**last.meta, **self.waits.facts()}
        drafts = [self.recorder.draft(record) for record in ready.records]
        if stops:
            drafts[-1] = drafts[-1]._replace(status=Status.PAUSED.value)
            self.paused = True
        await self.recorder.save_and_announce(drafts, urgent=bool(asked), waits=True)
        for record in asked:
            self.emit(ev.QuestionAsked(self.run_id, record.step, str(record.value["prompt"])))

    async def _record(self, finished: Sequence[Finished]) -> tuple[BaseException, Finished] | None:
        """Save the outcomes of tasks, then continue. Returns what ends the run, if anything."""
        program, ends = self.program, None
        good: list[Good] = []
        bad: list[Bad] = []
        for done in finished:
            if done.error is not None:
                bad.append((done, done.error))
            elif done.paused and done.task.abandoned:
                program.drop(done.task)
            elif done.paused:
                self.waits.add_child(done.until, done.value)
            else:
                try:
                    item = self.results.prepared(done) if done.task.recorded else None
                except Exception as error:
                    bad.append((done, failure(self.run_id, done.task, error, done.attempts)))
                    continue
                if item is None:
                    program.accept(done.task, done.value)
                else:
                    good.append(item)
        if good:
            bad += await self.results.save(good)
        for done in finished:
            self.steps.attempts.under_way.pop(done.task.key, None)
        for done, failed in bad:
            task = done.task
            what = (str(failed), failed.attempts, failed.error_type)
            self.emit(ev.StepFailed(self.run_id, task.key, task.name, *what))
            try:
                records = program.refuse(task, failed)
            except Exception as error:
                ends = error, done
                break
            drafts = [self.recorder.draft(record, done.last) for record in records]
            await self.recorder.save_and_announce(drafts)
        self.steps.raise_fatal()  # before anything is recorded about the run itself
        if self.hands_over:
            await self.hand_over()
        return ends

    # --- requests and answers

    def listen(self) -> None:
        """Read what others appended to the journal."""
        for entry in self.hold.absorbed:
            meta = Meta(entry)
            if entry.kind in (Kind.REQUEST, Kind.PAUSE) and meta.action in ("pause", "cancel"):
                self.ask(meta.action)
            elif entry.kind == Kind.ANSWER and counts(self.core, entry):
                value = self.core.journals.value(entry.run, entry.seq, entry)
                self.program.answer(str(entry.step), answer_in(meta, value))
                self._answers_came = True
        self.hold.absorbed.clear()

    def answered(self) -> bool:
        """Whether answers came since this was asked last."""
        came, self._answers_came = self._answers_came, False
        return came
