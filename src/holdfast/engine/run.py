"""The run loop: executes what is ready, records what came of it, hands that on, until the end."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple

from holdfast import composing
from holdfast.checkpoint import dump_meta
from holdfast.core import Core
from holdfast.engine import events as ev
from holdfast.engine.executing import Finished, Steps, failure, type_name
from holdfast.engine.history import meta
from holdfast.engine.hold import Hold, Work
from holdfast.engine.program import Program, Record, Task
from holdfast.engine.stream import HAND_OVER
from holdfast.errors import (
    CheckpointSaveError,
    HoldfastError,
    LoopLimitError,
    RunCancelledError,
    RunError,
    RunPausedError,
    RunTimeoutError,
    StepFailedError,
)
from holdfast.journal import Draft
from holdfast.model import CARRY_STATE, Entry, Kind, Status, checkpoint_id

log = logging.getLogger("holdfast")


class Strategy(StrEnum):
    """After which steps a checkpoint is saved."""

    EVERY_STEP = "every_step"  # also after one that failed
    ON_SUCCESS = "on_success"
    ON_ERROR = "on_error"  # only when the run fails or pauses: a crash starts it over
    MARKED = "marked"  # after marked steps: a crash starts over from the last of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How one run is carried out."""

    strategy: Strategy = Strategy.EVERY_STEP
    timeout: float | None = None
    fatal: bool | None = None  # whether a failed save stops the run; None: as the checkpointer says
    blocking: bool = (
        False  # nothing else runs on this event loop: sync steps and commits may block it
    )
    listening: bool = False  # someone looks at the events
    quiet: bool = False  # the store is nobody's business: no word about checkpoints


