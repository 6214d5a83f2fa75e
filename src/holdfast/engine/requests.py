"""What anyone may ask of a run, from any process: pause, cancel, answer. For both colours."""

from __future__ import annotations

from holdfast import composing
from holdfast.appending import append_if
from holdfast.checkpoint import dump_meta
from holdfast.core import Core, Op
from holdfast.engine import live
from holdfast.engine.history import History, meta
from holdfast.engine.questions import Question, asked
from holdfast.errors import (
    CheckpointNotFoundError,
    InvalidAnswerError,
    QuestionError,
    RunFinishedError,
)
from holdfast.journal import Draft
from holdfast.model import Entry, Kind, Status, check_id
from holdfast.store import RunFilter

_OVER = (Status.COMPLETED, Status.CANCELLED)


def request(core: Core, run_id: str, action: str, reason: str = "") -> Op[None]:
    """Ask a run to pause or cancel: at once if it is carried out here, else when its worker looks.

    A run that nobody carries out and that has nothing to undo is cancelled right away. Raises
    `CheckpointNotFoundError` and `RunFinishedError`.
    """
    check_id("run_id", run_id)
    facts = {"action": action} | ({"reason": reason} if reason else {})

    def decide(head: Entry | None) -> Draft:
        found = _standing(run_id, head)
        idle = found.status in (Status.PAUSED, Status.FAILED)
        if action == "cancel" and idle and not _has_to_undo(core, run_id):
            return Draft(Kind.CANCEL.value, Status.CANCELLED.value, meta=dump_meta(facts))
        return Draft(Kind.REQUEST.value, found.status, step=found.step, meta=dump_meta(facts))

    yield from append_if(core, run_id, decide)
    running = live.find(core, run_id)
    if running is not None:
        running.ask_from_anywhere(action)


def answer(core: Core, run_id: str, value: object, question: str | None = None) -> Op[None]:
    """Answer a run's open question; by name where it has several.

    The answer is checked against what was asked for and recorded once: of two, one wins and the
    other raises `QuestionError`. Raises `InvalidAnswerError` where it does not fit.
    """
    check_id("run_id", run_id)
    encoding = composing.encode(core, run_id, value, root="answer")

    def decide(head: Entry | None) -> Draft:
        _standing(run_id, head)
        waiting = open_questions(History(core, run_id, whole=True))
        found = _pick(run_id, waiting, question)
        wrong = found.problems_with(core.journals.decode(encoding))
        if wrong:
            raise InvalidAnswerError(run_id, found.key, wrong)
        return Draft(Kind.ANSWER.value, Status.RUNNING.value, encoding, step=found.key)

    yield from append_if(core, run_id, decide)


def questions(core: Core, run_id: str) -> list[Question]:
    """The questions a run waits for, in the order they were asked. Blocks."""
    check_id("run_id", run_id)
    return open_questions(History(core, run_id, whole=True))


def open_questions(history: History) -> list[Question]:
    """Those that were asked and not answered yet."""
    waiting: dict[str, Question] = {}
    for entry in history.of(Kind.QUESTION, Kind.ANSWER):
        key = str(entry.step)
        if entry.kind == Kind.ANSWER:
            waiting.pop(key, None)
        else:
            waiting[key] = asked(entry, history.value(entry))
    return list(waiting.values())


def _standing(run_id: str, head: Entry | None) -> Entry:
    if head is None or head.status == Status.DELETED:
        raise CheckpointNotFoundError(run_id)
    if head.status in _OVER or (head.kind == Kind.FAIL and meta(head).get("rolled_back")):
        raise RunFinishedError(run_id, head.status)
    return head


def _has_to_undo(core: Core, run_id: str) -> bool:
    entries = core.journals.trail(run_id)
    within = core.journals.store.runs(RunFilter(prefix=f"{run_id}//"))
    return any(head.status not in _OVER for head in within) or any(
        meta(e).get("undo") for e in entries if e.kind == Kind.RESULT
    )


def _pick(run_id: str, waiting: list[Question], key: str | None) -> Question:
    if not waiting:
        raise QuestionError(run_id, key, "nothing is asked, or it was answered already")
    if key is None:
        if len(waiting) > 1:
            names = ", ".join(repr(q.key) for q in waiting)
            raise QuestionError(run_id, None, f"it asks several things; name one of {names}")
        return waiting[0]
    for found in waiting:
        if found.key == key:
            return found
    names = ", ".join(repr(q.key) for q in waiting)
    raise QuestionError(run_id, key, f"is not open; open are {names}")
