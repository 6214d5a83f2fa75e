"""Saving: every way a run grows by hand. Each operation is written once, for both colours."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Concatenate, Final, Literal, ParamSpec

from holdfast.checkpoint import Checkpoint, CheckpointInfo, dump_meta
from holdfast.codec import readable
from holdfast.core import WARN_STATE_BYTES, Core, Op, Pending, unsettled
from holdfast.deleting import sweep, thin
from holdfast.errors import (
    CheckpointSaveError,
    ConflictError,
    HoldfastError,
    RunExistsError,
    RunMismatchError,
    StateTooLargeError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.journal import SMALL_STATE, Draft, Tip
from holdfast.model import (
    Entry,
    Kind,
    Status,
    check_id,
    thread_journal,
)
from holdfast.reading import require
from holdfast.seams import new_id

P = ParamSpec("P")

log = logging.getLogger("holdfast")

MAX_BACKLOG: Final = 1000  # saves that durability="async" lets run ahead of the disk
_THIN_EVERY: Final = 64  # saves to one run between two bites of retention
_SWEEP_EVERY: Final = 1024
_PAUSE: Final = 0.02

SaveStatus = Literal["completed", "failed", "paused"]
_RUN_STATUS: Final[Mapping[str, str]] = {
    "completed": Status.OPEN.value,
    "failed": Status.FAILED.value,
    "paused": Status.PAUSED.value,
}


class _Same:
    """Stands for "as it was", where None is a state like any other."""

    def __repr__(self) -> str:
        return "the same state"


SAME: Final = _Same()


def compose(
    core: Core,
    run_id: str | None,
    state: object,
    *,
    step: str | None = None,
    step_index: int | None = None,
    step_name: str | None = None,
    next_steps: Sequence[str] = (),
    status: SaveStatus = "completed",
    type: str | None = None,  # noqa: A002 - the word users know
    duration: float | None = None,
    iteration: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    flow: str | None = None,
    flow_version: str | None = None,
    schema_version: int | None = None,
    thread_id: str | None = None,
    owner: str | None = None,
    expect: CheckpointInfo | None = None,
) -> tuple[str, Draft, CheckpointInfo | None]:
    """Save a state as the run's next checkpoint; a run id of None makes a new run.

    Returns when it is durable (see `durability` for the other ways). `flow`, `thread_id` and
    `owner` belong to the run: they are given when it begins and hold for all of it. With
    `expect`, the save is refused with `ConflictError` unless that checkpoint is the current one.

    Raises `SerializeError` with the path to a value that can't be stored, `StateTooLargeError`,
    `InvalidIdError`, `RunMismatchError`, and `CheckpointSaveError` when the store did not take
    it before the deadline.
    """
    run = _run_id(core, run_id)
    if step is not None:
        check_id("step", step)
    if flow is not None:
        check_id("flow", flow)
    if thread_id is not None:
        check_id("thread_id", thread_id)
    if owner is not None:
        check_id("owner", owner)
    if status not in _RUN_STATUS:
        raise ValueError(f"status must be one of {', '.join(_RUN_STATUS)}, not {status!r}")
    meta: dict[str, Any] = {}
    if step_name is not None:
        meta["step_name"] = step_name
    if next_steps:
        meta["next_steps"] = list(next_steps)
    if iteration is not None:
        meta["iteration"] = iteration
    if flow_version is not None:
        meta["flow_version"] = flow_version
    if schema_version is not None:
        meta["schema_version"] = schema_version
    if metadata:
        meta["metadata"] = readable.to_json(dict(metadata))
    draft = Draft(
        Kind.CHECKPOINT.value,
        _RUN_STATUS[status],
        _encode(core, run, state),
        step=step,
        step_index=step_index,
        type=None if type is None else str(type),
        duration=duration,
        flow=flow,
        thread=thread_id,
        owner=owner,
        meta=dump_meta(meta),
    )
    return run, draft, expect


Composer = Callable[Concatenate[Core, P], tuple[str, Draft, CheckpointInfo | None]]


def _saving(composed: Composer[P]) -> Callable[Concatenate[Core, P], Op[Checkpoint]]:
    """`save`, with the signature and the contract of what it saves."""

    @functools.wraps(composed)
    def save(core: Core, /, *args: P.args, **kwargs: P.kwargs) -> Op[Checkpoint]:
        run, draft, expect = composed(core, *args, **kwargs)
        try:
            if core.settings.durability == "sync" or expect is not None:
                entry = yield from _append(core, run, draft, expect=expect)
                core.degraded = None
            else:
                entry = yield from _let_go(core, run, draft)
        except CheckpointSaveError as error:
            if core.settings.on_save_failure == "raise":
                raise
            core.degraded = error
            log.warning("run %s goes on without its checkpoint: %s", run, error)
            entry = _unsaved(core, run, draft)
        else:
            yield from _retain(core, entry)
        return _checkpoint(core, entry, draft)

    return save


save = _saving(compose)


def save_many(core: Core, saves: Iterable[Mapping[str, Any]]) -> Op[list[Checkpoint]]:
    """Save several states, to one run or to many, in as few commits as possible.

    Each item holds the arguments of one `save`, by name. Each becomes a checkpoint of its own,
    in the order given: after a crash those that were committed are there, whole. All are encoded
    before the first is written, so a value that can't be stored fails all of them.
    """
    submitted = []
    for run, draft, expect in [compose(core, **item) for item in saves]:
        submitted.append((yield from _submit(core, run, draft, _deadline(core), expect=expect)))
    checkpoints = []
    for pending in submitted:
        entry = yield from _finish(core, pending)
        checkpoints.append(_checkpoint(core, entry, pending.draft))
    return checkpoints


def flush(core: Core) -> Op[None]:
    """Return when everything saved so far is durable. Raises the first error of those that are not."""
    yield from _settle(core, wait=True)
    while core.held_back:
        run, draft = core.held_back.popitem()
        try:
            yield from _append(core, run, draft)
        except BaseException:
            core.held_back.setdefault(run, draft)
            raise
    unsettled.discard(core)


def fork(
    core: Core,
    origin: str,
    /,
    *,
    seq: int | None = None,
    checkpoint_id: str | None = None,
    run_id: str | None = None,
    state: object = SAME,
    thread_id: str | None = None,
    owner: str | None = None,
) -> Op[Checkpoint]:
    """Begin a new run from a checkpoint of another, with its state or an edited one.

    From the current checkpoint unless `seq` or `checkpoint_id` names another. The origin is not
    touched; the new run keeps its flow, thread and owner unless others are given. Raises
    `CheckpointNotFoundError`, and `RunExistsError` if `run_id` is taken.
    """
    source: Checkpoint = yield partial(require, core, origin, seq, checkpoint_id)
    run = _run_id(core, run_id)
    entry = source.entry
    draft = Draft(
        Kind.CHECKPOINT.value,
        Status.OPEN.value,
        _encode(core, run, source.state if state is SAME else state),
        step=entry.step,
        step_index=entry.step_index,
        type=entry.type,
        duration=entry.duration,
        flow=entry.flow,
        thread=thread_id or entry.thread,
        owner=owner or entry.owner,
        meta=entry.meta,
    )
    saved = yield from _append(core, run, draft, origin=source.checkpoint_id)
    return _checkpoint(core, saved, draft)


def rollback(
    core: Core, run_id: str, *, seq: int | None = None, checkpoint_id: str | None = None
) -> Op[Checkpoint]:
    """Make an earlier checkpoint the current one, and return it.

    What came after it stays in the history and can be gone back to. Raises
    `CheckpointNotFoundError`.
    """
    if seq is None and checkpoint_id is None:
        raise ValueError("rollback needs seq= or checkpoint_id=: where should the run go back to?")
    target: Checkpoint = yield partial(require, core, run_id, seq, checkpoint_id)
    draft = Draft(Kind.ROLLBACK.value, Status.OPEN.value, parent=target.seq, step=target.step)
    while True:
        pending = yield from _submit(core, run_id, draft, _deadline(core))
        if not pending.ticket.done:
            yield pending.ticket
        if pending.ticket.error is None:
            return target
        if not isinstance(pending.ticket.error, ConflictError):
            raise _as_save_error(run_id, pending.ticket.error)
        target = yield partial(require, core, run_id, seq, checkpoint_id)  # it may be gone by now


# --- how a draft gets into the journal


def _append(
    core: Core,
    run: str,
    draft: Draft,
    *,
    expect: CheckpointInfo | None = None,
    origin: str | None = None,
) -> Op[Entry]:
    """Append the draft as the run's next entry, however often others are faster."""
    deadline = _deadline(core)
    while True:
        pending = None if expect or origin else _submit_at_once(core, run, draft, deadline)
        if pending is None:
            pending = yield from _submit(core, run, draft, deadline, expect=expect, origin=origin)
        ticket = pending.ticket
        if not ticket.done:
            yield ticket
        if ticket.error is None:
            return pending.entry
        if not isinstance(ticket.error, ConflictError):
            raise _as_save_error(run, ticket.error)
        if core.journals.clock.monotonic() > deadline:
            raise CheckpointSaveError(run, "others kept saving to it until the deadline")


