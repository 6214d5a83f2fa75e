"""What any process may do to a run: pause, cancel, answer. Sync and async."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Final

from holdfast.checkpoint import to_datetime
from holdfast.codec.meta import DUE, SIGNED, Meta, dump_meta
from holdfast.engine.holding.here import process_of, running_here
from holdfast.engine.holding.observing import standing
from holdfast.engine.people.checking import checked
from holdfast.engine.people.dialog import Dialog
from holdfast.engine.people.inbox import all_open, questions
from holdfast.engine.people.questions import DEADLINE, FAIL, Question
from holdfast.engine.resume.stops import waits_by_itself
from holdfast.errors import (
    CheckpointCorruptedError,
    CheckpointNotFoundError,
    QuestionError,
    RunFinishedError,
)
from holdfast.kernel import compose
from holdfast.kernel.appending import append_if
from holdfast.kernel.core import Core, Op
from holdfast.kernel.draft import Draft
from holdfast.keys.sealing import Signs
from holdfast.logs import about, logger
from holdfast.model import Entry, Kind, Status, check_id
from holdfast.operations import answers
from holdfast.operations.children import children, root_of
from holdfast.operations.reading import outages_named

log = logger()

_OVER: Final = (Status.COMPLETED, Status.CANCELLED)


def request(
    core: Core, run_id: str, action: str, reason: str = "", *, by: str | None = None
) -> Op[None]:
    """Ask a run to pause or cancel: at once if it is executed here, else when its holder looks.

    A run that nobody executes is paused right away, and cancelled if it has nothing to undo. `by`
    says who asks, and is recorded. Raises `CheckpointNotFoundError` and `RunFinishedError`.
    """
    check_id("run_id", run_id)
    if by is not None:
        check_id("by", by)
    known = {"reason": reason, "by": by}
    facts = {"action": action} | {name: text for name, text in known.items() if text}

    def decide(head: Entry | None) -> Draft:
        found = continuable(run_id, head)
        if action == "cancel" and _is_idle(core, found):
            if not _has_to_undo(core, run_id):
                return Draft(Kind.CANCEL.value, Status.CANCELLED.value, meta=dump_meta(facts))
            due = {DUE: core.journals.clock.now()}  # a worker is to undo it
            meta = dump_meta({**facts, **due})
            return Draft(Kind.REQUEST.value, found.status, step=found.step, meta=meta)
        return _asking(core, found, facts)

    yield from append_if(core, run_id, decide, behind_queued=True)
    running = yield partial(running_here, core, run_id)
    if running is not None:
        running.ask_from_anywhere(action)
        return
    for child in (yield partial(children, core, run_id)):
        if child.status in (Status.RUNNING, Status.PAUSED):
            with suppress(RunFinishedError, CheckpointNotFoundError):  # since it was listed
                yield from _ask_child(core, child.run_id, facts)


def _ask_child(core: Core, run_id: str, facts: dict[str, Any]) -> Op[None]:
    """Ask a child run of one that was asked: its holder may look there first."""

    def decide(head: Entry | None) -> Draft:
        return _asking(core, continuable(run_id, head), facts)

    yield from append_if(core, run_id, decide, behind_queued=True)


def _asking(core: Core, head: Entry, facts: dict[str, Any]) -> Draft:
    """The entry of a request. What nobody executes is paused by it, and no worker's any more."""
    meta = dump_meta(facts)
    waits = head.status in (Status.SUBMITTED, Status.PAUSED, Status.RUNNING)
    if facts["action"] == "pause" and waits and _is_idle(core, head):
        return Draft(Kind.PAUSE.value, Status.PAUSED.value, step=head.step, meta=meta)
    return Draft(Kind.REQUEST.value, head.status, step=head.step, meta=meta)


