"""Reads the steps of a run from its journal, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointCorruptedError
from holdfast.integrations.langgraph import layout
from holdfast.kernel.pages import Found
from holdfast.model import Entry, Kind, Status
from holdfast.views.step_names import left_behind, name_in_thread, not_started, split_key
from holdfast.views.steps import Attempt, Execution, Mark, Spell, Steps

UNDER_WAY: Final = "under way"
"""The name of what is executed, where nothing says which step it is: until it is finished."""

_NAMED: Final = '"step_name"'
_NOT_OVER: Final = (Status.RUNNING, Status.PAUSED, Status.SUBMITTED)


def steps_of(cp: SyncCheckpointer, info: RunInfo) -> Steps:
    """The steps of a run. Reads all its entries, but no bodies."""
    found = list(cp.core.journals.scan(info.run_id))
    return _Reading(info, found).made()


class _Pending:
    """What a step has recorded before it was finished."""

    __slots__ = ("begun", "child", "due", "fails", "outputs", "since", "term")

    def __init__(self, entry: Entry) -> None:
        self.fails: list[tuple[Entry, int | None]] = []  # and when it is tried again
        self.outputs: list[int] = []
        self.child: str | None = None
        self.due: int | None = None
        self.begun: Entry | None = None
        self.since = entry.at
        self.term = entry.term


class _Reading:
    """Goes through the entries of a run once."""

    def __init__(self, info: RunInfo, found: Sequence[Found]) -> None:
        self._info = info
        self._found = found
        self._threads = info.flow == layout.FLOW
        self._made: list[Execution] = []
        self._pending: dict[str, _Pending] = {}
        self._questions: dict[str, tuple[Entry, int]] = {}  # and the place of its row
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

    def made(self) -> Steps:
        """What all of them tell."""
        entries = [found for found in self._found if isinstance(found, Entry)]
        left = left_behind(entries)
        for found in self._found:
            if isinstance(found, CheckpointCorruptedError):
                self._add_damage(found)
                continue
            if found.status == Status.DELETED and found.kind != Kind.TOMBSTONE:
                self._deleted += 1
                continue
            try:
                self._take(found, found.seq not in left)
            except CheckpointCorruptedError as error:
                self._add_damage(error)
            self._last = found.at
        self._close()
        head = entries[-1] if entries else None
        return Steps(
            self._info.run_id,
            -1 if head is None else head.seq,
            entries[0].at if entries else 0,
            self._last,
            self._info.status,
            tuple(self._made),
            tuple(self._spells),
            tuple(self._marks),
            self._items,
            self._deleted,
            self._structure,
            self._failure,
            self._result,
        )

    def _take(self, entry: Entry, current: bool) -> None:
        match entry.kind:
            case Kind.RESULT | Kind.CHECKPOINT:
                self._finish(entry, current)
            case Kind.FAIL:
                self._fail(entry)
            case Kind.OUTPUT:
                self._open(entry).outputs.append(entry.seq)
            case Kind.SLEEP:
                self._open(entry).due = Meta(entry).due
            case Kind.CHILD:
                self._open(entry).child = Meta(entry).run
            case Kind.BEGIN:
                pending = _Pending(entry)
                pending.begun = entry
                self._pending[entry.entry_id.hex()] = pending
            case Kind.QUESTION:
                self._ask(entry)
            case Kind.ANSWER:
                self._answer(entry)
            case Kind.DECISION:
                self._decide(entry)
            case Kind.OPEN | Kind.CLAIM:
                self._claim(entry)
            case _:
                self._mark(entry)

    # --- steps

    def _open(self, entry: Entry) -> _Pending:
        key = entry.step or ""
        if key not in self._pending:
            self._pending[key] = _Pending(entry)
        return self._pending[key]

    def _finish(self, entry: Entry, current: bool) -> None:
        key, name, group = self._named(entry)
        pending = self._pending.pop(key, None)
        child = None
        if "{" in entry.meta:
            if '"begun"' in entry.meta:
                pending = self._pending.pop(Meta(entry).begun or "", pending)
            if '"child"' in entry.meta:
                child = Meta(entry).child
            if '"next_steps"' in entry.meta and entry.kind == Kind.CHECKPOINT:
                self._next = [str(step) for step in Meta(entry).next_steps]
        start = None
        if entry.duration is not None:
            start = entry.at - round(entry.duration * 1e6)
        elif pending is not None and pending.begun is not None:
            start = pending.begun.at
        attempts = self._attempts(pending, start)
        last = Attempt("completed", start, entry.at, entry.seq)
        if attempts and pending is not None and pending.fails:
            again = pending.fails[-1][1] or attempts[-1].end
            last = last._replace(start=max(again or 0, start or 0) or None)
        self._deaths = []
        took = entry.duration
        if took is None and start is not None:
            took = (entry.at - start) / 1e6
        first = attempts[0].start if attempts and attempts[0].start else start
        self._add(
            Execution(
                key,
                name,
                group,
                "completed"
                if entry.status != Status.FAILED or entry.term != entry.seq
                else "failed",
                entry.seq,
                first,
                entry.at,
                took,
                (*attempts, last),
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

    def _attempts(self, pending: _Pending | None, start: int | None) -> list[Attempt]:
        """The attempts before the last one: those that failed, and those that crashes cut off."""
        found = list(self._deaths)
        before: int | None = None
        for entry, due in () if pending is None else pending.fails:
            began = before if before is not None else start
            if began is not None and began > entry.at:
                began = None  # another process began it: when is not recorded
            found.append(Attempt("failed", began, entry.at, entry.seq))
            before = due
        return sorted(found, key=lambda one: one.end or 0)

    def _fail(self, entry: Entry) -> None:
        meta = Meta(entry)
        if meta.of == "attempt":
            self._open(entry).fails.append((entry, meta.due))
            return
        if meta.of == "run" or entry.status == Status.FAILED:
            self._failure = entry.seq
            self._mark(entry)
            known = self._made and self._made[-1].status == "failed"
            if entry.step is None or known or meta.of == "run":
                return
        if meta.of == "rollback":
            self._mark(entry)
            return
        key, name, group = self._named(entry)
        pending = self._pending.pop(key, None)
        attempts = self._attempts(pending, None)
        again = pending.fails[-1][1] if pending is not None and pending.fails else None
        start = max(again or 0, self._last) or None
        last = Attempt("failed", start, entry.at, entry.seq)
        self._deaths = []
        first = next((one.start or one.end for one in attempts), start)
        self._add(
            Execution(
                key, name, group, "failed", entry.seq, first, entry.at, None, (*attempts, last),
                None if pending is None else pending.child,
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
            if _NAMED in entry.meta:
                said = Meta(entry)
                if said.in_branch and said.step_name:
                    known = said.step_name, said.step_name
            self._keys[key] = known
        return key, *known

    # --- people

    def _ask(self, entry: Entry) -> None:
        key = entry.step or "question"
        name, group = split_key(key)
        self._questions[key] = entry, len(self._made)
        self._made.append(
            Execution(key, name, group, "asks", entry.seq, entry.at, None, kind="question")
        )
        if entry.status == Status.PAUSED:
            self._end_spell(entry, "paused")

    def _answer(self, entry: Entry) -> None:
        known = self._questions.pop(entry.step or "question", None)
        if known is None:
            return
        meta, place = Meta(entry), known[1]
        note = f"answered by {meta.by}" if meta.by else "answered"
        if meta.expired:
            note = "nobody answered in time"
        self._made[place] = self._made[place]._replace(
            status="answered", end=entry.at, took=(entry.at - known[0].at) / 1e6, note=note
        )

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
            to = "the beginning" if entry.parent is None else f"@{entry.parent}"
            text = f"went back to {to}"
            if meta.rejected is not None:
                text += f": {len(meta.rejected)} did not verify"
            self._pending.clear()
        elif entry.kind == Kind.CANCEL and meta.begun:
            pending = self._pending.pop(meta.begun, None)
            if pending is not None and pending.begun is not None:
                self._add_begun(pending.begun, "cancelled", entry)
            return
        elif entry.kind == Kind.COMPLETE:
            self._result = entry.seq if entry.size else None
        if entry.status != Status.RUNNING and entry.kind in _ENDS:
            self._end_spell(entry, _ENDS[entry.kind])
        self._marks.append(Mark(entry.seq, entry.at, entry.kind, text))

    def _add_begun(self, begun: Entry, status: str, end: Entry | None) -> None:
        name = begun.step or begun.type or "step"
        self._made.append(
            Execution(
                begun.entry_id.hex(), name, name, status, None if end is None else end.seq,
                begun.at, None if end is None else end.at,
            )
        )  # fmt: skip

    def _close(self) -> None:
        """What is left when all entries are read: steps that are not finished."""
        running = self._info.status == Status.RUNNING
        for key, pending in self._pending.items():
            if pending.begun is not None:
                self._add_begun(pending.begun, "begun", None)
                continue
            name, group = split_key(key)
            attempts = tuple(self._attempts(pending, None))
            waits = pending.due or (pending.fails[-1][1] if pending.fails else None)
            status = "running" if running else "cut off"
            if waits is not None and (running or self._info.status == Status.PAUSED):
                status = "waits"
            self._made.append(
                Execution(
                    key, name, group, status, None, pending.since, None, None, attempts,
                    pending.child, outputs=tuple(pending.outputs), due=waits,
                    kind="sleep" if pending.due else "step",
                )
            )  # fmt: skip
        if running and not self._pending:
            ends = ("__end__", "end")
            ahead = [step for step in self._next if step not in ends] or [UNDER_WAY]
            for step in ahead:
                self._made.append(Execution(step, step, step, "running", None, self._last, None))
        if self._info.status in _NOT_OVER:
            self._made += not_started(self._structure, {one.group for one in self._made})


_ENDS: Final[dict[str, str]] = {
    Kind.RELEASE: "released",
    Kind.PAUSE: "paused",
    Kind.COMPLETE: "completed",
    Kind.FAIL: "failed",
    Kind.CANCEL: "cancelled",
}