def _submit_at_once(core: Core, run: str, draft: Draft, deadline: float) -> Pending | None:
    """What `_submit` comes to when the run's head is known, which is nearly always."""
    journals = core.journals
    tip = journals.tip(run)
    if (
        tip is None
        or not tip.exists
        or tip.lacks_state
        or (draft.flow is not None and draft.flow != tip.flow)
        or (draft.thread is not None and draft.thread != tip.thread)
        or (draft.owner is not None and draft.owner != tip.owner)
        or journals.writer.full
    ):
        return None
    placed = journals.extend(tip, [draft], deadline)
    return None if placed is None else Pending(placed[0], run, draft, placed[1][-1])


def _submit(
    core: Core,
    run: str,
    draft: Draft,
    deadline: float,
    *,
    expect: CheckpointInfo | None = None,
    origin: str | None = None,
) -> Op[Pending]:
    """Queue the draft behind the run's head as far as it is known, without waiting for the disk."""
    journals = core.journals
    while True:
        tip = yield from _tip(core, run, draft, deadline)
        if expect is not None and tip.state_seq != expect.seq:
            raise ConflictError(run, tip.seq)
        if origin is not None and tip.exists:
            raise RunExistsError(run)
        drafts = yield from _opened(core, run, tip, draft, origin, deadline)
        if journals.writer.full:
            yield journals.writer.wait_for_room
        placed = journals.extend(tip, drafts, deadline)
        if placed is not None:
            ticket, entries = placed
            return Pending(ticket, run, draft, entries[-1])


