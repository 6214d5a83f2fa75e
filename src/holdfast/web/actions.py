"""What people do to runs over HTTP: pages and the REST API call these, and nothing else writes.

Each takes the site, who does it (None if nobody said), and what is to be done; it blocks until that
is durable, and returns a document as the command line prints it with `--json`. Doing it again
changes nothing, and `new` in the document is False then. What can't be done raises, and
`statuses.status_of` says how that is answered.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

from holdfast.checkpoint import Checkpoint, RunInfo
from holdfast.checkpointer import SyncCheckpointer
from holdfast.codec import readable
from holdfast.codec.ascii_json import to_ascii
from holdfast.codec.meta import Meta
from holdfast.codec.values import same
from holdfast.engine.people import going_back, requests, resuming
from holdfast.engine.people.dialog import Dialog
from holdfast.engine.people.questions import DEADLINE
from holdfast.engine.resume.stops import resume_requested
from holdfast.errors import (
    CheckpointNotFoundError,
    HoldfastError,
    InvalidAnswerError,
    InvalidIdError,
    QuestionError,
    RunExistsError,
)
from holdfast.logs import about, logger
from holdfast.model import OF_CHILD, Kind, Status
from holdfast.operations.forking import SAME, branch_off
from holdfast.retention import Retention
from holdfast.views import cancelling, continuing, pruning, threads
from holdfast.views.questions import recorded
from holdfast.views.runs import find_place, of_id
from holdfast.web.site import Site
from holdfast.web.statuses import InvalidFieldError, OutdatedPreviewError, ReadOnlyError

_log = logger()


def answer(
    site: Site, who: str | None, run_id: str, value: object, question: str | None = None
) -> dict[str, Any]:
    """Answer an open question of a run, which then continues.

    `value` is plain data. Raises `InvalidAnswerError`, and `QuestionError` if somebody else
    answered first, or another value.
    """
    _check(site)
    threads.refuse(of_id(site.cp, run_id))
    cancelling.refuse(site.cp, run_id)
    if who == DEADLINE:
        raise InvalidFieldError("by", f"{DEADLINE!r} is reserved; give another name")
    core, new = site.cp.core, True
    try:
        core.drive(requests.answer(core, run_id, value, question, by=who))
    except InvalidAnswerError:
        raise
    except QuestionError as error:
        if not _is_the_same(site, error, value, who):
            raise
        question, new = error.question, False
    site.count_questions_again()
    then = _continue(site, run_id)
    return {"run_id": run_id, "question": question, "answered": True, "new": new, "then": then}


def apply_deadline(site: Site, who: str | None, run_id: str) -> dict[str, Any]:
    """Apply the default answers of a run's questions whose deadline has passed."""
    _check(site)
    threads.refuse(of_id(site.cp, run_id))
    core = site.cp.core
    done = core.drive(requests.apply_deadlines(core, run_id))
    names = [question.key for question in done]
    _log.info("%s applied deadlines of run %s: %s", who, run_id, names, extra=about(run_id))
    document = {"run_id": run_id, "questions": names, "new": bool(done)}
    return document | {"then": _continue(site, run_id)} if done else document


def resume(site: Site, who: str | None, run_id: str) -> dict[str, Any]:
    """Continue a run that failed, was paused, forked, rolled back, or whose process died.

    It is executed here if its flow was given, else by a worker.
    """
    _check(site)
    info = of_id(site.cp, run_id)
    threads.refuse(info)
    core = site.cp.core
    new = core.drive(resuming.submit_resume(core, run_id, by=who))
    return {"run_id": run_id, "asked": "resume", "new": new, "then": _continue(site, run_id)}


def pause(site: Site, who: str | None, run_id: str, reason: str = "") -> dict[str, Any]:
    """Ask a run to stop after its running steps."""
    return _request(site, who, run_id, "pause", reason, Status.PAUSED)


