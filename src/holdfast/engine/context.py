"""What code can ask about the run it is part of: the current step, and decisions made once."""

from __future__ import annotations

import hashlib
import inspect
import random as _random
import uuid as _uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.engine import events as ev
from holdfast.errors import CheckpointNotFoundError
from holdfast.operations import listing, reading

if TYPE_CHECKING:
    import asyncio

    from holdfast.engine.effects import Effect, Pending
    from holdfast.engine.run.loop import Run
    from holdfast.evidence import Evidence, EvidencePack

T = TypeVar("T")


@dataclass(slots=True)
class StepInfo:
    """The step that is being executed."""

    run_id: str
    step: str  # unique in the run, and the same in every attempt
    name: str
    attempt: int  # 1 at first; attempts that were cut short, by a crash or otherwise, count too
    epoch: int = 0  # the seq of the rollback that the run continued from, if any
    flow: str = ""
    birth: str = field(default="", repr=False)  # of the run: another has the same id later
    _run: Run | None = field(default=None, repr=False, compare=False)  # None in another process
    _claimed: list[Any] | None = field(default_factory=list, repr=False, compare=False)
    _pending: Pending | None = field(default=None, repr=False, compare=False)
    _latest: tuple[float | None, str] = field(default=(None, ""), repr=False, compare=False)

    @property
    def latest(self) -> tuple[float | None, str]:
        """The progress that was reported last: a fraction, and a message."""
        return self._latest

    @property
    def pending(self) -> Pending:
        """The steps that this step's own code has made and not used."""
        if self._pending is None:
            from holdfast.engine.effects import Pending

            self._pending = Pending()
        return self._pending

    def check_used(self, value: object) -> None:
        """Raise `StepNotAwaitedError` if the step made other steps and did not use them.

        `value` is what it returned: that one is used.
        """
        if self._pending is None:
            return
        from holdfast.engine.effects import Effect

        if isinstance(value, Effect):
            value.use()
        self._pending.check(at_end=True)

    @property
    def idempotency_key(self) -> str:
        """Names this step of this run to the outside world; the same in every attempt.

        Hand it to whatever the step sets off, so that a second attempt does not set it off
        again. A fork, going back before the step, or a new run under the same id makes it a new one.
        """
        text = f"{self.birth or self.run_id}\0{self.step}\0{self.epoch}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def progress(self, fraction: float | None = None, message: str = "") -> None:
        """Report the progress of this step to whoever watches the run."""
        if fraction is not None and not 0 <= fraction <= 1:
            raise ValueError(f"fraction must be between 0 and 1, not {fraction!r}")
        # Whatever was given: the beats of this process are JSON, and must not fail for it.
        fraction, message = None if fraction is None else float(fraction), str(message or "")
        self._latest = fraction, message
        if self._run is not None and self._run.heard:
            self._run.pass_on(ev.StepProgress(self.run_id, self.step, self.name, fraction, message))

    def emit(self, value: Any, *, record: bool = False) -> None:
        """Give a part of the step's output, such as a token, to whoever follows the run now.

        They get a copy, as a `StepOutput` event, and none is lost if they are slow. It is not kept,
        and neither is what another attempt repeats; the step's result is what counts. With
        `record`, it is also saved when this attempt ends, for the run's timeline; raises
        `SerializeError` for what can't be stored. In another process nobody hears of it, and
        `record` raises `RuntimeError`.
        """
        if record:
            if self._run is None:
                raise RuntimeError(
                    "a step that runs in another process can't record its output: return it, or "
                    "run the step in a thread"
                )
            self._run.recorder.keep_output(self.step, value)
        if self._run is not None and self._run.heard:
            self._run.pass_on(ev.StepOutput(self.run_id, self.step, self.name, ev.copied(value)))

    def claim(self, *evidence: Evidence | EvidencePack) -> None:
        """Claim something about the world with this step, as `.evidence()` does from outside.

        It is checked when the step is finished, and again before a resume trusts the step.
        """
        if self._claimed is None:
            raise RuntimeError(
                "a step that runs in another process can't claim anything: return what it is "
                "about, and say .evidence(lambda result: ...) where the step is made"
            )
        self._claimed += evidence

    @property
    def claimed(self) -> list[Any]:
        """What this step has claimed so far."""
        return self._claimed or []

    @property
    def cancelled(self) -> bool:
        """Whether the run is to be cancelled: a long step may look, and stop early by raising."""
        return self._run is not None and self._run.wanted == "cancel"

    def __reduce__(self) -> tuple[Any, ...]:  # to other processes, without the way back
        fields = (self.run_id, self.step, self.name, self.attempt, self.epoch, self.flow)
        return StepInfo, (*fields, self.birth, None, None)