def _finish(core: Core, pending: Pending) -> Op[Entry]:
    """The entry as it stands in the store, saved again behind the new head if it lost its place."""
    ticket = pending.ticket
    if not ticket.done:
        yield ticket
    if ticket.error is None:
        return pending.entry
    if isinstance(ticket.error, ConflictError):
        return (yield from _append(core, pending.run, pending.draft))
    raise _as_save_error(pending.run, ticket.error)


def _tip(core: Core, run: str, draft: Draft, deadline: float) -> Op[Tip]:
    """What is known of the run's head, asked of the store if need be, until the deadline."""
    journals = core.journals
    with_state = draft.encoding is not None and len(draft.encoding) > SMALL_STATE
    tip = journals.tip(run)
    while tip is None or (with_state and tip.lacks_state):
        try:
            tip = yield partial(journals.fetch_tip, run, with_state=with_state)
        except StoreError as error:
            if (
                not isinstance(error, StoreUnavailableError)
                or journals.clock.monotonic() > deadline
            ):
                raise _as_save_error(run, error) from error
            yield partial(time.sleep, _PAUSE)
    return tip


def _opened(
    core: Core, run: str, tip: Tip, draft: Draft, origin: str | None, deadline: float
) -> Op[list[Draft]]:
    """The draft, behind an opening entry if the run is new. A thread hears of the run first."""
    if tip.exists:
        for field in ("flow", "thread", "owner"):
            given, known = getattr(draft, field), getattr(tip, field)
            if given is not None and given != known:
                raise RunMismatchError(run, field, known, given)
        return [draft]
    if draft.thread is not None:
        member = Draft(Kind.MEMBER.value, Status.OPEN.value, meta=dump_meta({"run": run}))
        yield from _append_member(core, thread_journal(draft.thread), member)
    opening = Draft(
        Kind.OPEN.value,
        draft.status,
        parent=None,
        flow=draft.flow,
        thread=draft.thread,
        owner=draft.owner,
        meta=dump_meta({"origin": origin}) if origin else "",
    )
    return [opening, draft]


