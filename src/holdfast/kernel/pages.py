"""Reading a journal page by page: what is damaged or missing is reported at its place. Blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from holdfast.errors import CheckpointCorruptedError
from holdfast.model import Entry, erases
from holdfast.store import PAGE, Store

_PAGE_BYTES: Final = 16 << 20  # of bodies to read at once, about
_GROWTH: Final = 4  # of a page over the one before it
_LONGEST_GAP: Final = 1000  # missing entries that are reported one by one

Found = Entry | CheckpointCorruptedError
"""An entry, or why there is none to use at its seq."""

Damage = Callable[[CheckpointCorruptedError], object]
"""Called for an entry that can't be used, where nothing depends on it."""


def entries_of(
    store: Store, run: str, newest_first: bool, after: int | None, page: int, *, bodies: bool
) -> Iterator[Found]:
    """The entries of a run as they are stored, and an error for each that is missing."""
    last = after
    for found in _stored(store, run, newest_first, after, page, bodies=bodies):
        seq = found.seq
        if seq is None:
            yield found
            continue
        erased = False
        if isinstance(found, Entry) and erases(found):
            erased = not _is_any_before(store, run, seq)
            found = found if erased else _no_tombstone(found)
        if newest_first:
            yield from _gap_above(store, run, last, after, seq)
        elif not erased and seq != (due := 0 if last is None or last < 0 else last + 1):
            yield from _missing(run, range(due, seq))
        yield found
        last = seq
        if newest_first and erased:
            return
    if not newest_first or not last:
        return
    if last != after:
        if _is_any_before(store, run, last + 1):
            yield from _missing(run, range(last - 1, -1, -1))
    elif (head := head_seq(store, run)) is not None and not _is_erased(store, run):
        yield from _missing(run, range(min(last - 1, head), -1, -1))


def _is_erased(store: Store, run: str) -> bool:
    """Whether the first entry that is left says that all before it was deleted."""
    try:
        found = store.read(run, limit=1, bodies=False)
    except CheckpointCorruptedError:
        return False
    return not found or erases(found[0])


def _is_any_before(store: Store, run: str, seq: int) -> bool:
    """Whether there is an entry before this seq, readable or not."""
    try:
        return bool(store.read(run, after=seq, newest_first=True, limit=1, bodies=False))
    except CheckpointCorruptedError:
        return True


def _no_tombstone(entry: Entry) -> CheckpointCorruptedError:
    """What is to be said of a tombstone with entries before it: an erasure leaves none."""
    reason = "it says that everything before it was deleted, and that is there"
    error = CheckpointCorruptedError(entry.run, entry.seq, reason)
    error.entry, error.digest = entry, entry.digest
    return error


def _gap_above(
    store: Store, run: str, last: int | None, after: int | None, seq: int
) -> Iterator[CheckpointCorruptedError]:
    """The entries that are missing between the last one, newest first, and this one."""
    if last is None or seq == last - 1:
        return
    top = last - 1
    if last == after:  # which may be far above the head
        top = min(top, head_seq(store, run) or 0)
    yield from _missing(run, range(top, seq, -1))


def _stored(
    store: Store, run: str, newest_first: bool, after: int | None, page: int, *, bodies: bool
) -> Iterator[Found]:
    """The entries of a run that the store can read, and an error for each that it can't."""
    limit = page
    while True:
        try:
            found = store.read(
                run, after=after, limit=limit, newest_first=newest_first, bodies=bodies
            )
        except CheckpointCorruptedError as error:
            place = _next(store, run, newest_first, after)
            if error.seq is None:  # of some entry: read fewer, until it can only be the next one
                limit //= 2
            else:
                limit = min(limit - 1, abs(error.seq - place))
            if limit > 0:
                continue
            if error.seq is None:
                head = head_seq(store, run)
                if head is None or not 0 <= place <= head:
                    yield error  # it can't be told where
                    return
                error = damaged_at(store, run, place, error)
            elif after is not None and (error.seq >= after if newest_first else error.seq <= after):
                raise
            yield error
            after, limit = error.seq, page
            continue
        yield from found
        if len(found) < limit:
            return
        after = found[-1].seq  # the first pages are short, for those who want few
        weight = sum(len(entry.body) for entry in found) // len(found) + 1
        page = limit = max(1, min(_GROWTH * limit, PAGE, _PAGE_BYTES // weight))


def damaged_at(
    store: Store, run: str, seq: int, error: CheckpointCorruptedError
) -> CheckpointCorruptedError:
    """The error for the entry at a seq, with what can be read of it without its body."""
    found = CheckpointCorruptedError(run, seq, error.reason)
    found.digest = error.digest
    try:
        page = store.read(run, after=seq - 1, limit=1, bodies=False)
    except CheckpointCorruptedError:
        return found
    if page and page[0].seq == seq:
        found.entry, found.digest = page[0], page[0].digest
    return found


def _next(store: Store, run: str, newest_first: bool, after: int | None) -> int:
    """The seq that comes after this one."""
    if after is not None:
        return after - 1 if newest_first else after + 1
    return (head_seq(store, run) or 0) if newest_first else 0


def pass_by(error: CheckpointCorruptedError) -> None:
    """The `damage` for those whose answer does not depend on it."""


def head_seq(store: Store, run: str) -> int | None:
    """The seq of the run's newest entry, also where that can't be read."""
    try:
        found = store.read(run, newest_first=True, limit=1, bodies=False)
    except CheckpointCorruptedError as error:
        return error.seq
    return found[0].seq if found else None


def missing(run: str, seq: int) -> CheckpointCorruptedError:
    """What is to be said of an entry that should be there."""
    return CheckpointCorruptedError(run, seq, "the entry is missing")


def _missing(run: str, seqs: range) -> Iterator[CheckpointCorruptedError]:
    """An error for each missing entry; an altered seq may leave a gap of any size.

    Of a long gap, the last error is for all the rest of it.
    """
    if len(seqs) <= _LONGEST_GAP:
        yield from (missing(run, seq) for seq in seqs)
        return
    yield from (missing(run, seq) for seq in seqs[: _LONGEST_GAP - 1])
    rest = seqs[_LONGEST_GAP - 1 :]
    low, high = min(rest[0], rest[-1]), max(rest[0], rest[-1])
    yield CheckpointCorruptedError(run, rest[0], f"the entries {low} to {high} are missing")
