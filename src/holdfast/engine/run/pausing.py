"""How a run stops for people, for its child runs or for a timer, to be continued later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.checkpoint import to_datetime
from holdfast.engine import events as ev
from holdfast.engine.program import Program, Record
from holdfast.engine.resume.stops import TIMER
from holdfast.errors import RunPausedError
from holdfast.model import Kind, Status

if TYPE_CHECKING:
    from holdfast.engine.run.loop import Run


class Waits:
    """What a run waits for, and when it is to be continued if nothing comes. Times are in µs."""

    def __init__(self, program: Program, deadlines: dict[str, int]) -> None:
        self._program = program
        self._deadlines = deadlines  # of questions, by key
        self._of_children: list[int] = []  # when child runs that wait are to be continued
        self.for_child = False
        self.asks: str | None = None  # a child run, or a child of it

    def add_question(self, record: Record, now: int) -> None:
        """A question is asked now."""
        if "deadline" in record.value:
            self._deadlines[record.step] = record.value["deadline"]
        elif "within" in record.value:
            self._deadlines[record.step] = now + round(record.value["within"] * 1e6)

    def add_child(self, until: int | None, asks: str | None) -> None:
        """A child run waits, at most until this moment if it is known; maybe for an answer."""
        self.for_child = True
        self.asks = asks
        if until is not None:
            self._of_children.append(until)

    @property
    def until(self) -> int | None:
        """When the run is to be continued if no answer comes; None if nothing says it."""
        asked = self._program.questions()
        deadlines = (self._deadlines[key] for key in asked if key in self._deadlines)
        return min((*deadlines, *self._of_children), default=None)

    def facts(self) -> dict[str, Any]:
        """What the entry says by which the run stops."""
        known = {"questions": len(self._program.questions())}
        return known if self.until is None else {**known, "due": self.until}


async def pause(run: Run) -> None:
    """Stop until someone resumes the run, unless an answer came at the last moment."""
    questions = tuple(run.program.questions())
    if not run.paused:
        waits = "questions" if questions and not run.waits.for_child else "child"
        facts: dict[str, Any] = {"reason": run.wanted or waits}
        if run.wanted == "pause":
            facts = {"action": run.wanted}
        await _record(run, facts if run.wanted else facts | run.waits.facts())
        if run.wanted == "cancel" or (run.wanted is None and run.answered()):
            return
    _stop(run, questions, None if run.wanted else run.waits.until)


async def pause_until(run: Run, due: int) -> None:
    """Stop a run that only waits for a timer, unless an answer or a request came.

    Workers continue it when it is due.
    """
    due = min(due, run.waits.until or due)
    run.steps.resting.hold_back()
    await _record(run, {**run.waits.facts(), "reason": TIMER, "due": due})
    if run.wanted is None and not run.answered():
        _stop(run, tuple(run.program.questions()), due)


async def _record(run: Run, facts: dict[str, Any]) -> None:
    note = run.recorder.note(Kind.PAUSE, Status.PAUSED, facts)
    await run.recorder.save_and_announce([note], urgent=True)
    run.paused = True
    run.listen()


def _stop(run: Run, questions: tuple[str, ...], due: int | None) -> NoReturn:
    until = None if due is None else to_datetime(due)
    run.emit(ev.RunPaused(run.run_id, questions, until))
    paused = RunPausedError(run.run_id, questions, until)
    if run.wanted is None and not questions:
        paused.child = run.waits.asks
    paused.state = run.program.state
    run.recorder.tell_if_unsaved(paused)
    raise paused