def _append_member(core: Core, name: str, member: Draft) -> Op[None]:
    while True:
        deadline = _deadline(core)
        tip = yield from _tip(core, name, member, deadline)
        placed = core.journals.extend(tip, [member], deadline)
        if placed is None:
            continue
        ticket, _ = placed
        if not ticket.done:
            yield ticket
        if ticket.error is None:
            return
        if not isinstance(ticket.error, ConflictError):
            raise _as_save_error(name, ticket.error)


# --- durability="async" and "exit"


def _let_go(core: Core, run: str, draft: Draft) -> Op[Entry]:
    """Hand the save over without waiting for the disk. Beginning a run always waits."""
    yield from _settle(core, wait=len(core.backlog) >= MAX_BACKLOG)
    deadline = _deadline(core)
    tip = yield from _tip(core, run, draft, deadline)
    if not tip.exists:
        return (yield from _append(core, run, draft))
    if core.settings.durability == "exit":
        yield from _opened(core, run, tip, draft, None, deadline)
        core.held_back[run] = draft
        unsettled.add(core)
        return _unsaved(core, run, draft)._replace(seq=tip.seq + 1, parent=tip.state_seq)
    pending = yield from _submit(core, run, draft, deadline)
    core.backlog.append(pending)
    unsettled.add(core)
    core.journals.writer.kick()
    return pending.entry


def _settle(core: Core, *, wait: bool) -> Op[None]:
    """Take note of saves that were let go. One that lost its place is saved again, in order."""
    while core.backlog and (wait or core.backlog[0].ticket.done):
        pending = core.backlog.popleft()
        if pending.ticket.error is not None:
            wait = True  # the ones behind it lost with it: none may overtake another
        yield from _finish(core, pending)


# --- details


def _encode(core: Core, run: str, state: object) -> bytes:
    encoding = core.journals.encode(state)
    limit = core.settings.max_state_bytes
    if len(encoding) > WARN_STATE_BYTES:
        if len(encoding) > limit:
            raise StateTooLargeError(run, len(encoding), limit)
        if run not in core.warned:
            core.warned.add(run)
            log.warning(
                "the state of run %s takes %.1f MB; keep large data in files and their paths in the state",
                run, len(encoding) / 1e6,
            )  # fmt: skip
    return encoding


def _retain(core: Core, entry: Entry) -> Op[None]:
    """Now and then, a bite of retention, paid for by the save that comes by."""
    policy = core.settings.retention
    if policy is None:
        return
    if policy.thins_runs and entry.seq % _THIN_EVERY == _THIN_EVERY - 1:
        yield partial(thin, core, entry.run)
    core.saves_since_sweep += 1
    if core.saves_since_sweep >= _SWEEP_EVERY:
        core.saves_since_sweep = 0
        yield partial(sweep, core)


def _run_id(core: Core, given: str | None) -> str:
    if given is None:
        return new_id(core.journals.clock, core.journals.entropy)
    return check_id("run_id", given)


def _deadline(core: Core) -> float:
    return core.journals.clock.monotonic() + core.settings.deadline


def _checkpoint(core: Core, entry: Entry, draft: Draft) -> Checkpoint:
    assert draft.encoding is not None, "checkpoints carry a state"
    return Checkpoint(entry, draft.encoding, core.journals.decode)


def _unsaved(core: Core, run: str, draft: Draft) -> Entry:
    return Entry(
        run, -1, draft.kind, b"", None, b"", draft.step, draft.step_index, draft.type, draft.status,
        core.journals.clock.now(), draft.duration, len(draft.encoding or b""), draft.flow,
        draft.thread, draft.owner, draft.meta, b"",
    )  # fmt: skip


def _as_save_error(run: str, error: HoldfastError) -> HoldfastError:
    if isinstance(error, StoreError) and not isinstance(error, StoreClosedError):
        wrapped = CheckpointSaveError(run, str(error))
        wrapped.__cause__ = error
        return wrapped
    return error