def answer(
    core: Core,
    run_id: str,
    value: object,
    question: str | None = None,
    *,
    by: str | None = None,
    sign: Signs | None = None,
) -> Op[None]:
    """Answer a run's open question; where it has several, by key, or its last part if only one has it.

    The answer is checked against what was asked for and recorded once, with who gave it: of two,
    one wins and the other raises `QuestionError`, which says whose it was, even after the run has
    ended. So does one that comes late, or from someone who was not asked. Raises
    `InvalidAnswerError` where it does not fit, and `RunFinishedError` where nobody will ever ask.

    With the key of the person in `sign`, or else of this process, the answer is signed, and `by` is
    the id of the key. Where keys are trusted, only an answer that one of them signed is recorded.
    """
    check_id("run_id", run_id)
    key = sign or answers.signer(core)
    by = _named(core, run_id, question, by, key)
    if by is not None:
        check_id("by", by)
    if by == DEADLINE:
        raise ValueError(f"{DEADLINE!r} is reserved; give another name in by=")
    encoding = compose.encode(core, run_id, value, root="answer")
    facts = {"by": by} if by else {}
    dialog = Dialog(core, run_id)

    def decide(head: Entry | None) -> Draft:
        entry = _answerable(dialog, head, question)
        found = _pick(dialog, question)
        if found.is_overdue(_now(core)):
            return _by_default(core, dialog, found, entry)
        fitting = checked(core, found, encoding, by)
        proof: dict[str, Any] = {}
        if key is not None:
            proof = {SIGNED: answers.signed(core, dialog.asking(found.key), fitting, key)}
        return _answered(core, dialog, found, entry, fitting, {**facts, **proof})

    entry = yield from append_if(core, run_id, decide, behind_queued=True)
    if Meta(entry).by == DEADLINE:
        raise QuestionError(
            run_id, entry.step, "its deadline has passed; what was to happen then was recorded"
        )


def _named(
    core: Core, run_id: str, question: str | None, by: str | None, key: Signs | None
) -> str | None:
    """Who answers: where there are keys, whose key it is. Raises `QuestionError`."""
    if key is None:
        if answers.trusts(core) is not None:
            raise QuestionError(run_id, question, "is answered with a signature only; give sign=")
        return by
    if by not in (None, key.key_id):
        reason = f"is answered by {by!r} with the key of {key.key_id!r}; sign with their own key"
        raise QuestionError(run_id, question, reason)
    return key.key_id


def open_question(core: Core, run_id: str, key: str | None = None) -> Question:
    """The question that an answer with this key would be for. Blocks, and writes nothing.

    Raises what `answer` would raise if there is none: `QuestionError`, `RunFinishedError`.
    """
    check_id("run_id", run_id)
    dialog = Dialog(core, run_id)
    with outages_named(run_id):
        head = core.journals.checked_head(run_id)
    _answerable(dialog, head, key)
    return _pick(dialog, key)


def apply_deadlines(
    core: Core, run_id: str | None = None, *, flows: Collection[str] | None = None
) -> Op[list[Question]]:
    """Answer what nobody answered in time, in one run or in all, with the default or a failure.

    With `flows`, in those of these flows and their child runs. Returns the questions that were
    answered; resume their runs. Nothing does this in the background: `resume` does it for its run,
    and so does an answer that comes too late. Of many runs, one that can't be read is skipped.
    """
    if run_id is None:
        found: list[Question] = yield partial(_overdue_of, core, flows)
    else:
        found = yield partial(questions, core, run_id)
    done = []
    for question in found:
        if question.is_overdue(_now(core)):
            try:
                yield from _expire(core, question)
                done.append(question)
            except (QuestionError, RunFinishedError, CheckpointNotFoundError):
                pass  # someone was faster: that is as good
            except CheckpointCorruptedError as error:
                if run_id is not None:
                    raise
                log.warning(
                    "the deadlines of run %s can't be applied: %s",
                    question.run_id,
                    error,
                    extra=about(question.run_id),
                )
    return done


def _overdue_of(core: Core, flows: Collection[str] | None) -> list[Question]:
    """What is overdue in the runs of these flows and in their child runs. Blocks."""
    now = _now(core)
    found = [question for question in all_open(core) if question.is_overdue(now)]
    if flows is None:
        return found
    roots = {name: root_of(core, name) for name in {question.run_id for question in found}}
    wanted = {name for name, root in roots.items() if root is not None and root.flow in flows}
    return [question for question in found if question.run_id in wanted]


def _expire(core: Core, question: Question) -> Op[None]:
    dialog = Dialog(core, question.run_id)

    def decide(head: Entry | None) -> Draft:
        entry = continuable(question.run_id, head)
        dialog.catch_up(entry)
        found = _pick(dialog, question.key)
        if not found.is_overdue(_now(core)):
            raise QuestionError(found.run_id, found.key, "was asked again since")
        return _by_default(core, dialog, found, entry)

    yield from append_if(core, question.run_id, decide, behind_queued=True)


