"""Reading: load, lists of checkpoints, totals and differences. Nothing here writes; everything blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any, Final

from holdfast.checkpoint import Checkpoint, CheckpointInfo, Stats, to_datetime
from holdfast.codec.meta import Meta, plain_step
from holdfast.errors import (
    CheckpointCorruptedError,
    CheckpointLoadError,
    CheckpointNotFoundError,
    KeyMissingError,
    StoreClosedError,
    StoreError,
    WrongKeyError,
)
from holdfast.kernel.core import Core
from holdfast.kernel.entries import is_live, state_seq
from holdfast.kernel.journal import Journals
from holdfast.kernel.pages import Found, pass_by
from holdfast.migrations import Migrations
from holdfast.model import (
    CARRY_STATE,
    Entry,
    Kind,
    Status,
    check_id,
    erases,
    split_checkpoint_id,
)
from holdfast.model import (
    checkpoint_id as name_checkpoint,
)
from holdfast.operations.diff import Diff, diff_values
from holdfast.operations.migrating import decoding
from holdfast.store import PAGE

_NEAR: Final = 64  # entries before a damaged end among which an intact one is looked for


def load(
    core: Core,
    run_id: str | None = None,
    *,
    checkpoint_id: str | None = None,
    seq: int | None = None,
    step: str | None = None,
    as_type: Any = None,
    migrate: Migrations | None = None,
) -> Checkpoint[Any] | None:
    """The run's current checkpoint, or the one named by id or seq, or the newest of a step.

    A run that records results, as workflows do, has a dict of them by step as its state. A step
    inside parallel branches is found by its name, too, and its state is what it returned: in a
    graph the state of its branch, in a pipeline its output. A checkpoint_id alone is enough. None
    if there is no such checkpoint. With `as_type=T`, a dataclass, a pydantic model, a TypedDict
    and so on, the state comes back as a `T` and the checkpoint is a `Checkpoint[T]`. With
    `migrate`, a state of an older version comes back as one of the version of these migrations;
    what is recorded stays as it is.

    Raises `CheckpointLoadError` when the store can't be read, `CheckpointCorruptedError` when what
    is there was altered, `ReviveError` when the state does not fit the type, `MigrationError` when
    it can't be migrated, and `UnknownCodecError` when it holds what a codec stored that is not
    registered here.
    """
    decode = core.journals.decode
    return _load(core, decode, run_id, checkpoint_id, seq, step, as_type, migrate)


def require(
    core: Core,
    run_id: str,
    seq: int | None,
    checkpoint_id: str | None,
    migrate: Migrations | None = None,
    *,
    as_data: bool = False,
) -> Checkpoint:
    """Like `load`, but what is not there raises `CheckpointNotFoundError`.

    The state is decoded when it is asked for: most have no use for it, and secrets in it need a
    provider. As data, it is copied as it is stored.
    """
    journals = core.journals
    if migrate is not None:
        return _require(core, journals.decode, run_id, seq, checkpoint_id, migrate)
    found = _found(core, run_id, checkpoint_id, seq, None)
    if found is None:
        raise _missing(core, run_id, seq, checkpoint_id)
    entry, encoding = found
    journals.decoded(entry.run, entry.seq, encoding, as_data=True)  # what is wrong shows here
    return Checkpoint(entry, encoding, journals.decode_data if as_data else journals.decode)


def _load(
    core: Core,
    decode: Callable[[bytes], Any],
    run_id: str | None,
    checkpoint_id: str | None,
    seq: int | None,
    step: str | None,
    as_type: Any = None,
    migrate: Migrations | None = None,
) -> Checkpoint[Any] | None:
    found = _found(core, run_id, checkpoint_id, seq, step)
    if found is None:
        return None
    entry, encoding = found
    checkpoint = Checkpoint(entry, encoding, decoding(core, entry, decode, as_type, migrate))
    _ = checkpoint.state  # decoded now, so that what is wrong with it shows here
    return checkpoint


def _found(
    core: Core, run_id: str | None, checkpoint_id: str | None, seq: int | None, step: str | None
) -> tuple[Entry, bytes] | None:
    if run_id is None:
        if checkpoint_id is None:
            raise ValueError("load needs a run_id or a checkpoint_id")
        run_id = split_checkpoint_id(checkpoint_id)[0]
    check_id("run_id", run_id)
    if (checkpoint_id, seq, step).count(None) < 2:
        raise ValueError("give at most one of checkpoint_id, seq and step")
    if checkpoint_id is not None:
        run, seq = split_checkpoint_id(checkpoint_id)
        if run != run_id:
            return None
    if not isinstance(seq, int | None):
        raise TypeError(f"seq must be an int, not {seq!r}")
    with outages_named(run_id):
        find = partial(_find, core.journals, run_id, seq, step)
        return core.journals.undisturbed(run_id, find)


def _missing(
    core: Core, run_id: str, seq: int | None, checkpoint_id: str | None
) -> CheckpointNotFoundError:
    wanted = checkpoint_id if seq is None else name_checkpoint(run_id, seq)
    return (
        missing_state(core, run_id) if wanted is None else CheckpointNotFoundError(run_id, wanted)
    )


def missing_state(core: Core, run_id: str) -> CheckpointNotFoundError:
    """The error for a run that is not there, or has no checkpoint yet. Blocks."""
    head = core.journals.head(run_id)
    is_there = head is not None and head.status != Status.DELETED
    return CheckpointNotFoundError(run_id, "yet" if is_there else None)


def _require(
    core: Core,
    decode: Callable[[bytes], Any],
    run_id: str,
    seq: int | None,
    checkpoint_id: str | None,
    migrate: Migrations | None = None,
) -> Checkpoint:
    checkpoint = _load(core, decode, run_id, checkpoint_id, seq, None, None, migrate)
    if checkpoint is None:
        raise _missing(core, run_id, seq, checkpoint_id)
    return checkpoint


def list_checkpoints(
    core: Core,
    run_id: str,
    *,
    limit: int | None = None,
    after: int | None = None,
    oldest_first: bool = False,
    step: str | None = None,
    type: str | None = None,  # noqa: A002 - the word users know
    status: str | None = None,
) -> list[CheckpointInfo]:
    """The run's checkpoints, newest first, without their states; an unknown run has none.

    All of them, or at most `limit`. Those that a rollback left behind are listed too: history is
    never rewritten. Damaged and missing entries are listed, too, whatever is asked for: their
    `damage` says what is wrong. Give the last `seq` of one page as `after` for the next: paging is stable
    while others save. `iter_checkpoints` does it for you.
    """
    check_limit(limit)
    found = checkpoints(core, run_id, after, oldest_first, step, type, status, most=limit)
    with outages_named(run_id):
        return list(islice(found, limit))


def checkpoints(
    core: Core,
    run_id: str,
    after: int | None = None,
    oldest_first: bool = False,
    step: str | None = None,
    type_: str | None = None,
    status: str | None = None,
    *,
    most: int | None = None,
) -> Iterator[CheckpointInfo]:
    """The run's checkpoints that match, read a page at a time; short pages for at `most` a few."""
    check_id("run_id", run_id)
    if status not in (None, "completed", "failed", "paused"):
        raise ValueError(f"status must be completed, failed or paused, not {status!r}")
    page = PAGE if most is None else min(max(most, 1), PAGE)
    entries = core.journals.scan(run_id, newest_first=not oldest_first, after=after, page=page)
    return (
        info
        for info in filter(None, map(partial(_info, core.journals), entries))
        if info.damage
        or (
            (step is None or is_after(info.entry, step))
            and type_ in (None, info.type)
            and status in (None, info.status)
        )
    )