def cancel(site: Site, who: str | None, run_id: str, reason: str = "") -> dict[str, Any]:
    """Cancel a run: its steps that can be undone are undone, and it is over."""
    done = _request(site, who, run_id, "cancel", reason, Status.CANCELLED)
    if done["status"] not in (Status.CANCELLED, Status.RUNNING):  # something is to be undone
        done["then"] = _continue(site, run_id)
    return done


def fork(
    site: Site,
    who: str | None,
    run_id: str,
    *,
    new_id: str | None = None,
    at: str | None = None,
    state: object = SAME,
) -> dict[str, Any]:
    """Begin a run from a checkpoint of another, with its state or an edited one (plain data).

    `at` is a seq, RUN@SEQ or a step. With the `new_id` of a fork of the same checkpoint with the
    same state, nothing is done; another run of that id raises `RunExistsError`.
    """
    _check(site)
    info = of_id(site.cp, run_id)
    place = None if at is None else find_place(site.cp, run_id, at)
    if info.flow == threads.FLOW:
        if state is not SAME:
            raise InvalidFieldError("state", "only its graph changes the state of such a thread")
        thread = threads.fork(site.cp, run_id, place, new_id)
        return _forked(thread.run_id, thread.checkpoint_id, thread.origin, new=True)
    try:
        made = site.cp.fork(run_id, checkpoint_id=place, run_id=new_id, state=state, by=who)
    except RunExistsError:
        if new_id is None or not _is_that_fork(site, run_id, place, new_id, state):
            raise
        origin = _source(site, run_id, place).checkpoint_id
        return _forked(new_id, None, origin, new=False)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidIdError) and error.what == "run_id":
            raise InvalidFieldError("new_id", str(error)) from error
        if isinstance(error, HoldfastError):
            raise
        raise InvalidFieldError("state", str(error)) from error
    return _forked(made.run_id, made.checkpoint_id, made.origin, new=True)


def rollback(site: Site, who: str | None, run_id: str, at: str) -> dict[str, Any]:
    """Make an earlier checkpoint the current one. Nobody may be executing the run."""
    _check(site)
    info = of_id(site.cp, run_id)
    place = find_place(site.cp, run_id, at)
    core = site.cp.core
    target, new = core.drive(going_back.rollback_unheld(core, run_id, place, by=who))
    document: dict[str, Any] = {"run_id": run_id, "checkpoint_id": place, "step": target.step}
    document["new"] = new
    if info.flow == threads.FLOW:
        document["ahead"] = [one._asdict() for one in threads.ahead(site.cp, place)]
    return document


def prune(
    site: Site,
    who: str | None,
    run_id: str,
    *,
    keep_latest: int | None = None,
    older_than: timedelta | None = None,
    preview: str | None = None,
) -> dict[str, Any]:
    """Delete old checkpoints of a run: exactly those that a `preview` showed, by its digest.

    Without one, only says what would go; that may be asked for where nothing can be changed.
    """
    if preview is not None:
        _check(site)
    of_id(site.cp, run_id)
    policy = Retention(keep_latest=keep_latest, max_age=older_than)
    with SyncCheckpointer(site.cp.store, retention=policy, **site.cp.keys) as cp:
        cp.core.journals.keep_coded()
        would = pruning.document([pruning.sweep(cp, run_id, dry_run=True)], dry_run=True)
        head = cp.core.journals.head(run_id)  # another one: something was saved or deleted since
        seen = [would, None if head is None else head.entry_id.hex()]
        digest = hashlib.sha256(to_ascii(seen).encode()).hexdigest()[:32]
        if preview is None:
            return {**would, "preview": digest}
        if preview != digest:
            raise OutdatedPreviewError
        swept = pruning.sweep(cp, run_id, dry_run=False)
    done = pruning.document([swept], dry_run=False)
    _log.info("%s pruned run %s: %s", who, run_id, done["checkpoints"], extra=about(run_id))
    return done


