"""Recording a run in its journal, when its strategy says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from holdfast.codec.meta import (
    CALLED_WITH,
    CHILD,
    CLAIMS_BEFORE,
    DUE,
    EVIDENCE,
    dump_meta,
    may_claim,
    with_arguments,
)
from holdfast.engine import events as ev
from holdfast.engine.options import Options
from holdfast.engine.program import FlowInfo, Record, Stored
from holdfast.engine.run.hold import Hold
from holdfast.errors import CheckpointSaveError, HoldfastError
from holdfast.kernel import compose
from holdfast.kernel.draft import KEEP, Draft
from holdfast.logs import about, logger
from holdfast.model import CARRY_STATE, Entry, Kind, Status, checkpoint_id
from holdfast.store import Work

log = logger()

_new: Final = tuple.__new__  # at half the price of a constructor: every step makes one
_MAX_METAS: Final = 10_000
_OF_ONE_RUN: Final = (CHILD, CALLED_WITH, DUE)  # in `meta`: hardly ever the same in another


class Recorder:
    """Records one run. Drafts that are not to be saved yet are kept, and go before the next."""

    def __init__(
        self,
        hold: Hold,
        flow: FlowInfo,
        options: Options,
        emit: Callable[[ev.Event], None],
        epoch: int = 0,
        *,
        claimed: bool = False,
    ) -> None:
        self.degraded: HoldfastError | None = None  # the save that failed, if it was not fatal
        self.stopped = False  # the journal says so: paused, failed or over
        self._hold = hold
        self._core = hold.core
        self._run = hold.run
        self._options = options
        self._emit = emit
        self._stamp = flow.stamp | ({"epoch": epoch} if epoch else {})
        self._metas = {} if epoch else flow.metas
        self._claimed = False  # by what was recorded
        if claimed:
            self._note_claims()
        self._kept: list[Draft] = []
        self._outputs: deque[Draft] = deque()  # of steps, perhaps from other threads
        settings = hold.core.settings
        durability = options.durability or settings.durability
        self._waits = durability == "sync"
        self._keeps = durability == "exit" or not options.strategy.saves_all
        fatal = options.fatal
        self.fatal = settings.on_save_failure == "raise" if fatal is None else fatal

    def let_go(self) -> None:
        """The run is over: see `ending.let_go`."""
        del self._emit

    async def save(
        self,
        drafts: Sequence[Draft],
        *,
        urgent: bool = False,
        waits: bool = False,
        work: Work | None = None,
    ) -> list[Entry]:
        """Save the drafts when the strategy says so; returns what is durable now and was not.

        `urgent` drafts are saved now, whatever the strategy, and are durable on return; with
        `waits`, they are durable on return if they are saved at all. What `work` does to the user's
        own tables is committed with the drafts. Raises `LeaseLostError`, and `CheckpointSaveError`
        if that is to stop the run.
        """
        while self._outputs:
            self._kept.append(self._outputs.popleft())
        if self._keeps and not urgent:
            self._keep(drafts)
            return []
        if not drafts and not (urgent and self._kept):
            return []
        todo: Sequence[Draft] = drafts
        if self._kept or work is not None:
            self._keep(() if work is not None else drafts)
            todo, self._kept = self._kept, []
        try:
            saved = await self._hold.append(todo, wait=urgent or waits or self._waits)
            if work is not None:
                saved += await self._hold.append(drafts, work=work)
        except CheckpointSaveError as error:
            if self.fatal or work is not None:
                raise
            self.degraded = self._core.degraded = error
            log.warning(
                "run %s continues without its checkpoint: %s",
                self._run,
                error,
                extra=about(self._run, todo[-1].step),
            )
            kind = type(error).__name__
            self._emit(ev.CheckpointFailed(self._run, todo[-1].step, str(error), kind))
            return []
        if self.degraded is not None:
            self.degraded = self._core.degraded = None
        self.stopped = bool(drafts) and drafts[-1].status != Status.RUNNING
        return saved

    async def save_and_announce(
        self, drafts: Sequence[Draft], *, urgent: bool = False, waits: bool = False
    ) -> None:
        """`save`, with an event for each checkpoint that is durable now."""
        self.announce(await self.save(drafts, urgent=urgent, waits=waits))

    def tell_if_unsaved(self, error: BaseException) -> None:
        """Say in the error that ends the run that this is not saved, if it is not."""
        if self.degraded is not None:
            error.add_note(f"run {self._run!r} stopped, and that is not saved: {self.degraded}")

    def forget_unsaved(self) -> None:
        """The run is over: drop what its strategy does not save.

        Unless something was claimed in it: that may replace claims that were saved before.
        """
        claims = any(may_claim(draft.meta) for draft in self._kept)
        if not self._options.strategy.saves_all and not claims:
            self._kept = []

    def draft(self, record: Record, duration: float | None = None) -> Draft:
        """A record as an entry to be. Raises `SerializeError`, `StateTooLargeError`."""
        if isinstance(record.value, Stored):
            encoding = compose.bounded(self._core, self._run, record.value.encoding)
        else:
            root = "state" if record.kind is Kind.CHECKPOINT else f"result of {record.step}"
            encoding = compose.encode(self._core, self._run, record.value, root)
        meta = self._meta_of(record)
        if record.arguments is not None:
            meta = with_arguments(meta, record.arguments)
        # `_value_` is `value`, which is a property written in Python.
        kind, status, step = record.kind._value_, record.status._value_, record.step
        about = encoding, KEEP, step, record.index, record.type, duration
        return _new(Draft, (kind, status, *about, None, None, None, meta))

    def _note_claims(self) -> None:
        """Have all later entries say that there are claims before them.

        If those are lost, a later entry that is intact tells that something is missing.
        """
        self._claimed = True
        self._stamp = self._stamp | {CLAIMS_BEFORE: True}
        self._metas = {}

    def note(
        self,
        kind: Kind,
        status: Status,
        facts: dict[str, Any] | None = None,
        *,
        value: object = None,
        step: str | None = None,
    ) -> Draft:
        """An entry of the engine's own."""
        encoding = None if value is None else compose.encode(self._core, self._run, value)
        known = {name: fact for name, fact in (facts or {}).items() if fact is not None}
        return Draft(kind.value, status.value, encoding, step=step, meta=dump_meta(known))

    def child(self, step: str, run: str) -> Draft:
        """The note that a step is about to execute its child run."""
        return self.note(Kind.CHILD, Status.RUNNING, {"run": run}, step=step)

    def keep_output(self, step: str, value: object) -> None:
        """Record what a step puts out, with its outcome. From any thread. Raises `SerializeError`."""
        encoding = compose.encode(self._core, self._run, value, root=f"output of {step}")
        self._outputs.append(Draft(Kind.OUTPUT.value, Status.RUNNING.value, encoding, step=step))

    def _keep(self, drafts: Sequence[Draft]) -> None:
        """Of whole states only the newest is kept, and those with claims."""
        if any(draft.kind == Kind.CHECKPOINT for draft in drafts):
            self._kept = [d for d in self._kept if d.kind not in CARRY_STATE or EVIDENCE in d.meta]
        self._kept += drafts

    def announce(self, saved: Iterable[Entry]) -> None:
        """Emit an event for each checkpoint that is durable now."""
        if self._options.quiet or not (self._options.listening or self._core.observers):
            return
        for entry in saved:
            if entry.kind in CARRY_STATE:
                name = checkpoint_id(entry.run, entry.seq)
                self._emit(ev.CheckpointSaved(self._run, name, entry.step, entry.seq))

    def _meta_of(self, record: Record) -> str:
        """The entry's metadata: the same again and again in a flow's runs."""
        key = (record.step, record.name, *record.meta.items())
        try:
            known = self._metas.get(key)
            shared = known is not None or record.meta.keys().isdisjoint(_OF_ONE_RUN)
        except TypeError:  # can't be hashed
            known, shared = None, False
        if known is None:
            facts = {**self._stamp, **record.meta}
            if record.name is not None and record.name != record.step:
                facts["step_name"] = record.name
            known = dump_meta(facts)
            if not self._claimed and may_claim(known):
                self._note_claims()
            elif shared and len(self._metas) < _MAX_METAS:
                self._metas[key] = known
        return known


def committing(commit: Callable[[Any, Any], object], show: Callable[[], Any]) -> Work:
    """The part of a transaction that the user's `commit` does with a step's result."""

    def work(cursor: Any) -> None:
        commit(cursor, show())  # a copy of its own: it may be called again

    return work
