"""The run loop: executes what is ready, records what came of it, hands that on, until the end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple

from holdfast.engine import events as ev
from holdfast.engine.options import Options, Strategy
from holdfast.engine.program import Program, Record, Stored, Task
from holdfast.engine.resume.history import answer_in, meta
from holdfast.engine.run import live
from holdfast.engine.run.execute import Finished, Steps
from holdfast.engine.run.failures import describe, failure, type_name
from holdfast.engine.run.hold import Hold
from holdfast.engine.run.record import Recorder
from holdfast.engine.run.rollback import roll_back
from holdfast.engine.stream import HAND_OVER
from holdfast.errors import (
    CheckpointSaveError,
    HoldfastError,
    RunCancelledError,
    RunError,
    RunPausedError,
    RunTimeoutError,
    StepFailedError,
    UnansweredError,
)
from holdfast.kernel import compose
from holdfast.kernel.core import Core
from holdfast.kernel.journal import Draft
from holdfast.model import Kind, Status
from holdfast.store import Work

_NONE: Mapping[str, Any] = MappingProxyType({})


class Resumption(NamedTuple):
    """What a run that goes on has behind it."""

    epoch: int = 0
    deaths: int = 0
    failed_attempts: Mapping[str, int] = _NONE
    answers: Mapping[str, Any] = _NONE
    wanted: str | None = None
    waits: bool = False  # for answers that have not come
    repairs: bool = False  # it went back because checkpoints could not be trusted
    failure: BaseException | None = None  # it was being rolled back for this
    undone: Mapping[str, str] = _NONE  # what was rolled back already; why, where it could not be


class _Good(NamedTuple):
    """A finished step, ready to be saved."""

    done: Finished
    draft: Draft
    stored: Stored
    handed: Any


class Run:
    """One run, from where it stands to where it stops: its end, a pause, a failure."""

    def __init__(
        self,
        program: Program,
        hold: Hold,
        options: Options,
        behind: Resumption = Resumption(),
        *,
        parent: Run | None = None,
        hands_over: bool = True,
        child: Callable[[Run, Task, bool], Awaitable[Any]] | None = None,
    ) -> None:
        self.program = program
        self.hold = hold
        self.core: Core = hold.core
        self.run_id = hold.run
        self.options = options
        self.behind = behind
        self.events: deque[ev.Event] = deque() if parent is None else parent.events
        self.hands_over = hands_over and options.listening
        self.wanted = behind.wanted  # "pause", "cancel" or "timeout", once it is to stop
        self.undoing = False
        self.children: set[Run] = set()  # under way
        self.recorder = Recorder(hold, program, options, self.emit, behind.epoch)
        self.steps = Steps(self, behind.epoch, behind.deaths, behind.failed_attempts)
        self._parent = parent
        self._child = child
        self._paused = behind.waits  # the journal says so already
        self._answers_came = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._began = perf_counter()
        self._due: float | None = None  # by the clock of the loop: when it is to time out

    async def main(self) -> Any:
        """Carry the run out; returns its result, or raises what it came to."""
        timer = None
        self._loop = asyncio.get_running_loop()
        parent = self._parent
        if parent is not None:
            parent.children.add(self)
            if parent.wanted is not None:
                self.ask(parent.wanted)
        elif self.options.timeout is not None:
            if self._due is None:
                self._due = self._loop.time() + self.options.timeout
            timer = self._loop.call_at(self._due, self.ask, "timeout")
        try:
            return await self._work()
        finally:
            if timer is not None:
                timer.cancel()
            if parent is not None:
                parent.children.discard(self)
            self.steps.drop()
            for within in self.children:
                live.forget(within)

    def take_place_of(self, earlier: Run) -> None:
        """Go on for one that had to go back: it is the same run to whoever waits for it."""
        self.events = earlier.events
        self.wanted = self.wanted or earlier.wanted
        self._began, self._due = earlier._began, earlier._due

    def ask(self, action: str) -> None:
        """Stop as soon as possible. Pausing waits for what is under way, all else interrupts it."""
        if self.undoing:
            return  # it is ending already
        if self.wanted != "cancel":
            self.wanted = action
        for child in tuple(self.children):
            child.ask(action)
        if action != "pause":
            self.steps.interrupt()

    def ask_from_anywhere(self, action: str) -> None:
        """`ask`, in the thread of the run's own loop."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.ask, action)
            return
        self.ask(action)

    def emit(self, event: ev.Event) -> None:
        """Tell whoever listens."""
        if self.options.listening:
            self.events.append(event)
            if self._parent is not None:
                self._parent.ring()

    def ring(self) -> None:
        """Have the events looked at, while this run waits for its steps."""
        self.steps.ring()
        if self._parent is not None:
            self._parent.ring()

    async def hand_over(self) -> None:
        """Let the consumer see the events that gathered."""
        if self.hands_over and self.events:
            await HAND_OVER

    async def child(self, task: Task, *, hands_over: bool) -> Any:
        """Carry out the run that a task stands for."""
        assert self._child is not None
        return await self._child(self, task, hands_over)

    async def note_attempt(
        self, task: Task, attempt: int, error: BaseException, delay: float
    ) -> None:
        """Record that an attempt failed: the next worker must not begin to count anew."""
        words = f"{type_name(error)}: {error}"
        self.emit(
            ev.StepRetrying(self.run_id, task.key, task.name, attempt, words, round(delay, 3))
        )
        facts = {"of": "attempt", "attempt": attempt}
        note = self.recorder.note(
            Kind.FAIL, Status.RUNNING, facts, value=describe(error), step=task.key
        )
        await self.recorder.save([note])

    # --- the loop

    async def _work(self) -> Any:
        program, steps = self.program, self.steps
        for key, value in self.behind.answers.items():
            program.answer(key, value)
        await self.hold.look()
        while True:
            try:
                tasks = program.ready()
            except Exception as error:
                if isinstance(error, HoldfastError) and not isinstance(error, RunError):
                    raise  # the flow changed, for example: nothing is recorded about that
                return await self._end_with(error)
            await self._note_decisions(idle=not tasks and not steps.running)
            if self.hold.absorbed:
                self._listen()
            if self.behind.failure is not None:
                return await self._go_on_undoing(self.behind.failure)
            if self.wanted is not None:  # runs within that were begun are to be cancelled, too
                tasks = [t for t in tasks if t.child is not None and self.wanted == "cancel"]
            if tasks or steps.running:
                self._paused = False
                ending = await self._record(await steps.execute(tasks))
                if ending is not None:
                    return await self._end_with(*ending)
            elif self.wanted == "cancel":
                return await self._cancel()
            elif self.wanted == "timeout":
                await self._time_out()
            elif program.done and self.wanted is None:
                return await self._complete()
            elif not self._answered():
                await self._pause()

    async def _end_with(self, error: BaseException, task: Task | None = None) -> Any:
        """The run failed. What the steps beside the failure come to is kept."""
        while self.steps.running:
            await self._record(await self.steps.execute(()))
        return await self._fail(error, task)

    async def _note_decisions(self, *, idle: bool) -> None:
        """Record decisions and questions before anything is done about them."""
        for key, name, reason in self.program.take_skipped():
            self.emit(ev.StepSkipped(self.run_id, key, name, reason))
        records = self.program.take_records()
        if not records:
            return
        drafts = [self.recorder.draft(record) for record in records]
        asked = [record for record in records if record.kind == Kind.QUESTION]
        if asked and idle:  # nothing else to do: the run pauses with this very entry
            drafts[-1] = drafts[-1]._replace(status=Status.PAUSED.value)
            self._paused = True
        self.recorder.announce(await self.recorder.save(drafts, urgent=bool(asked), waits=True))
        for record in asked:
            self.emit(ev.QuestionAsked(self.run_id, record.step, str(record.value["prompt"])))

    async def _record(
        self, finished: Sequence[Finished]
    ) -> tuple[BaseException, Task | None] | None:
        """Save what came of the tasks, then go on with it. Returns what ends the run, if anything."""
        program = self.program
        good: list[_Good] = []
        bad: list[tuple[Task, StepFailedError]] = []
        for done in finished:
            if done.error is not None:
                bad.append((done.task, done.error))
            elif done.paused:
                program.park(done.task)
            elif not done.task.recorded or program.unfolds(done.task, done.value):
                program.accept(done.task, done.value)
            else:
                try:
                    good.append(self._prepared(done))
                except Exception as error:
                    bad.append((done.task, failure(done.task, error, done.attempts)))
        if good:
            bad += await self._save_results(good)
        for task, failed in bad:
            words = str(failed)
            self.emit(ev.StepFailed(self.run_id, task.key, task.name, words, failed.attempts))
            records: list[Record] = program.failure(task, failed)
            drafts = [self.recorder.draft(record) for record in records]
            self.recorder.announce(await self.recorder.save(drafts))
            try:
                program.refuse(task, failed)
            except Exception as ending:
                return ending, task
        if self.hands_over:
            await self.hand_over()
        return None

    def _prepared(self, done: Finished) -> _Good:
        """A result as it will be recorded and handed on. Raises whatever speaks against it."""
        record = self.program.record(done.task, done.value)
        if done.claims:
            record.meta = {**record.meta, **done.claims}
        draft = self.recorder.draft(record)
        assert draft.encoding is not None
        stored = Stored(draft.encoding, self.core.journals.decode)
        handed = self.program.revive(done.task, stored)
        return _Good(done, draft._replace(duration=done.duration), stored, handed)

    async def _save_results(self, good: list[_Good]) -> list[tuple[Task, StepFailedError]]:
        """Save the results and hand them on. Returns those whose own transaction failed."""
        bad = []
        plain = [item for item in good if item.done.task.policy.commit is None]
        batches = [plain] if plain else []
        batches += [[item] for item in good if item.done.task.policy.commit is not None]
        for batch in batches:
            work = _work_of(self.program, batch[0])
            marked = any(item.done.task.policy.marked for item in batch)
            urgent = work is not None or (marked and self.options.strategy == Strategy.MARKED)
            try:
                saved = await self.recorder.save(
                    [item.draft for item in batch], urgent=urgent, work=work
                )
            except HoldfastError:
                raise
            except Exception as error:  # the user's own part of the transaction
                done = batch[0].done
                bad.append((done.task, failure(done.task, error, done.attempts)))
                continue
            self.steps.made_progress()
            for item in batch:
                if self.options.listening:
                    self._tell_of(item)
                self.program.accept(item.done.task, item.handed)
            self.recorder.announce(saved)
        return bad

    def _tell_of(self, item: _Good) -> None:
        task, spent = item.done.task, (item.done.duration, item.done.attempts)
        show = self.program.show(task, item.stored)
        self.emit(ev.StepCompleted(self.run_id, task.key, task.name, *spent, show))

    # --- ways to stop

    async def _complete(self) -> Any:
        program = self.program
        encoding, result = None, program.result
        if program.keeps_result or not self.options.strategy.saves_all:
            try:
                encoding = compose.encode(self.core, self.run_id, result, root="result")
                result = program.revive_result(self.core.journals.decode(encoding))
            except HoldfastError as error:
                return await self._fail(error)
        end = self.recorder.note(Kind.COMPLETE, Status.COMPLETED, program.stamp)
        self.recorder.forget_unsaved()
        self.recorder.announce(
            await self.recorder.save([end._replace(encoding=encoding)], urgent=True)
        )
        self.emit(ev.RunCompleted(self.run_id, result, perf_counter() - self._began))
        return result

    async def _pause(self) -> None:
        """Stop here until someone resumes the run, unless an answer came at the last moment."""
        questions = tuple(self.program.questions())
        if not self._paused:
            waits = "questions" if questions and not self.program.parked else "child"
            note = self.recorder.note(Kind.PAUSE, Status.PAUSED, {"reason": self.wanted or waits})
            self.recorder.announce(await self.recorder.save([note], urgent=True))
            self._listen()
            if self.wanted == "cancel" or (self.wanted is None and self._answered()):
                return
        self.emit(ev.RunPaused(self.run_id, questions))
        paused = RunPausedError(self.run_id, questions)
        paused.state = self.program.state
        raise paused

    async def _time_out(self) -> None:
        """Stop here, with everything saved that is finished."""
        assert self.options.timeout is not None
        note = self.recorder.note(Kind.PAUSE, Status.PAUSED, {"reason": "timeout"})
        self.recorder.announce(await self.recorder.save([note], urgent=True))
        late = RunTimeoutError(self.run_id, self.options.timeout)
        late.state = self.program.state
        self.emit(ev.RunFailed(self.run_id, late))
        raise late

    async def _fail(self, error: BaseException, task: Task | None = None) -> Any:
        if isinstance(error, RunError) and error.state is None:
            error.state = self.program.state
        failed = error if isinstance(error, StepFailedError) else None
        step = error.step if isinstance(error, StepFailedError | UnansweredError) else None
        step = step if task is None else task.key
        drafts = []
        if self.options.strategy in (Strategy.EVERY_STEP, Strategy.ON_ERROR):
            drafts = [self.recorder.draft(record) for record in self.program.at_failure(task)]
        try:
            undone = await roll_back(self, error)
        except CheckpointSaveError as unsaved:
            raise unsaved from error
        others = [other.step for other in failed.others] or None if failed else None
        facts = {"of": "run", "step": step, "others": others, "rolled_back": undone}
        facts["cause"] = _step_behind(error)
        end = self.recorder.note(Kind.FAIL, Status.FAILED, facts, value=describe(error), step=step)
        try:
            self.recorder.announce(await self.recorder.save([*drafts, end], urgent=True))
        except CheckpointSaveError as unsaved:
            raise unsaved from error  # that it failed could not even be recorded
        self.emit(ev.RunFailed(self.run_id, error, step))
        raise error

    async def _cancel(self) -> Any:
        error = RunCancelledError(self.run_id)
        error.state = self.program.state
        undone = await roll_back(self, error)
        end = self.recorder.note(Kind.CANCEL, Status.CANCELLED, {"rolled_back": undone})
        self.recorder.announce(await self.recorder.save([end], urgent=True))
        self.emit(ev.RunCancelled(self.run_id))
        raise error

    async def _go_on_undoing(self, error: BaseException) -> Any:
        if isinstance(error, RunCancelledError):
            return await self._cancel()
        return await self._fail(error)

    # --- others

    def _listen(self) -> None:
        """Take note of what others put into the journal."""
        for entry in self.hold.absorbed:
            if entry.kind == Kind.REQUEST:
                action = meta(entry).get("action")
                if action in ("pause", "cancel"):
                    self.ask(action)
            elif entry.kind == Kind.ANSWER:
                value = self.core.journals.value(entry.run, entry.seq, entry)
                self.program.answer(str(entry.step), answer_in(entry, value))
                self._answers_came = True
        self.hold.absorbed.clear()

    def _answered(self) -> bool:
        """Whether answers came since this was asked last."""
        came, self._answers_came = self._answers_came, False
        return came


def _step_behind(error: BaseException) -> str | None:
    """The step whose failure the flow answered with an error of its own."""
    behind = error.__cause__ or error.__context__
    known = (StepFailedError, UnansweredError)
    if isinstance(error, known) or not isinstance(behind, known):
        return None
    return behind.step


def _work_of(program: Program, item: _Good) -> Work | None:
    commit = item.done.task.policy.commit
    if commit is None:
        return None
    show = program.show(item.done.task, item.stored)

    def work(cursor: Any) -> None:
        commit(cursor, show())  # a copy of its own: it may be called again

    return work
