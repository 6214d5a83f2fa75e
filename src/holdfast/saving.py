"""Saving: every way a run grows by hand. Each operation is written once, for both colours."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Concatenate, Final, Literal, ParamSpec

from holdfast.appending import (
    append,
    as_save_error,
    finish,
    known_tip,
    new_deadline,
    submit,
    submit_at_once,
    why_not,
)
from holdfast.checkpoint import Checkpoint, CheckpointInfo, dump_meta
from holdfast.codec import readable
from holdfast.core import WARN_STATE_BYTES, Core, Op, Pending, unsettled
from holdfast.errors import (
    CheckpointSaveError,
    ConflictError,
    HoldfastError,
    StateTooLargeError,
)
from holdfast.journal import KEEP, Draft
from holdfast.model import (
    Entry,
    Kind,
    Status,
    check_id,
)
from holdfast.reading import require
from holdfast.seams import new_id
from holdfast.sweeping import sweep, thin
from holdfast.writer import Line, Ticket

P = ParamSpec("P")

log = logging.getLogger("holdfast")

MAX_META: Final = 65_536  # characters of what a checkpoint carries beside its state
MAX_BACKLOG: Final = 1000  # saves that durability="async" lets run ahead of the disk
_THIN_EVERY: Final = 64  # saves to one run between two bites of retention
_SWEEP_EVERY: Final = 1024

SaveStatus = Literal["completed", "failed", "paused"]
_CHECKPOINT: Final = Kind.CHECKPOINT.value
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


Composer = Callable[Concatenate[Core, P], tuple[str, Draft, CheckpointInfo | None]]


def _saving(composed: Composer[P]) -> Callable[Concatenate[Core, P], Op[Checkpoint]]:
    """`save`, with the signature and the contract of what it saves."""

    @functools.wraps(composed)
    def save(core: Core, /, *args: P.args, **kwargs: P.kwargs) -> Op[Checkpoint]:
        run, draft, expect = composed(core, *args, **kwargs)
        try:
            if core.settings.durability == "sync" or expect is not None:
                if core.unsettled:
                    yield from flush(core)
                entry = yield from append(core, run, draft, expect=expect)
                core.degraded = None
            else:
                entry = yield from _let_go(core, run, draft)
        except CheckpointSaveError as error:
            _tolerate(core, error)
            entry = _unsaved(core, run, draft)
        else:
            if core.settings.retention is not None:
                yield from _retain(core, entry)
        return _checkpoint(core, entry, draft)

    return save


@_saving
def save(
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
    if metadata is not None and not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping, not {type_name(metadata)}")
    if expect is not None and not isinstance(expect, CheckpointInfo):
        raise TypeError(f"expect must be a checkpoint, not {type_name(expect)}")
    if expect is not None and expect.run_id != run:
        raise ValueError(f"expect= is {expect.checkpoint_id}, a checkpoint of another run")
    meta: dict[str, Any] = {}
    if step_name is not None:
        meta["step_name"] = _text("step_name", step_name)
    if next_steps:
        meta["next_steps"] = _texts("next_steps", next_steps)
    if iteration is not None:
        meta["iteration"] = _whole("iteration", iteration)
    if flow_version is not None:
        meta["flow_version"] = _text("flow_version", flow_version)
    if schema_version is not None:
        meta["schema_version"] = _whole("schema_version", schema_version)
    if metadata:
        meta["metadata"] = readable.to_json(dict(metadata), root="metadata")
    draft = Draft(
        _CHECKPOINT,
        _RUN_STATUS[status],
        _encode(core, run, state),
        KEEP,
        step,
        None if step_index is None else _whole("step_index", step_index),
        None if type is None else check_id("type", type),
        None if duration is None else _seconds(duration),
        flow,
        thread_id,
        owner,
        _meta(meta) if meta else "",
    )
    return run, draft, expect


_compose: Final[Callable[..., tuple[str, Draft, CheckpointInfo | None]]] = save.__wrapped__  # type: ignore[attr-defined]


def save_many(core: Core, saves: Iterable[Mapping[str, Any]]) -> Op[list[Checkpoint]]:
    """Save several states, to one run or to many, in as few commits as possible.

    Each item holds the arguments of one `save`, by name. Each becomes a checkpoint of its own,
    in the order given: after a crash those that were committed are there, whole. All are encoded
    before the first is written, so a value that can't be stored fails all of them; an error found
    later leaves those before it saved.
    """
    composed = [_compose(core, **item) for item in saves]
    yield from flush(core)
    submitted = []
    failure: HoldfastError | None = None
    for run, draft, expect in composed:
        try:
            pending = yield from submit(core, run, draft, new_deadline(core), expect=expect)
        except HoldfastError as error:
            failure = error
            break
        submitted.append(pending)
    checkpoints = []
    for pending in submitted:
        try:
            entry = yield from finish(core, pending)
        except CheckpointSaveError as error:
            _tolerate(core, error)
            entry = _unsaved(core, pending.run, pending.draft)
        else:
            if core.settings.retention is not None:
                yield from _retain(core, entry)
        checkpoints.append(_checkpoint(core, entry, pending.draft))
    if failure is not None:
        raise failure
    return checkpoints


def flush(core: Core) -> Op[None]:
    """Return when everything saved so far is durable. Raises the first error of those that are not."""
    with core.lock:
        while core.held_back:
            run, draft = core.held_back.popitem()
            # As one that lost its place: it is to be submitted, once, by whoever comes to it.
            waiting = Ticket((), Line(), math.inf)
            waiting.resolve(ConflictError(run, -1))
            core.backlog.append(Pending(waiting, run, draft, _unsaved(core, run, draft)))
    yield from _settle(core, wait=True)
    if not core.unsettled:
        unsettled.discard(core)


def complete(core: Core, run_id: str) -> Op[None]:
    """Mark a run as completed, so that lists tell it from those that are not. Its state stays.

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
    state: object = SAME,
    thread_id: str | _Same | None = SAME,
    owner: str | _Same | None = SAME,
) -> Op[Checkpoint]:
    """Begin a new run from a checkpoint of another, with its state or an edited one.

    From the current checkpoint unless `seq` or `checkpoint_id` names another. The origin is not
    touched; the new run keeps its flow, and its thread and owner unless others, or None, are
    given. Raises `CheckpointNotFoundError`, and `RunExistsError` if `run_id` is taken.
    """
    yield from flush(core)
    source: Checkpoint = yield partial(require, core, origin, seq, checkpoint_id)
    run = _run_id(core, run_id)
    entry = source.entry
    thread = entry.thread if isinstance(thread_id, _Same) else thread_id
    whose = entry.owner if isinstance(owner, _Same) else owner
    for what, given in (("thread_id", thread), ("owner", whose)):
        if given is not None:
            check_id(what, given)
    draft = Draft(
        Kind.CHECKPOINT.value,
        Status.OPEN.value,
        _encode(core, run, source.state if state is SAME else state),
        step=entry.step,
        step_index=entry.step_index,
        type=entry.type,
        duration=entry.duration,
        flow=entry.flow,
        thread=thread,
        owner=whose,
        meta=dump_meta(source.meta | {"origin": source.checkpoint_id}),
    )
    saved = yield from append(core, run, draft, origin=source.checkpoint_id)
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
    yield from flush(core)
    target: Checkpoint = yield partial(require, core, run_id, seq, checkpoint_id)
    draft = Draft(
        Kind.ROLLBACK.value,
        Status.OPEN.value,
        parent=target.seq,
        step=target.step,
        type=target.type,
    )
    yield from append(core, run_id, draft, target=target.seq)
    return target