CURRENT_STEP: ContextVar[StepInfo | None] = ContextVar("holdfast_step", default=None)


class Deciding(Protocol):
    """A flow whose own code is running."""

    run_id: str
    task: asyncio.Task[Any] | None  # the one it runs in
    pending: Pending  # the effects that it has made and not used

    def future_of(self, effect: Effect[T]) -> asyncio.Future[T] | None:
        """Its result, where any task may await it; None where only the flow's own code may."""

    def wait_for(self, effect: Effect[T]) -> T:
        """Block until it is done. Raises `RuntimeError` in a flow that awaits or yields."""

    def decide(self, name: str, make: Callable[[], Any]) -> Any:
        """The value that was recorded here, or a new one that will be."""


DECIDING: ContextVar[Deciding | None] = ContextVar("holdfast_deciding", default=None)
"""Set while a flow's own code runs, rather than a step's."""


def current_step() -> StepInfo:
    """The step that is being executed here. Raises `RuntimeError` outside of one."""
    step = CURRENT_STEP.get()
    if step is None:
        raise RuntimeError("current_step() was called outside a step that holdfast executes")
    return step


def state_of(
    run_id: str | None = None,
    *,
    thread_id: str | None = None,
    step: str | None = None,
    as_type: Any = None,
    verified: bool = False,
) -> Any:
    """In a step: the latest state of another run in the same store, or of a thread's newest one.

    With `step`, as that step left it; with `verified`, the newest that verifies now, and none if
    nothing was claimed. It is what `load` gives: of a workflow, its results by step. Blocks: in an
    async step, `await asyncio.to_thread(hf.state_of, ...)`. Raises `CheckpointNotFoundError`
    where there is none yet: give the step a `retry` to wait for it.
    """
    if (run_id is None) is (thread_id is None):
        raise TypeError("state_of needs a run_id or a thread_id")
    here = current_step()
    run = here._run  # noqa: SLF001 - the step's own
    if run is None:
        raise RuntimeError(
            "state_of was called in another process than the run's; call it in a step that runs "
            "in a thread, and hand on what it gives"
        )
    core = run.core
    if run_id is not None:
        wanted = [run_id]
    else:
        others = listing.thread(core, str(thread_id))
        wanted = [info.run_id for info in others if info.run_id != here.run_id]
    for name in wanted:
        seq = _verified(run, name, step) if verified else None
        if verified and seq is None:
            continue
        found = reading.load(core, name, seq=seq, step=None if verified else step, as_type=as_type)
        if found is not None:
            return found.state
    if run_id is not None and step is None and not verified:
        raise reading.missing_state(core, run_id)
    which = "that verifies" if verified else "yet" if step is None else f"of step {step!r}"
    raise CheckpointNotFoundError(run_id or f"of thread {thread_id!r}", which)


def _verified(here: Run, run_id: str, step: str | None) -> int | None:
    """The seq of the newest checkpoint of a run that verifies now. Raises `VerificationError`."""
    from holdfast.evidence.trust.checking import Checker

    checker = Checker(here.core, here.options.checks_with)
    found = checker.newest_in(
        run_id, lambda entry: step is None or reading.is_after(entry, step)
    ).entry
    return None if found is None else found.seq


def now() -> datetime:
    """The time, in UTC. In a workflow's own code it is recorded, and the same after a resume."""
    return _decided("now()", lambda: datetime.now(UTC))


def random() -> float:
    """A random number from 0 up to 1. In a workflow's own code it is recorded."""
    return _decided("random()", _random.random)


def uuid() -> _uuid.UUID:
    """A random UUID. In a workflow's own code it is recorded."""
    return _decided("uuid()", _uuid.uuid4)


def _decided(name: str, make: Callable[[], T]) -> T:
    flow = DECIDING.get()
    if flow is None:
        return make()
    value: T = flow.decide(name, make)
    return value


def call_in_step(step: StepInfo, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a step's function where an executor runs it: another thread, process or machine."""
    token = CURRENT_STEP.set(step)
    try:
        value = fn(*args, **kwargs)
        if not inspect.isawaitable(value):  # else it has hardly begun
            step.check_used(value)
        return value
    finally:
        CURRENT_STEP.reset(token)


@contextmanager
def in_step(step: StepInfo) -> Iterator[None]:
    """What runs in the block can ask about this step."""
    token = CURRENT_STEP.set(step)
    try:
        yield
    finally:
        CURRENT_STEP.reset(token)
