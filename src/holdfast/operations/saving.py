"""Saving: save, complete, fork and roll back. Each operation is written once, for sync and async."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec

from holdfast.checkpoint import Checkpoint, CheckpointInfo
from holdfast.codec.meta import Meta
from holdfast.errors import CheckpointSaveError, HoldfastError, RunExistsError
from holdfast.kernel import compose
from holdfast.kernel.appending import (
    append,
    append_at_once,
    append_if,
    is_durable,
    new_deadline,
    submit,
)
from holdfast.kernel.backlog import flush, save_later, tolerate, unsaved
from holdfast.kernel.core import Core, Done, Op
from holdfast.kernel.draft import Draft
from holdfast.kernel.ticket import Ticket
from holdfast.logs import logger
from holdfast.model import Entry, Kind, Status, check_id
from holdfast.operations import forking
from holdfast.operations.reading import require
from holdfast.operations.retention import SWEEP_EVERY, sweep, thin

P = ParamSpec("P")

log = logger()

_THIN_EVERY: Final = 64  # saves to one run between two bites of retention


Composer = Callable[Concatenate[Core, P], tuple[str, Draft, CheckpointInfo | None]]


def _saving(composed: Composer[P]) -> Callable[Concatenate[Core, P], Op[Checkpoint]]:
    """`save`, with the signature and the contract of what it saves."""

    @functools.wraps(composed)
    def save(core: Core, /, *args: P.args, **kwargs: P.kwargs) -> Op[Checkpoint]:
        run, draft, expect = composed(core, *args, **kwargs)
        settings, ticket = core.settings, None
        queued = core.backlog or core.held_back
        if expect is None and settings.durability == "sync" and not queued:
            ticket = append_at_once(core, run, draft, new_deadline(core))
            if ticket is not None and ticket.done and not (ticket.error or settings.retention):
                core.degraded = None
                return Done(_checkpoint(core, ticket.entries[-1], draft))
        return _saved(core, run, draft, expect, ticket)

    signature = inspect.signature(composed)
    vars(save)["__signature__"] = signature.replace(return_annotation="Op[Checkpoint]")
    return save


save = _saving(compose.save)


def _saved(
    core: Core, run: str, draft: Draft, expect: CheckpointInfo | None, ticket: Ticket | None
) -> Op[Checkpoint]:
    """Save a draft that may be on its way already, as this ticket."""
    try:
        if core.settings.durability == "sync" or expect is not None:
            if ticket is None:
                yield from flush(core)
            elif not ticket.done:
                yield ticket
            entry = yield from append(core, run, draft, expect=expect, ticket=ticket)
            core.degraded = None
        else:
            entry = yield from save_later(core, run, draft)
    except CheckpointSaveError as error:
        tolerate(core, error)
        entry = unsaved(core, run, draft)
    else:
        yield from _retain(core, entry)
    return _checkpoint(core, entry, draft)


def save_many(core: Core, saves: Iterable[Mapping[str, Any]]) -> Op[list[Checkpoint]]:
    """Save several states, to one run or to many, in as few commits as possible.

    Each item holds the arguments of one `save`, by name. Each becomes a checkpoint of its own,
    in the order given: after a crash those that were committed are there, whole. All are encoded
    before the first is written, so a value that can't be stored fails all of them; an error found
    later leaves those before it saved.
    """
    composed = [compose.save(core, **item) for item in saves]
    yield from flush(core)
    tickets: list[Ticket] = []
    failure: HoldfastError | None = None
    for run, draft, expect in composed:
        try:
            tickets.append((yield from submit(core, run, draft, expect=expect)))
        except HoldfastError as error:
            failure = error
            break
    checkpoints = []
    for ticket, (run, draft, expect) in zip(tickets, composed, strict=False):
        try:
            if (yield from is_durable(ticket)):
                entry = ticket.entries[-1]
            else:
                entry = yield from append(core, run, draft, expect=expect)
        except CheckpointSaveError as error:
            tolerate(core, error)
            entry = unsaved(core, run, draft)
        else:
            yield from _retain(core, entry)
        checkpoints.append(_checkpoint(core, entry, draft))
    if failure is not None:
        raise failure
    return checkpoints


def complete(core: Core, run_id: str) -> Op[None]:
    """Mark a run as completed, which lists show. Its state stays.

    Raises `CheckpointNotFoundError`. A later save opens it again.
    """
    yield from flush(core)
    current: Checkpoint = yield partial(require, core, run_id, None, None)
    draft = Draft(Kind.COMPLETE.value, Status.COMPLETED.value, step=current.step, type=current.type)
    yield from append(core, run_id, draft, target=current.seq)


def fork(
    core: Core,
    origin: str,
    /,
    *,
    seq: int | None = None,
    checkpoint_id: str | None = None,
    run_id: str | None = None,
    state: object = forking.SAME,
    schema_version: int | None = None,
    thread_id: str | forking.Same | None = forking.SAME,
    owner: str | forking.Same | None = forking.SAME,
    by: str | None = None,
) -> Op[Checkpoint]:
    """Begin a new run from a checkpoint of another, with its state or an edited one.

    From the current checkpoint unless `seq` or `checkpoint_id` names another. The origin is not
    touched; the new run keeps its flow, and its thread and owner unless others, or None, are
    given. A run that records results, as workflows do, is copied up to there: an edited `state`
    gives other values to its steps, and ends before the first one it leaves out. Inside parallel
    branches, it is copied up to there as well, and `state` is that of the one branch.
    `schema_version` is the version of an edited state, if that is another. `by` says who does it,
    and is recorded. Raises `CheckpointNotFoundError`, and `RunExistsError` if `run_id` is taken.
    """
    yield from flush(core)
    source: Checkpoint = yield partial(require, core, origin, seq, checkpoint_id, as_data=True)
    yield partial(forking.refuse_undone, core, origin, source.seq)
    run = compose.given_or_new(core, run_id)
    entry = source.entry
    thread = entry.thread if isinstance(thread_id, forking.Same) else thread_id
    whose = entry.owner if isinstance(owner, forking.Same) else owner
    for what, given in (("thread_id", thread), ("owner", whose)):
        if given is not None:
            check_id(what, given)
    prelude, draft = yield partial(
        forking.branch_off, core, run, source, state, thread=thread, owner=whose, facts=said_by(by)
    )
    if schema_version is not None:
        draft = compose.of_version(draft, schema_version)

    def unless_taken(head: Entry | None) -> list[Draft]:
        if head is None or head.status == Status.DELETED:
            return [*prelude, draft]
        if head.kind == Kind.OPEN and Meta(head).origin == source.checkpoint_id:
            return [*prelude[1:], draft]  # the opening alone survived a crash
        raise RunExistsError(run)

    saved = yield from append_if(core, run, unless_taken)
    if draft.kind == Kind.RESULT:
        forked: Checkpoint = yield partial(require, core, run, None, None)
        return forked
    return _checkpoint(core, saved, draft)


def rollback(
    core: Core,
    run_id: str,
    *,
    seq: int | None = None,
    checkpoint_id: str | None = None,
    by: str | None = None,
) -> Op[Checkpoint]:
    """Make an earlier checkpoint the current one, and return it.

    What came after it stays in the history and can be gone back to. `by` says who does it, and is
    recorded. Raises `CheckpointNotFoundError`.
    """
    if seq is None and checkpoint_id is None:
        raise ValueError("rollback needs seq= or checkpoint_id=: where should the run go back to?")
    yield from flush(core)
    target: Checkpoint = yield partial(require, core, run_id, seq, checkpoint_id)
    yield partial(forking.refuse_undone, core, run_id, target.seq)
    draft = compose.rollback_to(target.entry, said_by(by))
    yield from append(core, run_id, draft, target=target.seq)
    return target


def said_by(name: str | None) -> dict[str, str]:
    """What an entry says of the person who caused it; nothing if nobody is named."""
    return {} if name is None else {"by": check_id("by", name)}


def _retain(core: Core, entry: Entry) -> Op[None]:
    """Now and then, apply a bit of retention as part of a save."""
    if not core.settings.retention:
        return
    try:
        thins = any(policy.thins_runs for policy in core.settings.retention)
        if thins and entry.seq % _THIN_EVERY == _THIN_EVERY - 1:
            yield partial(thin, core, entry.run)
        core.saves_since_sweep += 1
        if core.saves_since_sweep >= SWEEP_EVERY:
            core.saves_since_sweep = 0
            yield partial(sweep, core)
    except (HoldfastError, OSError) as error:  # the save itself is durable
        log.warning("retention could not be applied: %s", error)


def _checkpoint(core: Core, entry: Entry, draft: Draft) -> Checkpoint:
    assert draft.encoding is not None, "checkpoints carry a state"
    return Checkpoint(entry, draft.encoding, core.journals.decode)