# --- durability="async" and "exit"


def _let_go(core: Core, run: str, draft: Draft) -> Op[Entry]:
    """Hand the save over without waiting for the disk. Beginning a run always waits."""
    yield from _settle(core, wait=len(core.backlog) >= MAX_BACKLOG)
    deadline = new_deadline(core)
    if core.settings.durability == "exit":
        tip = yield from known_tip(core, run, draft, deadline)
        if not tip.exists:
            return (yield from append(core, run, draft))
        refusal = why_not(run, tip, draft)
        if refusal is not None:
            raise refusal
        with core.lock:
            core.held_back[run] = draft
            unsettled.add(core)
        return _unsaved(core, run, draft)._replace(seq=tip.seq + 1, parent=tip.state_seq)
    pending = submit_at_once(core, run, draft, deadline)
    if pending is None:
        # The run is new to us, or lost its head: what was let go before must come first.
        yield from _settle(core, wait=True)
        return (yield from append(core, run, draft))
    core.backlog.append(pending)
    unsettled.add(core)
    core.journals.writer.kick()
    return pending.entry


def _settle(core: Core, *, wait: bool) -> Op[None]:
    """Take note of saves that were let go. One that lost its place is saved again, in order."""
    while core.backlog and (wait or core.backlog[0].ticket.done):
        pending = core.backlog[0]
        if not pending.ticket.done:
            yield pending.ticket
        elif isinstance(pending.ticket.error, ConflictError):
            wait = True  # the ones behind it lost with it: none may overtake another
            try:
                yield from _submit_again(core, pending)
            except CheckpointSaveError as error:
                if core.settings.on_save_failure == "warn":
                    core.take_from_backlog(pending)
                _tolerate(core, error)
        elif core.take_from_backlog(pending):
            if pending.ticket.error is None:
                core.degraded = None
            else:
                _tolerate(core, as_save_error(pending.run, pending.ticket.error))


