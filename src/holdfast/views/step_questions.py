"""Questions among the steps of a run: asked, answered, or void."""

from __future__ import annotations

from holdfast.codec.meta import Meta
from holdfast.kernel.core import Core
from holdfast.model import Entry
from holdfast.operations import answers
from holdfast.operations.timeline import why_back
from holdfast.views.step_names import split_key
from holdfast.views.steps import Execution
from holdfast.views.voided import VOID


class AskedSteps:
    """Adds the questions of a run to its steps while its journal is read."""

    def __init__(self, core: Core, steps: list[Execution]) -> None:
        self._core = core
        self._steps = steps
        self._open: dict[str, tuple[Entry, int]] = {}  # by key, with the place of its step

    def ask(self, entry: Entry, current: bool) -> None:
        """A question was asked; it is not `current` if a rollback left it behind."""
        key = entry.step or "question"
        name, group = split_key(key)
        self._open[key] = entry, len(self._steps)
        self._steps.append(
            Execution(
                key, name, group, "asks", entry.seq, entry.at, None, current=current,
                kind="question",
            )
        )  # fmt: skip

    def answer(self, entry: Entry) -> None:
        """A question was answered, unless there is doubt about that."""
        if answers.doubt(self._core, entry):
            return
        known = self._open.pop(entry.step or "question", None)
        if known is None:
            return
        meta = Meta(entry)
        note = f"answered by {meta.by}" if meta.by else "answered"
        if answers.is_authentic(self._core, entry):
            note = f"answered, signed by {meta.by}"
        if meta.expired:
            note = "nobody answered in time"
        if not self._steps[known[1]].current:
            note = f"{note} ({VOID})"
        answer = None if meta.expired or not entry.size else entry.seq
        self._end(known, entry, "answered", note, answer)

    def go_back(self, entry: Entry) -> None:
        """A rollback: what was asked after the place that it went back to is void."""
        kept = -1 if entry.parent is None else entry.parent
        for key, (question, place) in list(self._open.items()):
            if question.seq > kept and not self._steps[place].current:
                self._void(key, entry, f"the run {went_back(entry)}")

    def void_all(self, entry: Entry, why: str) -> None:
        """Nobody is asked any more."""
        for key in list(self._open):
            self._void(key, entry, why)

    def _void(self, key: str, entry: Entry, why: str) -> None:
        self._end(self._open.pop(key), entry, "void", f"void: {why}")

    def _end(
        self,
        asked: tuple[Entry, int],
        entry: Entry,
        status: str,
        note: str,
        answer: int | None = None,
    ) -> None:
        question, place = asked
        took = (entry.at - question.at) / 1e6
        self._steps[place] = self._steps[place]._replace(
            status=status, end=entry.at, took=took, note=note, answer=answer
        )


def went_back(entry: Entry) -> str:
    """Where to a rollback went, and why."""
    to = "the beginning" if entry.parent is None else f"@{entry.parent}"
    return f"went back to {to}{why_back(Meta(entry))}"