def _info(journals: Journals, found: Found) -> CheckpointInfo | None:
    """What a list shows of an entry; None if it is not a checkpoint."""
    if isinstance(found, CheckpointCorruptedError):
        if found.seq is None:
            raise found
        return CheckpointInfo.damaged(found)
    if is_live(found):
        return CheckpointInfo(found)
    if found.status == Status.DELETED and found.kind != Kind.TOMBSTONE:
        try:
            journals.check_stub(found)
        except CheckpointCorruptedError as error:
            error.entry = found
            return CheckpointInfo.damaged(error)
    return None


def stats(core: Core, run_id: str | None = None) -> Stats:
    """Checkpoints and bytes of one run, or of everything in the store."""
    if run_id is not None:
        check_id("run_id", run_id)
    with outages_named(run_id):
        totals = core.journals.store.stats(run_id)
    oldest, newest = (None if at is None else to_datetime(at) for at in totals[3:])
    return Stats(*totals[:3], oldest, newest)


def diff(core: Core, run_id: str, a: int | str, b: int | str) -> Diff:
    """How the state at `b` differs from the one at `a`, each a seq of the run or a checkpoint_id.

    A checkpoint_id may name another run, a fork for example. Raises `CheckpointNotFoundError`.
    """
    old, new = (_named(core, run_id, where) for where in (a, b))
    return diff_values(old.state, new.state, old.checkpoint_id, new.checkpoint_id)