class Resumption(NamedTuple):
    """What a run that goes on has behind it."""

    epoch: int = 0
    deaths: int = 0
    failed_attempts: Mapping[str, int] = MappingProxyType({})
    answers: Mapping[str, Any] = MappingProxyType({})
    wanted: str | None = None
    failure: BaseException | None = None  # it was being rolled back for this
    waits: bool = False  # for answers that have not come
    undone: Mapping[str, str] = MappingProxyType(
        {}
    )  # what was rolled back already, and what could not be


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
        self.events: deque[ev.Event] = deque() if parent is None else parent.events
        self.hands_over = hands_over and options.listening
        self.degraded: HoldfastError | None = None
        self.wanted = behind.wanted  # "pause", "cancel" or "timeout", once it is to stop
        self.epoch = behind.epoch
        self.children: set[Run] = set()  # under way
        self._behind = behind
        self._parent = parent
        self._child = child
        self._kept: list[Draft] = []  # finished, and by strategy not saved yet
        self._undoing = False
        self._paused = behind.waits  # the journal says so already
        self._new_answers = False
        self._began = perf_counter()
        self._steps = Steps(self, behind.epoch, behind.deaths, dict(behind.failed_attempts))
        self._stamp = program.stamp
        self._sync = self.core.settings.durability == "sync"

    async def main(self) -> Any:
        """Carry the run out; returns its result, or raises what it came to."""
        timer = None
        parent = self._parent
        if parent is not None:
            parent.children.add(self)
            if parent.wanted is not None:
                self.ask(parent.wanted)
        elif self.options.timeout is not None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self.options.timeout, self.ask, "timeout")
        try:
            return await self._work()
        finally:
            if timer is not None:
                timer.cancel()
            if parent is not None:
                parent.children.discard(self)
            self._steps.drop()

    def ask(self, action: str) -> None:
        """Stop as soon as possible. Pausing waits for what is under way, all else interrupts it."""
        if self._undoing:
            return  # it is ending already
        if self.wanted != "cancel":
            self.wanted = action
        for child in tuple(self.children):
            child.ask(action)
        if action != "pause":
            self._steps.interrupt()

    def emit(self, event: ev.Event) -> None:
        """Tell whoever listens."""
        if self.options.listening:
            self.events.append(event)
            if self._parent is not None:
                self._parent.ring()

    def ring(self) -> None:
        """Have the events looked at, while this run waits for its steps."""
        self._steps.ring()
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

    # --- the loop

    async def _work(self) -> Any:
        program = self.program
        for key, value in self._behind.answers.items():
            program.answer(key, value)
        while True:
            try:
                tasks = program.ready()
            except (StepFailedError, LoopLimitError) as error:
                return await self._fail(error)
            except HoldfastError:
                raise  # the flow changed, for example: nothing is recorded about that
            except Exception as error:
                return await self._fail(error)
            for key, name, reason in program.take_skipped():
                self.emit(ev.StepSkipped(self.run_id, key, name, reason))
            records = program.take_records()
            if records:
                await self._note(records, idle=not tasks and not self._steps.running)
            self._listen()
            if isinstance(self._behind.failure, RunCancelledError):
                return await self._cancel()
            if self._behind.failure is not None:
                return await self._fail(self._behind.failure)
            if self.wanted is not None:  # runs within that were begun are to be cancelled, too
                tasks = [t for t in tasks if t.child is not None and self.wanted == "cancel"]
            if tasks or self._steps.running:
                ending = await self._record(await self._steps.execute(tasks))
                if ending is not None:
                    return await self._fail(*ending)
            elif self.wanted == "cancel":
                return await self._cancel()
            elif self.wanted == "timeout":
                await self._time_out()
            elif program.done and self.wanted is None:
                return await self._complete()
            elif not self._answered():
                await self._pause()

    async def _note(self, records: list[Record], *, idle: bool) -> None:
        """Record decisions and questions before anything is done about them."""
        drafts = [self._draft(record, self._encoded(record)) for record in records]
        asked = [record for record in records if record.kind == Kind.QUESTION]
        if asked and idle:  # nothing else to do: the run pauses with this very entry
            drafts[-1] = drafts[-1]._replace(status=Status.PAUSED.value)
            self._paused = True
        # What is done next rests on these: in durability "async" they are waited for, too.
        at_once = self.core.settings.durability == "async" and self._saves_each_step
        self._announce(await self._save(drafts, urgent=bool(asked) or at_once))
        for record in asked:
            self.emit(ev.QuestionAsked(self.run_id, record.step, str(record.value["prompt"])))

    async def _record(
        self, finished: Sequence[Finished]
    ) -> tuple[BaseException, Task | None] | None:
        """Save what came of the tasks, then go on with it. Returns what ends the run, if anything."""
        program = self.program
        good: list[tuple[Finished, Draft, Any]] = []
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
                    record = program.record(done.task, done.value)
                    encoding = self._encoded(record)
                    handed = program.revive(done.task, self.core.journals.decode(encoding))
                except Exception as error:
                    bad.append((done.task, failure(done.task, error, done.attempts)))
                else:
                    draft = self._draft(record, encoding)._replace(duration=done.duration)
                    good.append((done, draft, handed))
        bad += await self._save_results(good)
        for task, failed in bad:
            words = str(failed)
            self.emit(ev.StepFailed(self.run_id, task.key, task.name, words, failed.attempts))
            records = program.failure(task, failed)
            self._announce(await self._save([self._draft(r, self._encoded(r)) for r in records]))
            try:
                program.refuse(task, failed)
            except Exception as ending:
                return ending, task
        await self.hand_over()
        return None

    async def _save_results(
        self, good: list[tuple[Finished, Draft, Any]]
    ) -> list[tuple[Task, StepFailedError]]:
        """Save the results and hand them on. Returns those whose own transaction failed."""
        bad = []
        plain = [item for item in good if item[0].task.policy.commit is None]
        batches = [plain, *([item] for item in good if item[0].task.policy.commit is not None)]
        for batch in filter(None, batches):
            marked = any(done.task.policy.marked for done, _, _ in batch)
            drafts = [draft for _, draft, _ in batch]
            work = _work_of(*batch[0])
            try:
                saved = await self._save(drafts, urgent=marked or work is not None, work=work)
            except HoldfastError:
                raise
            except Exception as error:  # the user's own part of the transaction
                done = batch[0][0]
                bad.append((done.task, failure(done.task, error, done.attempts)))
                continue
            self._steps.made_progress()
            for done, _, handed in batch:
                self.program.accept(done.task, handed)
                spent = (done.duration, done.attempts)
                self.emit(
                    ev.StepCompleted(self.run_id, done.task.key, done.task.name, handed, *spent)
                )
            self._announce(saved)
        return bad

    # --- ways to stop

    async def _complete(self) -> Any:
        program = self.program
        encoding = None
        result = program.result
        if program.keeps_result:
            try:
                encoding = composing.encode(self.core, self.run_id, result, root="result")
                result = program.revive_result(self.core.journals.decode(encoding))
            except HoldfastError as error:
                return await self._fail(error)
        end = Draft(
            Kind.COMPLETE.value, Status.COMPLETED.value, encoding, meta=dump_meta(self._stamp)
        )
        if not self._saves_each_step:
            self._kept.clear()
        self._announce(await self._save([end], urgent=True))
        self.emit(ev.RunCompleted(self.run_id, result, perf_counter() - self._began))
        return result

    async def _pause(self) -> None:
        """Stop here until someone resumes the run, unless an answer came at the last moment."""
        questions = tuple(self.program.questions())
        if not self._paused:
            waits = bool(questions) and not self.program.parked
            reason = {"reason": self.wanted or ("questions" if waits else "child")}
            draft = Draft(Kind.PAUSE.value, Status.PAUSED.value, meta=dump_meta(reason))
            self._announce(await self._save([draft], urgent=True))
            self._listen()
            if self.wanted != "pause" and (self._answered() or self.wanted == "cancel"):
                return
        self.emit(ev.RunPaused(self.run_id, questions))
        paused = RunPausedError(self.run_id, questions)
        paused.state = self.program.state
        raise paused

    async def _time_out(self) -> None:
        """Stop here, with everything saved that is finished."""
        assert self.options.timeout is not None
        self._announce(await self._save([], urgent=True))
        late = RunTimeoutError(self.run_id, self.options.timeout)
        late.state = self.program.state
        self.emit(ev.RunFailed(self.run_id, late))
        raise late

    async def _fail(self, error: BaseException, task: Task | None = None) -> Any:
        if isinstance(error, RunError) and error.state is None:
            error.state = self.program.state
        step = task.key if task is not None else getattr(error, "step", None)
        drafts = []
        if self.options.strategy in (Strategy.EVERY_STEP, Strategy.ON_ERROR):
            drafts = [self._draft(r, self._encoded(r)) for r in self.program.at_failure(task)]
        undone = await self._roll_back(error)
        others = [other.step for other in getattr(error, "others", ())]
        facts = {
            "of": "run", "step": step, "others": others or None, "cause": _step_behind(error),
            "rolled_back": undone,
        }  # fmt: skip
        end = Draft(
            Kind.FAIL.value,
            Status.FAILED.value,
            self._encode(describe(error)),
            step=step,
            meta=dump_meta({name: fact for name, fact in facts.items() if fact is not None}),
        )
        self._announce(await self._save([*drafts, end], urgent=True))
        self.emit(ev.RunFailed(self.run_id, error, step))
        raise error

    async def _cancel(self) -> Any:
        error = RunCancelledError(self.run_id)
        error.state = self.program.state
        undone = await self._roll_back(error)
        facts = {"rolled_back": undone} if undone is not None else {}
        end = Draft(Kind.CANCEL.value, Status.CANCELLED.value, meta=dump_meta(facts))
        self._announce(await self._save([end], urgent=True))
        self.emit(ev.RunCancelled(self.run_id))
        raise error

    async def _roll_back(self, error: BaseException) -> list[str] | None:
        """Undo the finished steps that say how; returns which, or None if none do.

        Each is recorded, so that a crash in the middle does not undo anything twice.
        """
        tasks = self.program.compensations()
        if not tasks:
            return None
        names = tuple(task.name for task in tasks)
        errors = {key: why for key, why in self._behind.undone.items() if why}
        if self._behind.failure is None:
            facts = {"of": "rollback", "cancel": isinstance(error, RunCancelledError)}
            begin = Draft(
                Kind.FAIL.value, Status.RUNNING.value, self._encode(describe(error)),
                meta=dump_meta(facts),
            )  # fmt: skip
            await self._save([begin], urgent=True)
        self.emit(ev.RollbackStarted(self.run_id, names))
        await self.hand_over()
        self._undoing = True
        self._steps.calm_down()
        for task in tasks:
            if task.key in self._behind.undone:
                continue
            why = ""
            for done in await self._steps.execute([task]):
                why = "" if done.error is None else str(done.error)
            if why:
                errors[task.key] = why
            draft = Draft(
                Kind.DECISION.value, Status.RUNNING.value, step=task.key,
                meta=dump_meta({"undone": why}),
            )  # fmt: skip
            await self._save([draft], urgent=True)
        self.emit(ev.RollbackCompleted(self.run_id, names, errors))
        if errors:
            error.add_note("not everything could be undone: " + "; ".join(errors.values()))
        return [task.key for task in tasks]

    # --- saving

    async def note_attempt(
        self, task: Task, attempt: int, error: BaseException, delay: float
    ) -> None:
        """Record that an attempt failed: the next worker must not begin to count anew."""
        words = f"{type_name(error)}: {error}"
        self.emit(
            ev.StepRetrying(self.run_id, task.key, task.name, attempt, words, round(delay, 3))
        )
        draft = Draft(
            Kind.FAIL.value, Status.RUNNING.value, self._encode(describe(error)),
            step=task.key, meta=dump_meta({"of": "attempt", "attempt": attempt}),
        )  # fmt: skip
        await self._save([draft])

    async def _save(
        self, drafts: Sequence[Draft], *, urgent: bool = False, work: Work | None = None
    ) -> list[Entry]:
        """Save the drafts when the strategy says so; returns the checkpoints that are durable now."""
        if not drafts and not (urgent and self._kept):
            return []
        if not urgent and not self._saves_each_step:
            self._keep(drafts)
            return []
        if not urgent and self.core.settings.durability == "exit":
            self._keep(drafts)
            return []
        todo = [*self._kept, *drafts]
        self._kept = []
        try:
            saved = await self.hold.append(todo, wait=urgent or self._sync, work=work)
        except CheckpointSaveError as error:
            fatal = self.options.fatal
            if fatal or (fatal is None and self.core.settings.on_save_failure == "raise") or work:
                raise
            self.degraded = self.core.degraded = error
            log.warning("run %s goes on without its checkpoint: %s", self.run_id, error)
            self.emit(ev.CheckpointFailed(self.run_id, todo[-1].step, str(error)))
            return []
        if self.degraded is not None:
            self.degraded = self.core.degraded = None
        return saved

    @property
    def _saves_each_step(self) -> bool:
        return self.options.strategy in (Strategy.EVERY_STEP, Strategy.ON_SUCCESS)

    def _keep(self, drafts: Sequence[Draft]) -> None:
        """Hold on to what is not to be saved yet; of whole states the newest is enough."""
        if any(draft.kind == Kind.CHECKPOINT for draft in drafts):
            self._kept = [d for d in self._kept if d.kind not in CARRY_STATE]
        self._kept += drafts

    def _announce(self, saved: Iterable[Entry]) -> None:
        if self.options.listening and not self.options.quiet:
            for entry in saved:
                if entry.kind in CARRY_STATE:
                    name = checkpoint_id(entry.run, entry.seq)
                    self.emit(ev.CheckpointSaved(self.run_id, name, entry.step, entry.seq))

    def _draft(self, record: Record, encoding: bytes | None) -> Draft:
        facts = {**self._stamp, **record.meta}
        if record.name is not None and record.name != record.step:
            facts["step_name"] = record.name
        return Draft(
            record.kind.value,
            record.status.value,
            encoding,
            step=record.step,
            step_index=record.index,
            type=record.type,
            meta=dump_meta(facts),
        )

    def _encoded(self, record: Record) -> bytes:
        root = "state" if record.kind == Kind.CHECKPOINT else f"result of {record.step}"
        return composing.encode(self.core, self.run_id, record.value, root=root)

    def _encode(self, value: object) -> bytes:
        return composing.encode(self.core, self.run_id, value)

    # --- others

    def _listen(self) -> None:
        """Take note of what others put into the journal."""
        for entry in self.hold.absorbed:
            if entry.kind == Kind.REQUEST:
                self.ask(meta(entry).get("action", ""))
            elif entry.kind == Kind.ANSWER:
                journals = self.core.journals
                encoding = journals.chain(entry.run, entry.seq, entry).encoding
                self.program.answer(str(entry.step), journals.decode(encoding))
                self._new_answers = True
        self.hold.absorbed.clear()

    def _answered(self) -> bool:
        """Whether answers came since this was asked last."""
        came, self._new_answers = self._new_answers, False
        return came


def describe(error: BaseException) -> dict[str, Any]:
    """An error as it is recorded."""
    if isinstance(error, StepFailedError):
        return {
            "type": error.error_type, "message": error.message, "step": error.step,
            "attempts": error.attempts, "trace": error.trace,
        }  # fmt: skip
    failed = failure(Task("", ""), error, 1)
    return {"type": failed.error_type, "message": failed.message, "trace": failed.trace}


def _step_behind(error: BaseException) -> str | None:
    """The step whose failure the flow answered with an error of its own."""
    behind = error.__cause__ or error.__context__
    if isinstance(error, StepFailedError) or not isinstance(behind, StepFailedError):
        return None
    return behind.step


def _work_of(done: Finished, _: Draft, handed: Any) -> Work | None:
    commit = done.task.policy.commit
    if commit is None:
        return None

    def work(cursor: Any) -> None:
        commit(cursor, handed)

    return work