def _answered(
    core: Core,
    dialog: Dialog,
    question: Question,
    head: Entry,
    encoding: bytes,
    facts: dict[str, Any],
) -> Draft:
    """The entry of an answer. A run that waited for it is running again; one that failed, or that
    someone asked to pause, stays so."""
    status = head.status
    facts = {**facts, "questions": len(dialog.open_questions()) - 1}
    if status == Status.PAUSED and waits_by_itself(core, head):
        status = Status.RUNNING.value
        facts[DUE] = core.journals.clock.now()
    return Draft(Kind.ANSWER.value, status, encoding, step=question.key, meta=dump_meta(facts))


def _by_default(core: Core, dialog: Dialog, question: Question, head: Entry) -> Draft:
    """What is recorded when a deadline has passed."""
    fails = question.default is FAIL
    value = None if fails else question.default
    encoding = compose.encode(core, question.run_id, value, root="default")
    facts: dict[str, Any] = {"by": DEADLINE} | ({"expired": True} if fails else {})
    return _answered(core, dialog, question, head, encoding, facts)


def _now(core: Core) -> datetime:
    return to_datetime(core.journals.clock.now())


def continuable(run_id: str, head: Entry | None) -> Entry:
    """The head of a run that has not ended for good; else raises."""
    if head is None or head.status == Status.DELETED:
        raise CheckpointNotFoundError(run_id)
    if head.status in _OVER or (head.kind == Kind.FAIL and Meta(head).rolled_back):
        raise RunFinishedError(run_id, head.status)
    return head


def _answerable(dialog: Dialog, head: Entry | None, question: str | None) -> Entry:
    """The head of a run that may still ask, with the dialog read up to it.

    Raises `RunFinishedError` for one that has ended, and `QuestionError` if the question was
    answered before that.
    """
    try:
        entry = continuable(dialog.run, head)
    except RunFinishedError:
        assert head is not None
        dialog.catch_up(head)
        key = None if question is None else dialog.full_key(question)
        if (answered := dialog.answered(key)) and (key is not None or not dialog.open_questions()):
            raise _answered_already(answered) from None
        raise
    dialog.catch_up(entry)
    return entry


def _is_idle(core: Core, head: Entry) -> bool:
    """Whether certainly nobody executes the run: it stopped, or its holder is dead.

    One that says that it stopped has, even if its task has not: it goes on under a new claim only.
    """
    if head.status != Status.RUNNING:
        return True
    presence = process_of(core).known_presence(core)
    if presence is not None and presence.is_executed(head.run):
        return False  # it may be about to be
    return standing(core, head).why is not None


def _has_to_undo(core: Core, run_id: str) -> bool:
    entries = core.journals.trail(run_id)
    return any(child.status not in _OVER for child in children(core, run_id)) or any(
        Meta(e).is_to_undo for e in entries if e.kind == Kind.RESULT
    )


def _pick(dialog: Dialog, key: str | None) -> Question:
    waiting, run_id = dialog.open_questions(), dialog.run
    key = None if key is None else dialog.full_key(key)
    for found in waiting:
        if found.key == key or (key is None and len(waiting) == 1):
            return found
    names = ", ".join(repr(found.key) for found in waiting)
    answered = dialog.answered(key)
    if answered is not None and (key is not None or not waiting):
        raise _answered_already(answered)
    if not waiting:
        raise QuestionError(run_id, key, "nothing is asked")
    if key is None:
        raise QuestionError(
            run_id, None, f"it asks several questions; name one with question=: {names}"
        )
    raise QuestionError(run_id, key, f"is not open; open are {names}")


def _answered_already(answered: Entry) -> QuestionError:
    when = to_datetime(answered.at)
    at, meta = when.isoformat(sep=" ", timespec="seconds"), Meta(answered)
    if meta.skipped_to is not None:
        reason = f"was skipped at {at}, when the run was resumed from {meta.skipped_to!r}"
        return QuestionError(answered.run, answered.step, reason)
    if meta.by == DEADLINE:
        who = f"when its deadline had passed, at {at}"
    else:
        who = f"by {meta.by!r} at {at}" if meta.by else f"at {at}"
    error = QuestionError(answered.run, answered.step, f"was answered already, {who}")
    error.answered_at, error.answered_by = when, None if meta.by == DEADLINE else meta.by
    return error