def newest_readable(journals: Journals, run_id: str) -> Entry | None:
    """The run's newest entry that can be read, without its body and unchecked."""
    for entry in journals.entries(run_id, newest_first=True, page=1, damage=pass_by):
        if entry.status != Status.DELETED or erases(entry):
            return entry
        with suppress(CheckpointCorruptedError):  # what stands in for a lost one is passed by
            journals.check_stub(entry)
            return entry
    return None


def newest_proved(journals: Journals, run_id: str) -> Entry | None:
    """The run's newest entry that is proved; if none of the last ones is, the newest readable."""
    newest = journals.entries(run_id, newest_first=True, damage=pass_by)
    for entry in islice(newest, _NEAR):
        with suppress(CheckpointCorruptedError, KeyMissingError, WrongKeyError):
            if entry.status != Status.DELETED:
                return journals.proved_at(run_id, entry.seq)
    return newest_readable(journals, run_id)


def is_after(entry: Entry, step: str) -> bool:
    """Whether a checkpoint was saved after this step, given by its name or its path."""
    return entry.step == step or plain_step(entry) == step


def check_limit(limit: object) -> None:
    """Raise `ValueError` unless this can be the length of a list, or None for all of it."""
    if limit is not None:
        check_count("limit", limit)


def check_count(name: str, given: object) -> None:
    """Raise `ValueError` unless this is a number of things."""
    if not isinstance(given, int) or given < 0:
        raise ValueError(f"{name} must be an int of 0 or more, not {given!r}")


def _named(core: Core, run_id: str, where: int | str) -> Checkpoint:
    decode = core.journals.decode_data  # what codecs stored is compared as data
    if isinstance(where, int):
        return _require(core, decode, run_id, where, None)
    if not isinstance(where, str):
        raise TypeError(f"give a seq or a checkpoint_id, not {type(where).__name__}")
    return _require(core, decode, split_checkpoint_id(where)[0], None, where)


def _find(
    journals: Journals, run: str, seq: int | None, step: str | None
) -> tuple[Entry, bytes] | None:
    """The checkpoint's entry and its encoded state."""
    if seq is not None:
        if journals.remembered is not None:
            journals.remembered.recall(journals, run)
        entry = journals.entry(run, seq)
    elif step is not None:
        entry = next((e for e in journals.branch(run) if is_after(e, step)), None)
    else:
        head = journals.checked_head(run)
        return None if head is None else _current(journals, head)
    if entry is None or entry.kind not in CARRY_STATE:
        return None
    if is_folded(entry):
        return entry, _folded(journals, _results(journals, entry)[1])
    return entry, journals.chain(run, entry.seq, entry).encoding


def _current(journals: Journals, head: Entry) -> tuple[Entry, bytes] | None:
    """The checkpoint that is current at this head: from memory if the head is the one we know."""
    wanted = state_seq(head)
    if wanted is None:
        return None
    entry = head if wanted == head.seq else journals.entry(head.run, wanted)
    if entry is None:
        raise CheckpointCorruptedError(head.run, wanted, "the run's current state is gone")
    if entry.kind == Kind.CHECKPOINT:
        return entry, journals.current_state(head)
    state, results = _results(journals, entry)
    if state is None:
        return entry, _folded(journals, results)
    return state, journals.chain(head.run, state.seq, state).encoding


def _folded(journals: Journals, results: Mapping[str | None, Entry]) -> bytes:
    return journals.encode(
        {name: journals.value(e.run, e.seq, e, as_data=True) for name, e in results.items()}
    )


def is_folded(entry: Entry) -> bool:
    """Whether the state at this entry is a dict of the results so far, not what it holds itself."""
    return entry.kind == Kind.RESULT and not Meta(entry).in_branch


def results_until(journals: Journals, entry: Entry) -> dict[str | None, bytes]:
    """The state of a run that records results: the encoded value of each step so far, by step."""
    found = _results(journals, entry)[1]
    return {name: journals.chain(e.run, e.seq, e).encoding for name, e in found.items()}


def _results(journals: Journals, entry: Entry) -> tuple[Entry | None, dict[str | None, Entry]]:
    """The state that results up to this entry build on, if they do; and the newest of each step."""
    results: dict[str | None, Entry] = {}
    for found in journals.branch_of(entry):
        if found.kind == Kind.CHECKPOINT:
            return found, dict(reversed(results.items()))
        results.setdefault(found.step, found)
    return None, dict(reversed(results.items()))


@contextmanager
def outages_named(run_id: str | None = None) -> Iterator[None]:
    """Raise `CheckpointLoadError` for an outage: it must never look like "nothing there"."""
    try:
        yield
    except StoreClosedError:
        raise
    except StoreError as error:
        raise CheckpointLoadError(run_id or "", str(error)) from error
