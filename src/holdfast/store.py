"""The waist: everything above sees journals, everything below sees bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import (
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    get_args,
    runtime_checkable,
)

from holdfast.errors import DurabilityError, HoldfastError
from holdfast.model import HIDDEN, Entry

PAGE: Final = 500
"""How many entries or runs one call returns at the most, unless asked for fewer."""

Survives = Literal["nothing", "process-crash", "power-loss"]
"""What an acknowledged append outlives, the least first."""
Form = Literal["packed", "readable"]

Work = Callable[[Any], None]
"""A short piece of a user's own SQL, given a cursor of the store's database."""


class RunFilter(NamedTuple):
    """Which runs to list, by the fields of their head entry; None matches anything."""

    status: str | None = None  # runs whose head is "deleted" are listed only when asked for
    flow: str | None = None
    thread: str | None = None
    owner: str | None = None
    type: str | None = None
    prefix: str = ""  # hidden journals are listed only under a prefix that starts with HIDDEN

    def matches(self, head: Entry) -> bool:
        """Whether a run with this head is wanted: the definition SQL stores translate."""
        if self.status is None:
            if head.status == "deleted":
                return False
        elif head.status != self.status:
            return False
        return (
            head.run.startswith(self.prefix)
            and head.run.startswith(HIDDEN) == self.prefix.startswith(HIDDEN)
            and (self.flow is None or head.flow == self.flow)
            and (self.thread is None or head.thread == self.thread)
            and (self.owner is None or head.owner == self.owner)
            and (self.type is None or head.type == self.type)
        )


class StoreStats(NamedTuple):
    """Sums over the live checkpoints (`CARRY_STATE`, size > 0), hidden journals aside."""

    runs: int
    checkpoints: int
    state_bytes: int  # as if each state were stored whole and uncompressed
    stored_bytes: int  # what their bodies take
    oldest: int | None  # microseconds since the epoch
    newest: int | None


class Store(ABC):
    """Durable, append-only journals of bytes, one per run.

    Implementations may be shared between threads, translate every driver error into a
    `HoldfastError`, and pass `holdfast.testing.StoreContract` unmodified. They trust their
    caller for valid ids (`check_id`) but must keep any two distinct ones apart. After fork()
    a child may go on using the store: it makes connections and locks of its own.
    """

    form: ClassVar[Form] = "packed"
    """"readable" stores are given JSON bodies, for people; "packed" ones are given few bytes."""

    inline: ClassVar[bool] = False
    """Whether calls return at once, without I/O, so that nobody need leave the event loop for them."""

    lasting: ClassVar[str] = "use a store on a real disk"
    """What its user should do to have it survive a power loss."""

    url: str
    """Where it is, fit for a log: passwords are masked."""

    @abstractmethod
    def append(self, entries: Sequence[Entry]) -> list[bool]:
        """Write each entry that is its run's next one; return when all are durable.

        One transaction, one outcome per entry: False where it does not follow the run's head
        (`model.follows`), and nothing is changed. A seq is not free if an entry has it, nor below
        the head, even where nothing stands any more, nor beyond the one after the head: who asks
        for that knows of entries that the store has lost. Entries of one run come in seq order;
        after the first that loses, the run's later entries lose too. Raises `StoreError` when
        nothing was written, `OutcomeUnknownError` when it may have been.
        """

    @abstractmethod
    def read(
        self,
        run: str,
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> list[Entry]:
        """The run's entries beyond the seq `after`, in the chosen direction, at most `limit`.

        Stubs and tombstones included; an unknown run has none. Without `bodies`, every body
        is empty and none was read.
        """

    @abstractmethod
    def last(self, run: str) -> Entry | None:
        """The run's head, the entry with the highest seq, with its body; None for an unknown run."""

    @abstractmethod
    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        """The heads, without bodies, of the runs that match, ordered by id by code point.

        Only ids greater than `after`: paging neither skips nor repeats a run while others write.
        """

    @abstractmethod
    def trim(
        self,
        marker: Entry,
        *,
        rewrite: Mapping[int, bytes] | None = None,
        drop: Collection[int] = (),
    ) -> bool:
        """Append the marker and thin out what stands before it, all or nothing, durably.

        If the marker does not follow the head, nothing is done and the answer is False. Otherwise the
        bodies of the seqs in `rewrite` are replaced and the entries in `drop` become stubs.
        Seqs that are not there are passed over.
        """

    @abstractmethod
    def erase(self, tombstone: Entry) -> bool:
        """Append the tombstone and remove every entry of its run before it, all or nothing, durably.

        If its seq is not above the head, nothing is done and the answer is False. It need not be
        the next one: a copy of a run is erased with the tombstone of the run, which may have grown.
        """

    @abstractmethod
    def stats(self, run: str | None = None) -> StoreStats:
        """Totals for one journal, or for all that are not hidden, without reading a state."""

    @abstractmethod
    def survives(self) -> Survives:
        """What an acknowledged append outlives, as probed at the store itself."""

    def exists(self) -> bool:
        """Whether there is a store already, where the first call would make one. Asking makes none."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Release everything. A second call does nothing; other calls then raise `StoreClosedError`."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


def require(store: Store, survives: str) -> None:
    """Raise `DurabilityError`, which says what to do, if the store survives less than this."""
    ranks = get_args(Survives)
    if survives not in ranks:
        raise ValueError(f"survives must be one of {', '.join(ranks)}, not {survives!r}")
    actual = store.survives()
    if ranks.index(actual) < ranks.index(survives):
        raise DurabilityError(store.url, survives, actual, f"{store.lasting}, or require less")


@runtime_checkable
class Transactional(Protocol):
    """What a store has besides if its users may keep tables of their own in its database.

    Such a store is not `inline`, and passes `holdfast.testing.contract.TransactionalContract` too.
    """

    def append_with(self, entries: Sequence[Entry], work: Work) -> list[bool]:
        """Append the entries and call `work`, all or nothing; return when both are durable.

        One transaction: if an entry loses its place, nothing of the others and nothing that
        `work` wrote stays, and every outcome is False. `work` may then not have been called.
        Its cursor takes no statement that would begin or end a transaction or touch what is
        the store's, and none once the call is over.

        Raises `WorkFailedError` with whatever `work` raised, `StoreError` for trouble of the
        store's own, both when nothing was written; `OutcomeUnknownError` when all may have been.
        """


class Watch(Protocol):
    """Whoever waits for runs to grow. A context manager; leave it, or close it, when done."""

    def wait(self, seconds: float) -> set[str]:
        """Block until a run may have new entries, or the time is over; return which may.

        What was appended since the last call counts. Hints only: one may come for nothing, and
        one may be missed, so read also when the time is over. Raises `StoreUnavailableError`
        when nothing more will come; watch anew, then read.
        """

    def close(self) -> None:
        """Stop watching. A second call does nothing."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


@runtime_checkable
class Notifying(Protocol):
    """What a store has besides if its server tells of appends by any process, sooner than asking would."""

    def watch(self, run: str | None = None) -> Watch:
        """Watch one run, or all, from now on: what is appended after this returned is told.

        Read after it, not before, or what comes in between is missed.
        """


class WorkFailedError(HoldfastError):
    """Carries what a user's `work` raised from the store to whoever waits; never shown to them."""

    error: BaseException
