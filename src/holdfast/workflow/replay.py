"""What was recorded of a workflow's run, by key, for a resume to replay."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from holdfast.codec.meta import Meta
from holdfast.engine.program import Migrated
from holdfast.engine.resume.history import History
from holdfast.engine.run.failures import failure_in
from holdfast.errors import StepNotAwaitedError
from holdfast.migrations import Migrations, Place, whole
from holdfast.model import Entry, Kind, checkpoint_id
from holdfast.workflow.keys import Mismatch, orders

DECISION: Final = "decision"
QUESTION: Final = "question"
BODY: Final = "body"  # of an item of a `for_each`: an `async def` without steps
_COUNT: Final = re.compile(r"#\d+$")
_CHECKED: Final = re.compile(r"(check|fix|again)(#\d+)?")


class Recorded(NamedTuple):
    """What is known under a key."""

    kind: str  # of the step: python, subworkflow, question, decision; empty: a migration's
    value: Any
    order: int
    arguments: str | None = None  # a short digest of what its step was called with, where known
    called_with: str | None = None  # and a long one, if it claimed something
    built: bool = False  # by the body of a for_each, which returned a step
    copied: bool = False  # from the run that this one is a fork of
    error: Exception | None = None  # it failed


class Replay:
    """Everything that was recorded and still counts."""

    def __init__(self) -> None:
        self.found: dict[str, Recorded] = {}
        self.orders: dict[str, list[str]] = {}  # the names recorded in each scope
        self.undoable: set[str] = set()  # steps that say how to undo them
        self.last = 0  # the seq of the newest entry
        self.migrated: Migrated | None = None
        self._migrated: set[str] = set()  # results that the flow has not asked for
        self._loose: set[str] = set()  # may be asked for or not
        self.shifted: set[str] = set()  # may be another step now, unless its arguments are the same
        self._said: dict[Meta, tuple[Any, ...]] = {}  # by results that say alike

    def read(self, history: History, version: str, migrations: Migrations | None) -> None:
        """Read what a run recorded, migrated to this version of its flow.

        Raises `MigrationError`.
        """
        for entry in history.entries:
            self._take(entry, history)
        if history.entries:
            self.last = history.entries[-1].seq
        old: dict[str, str] = {}  # versions of results, by key
        if history.versions.keys() != {version}:
            by = {str(e.step): str(history.meta(e).flow_version) for e in history.of(Kind.RESULT)}
            old = {key: ran for key, ran in by.items() if ran != version and key in self.found}
        if old and migrations is not None:
            self._migrate(history, {key: whole(by) for key, by in old.items()}, migrations)
        if not old:  # else the names are the migration's, and their order says nothing
            known = [(kept.order, key) for key, kept in self.found.items()]
            self.orders = orders(key for _, key in sorted(known) if key not in self._loose)

    def look_up(self, key: str) -> Recorded | None:
        """What is recorded under a key, if anything."""
        self._migrated.discard(key)
        return self.found.get(key)

    def refuse_others(self, key: str, arguments: str) -> None:
        """Raise `Mismatch` if these are the arguments of another step of this name: in another task."""
        name = _COUNT.sub("", key)
        for other, known in self.found.items():
            if known.arguments == arguments and _COUNT.sub("", other) == name:
                raise Mismatch(key, f"{key} with the arguments of {other}")

    def unused(self) -> list[str]:
        """The steps whose result a migration returned and the flow has not asked for."""
        return sorted(self._migrated)

    @property
    def finished_steps(self) -> int:
        """How many steps need not be executed again."""
        return sum(1 for known in self.found.values() if known.kind not in (DECISION, QUESTION))

    def _take(self, entry: Entry, history: History) -> None:
        key, found = str(entry.step), self.found
        if entry.kind == Kind.RESULT:
            meta, arguments = history.meta_of_result(entry)
            said = self._said.get(meta)
            if said is None:
                said = (meta.kind, meta.called_with, meta.built, meta.copied, meta.is_to_undo)
                self._said[meta] = said
            kind, called_with, built, copied, undoable = said
            parts = (kind, history.value(entry), entry.seq, arguments, called_with, built, copied)
            found[key] = Recorded(*parts)
            if undoable:
                self.undoable.add(key)
            return
        meta = history.meta(entry)
        if entry.kind == Kind.DECISION and meta.undone is None:
            found[key] = Recorded(DECISION, history.value(entry), entry.seq)
        elif entry.kind == Kind.QUESTION:
            found[key] = Recorded(QUESTION, None, entry.seq)
        elif entry.kind == Kind.FAIL and meta.of == "step":
            failed = failure_in(entry, history.value(entry))
            found[key] = Recorded(meta.kind, None, entry.seq, error=failed)
        elif entry.kind == Kind.FAIL and meta.of == "run":
            if failure_in(entry, history.value(entry)).is_a(StepNotAwaitedError):
                self._loose |= set(found)  # the corrected flow asks for more, in between,
                self.shifted |= set(found)  # perhaps under the keys of these
            for failed_step in (meta.step, meta.cause, *meta.others):
                if isinstance(failed_step, str):
                    self._try_again(failed_step)

    def _try_again(self, key: str) -> None:
        """A run failed in this step: its recorded failure must not fail the resumed run."""
        known = self.found.get(key)
        if known is not None:  # how the flow handled the failure may be asked for again, or not
            self._loose |= {name for name, other in self.found.items() if other.order > known.order}
        if known is None or known.error is None:  # its checks failed, rather than itself
            within = f"{key}/"
            for name in [name for name in self.found if name.startswith(within)]:
                if _CHECKED.fullmatch(name.removeprefix(within)):
                    del self.found[name]
        if known is not None:
            del self.found[key]

    def _migrate(self, history: History, old: dict[str, int], migrations: Migrations) -> None:
        """Replace the results of older versions, given by key, by what they become."""
        before = {key: self.found[key] for key in old}
        newest = max(known.order for known in before.values())
        place = Place(history.run, checkpoint_id(history.run, newest))
        form = history.core.journals.stored_form
        results: dict[str, Any] = {}
        changed = False
        for version in range(min(old.values()), migrations.version):
            now = [key for key, by in old.items() if by == version]
            results |= {key: form(before[key].value) for key in now}
            made = None
            if results:
                made = migrations.next_results(dict(results), version, place, form)
            if made is not None:
                results, changed = made, True
        if changed:
            values = {key: known.value for key, known in before.items()}
            self.migrated = Migrated(place.checkpoint_id, str(min(old.values())), values, results)
            self._replace(before, results)

    def _replace(self, before: Mapping[str, Recorded], results: Mapping[str, Any]) -> None:
        for key in before:
            del self.found[key]
        copied = {key for key, known in before.items() if known.copied}
        places = sorted(known.order for known in before.values())
        self._migrated |= set(results)
        for index, (key, value) in enumerate(results.items()):
            others = key in copied if key in before else bool(copied)  # a new name says nothing
            order = places[min(index, len(places) - 1)]
            if key in before:
                order = before[key].order  # when tasks of a `durable` got it
            self.found[key] = Recorded("", value, order, copied=others)
