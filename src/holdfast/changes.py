"""How a store tells that runs changed: by notifications, or by being asked again and again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self, runtime_checkable

from holdfast.errors import CheckpointCorruptedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model import Entry
    from holdfast.store import Store


class Change(NamedTuple):
    """A run that grew, or may have. These are hints: some come for nothing."""

    run_id: str | None = None  # None: any run may have changed, such as after an outage
    seq: int | None = None  # of the run's newest entry, and its status, as far as they are known
    status: str | None = None


ANY_RUN: Final = Change()
"""Says that any run may have changed: look at all that you are interested in."""


class Watch(ABC):
    """Waits for the notifications of a store. A context manager; for one thread at a time."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Change]:
        """Block until runs may have new entries, until the timeout, or until `wake`.

        Includes what was appended since the last call. Some notifications are missed: that of a
        process which died right after its append, for example. Raises `StoreUnavailableError` when
        the connection is lost; watch again, then read.
        """

    @abstractmethod
    def wake(self) -> None:
        """Make a `wait` return now, or the next one at once. For any thread, and for destructors."""

    @abstractmethod
    def close(self) -> None:
        """Stop watching. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@runtime_checkable
class Notifying(Protocol):
    """A store that notifies of appends, by any process that can use it."""

    def watch(self) -> Watch | None:
        """Watch all runs for what is appended after this returns; None if it can only be polled.

        Read after calling this, not before, or you miss what is appended in between. Hidden
        journals are not among them: some change every few seconds.
        """


PAGE: Final = 500
"""How many heads `poll_heads` looks at in one call."""


class _Seen(NamedTuple):
    """The mark of `poll_heads`: the digest of each run's head, and which run was looked at last."""

    heads: dict[str, bytes]
    after: str
    newest_next: bool = False  # whether to look at the runs that were opened last, for a change


def poll_heads(store: Store, mark: object, size: int = PAGE) -> tuple[object, list[Change]]:
    """`Store.poll` for any store: compare the heads of the next page of runs.

    If there are more, and an index, every other page is that of the runs which were opened last:
    most changes are there.
    """
    try:
        if not isinstance(mark, _Seen):
            return _Seen(_all_heads(store), ""), []
        if mark.newest_next:
            page = [head for _, head in store.listed(limit=size)]
            return mark._replace(newest_next=False), _compared(mark.heads, page)
        return _next_page(store, mark, size)
    except CheckpointCorruptedError:  # of one run; others change as well
        return mark if isinstance(mark, _Seen) else _Seen({}, ""), [ANY_RUN]


def _all_heads(store: Store) -> dict[str, bytes]:
    heads: dict[str, bytes] = {}
    after = ""
    while page := store.runs(after=after):
        heads.update((head.run, head.digest) for head in page)
        after = page[-1].run
    return heads


def _next_page(store: Store, mark: _Seen, size: int) -> tuple[object, list[Change]]:
    heads, after, _ = mark
    page = store.runs(after=after, limit=size)
    last = page[-1].run if len(page) == size else ""
    there = {head.run for head in page}
    gone = [run for run in heads if run > after and (not last or run <= last) and run not in there]
    for run in gone:
        del heads[run]
    found = [Change(run, None, "deleted") for run in gone] + _compared(heads, page)
    return _Seen(heads, last, newest_next=bool(last or after) and _has_index(store)), found


def _has_index(store: Store) -> bool:
    from holdfast.store import Store  # it imports this module

    return type(store).listed is not Store.listed


def _compared(heads: dict[str, bytes], page: Sequence[Entry]) -> list[Change]:
    found = [
        Change(head.run, head.seq, head.status)
        for head in page
        if heads.get(head.run) != head.digest
    ]
    heads.update((head.run, head.digest) for head in page)
    return found