def then_of(site: Site, run_id: str) -> dict[str, Any]:
    """Who continues a run: this process ("here"), a "worker", or "nobody".

    Then `command` starts a worker.
    """
    root = run_id.partition(OF_CHILD)[0]
    info = site.cp.run(root)
    executor = site.executor
    if executor is not None and info is not None and executor.knows(info.flow):
        return {"by": "here", "command": None}
    if continuing.has_worker(site.cp, run_id):
        return {"by": "worker", "command": None}
    return {"by": "nobody", "command": _worker_command(site, info)}


def _worker_command(site: Site, info: RunInfo | None) -> str:
    given = None if info is None else site.settings.sources.get(info.flow or "")
    return continuing.worker_command(site.commands, given)


def continues_by_itself(site: Site, run_id: str) -> bool:
    """Whether a worker continues a run by itself, so that asking for it changes nothing."""
    return then_of(site, run_id)["by"] != "here" and resuming.continues_by_itself(
        site.cp.core, run_id
    )


def is_asked_to_resume(site: Site, run_id: str) -> bool:
    """Whether somebody asked workers to continue a run that stopped, and none has yet."""
    head = site.cp.core.journals.head(run_id)
    return head is not None and resume_requested(site.cp.core, head) is not None


def _check(site: Site) -> None:
    if not site.settings.allow_writes:
        raise ReadOnlyError


def _continue(site: Site, run_id: str) -> dict[str, Any]:
    """Have a run executed that waits for it, here if possible."""
    then = then_of(site, run_id)
    if then["by"] == "here":
        assert site.executor is not None
        site.executor.resume(run_id.partition(OF_CHILD)[0])
    return then


def _request(
    site: Site, who: str | None, run_id: str, action: str, reason: str, wanted: Status
) -> dict[str, Any]:
    _check(site)
    info = of_id(site.cp, run_id)
    threads.refuse(info)
    core = site.cp.core
    head = core.journals.head(run_id)
    new = info.status != wanted and not (
        head is not None and head.kind == Kind.REQUEST and Meta(head).action == action
    )
    if new:
        core.drive(requests.request(core, run_id, action, reason, by=who))
    now = site.cp.run(run_id)
    status = "deleted" if now is None else now.status
    return {"run_id": run_id, "asked": action, "status": status, "new": new}


def _is_the_same(site: Site, error: QuestionError, value: object, who: str | None) -> bool:
    """Whether an answer was refused because it had been recorded before: it was sent twice."""
    core, run_id = site.cp.core, error.run_id
    if error.answered_at is None or error.answered_by != who:
        return False
    head = core.journals.head(run_id)
    if head is None:
        return False
    dialog = Dialog(core, run_id)
    dialog.catch_up(head)
    entry = dialog.answered(error.question)
    question = recorded(site.cp, run_id, str(error.question))
    if entry is None or question is None:
        return False
    before = readable.to_json(core.journals.value(run_id, entry.seq))
    return same(before, readable.to_json(question.converted(value)))


def _source(site: Site, run_id: str, place: str | None) -> Checkpoint:
    found = site.cp.load(checkpoint_id=place) if place else site.cp.load(run_id)
    if found is None:
        raise CheckpointNotFoundError(run_id, place)
    return found


def _is_that_fork(site: Site, run_id: str, place: str | None, new_id: str, state: object) -> bool:
    """Whether a run is the fork that is asked for, whatever became of it since."""
    core, source = site.cp.core, _source(site, run_id, place)
    opening = core.journals.opening(new_id)
    if opening is None or Meta(opening).origin != source.checkpoint_id:
        return False
    before, last = branch_off(
        core, new_id, source, state, thread=None, owner=source.owner, facts={}
    )
    first = core.journals.entry(new_id, len(before))
    if first is None or first.kind != last.kind or first.status == Status.DELETED:
        return False
    wanted = source.state if state is SAME else state
    made = site.cp.load(new_id, seq=first.seq)
    return made is not None and same(readable.to_json(made.state), readable.to_json(wanted))


def _forked(
    run_id: str, checkpoint_id: str | None, origin: str | None, *, new: bool
) -> dict[str, Any]:
    return {"run_id": run_id, "checkpoint_id": checkpoint_id, "origin": origin, "new": new}
