"""Reads the steps of a run from its journal, in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointCorruptedError
from holdfast.integrations.langgraph import layout
from holdfast.kernel.pages import Found
from holdfast.model import CheckpointType, Entry, Kind, Status
from holdfast.views import cancelling, runs
from holdfast.views.step_names import left_behind, name_in_thread, not_started, split_key
from holdfast.views.step_pending import UNDER_WAY, Pending, as_executed, begun_step
from holdfast.views.step_questions import AskedSteps, went_back
from holdfast.views.steps import Attempt, Execution, Mark, Spell, Steps

_IN_BRANCH: Final = '"next_steps"'
_NOT_OVER: Final = (Status.RUNNING, Status.PAUSED, Status.SUBMITTED)


def steps_of(cp: SyncCheckpointer, info: RunInfo) -> Steps:
    """The steps of a run. Reads all its entries, but no bodies."""
    return StepReader(cp, info.run_id, info.flow).read(info)


def named_steps(cp: SyncCheckpointer, info: RunInfo) -> Steps:
    """The steps of a run that have a name; of a run that nobody executes, none is under way."""
    steps = steps_of(cp, info)
    known = [one for one in steps.executions if one.key != UNDER_WAY or one.seq is not None]
    steps = steps._replace(executions=tuple(known))
    return as_executed(steps, *runs.doing(cp, info))


class StepReader:
    """Reads the steps of one run, and later only what was added. Not for several threads."""

    def __init__(self, cp: SyncCheckpointer, run_id: str, flow: str | None) -> None:
        self._cp = cp
        self._run_id = run_id
        self._threads = flow == layout.FLOW
        self._begin()

    def _begin(self) -> None:
        self._head = -1
        self._began: int | None = None
        self._made: list[Execution] = []
        self._pending: dict[str, Pending] = {}
        self._asked = AskedSteps(self._cp.core, self._made)
        self._spells: list[Spell] = []
        self._marks: list[Mark] = []
        self._items: dict[str, int] = {}
        self._deaths: list[Attempt] = []
        self._deleted = 0
        self._structure: dict[str, object] = {}
        self._last = 0  # the time of the entry before
        self._next: Sequence[str] = ()
        self._failure: int | None = None
        self._result: int | None = None
        self._keys: dict[str, tuple[str, str]] = {}

    def read(self, info: RunInfo) -> Steps:
        """The steps, as the run is now."""
        journals = self._cp.core.journals
        found = list(journals.scan(self._run_id, after=self._head if self._head >= 0 else None))
        if self._head >= 0 and any(_changes_more(one) for one in found):
            self._begin()
            found = list(journals.scan(self._run_id))
        self._feed(found)
        return Steps(
            self._run_id,
            self._head,
            self._began or 0,
            self._last,
            info.status,
            (*self._made, *self._unfinished(info)),
            tuple(self._spells),
            tuple(self._marks),
            dict(self._items),
            self._deleted,
            self._structure,
            self._failure,
            self._result,
        )

    def _feed(self, found: Sequence[Found]) -> None:
        left = left_behind([one for one in found if isinstance(one, Entry)])
        for one in found:
            self._head = max(self._head, -1 if one.seq is None else one.seq)
            if isinstance(one, CheckpointCorruptedError):
                self._add_damage(one)
                continue
            if self._began is None:
                self._began = one.at
            if one.status == Status.DELETED and one.kind != Kind.TOMBSTONE:
                self._deleted += 1
                continue
            try:
                self._take(one, one.seq not in left)
            except CheckpointCorruptedError as error:
                self._add_damage(error)
            self._last = one.at

    def _take(self, entry: Entry, current: bool) -> None:
        match entry.kind:
            case Kind.RESULT | Kind.CHECKPOINT:
                self._finish(entry, current)
            case Kind.FAIL:
                self._fail(entry, current)
            case Kind.OUTPUT:
                self._open(entry).outputs.append(entry.seq)
            case Kind.SLEEP:
                self._open(entry).due = Meta(entry).due
            case Kind.CHILD:
                self._open(entry).child = Meta(entry).run
            case Kind.BEGIN:
                pending = Pending(entry)
                pending.begun = entry
                self._pending[entry.entry_id.hex()] = pending
            case Kind.QUESTION:
                self._asked.ask(entry, current)
                if entry.status == Status.PAUSED:
                    self._end_spell(entry, "paused")
            case Kind.ANSWER:
                self._asked.answer(entry)
            case Kind.DECISION:
                self._decide(entry)
            case Kind.OPEN | Kind.CLAIM:
                self._claim(entry)
            case _:
                self._mark(entry)

    # --- steps

    def _open(self, entry: Entry) -> Pending:
        key = entry.step or ""
        if key not in self._pending:
            self._pending[key] = Pending(entry)
        return self._pending[key]

    def _finish(self, entry: Entry, current: bool) -> None:
        key, name, group = self._named(entry)
        if entry.type == CheckpointType.MANUAL_CHECKPOINT:
            self._asked.void_all(entry, f"the state was edited at @{entry.seq}")
        pending = self._pending.pop(key, None)
        child = None
        if "{" in entry.meta:
            if '"begun"' in entry.meta:
                pending = self._pending.pop(Meta(entry).begun or "", pending)
            if '"child"' in entry.meta:
                child = Meta(entry).child
            if '"next_steps"' in entry.meta and entry.kind == Kind.CHECKPOINT:
                self._next = [str(step) for step in Meta(entry).next_steps]
        start = _began(entry)
        if start is None and pending is not None and pending.begun is not None:
            start = pending.begun.at
        failed = entry.status == Status.FAILED and entry.term == entry.seq  # a flow's last node
        attempts: list[Attempt] = []
        if self._deaths or pending is not None:
            attempts = self._attempts(pending)
            self._deaths = []
        if failed:
            attempts.append(Attempt("failed", start, entry.at))  # the next entry says why
        elif attempts:
            last = Attempt("completed", start, entry.at, entry.seq)
            if pending is not None and pending.fails:
                again = pending.fails[-1][1] or attempts[-1].end
                last = last._replace(start=max(again or 0, start or 0) or None)
            attempts.append(last)
        first = attempts[0].start if attempts and attempts[0].start else start
        took = entry.duration
        if (took is None or failed) and first is not None:
            took = (entry.at - first) / 1e6
        self._add(
            Execution(
                key,
                name,
                group,
                "failed" if failed else "completed",
                entry.seq,
                first,
                entry.at,
                took,
                tuple(attempts),
                child,
                current,
                () if pending is None else tuple(pending.outputs),
                entry.size,
                kind="sleep"
                if pending is not None and pending.due and not pending.fails
                else "step",
                due=None if pending is None else pending.due,
            )
        )

    def _attempts(self, pending: Pending | None) -> list[Attempt]:
        """The attempts before the last one: those that failed, and those that crashes cut off."""
        found = list(self._deaths)
        for entry, _ in () if pending is None else pending.fails:
            found.append(Attempt("failed", _began(entry), entry.at, entry.seq))
        return sorted(found, key=lambda one: one.end or 0)

    def _fail(self, entry: Entry, current: bool) -> None:
        meta = Meta(entry)
        if meta.of == "attempt":
            self._open(entry).fails.append((entry, meta.due))
            return
        if meta.of == "run" or entry.status == Status.FAILED:
            self._failure = entry.seq
            self._mark(entry)
            known = self._made and self._made[-1].status == "failed"
            if known and self._made[-1].tried[-1].seq is None:
                *before, last = (made := self._made[-1]).tried
                self._made[-1] = made._replace(tried=(*before, last._replace(seq=entry.seq)))
            if entry.step is None or known or meta.of == "run":
                return
        if meta.of == "rollback":
            self._mark(entry)
            return
        key, name, group = self._named(entry)
        pending = self._pending.pop(key, None)
        attempts = self._attempts(pending)
        start = _began(entry)
        last = Attempt("failed", start, entry.at, entry.seq)
        self._deaths = []
        first = next((one.start or one.end for one in attempts), start)
        took = None if first is None else (entry.at - first) / 1e6
        self._add(
            Execution(
                key, name, group, "failed", entry.seq, first, entry.at, took, (*attempts, last),
                None if pending is None else pending.child, current,
                outputs=() if pending is None else tuple(pending.outputs),
            )
        )  # fmt: skip

    def _add(self, made: Execution) -> None:
        self._made.append(made)
        if self._spells and not self._spells[-1].first and made.kind != "damage":
            self._spells[-1] = self._spells[-1]._replace(first=made.name)

    def _add_damage(self, error: CheckpointCorruptedError) -> None:
        at = error.entry.at if error.entry is not None else self._last
        seq = error.seq
        name = f"@{seq}" if error.entry is None or error.entry.step is None else error.entry.step
        self._made.append(
            Execution(
                f"@{seq}", name, f"@{seq}", "damaged", seq, None, at or None,
                note=error.reason, kind="damage",
            )
        )  # fmt: skip

    def _named(self, entry: Entry) -> tuple[str, str, str]:
        """Its key, its name for people, and its group."""
        if self._threads:
            name = name_in_thread(entry)
            return f"{name}@{entry.seq}", name, name
        key = entry.step
        if key is None:
            word = entry.type or "saved"
            return "", word, word
        if entry.kind == Kind.CHECKPOINT:
            return key, key, key
        known = self._keys.get(key)
        if known is None:
            known = split_key(key)
            node = Meta(entry).step_name if _IN_BRANCH in entry.meta else None
            if node is not None:
                known = node, node
            self._keys[key] = known
        return key, *known

    # --- the run as a whole

    def _decide(self, entry: Entry) -> None:
        key = entry.step or ""
        if key.endswith("/items"):
            self._items[split_key(key.removesuffix("/items"))[1]] = entry.seq
        undone = Meta(entry).undone if '"undone"' in entry.meta else None
        if undone is None:
            return
        for place in range(len(self._made) - 1, -1, -1):
            if self._made[place].key == key:
                note = f"not undone: {undone}" if undone else "undone"
                self._made[place] = self._made[place]._replace(note=note)
                return

    def _claim(self, entry: Entry) -> None:
        meta = Meta(entry)
        if entry.kind == Kind.OPEN:
            self._structure = dict(meta.structure)
        if entry.status != Status.RUNNING:
            return
        why = "began" if entry.kind == Kind.OPEN else meta.why or "released"
        parts = (meta.holder or "").split("|")
        host, pid = (parts[2], parts[4]) if len(parts) == 6 else ("", "")
        if self._spells and self._spells[-1].end is None:
            ended = {"died": "died", "taken_over": "taken over"}.get(why, "released")
            self._spells[-1] = self._spells[-1]._replace(end=self._last, ended=ended)
        if why == "died":
            self._deaths.append(Attempt("cut off", self._last, entry.at, entry.seq))
        restored = sum(1 for one in self._made if one.current and one.status == "completed")
        self._spells.append(Spell(entry.seq, why, host, pid, entry.at, restored=restored))

    def _end_spell(self, entry: Entry, ended: str) -> None:
        if self._spells and self._spells[-1].end is None:
            self._spells[-1] = self._spells[-1]._replace(end=entry.at, ended=ended)

    def _mark(self, entry: Entry) -> None:
        meta = Meta(entry)
        text = " ".join(word for word in (meta.action, meta.reason) if word)
        if entry.kind == Kind.ROLLBACK:
            text = went_back(entry)
            self._asked.go_back(entry)
            self._pending.clear()
            self._result = None
        elif entry.kind == Kind.CANCEL and meta.begun:
            pending = self._pending.pop(meta.begun, None)
            if pending is not None and pending.begun is not None:
                self._made.append(begun_step(pending.begun, "cancelled", entry))
            return
        elif entry.kind == Kind.COMPLETE:
            self._result = entry.seq if entry.size else None
        elif cancelling.requested([entry]):
            self._asked.void_all(entry, cancelling.WHY)
        if entry.kind in _OVER and entry.status == _OVER[entry.kind]:
            self._asked.void_all(entry, f"the run was {entry.status}")
        is_over = entry.status != Status.RUNNING or entry.kind == Kind.RELEASE
        if is_over and entry.kind in _ENDS:
            self._end_spell(entry, _ENDS[entry.kind])
        self._marks.append(Mark(entry.seq, entry.at, entry.kind, text))

    def _unfinished(self, info: RunInfo) -> Iterator[Execution]:
        """What is left when all entries are read: steps that are not finished, or not begun."""
        running = info.status == Status.RUNNING
        for key, pending in self._pending.items():
            if pending.begun is not None:
                yield begun_step(pending.begun, "begun", None)
                continue
            name, group = split_key(key)
            waits = pending.due or (pending.fails[-1][1] if pending.fails else None)
            status = "running" if running else "cut off"
            paused = info.status == Status.PAUSED
            if (waits is not None and (running or paused)) or (pending.child and paused):
                status = "waits"
            yield Execution(
                key, name, group, status, None, pending.since, None, None,
                tuple(self._attempts(pending)), pending.child,
                outputs=tuple(pending.outputs), due=waits,
                kind="sleep" if pending.due else "step",
            )  # fmt: skip
        ahead: list[str] = []
        if running and not self._pending:
            ahead = [step for step in self._next if step not in _NO_STEPS] or [UNDER_WAY]
        for step in ahead:
            yield Execution(step, step, step, "running", None, self._last, None)
        if info.status in _NOT_OVER:
            known = {one.group for one in self._made}
            yield from not_started(self._structure, known.union(ahead))


def _began(entry: Entry) -> int | None:
    """When a step or an attempt began, given the entry that ends it."""
    if entry.duration is None:
        return None
    return entry.at - round(max(0, min(entry.duration, entry.at / 1e6)) * 1e6)  # or forged


def _changes_more(found: Found) -> bool:
    """Whether what was read before is not the same any more, or may not be."""
    return isinstance(found, CheckpointCorruptedError) or found.kind in _MARKERS


_NO_STEPS: Final = ("__end__", "end", "end_with_failure")
_OVER: Final = {Kind.COMPLETE.value: Status.COMPLETED, Kind.CANCEL.value: Status.CANCELLED}
_MARKERS: Final = (Kind.ROLLBACK, Kind.TRIM, Kind.TOMBSTONE, Kind.OPEN)
_ENDS: Final[dict[str, str]] = {
    Kind.RELEASE: "released",
    Kind.PAUSE: "paused",
    Kind.COMPLETE: "completed",
    Kind.FAIL: "failed",
    Kind.CANCEL: "cancelled",
}
