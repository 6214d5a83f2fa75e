"""The arguments of a save, checked and encoded before anything is written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

from holdfast.checkpoint import CheckpointInfo
from holdfast.codec import readable
from holdfast.codec.meta import dump_meta
from holdfast.errors import StateTooLargeError
from holdfast.kernel.core import WARN_STATE_BYTES, Core
from holdfast.kernel.draft import KEEP, Draft
from holdfast.logs import about, logger
from holdfast.model import Entry, Kind, Status, check_id
from holdfast.seams import new_id

log = logger()

MAX_META: Final = 65_536  # characters of what a checkpoint carries beside its state
_CHECKPOINT: Final = Kind.CHECKPOINT.value
_RUN_STATUS: Final[Mapping[str, str]] = {
    "completed": Status.OPEN.value,
    "failed": Status.FAILED.value,
    "paused": Status.PAUSED.value,
}


def save(
    core: Core,
    run_id: str | None,
    state: object,
    *,
    step: str | None = None,
    step_index: int | None = None,
    step_name: str | None = None,
    next_steps: Sequence[str] = (),
    status: Literal["completed", "failed", "paused"] = "completed",
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
    run = given_or_new(core, run_id)
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
        raise TypeError(f"metadata must be a mapping, not {_type_name(metadata)}")
    if expect is not None:
        if not isinstance(expect, CheckpointInfo):
            raise TypeError(f"expect must be a checkpoint, not {_type_name(expect)}")
        if expect.run_id != run:
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
    fields = (
        _CHECKPOINT,
        _RUN_STATUS[status],
        encode(core, run, state, "state", owner),
        KEEP,
        step,
        None if step_index is None else _whole("step_index", step_index),
        None if type is None else check_id("type", type),
        None if duration is None else _seconds(duration),
        flow,
        thread_id,
        owner,
        bounded_meta(meta) if meta else "",
    )
    return run, Draft._make(fields), expect


def of_version(draft: Draft, schema_version: int) -> Draft:
    """The draft, with a state of this version."""
    meta = json.loads(draft.meta or "{}")
    return draft._replace(
        meta=dump_meta({**meta, "schema_version": _whole("schema_version", schema_version)})
    )


def given_or_new(core: Core, given: str | None) -> str:
    """The run id that was given, checked, or a new one."""
    if given is None:
        return new_id(core.journals.clock, core.journals.entropy)
    return check_id("run_id", given)


def encode(
    core: Core, run: str, state: object, root: str = "state", owner: str | None = None
) -> bytes:
    """The state as it is stored. Raises `SerializeError` and `StateTooLargeError`.

    `owner` is that of a run that is about to begin.
    """
    return bounded(core, run, core.withholding.encode(run, state, root, owner))


def bounded(core: Core, run: str, encoding: bytes) -> bytes:
    """The encoding. Raises `StateTooLargeError`, and warns once if it is large."""
    size = len(encoding)
    limit = core.settings.max_state_bytes
    if size <= WARN_STATE_BYTES and size <= limit:
        return encoding
    if size > limit:
        raise StateTooLargeError(run, size, limit)
    if run not in core.warned:
        core.warned.add(run)
        log.warning(
            "the state of run %s takes %.1f MB; keep large data in files, and their paths in the "
            "state",
            run,
            size / 1e6,
            extra=about(run),
        )
    return encoding


def bounded_meta(meta: Mapping[str, Any]) -> str:
    """An entry's metadata as it is stored. Raises `ValueError` if it is too large."""
    text = dump_meta(meta)
    if len(text) > MAX_META:
        raise ValueError(
            f"the metadata takes {len(text):,} characters, more than {MAX_META:,}; "
            "lists read it: keep large data in the state"
        )
    return text


def _type_name(value: object) -> str:
    return value.__class__.__name__


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {_type_name(value)}")
    return value


def _texts(what: str, values: object) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{what} must be a list of str, not {_type_name(values)}")
    return [_text(what, value) for value in values]


def _whole(what: str, value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {_type_name(value)}")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{what} must fit into 64 bits, not {value}")
    return int(value)


def _seconds(value: object) -> float:
    """A float that every store returns unchanged: SQLite makes 1.0 of 1, and NULL of NaN."""
    seconds = math.nan
    if isinstance(value, int | float):
        with suppress(OverflowError):
            seconds = float(value)
    if not math.isfinite(seconds):
        raise ValueError(f"duration must be a finite number of seconds, not {value!r:.50}")
    return seconds


def rollback_to(target: Entry | None, facts: Mapping[str, Any] | None = None) -> Draft:
    """The entry by which a run goes back to a checkpoint, or to its beginning.

    It names the checkpoint's digest: what was left behind no longer proves that.
    """
    meta = dict(facts or {})
    if target is None:
        return Draft(Kind.ROLLBACK.value, Status.OPEN.value, parent=None, meta=dump_meta(meta))
    meta["target"] = target.digest.hex()
    return Draft(
        Kind.ROLLBACK.value,
        Status.OPEN.value,
        parent=target.seq,
        step=target.step,
        type=target.type,
        meta=dump_meta(meta),
    )