def _submit_again(core: Core, lost: Pending) -> Op[None]:
    """Queue what lost its place anew, in its place of the backlog.

    Meanwhile a stand-in is there for others who settle the backlog to wait for. Whatever
    happens, cancellation included, something to go on with takes its place.
    """
    stand_in = lost._replace(ticket=Ticket((), Line(), math.inf))
    if not core.take_from_backlog(lost, put=stand_in):
        return
    next_try = lost
    try:
        next_try = yield from submit(core, lost.run, lost.draft, new_deadline(core))
    finally:
        core.take_from_backlog(stand_in, put=next_try)
        core.journals.writer.resolve(stand_in.ticket)
        core.journals.writer.kick()


# --- details


def _encode(core: Core, run: str, state: object) -> bytes:
    encoding = core.journals.encode(state)
    size = len(encoding)
    if size > core.settings.max_state_bytes:
        raise StateTooLargeError(run, size, core.settings.max_state_bytes)
    if size > WARN_STATE_BYTES and run not in core.warned:
        core.warned.add(run)
        log.warning(
            "the state of run %s takes %.1f MB; keep large data in files and their paths in the state",
            run, size / 1e6,
        )  # fmt: skip
    return encoding


def _meta(meta: dict[str, Any]) -> str:
    text = dump_meta(meta)
    if len(text) > MAX_META:
        raise ValueError(
            f"the metadata takes {len(text):,} characters, more than {MAX_META:,}; "
            "lists read it: keep large data in the state"
        )
    return text


def type_name(value: object) -> str:
    """How a value's type is called in an error."""
    return value.__class__.__name__


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type_name(value)}")
    return value


def _texts(what: str, values: object) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{what} must be a list of str, not {type_name(values)}")
    return [_text(what, value) for value in values]


def _whole(what: str, value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type_name(value)}")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{what} must fit into 64 bits, not {value}")
    return int(value)


def _seconds(value: object) -> float:
    """A number that every store gives back as it was: SQLite would turn 1 into 1.0, and NaN into NULL."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"duration must be a finite number of seconds, not {value!r}")
    return float(value)


def _tolerate(core: Core, error: HoldfastError) -> None:
    """Raise a failed save, or note it where the user wants the work to go on."""
    if core.settings.on_save_failure == "raise" or not isinstance(error, CheckpointSaveError):
        raise error
    core.degraded = error
    log.warning("run %s goes on without its checkpoint: %s", error.run_id, error)


def _retain(core: Core, entry: Entry) -> Op[None]:
    """Now and then, a bite of retention, paid for by the save that comes by."""
    policy = core.settings.retention
    assert policy is not None
    try:
        if policy.thins_runs and entry.seq % _THIN_EVERY == _THIN_EVERY - 1:
            yield partial(thin, core, entry.run)
        core.saves_since_sweep += 1
        if core.saves_since_sweep >= _SWEEP_EVERY:
            core.saves_since_sweep = 0
            yield partial(sweep, core)
    except (HoldfastError, OSError) as error:  # the save itself is durable
        log.warning("retention could not be applied: %s", error)


def _run_id(core: Core, given: str | None) -> str:
    if given is None:
        return new_id(core.journals.clock, core.journals.entropy)
    return check_id("run_id", given)


def _checkpoint(core: Core, entry: Entry, draft: Draft) -> Checkpoint:
    assert draft.encoding is not None, "checkpoints carry a state"
    return Checkpoint(entry, draft.encoding, core.journals.decode)


def _unsaved(core: Core, run: str, draft: Draft) -> Entry:
    return Entry(
        run, -1, draft.kind, b"", None, b"", draft.step, draft.step_index, draft.type, draft.status,
        core.journals.clock.now(), draft.duration, len(draft.encoding or b""), draft.flow,
        draft.thread, draft.owner, draft.meta, b"",
    )  # fmt: skip
