"""What to do about a run that waits for somebody, or is damaged: a sentence, and a command."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from holdfast.checkpoint import RunInfo, to_datetime
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec.meta import Meta
from holdfast.engine.people.inbox import questions
from holdfast.engine.people.questions import Question
from holdfast.engine.resume.activity import is_for_workers
from holdfast.engine.resume.stops import resume_requested
from holdfast.errors import CheckpointCorruptedError, HoldfastError, KeyMissingError
from holdfast.model import Kind, Status
from holdfast.operations.verifying import Integrity
from holdfast.views import cancelling, continuing, threads, words
from holdfast.views.asking import asked_by_child, awaited, otherwise
from holdfast.views.commands import Commands, meaning, other_answers
from holdfast.views.rescue import Advice, is_current_intact, rescue
from holdfast.views.runs import ANSWERED, doing, nobody


def next_for(
    commands: Commands,
    cp: SyncCheckpointer,
    info: RunInfo,
    facts: Mapping[str, Any],
    integrity: Integrity | None = None,
    *,
    failing: bool = False,
) -> Advice | None:
    """What to do next; None where nothing is to be done. Blocks.

    `facts` are what `doing` found, and `integrity` what `verify` found, if it was asked. It is
    `failing` if a claim of the run was found false.
    """
    if integrity is not None and not integrity.ok and not is_current_intact(cp, integrity):
        return rescue(commands, cp, integrity)
    if info.status == Status.OPEN and (back := _rolled_back(commands, cp, info)):
        return back
    if info.flow is None or info.flow == threads.FLOW:
        return None
    if cancelling.is_to_cancel(cp.core, info.run_id):
        then = to_cancel(commands, cp, info)
        return then._replace(why=f"it was asked to cancel; {then.why}")
    if info.status == Status.PAUSED and not facts.get("answered"):
        return _paused(commands, cp, info, facts)
    waits = info.status != Status.RUNNING or facts.get("orphaned") or facts.get("answered")
    if waits and _is_for_workers(cp, info.run_id):
        return _for_workers(commands, cp, info)
    if facts.get("orphaned"):
        return _again(commands, cp, info, f"{_left(cp, info, facts['holder'])};")
    if facts.get("answered"):
        return _again(commands, cp, info, "it was answered;")
    if info.status == Status.FAILED:
        return _again(commands, cp, info, "when the cause is fixed,", name="retry")
    if info.status == Status.COMPLETED and failing:
        why = "what it claims was found to be false; to execute those steps again,"
        return _again(commands, cp, info, why)
    return None


def to_cancel(commands: Commands, cp: SyncCheckpointer, info: RunInfo) -> Advice:
    """How a run goes on that nobody executes, and that was asked to cancel. Blocks."""
    if continuing.has_worker(cp, info.run_id):
        return Advice("a worker undoes its steps", "")
    info = continuing.outermost(cp, info)
    source = continuing.source_of(cp, info.run_id)
    with suppress(CheckpointCorruptedError, KeyMissingError):
        opening = cp.core.journals.opening(info.run_id)
        if opening is not None and opening.status == Status.SUBMITTED:
            worker = continuing.worker_command(commands)
            why = "a worker is to undo its steps, and none is alive; start one:"
            return Advice(why, worker, meaning(worker, info.flow))
    command = commands.resume(info.run_id, (), source)
    lead = f"to undo its steps, {continuing.or_again(source)}continue it with:"
    return Advice(lead, command, meaning(command, info.flow, source))


def _rolled_back(commands: Commands, cp: SyncCheckpointer, info: RunInfo) -> Advice | None:
    """How a run goes on that was rolled back, or began as a fork; None if it is neither."""
    try:
        head, opening = cp.core.journals.head(info.run_id), cp.core.journals.opening(info.run_id)
    except (CheckpointCorruptedError, KeyMissingError):
        return None
    if head is None or opening is None or resume_requested(cp.core, head) is not None:
        return None
    if head.kind == Kind.ROLLBACK:
        why = "it was rolled back;"
    elif info.flow not in (None, threads.FLOW) and Meta(opening).origin is not None:
        why = "it was forked, and nobody has continued it yet;"
    else:
        return None
    if info.flow == threads.FLOW:
        return Advice(f"{why} its graph continues from this state", "")
    if info.flow is None:
        return Advice(f"{why} your program continues from this state when it loads it", "")
    if opening.status == Status.SUBMITTED:
        submit = commands.line("resume", info.run_id, "--submit")
        return Advice(f"{why} have a worker continue it:", submit)
    return _again(commands, cp, info, why)


def _is_for_workers(cp: SyncCheckpointer, run_id: str) -> bool:
    try:
        return is_for_workers(cp.core, run_id)
    except (CheckpointCorruptedError, KeyMissingError):  # nobody can tell
        return False


def _again(
    commands: Commands, cp: SyncCheckpointer, info: RunInfo, why: str, *, name: str = "resume"
) -> Advice:
    """Continue the run: with its program, or with the command of this name."""
    info = continuing.outermost(cp, info)
    source = continuing.source_of(cp, info.run_id)
    command = commands.resume(info.run_id, (), source, name=name)
    lead = f"{why} {continuing.or_again(source)}continue it with:"
    return Advice(lead, command, meaning(command, info.flow, source))


def _left(cp: SyncCheckpointer, info: RunInfo, holder: str | None) -> str:
    """Why nobody executes an orphaned run. A process leaves one that its code can't continue."""
    if holder is not None and holder != "unknown":
        return nobody(holder)
    with suppress(CheckpointCorruptedError, KeyMissingError):
        head = cp.core.journals.head(info.run_id)
        said = None if head is None else cp.core.journals.entry(info.run_id, head.term)
        if said is not None and said.kind == Kind.RELEASE:
            told = Meta(said).reason is not None
            why = f"its code could not continue it, see @{said.seq}" if told else "it was left"
            return f"nobody executes it: {why}"
    return "nobody executes it"


