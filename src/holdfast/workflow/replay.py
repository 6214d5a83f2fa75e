"""What was recorded of a workflow's run, by key, for a resume to replay."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from holdfast.engine.resume.history import History
from holdfast.engine.run.failures import failure_in
from holdfast.errors import StepNotAwaitedError
from holdfast.model import Entry, Kind
from holdfast.workflow.fibers import Outcome
from holdfast.workflow.keys import Mismatch, orders

DECISION: Final = "decision"
QUESTION: Final = "question"
BODY: Final = "body"  # of an item of a `for_each`: an `async def` without steps
_COUNT: Final = re.compile(r"#\d+$")
_CHECKED: Final = re.compile(r"(check|fix|again)(#\d+)?")

Migrations = Mapping[str, Callable[[dict[str, Any]], dict[str, Any]] | None]


class Recorded(NamedTuple):
    """What is known under a key."""

    kind: str  # of the step: python, subworkflow, question, decision; empty: a migration's
    outcome: Outcome
    order: int
    built: bool = False  # by the body of a for_each, which returned a step
    called_with: str | None = None  # what its step was called with, where that is known
    arguments: str | None = None  # a short digest of that, where it is known
    copied: bool = False  # from the run that this one is a fork of


class Replay:
    """Everything that was recorded and still counts."""

    def __init__(self) -> None:
        self.found: dict[str, Recorded] = {}
        self.orders: dict[str, list[str]] = {}  # the names recorded in each scope
        self.undoable: set[str] = set()  # steps that say how to undo them
        self.last = 0  # the seq of the newest entry
        self._migrated: set[str] = set()
        self._loose: set[str] = set()  # may be asked for or not
        self.shifted: set[str] = set()  # may be another step now, unless its arguments are the same

    def read(self, history: History, version: str, migrations: Migrations) -> None:
        """Read what a run recorded, migrated to this version of its flow."""
        versions: dict[str, str] = {}  # of the results, by key
        for entry in history.entries:
            self.last = entry.seq
            self._take(entry, history)
            if entry.kind == Kind.RESULT:
                versions[str(entry.step)] = str(history.meta(entry).flow_version)
        old: dict[str, dict[str, Any]] = {}
        for key, recorded_by in versions.items():
            if recorded_by != version and key in self.found:
                old.setdefault(recorded_by, {})[key] = self.found[key].outcome.value
        for name, results in old.items():
            self._migrate(results, migrations.get(name))
        if not old:  # else the names are the migration's, and their order says nothing
            known = [key for key in self.found if key not in self._loose]
            self.orders = orders(sorted(known, key=lambda key: self.found[key].order))

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
        key, meta, found = str(entry.step), history.meta(entry), self.found
        if entry.kind == Kind.RESULT:
            value = Outcome(history.value(entry))
            found[key] = Recorded(
                meta.kind, value, entry.seq, meta.built, meta.called_with, meta.args, meta.copied
            )
            if meta.is_to_undo:
                self.undoable.add(key)
        elif entry.kind == Kind.DECISION and meta.undone is None:
            found[key] = Recorded(DECISION, Outcome(history.value(entry)), entry.seq)
        elif entry.kind == Kind.QUESTION:
            found[key] = Recorded(QUESTION, Outcome(), entry.seq)
        elif entry.kind == Kind.FAIL and meta.of == "step":
            failed = Outcome(error=failure_in(entry, history.value(entry)))
            found[key] = Recorded(meta.kind, failed, entry.seq)
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
        if known is None or known.outcome.error is None:  # its checks failed, rather than itself
            within = f"{key}/"
            for name in [name for name in self.found if name.startswith(within)]:
                if _CHECKED.fullmatch(name.removeprefix(within)):
                    del self.found[name]
        if known is not None:
            del self.found[key]

    def _migrate(
        self, results: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]] | None
    ) -> None:
        if change is None:
            return
        copied = {key for key in results if self.found.pop(key).copied}
        changed = change(dict(results))
        if not isinstance(changed, Mapping):
            raise TypeError(f"migrate= must return the results by step, not {changed!r}")
        self._migrated |= set(changed)
        for order, (key, value) in enumerate(changed.items()):
            others = key in copied if key in results else bool(copied)  # a new name says nothing
            self.found[key] = Recorded("", Outcome(value), order, copied=others)