def _for_workers(commands: Commands, cp: SyncCheckpointer, info: RunInfo) -> Advice | None:
    """Start a worker, if none is alive."""
    if continuing.has_worker(cp, info.run_id):
        return None
    worker = continuing.worker_command(commands)
    why = "it waits for a worker, and none is alive; start one:"
    return Advice(why, worker, meaning(worker, info.flow))


def _paused(
    commands: Commands, cp: SyncCheckpointer, info: RunInfo, facts: Mapping[str, Any]
) -> Advice | None:
    try:
        asked = questions(cp.core, info.run_id)
    except HoldfastError:  # `show` says what is damaged
        return None
    if asked:
        return _asked(commands, cp, info, asked, "it waits for an answer")
    if asked := asked_by_child(cp.core, info.run_id):
        why = f"it waits for its child run {asked[0].run_id!r}, which asks"
        return _asked(commands, cp, info, asked, why)
    if facts.get("due") is None:
        answered = any(doing(cp, child)[0] == ANSWERED for child in awaited(cp, info))
        why = "its child run was answered;" if answered else "it is paused;"
        return _again(commands, cp, info, why)
    return None


def _asked(
    commands: Commands, cp: SyncCheckpointer, info: RunInfo, asked: list[Question], why: str
) -> Advice | None:
    """How to answer a question whose deadline has not passed, or how to go on if there is none."""
    now = to_datetime(cp.core.journals.clock.now())
    first, *others = sorted(asked, key=lambda one: one.is_overdue(now))
    if first.is_overdue(now):
        if continuing.has_worker(cp, info.run_id):
            return None
        return _again(commands, cp, info, "nobody answered it in time;")
    if first.deadline is not None:
        why += f" until {words.moment(first.deadline)} (then: {otherwise(first)})"
    command = commands.answer(first.run_id, [first, *others])
    return Advice(f"{why}:", command, other_answers(first, command))
