"""The interface of a store: everything above it sees journals, everything below it sees bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import (
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    get_args,
    runtime_checkable,
)

from holdfast import scanning
from holdfast.changes import Change, poll_heads
from holdfast.errors import DurabilityError, HoldfastError
from holdfast.heads import Position, RunHead, Tally, hours
from holdfast.model import HIDDEN, Entry, stub

PAGE: Final = 500
"""The most entries or runs that one call returns by default."""

Survives = Literal["nothing", "process-crash", "power-loss"]
"""What an acknowledged append survives, weakest first."""
Form = Literal["packed", "readable"]

Work = Callable[[Any], None]
"""The user's own SQL, to run in the store's transaction; it is given a cursor."""


Behind = Mapping[str, bytes]
"""By run: the digest that its head must have, or empty bytes if it must have none."""

ANY_HEAD: Final[Behind] = MappingProxyType({})

Head = tuple[int, bytes]
"""The seq and the digest of a run's head."""

NO_HEAD: Final[Head] = (-1, b"")

UNREADABLE: Final = b"?"
"""Stands for the digest of a head that can't be read: it equals none."""


class RunFilter(NamedTuple):
    """Which runs to list; None matches anything. `Store.runs` knows only the fields of heads."""

    # Fields of the head entry.
    status: str | None = None  # runs whose head is "deleted" are listed only when asked for
    flow: str | None = None
    thread: str | None = None
    owner: str | None = None
    type: str | None = None
    prefix: str = ""  # hidden journals are listed only under a prefix that starts with HIDDEN

    # What only the index knows: for `Store.listed` and `Store.counts`.
    statuses: tuple[str, ...] = ()  # any of these
    labels: tuple[str, ...] = ()  # all of these, as "name=value"
    since: int | None = None  # opened then or later, in microseconds since the epoch
    until: int | None = None  # opened before
    holder: str | None = None
    asking: bool = False  # only runs with open questions
    roots: bool = False  # only runs that are not child runs

    def matches(self, head: Entry) -> bool:
        """Whether a run with this head matches. Stores with a query language translate this."""
        if self.status is None:
            if head.status == "deleted":
                return False
        elif head.status != self.status:
            return False
        return (
            self.includes(head.run)
            and (self.flow is None or head.flow == self.flow)
            and (self.thread is None or head.thread == self.thread)
            and (self.owner is None or head.owner == self.owner)
            and (self.type is None or head.type == self.type)
        )

    def lists(self, row: RunHead, head: Entry) -> bool:
        """Whether a run with this row of the index, and this head, matches."""
        return (
            row.status != "deleted"
            and (self.status is None or row.status == self.status)
            and (not self.statuses or row.status in self.statuses)
            and self.includes(row.run)
            and (self.flow is None or row.flow == self.flow)
            and (self.thread is None or row.thread == self.thread)
            and (self.owner is None or row.owner == self.owner)
            and (self.type is None or head.type == self.type)
            and set(self.labels) <= set(row.labels)
            and (self.since is None or row.opened >= self.since)
            and (self.until is None or row.opened < self.until)
            and (self.holder is None or row.holder == self.holder)
            and (not self.asking or row.questions > 0)
            and (not self.roots or row.parent is None)
        )

    @property
    def wanted_statuses(self) -> tuple[str, ...] | None:
        """The statuses that runs may have, None for any."""
        if self.status is None:
            return tuple(sorted(set(self.statuses))) or None
        return (self.status,) if not self.statuses or self.status in self.statuses else ()

    def includes(self, run: str) -> bool:
        """Whether the id has the prefix; hidden journals need one that is hidden, too."""
        hidden = run.startswith(HIDDEN) == self.prefix.startswith(HIDDEN)
        return hidden and run.startswith(self.prefix)


class StoreStats(NamedTuple):
    """Totals over the live checkpoints (`CARRY_STATE`, size > 0), without hidden journals."""

    checkpoints: int
    state_bytes: int  # as if each state were stored whole and uncompressed
    stored_bytes: int  # the size of their bodies
    oldest: int | None  # microseconds since the epoch
    newest: int | None


class Store(ABC):
    """Durable, append-only journals of bytes, one per run.

    Implementations may be shared between threads, translate every driver error into a
    `HoldfastError`, and pass `holdfast.testing.StoreContract` unmodified. Their caller checks
    ids (`check_id`); they must keep any two distinct ones apart. After fork() the child may
    keep using the store: it opens its own connections and locks.
    """

    form: ClassVar[Form] = "packed"
    """"readable" stores get JSON bodies that people can read, "packed" stores compact ones."""

    inline: ClassVar[bool] = False
    """Whether calls return at once, without I/O, so that they may run on the event loop."""

    shared: ClassVar[bool] = True
    """Whether several processes may use it at once."""

    expires: bool = False
    """Whether runs may vanish by themselves, without a tombstone, after some time (a ttl)."""

    lasting: ClassVar[str] = "use a store on a real disk"
    """What the user should do so that the store survives a power loss."""

    url: str
    """The store's address, safe to log: passwords are masked."""

    @abstractmethod
    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        """Write each entry that is its run's next one; return when all are durable.

        One transaction, one outcome per entry: False if it does not follow the run's head
        (`model.follows`); then nothing is changed. A seq is taken if an entry has it, if it is
        below the head, even where entries were erased, or if it is beyond the next one: whoever
        asks for that knows of entries that the store has lost. Entries of one run come in seq
        order; after the first that loses, the run's later entries lose too (see `outcomes`).

        A run that `behind` names also loses unless its head, before this call, has exactly that
        digest: an old replica or a restored backup may end at the same seq with another history.

        Raises `StoreError` when nothing was written, `OutcomeUnknownError` when it may have been.
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
        """At most `limit` of the run's entries beyond the seq `after`, in the chosen direction.

        Includes stubs and tombstones; an unknown run has no entries. Without `bodies`, every
        body is empty and none was read.
        """

    def scan(
        self, after: str = "", *, limit: int = PAGE, bodies: bool = True
    ) -> list[Entry] | None:
        """At most `limit` entries of the journals with ids greater than `after`, by id and seq.

        All journals, hidden ones too, for those who read a whole store: the last one may be cut.
        None, by default, if the store can't do that in less time than reading run by run.
        """
        return None

    def last(self, run: str) -> Entry | None:
        """The run's head, the entry with the highest seq; None for an unknown run."""
        found = self.read(run, newest_first=True, limit=1)
        return found[0] if found else None

    @abstractmethod
    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        """The heads, without bodies, of the matching runs with ids greater than `after`.

        Ordered by id, by code point. Paging neither skips nor repeats a run while others write.
        """

    @abstractmethod
    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        """Append the marker and change entries before it, all or nothing, durably.

        `changes` has a new body for each seq, or None to make the entry a stub; seqs that are not
        there are skipped. Returns False, and does nothing, if the marker does not follow the head.
        """

    @abstractmethod
    def erase(self, tombstone: Entry) -> bool:
        """Append the tombstone and remove the run's entries before it, all or nothing, durably.

        Returns False, and does nothing, if its seq is not above the head. It need not be the next
        one: a copy of a run is erased with the original's tombstone, and that may have grown.
        """

    def together(self) -> AbstractContextManager[None]:
        """A block in which what this thread writes is durable at its end, all at once.

        What it reads there is as if that was done. Nobody else can write meanwhile, so a block has
        to be short, and must not wait for anyone, such as another thread that writes. If it
        raises, nothing was done. What is freed on the disk is given back by `scrub`. By default
        each call is durable when it returns.
        """
        return nullcontext()

    @abstractmethod
    def stats(self, run: str | None = None) -> StoreStats:
        """Totals for one journal, or for all that are not hidden. Reads no bodies."""

    def listed(
        self,
        where: RunFilter = RunFilter(),
        *,
        before: Position | None = None,
        limit: int = PAGE,
    ) -> list[tuple[RunHead, Entry]]:
        """The matching runs, the last opened first, with their heads without bodies.

        Only runs before the position of another (`RunHead.position`): paging neither skips nor
        repeats a run while others write. Deleted runs and internal journals are never listed.

        The answers of this method and of those below come from an index (see `heads`). It is kept
        with every append; decide nothing by it without a look at the journal. By default there is
        none, and every journal is read.
        """
        return scanning.listed(self, where, before, limit)

    def row(self, run: str) -> RunHead | None:
        """What the index has of one run; None if there is no such run."""
        return scanning.row(self, run)

    def entries_at(self, places: Sequence[tuple[str, int]], *, bodies: bool = False) -> list[Entry]:
        """The entries at these runs and seqs, as far as they are there."""
        return scanning.entries_at(self, places, bodies)

    def due(
        self, now: int, *, flows: Collection[str] | None = None, limit: int = PAGE
    ) -> list[RunHead]:
        """The runs that a worker should execute by now, the earliest due first.

        With `flows`, only runs of these, and child runs of any: who continues a child run
        continues the run above it, whose flow may be another.
        """
        return scanning.due(self, now, flows, limit)

    def holders(self) -> dict[str, int]:
        """Every holder that runs have, with their number."""
        return scanning.holders(self)

    def counts(self, where: RunFilter = RunFilter()) -> dict[str, int]:
        """How many runs match, by status. At once if only status and flow are asked for."""
        return scanning.counts(self, where)

    def tally(self, since: int, until: int, *, flow: str | None = None) -> list[Tally]:
        """Statistics of the hours between two times, in order: of one flow, or of all together.

        Deleted runs still count in stores with an index. What a run was only inside of one batch
        may not be counted.
        """
        return scanning.tally(self, *hours(since, until), flow)

    def rebuild(self, *, write: bool = True) -> int:
        """Repair the index by reading every journal; return how many of its rows were wrong.

        Without `write`, only count them. Others may write meanwhile. Statistics of past hours stay
        as they are. A store that keeps no index returns 0.
        """
        return 0

    def poll(self, mark: object = None) -> tuple[object, list[Change]]:
        """What may have changed since the call that returned this mark, without hidden journals.

        Without a mark, nothing; the mark returned is the next call's. `Checkpointer.watch` calls
        this about once a second, so it must be cheap. By default it looks at one page of heads at
        a time: with more than `PAGE` runs, a change is found some calls later.
        """
        return poll_heads(self, mark)

    def scrub(self) -> None:  # noqa: B027 - most stores have nothing to do
        """Remove what was deleted from the store's files, too, as far as it can be done at once.

        `forget` and `prune` call this at their end. Raises nothing where others are in the way. By
        default there is nothing to do.
        """

    @abstractmethod
    def survives(self) -> Survives:
        """What an acknowledged append survives, as found out by asking the store itself."""

    def exists(self) -> bool:
        """Whether the store exists already. Other calls create it if it is missing; this does not."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Release everything. Closing twice is fine; other calls then raise `StoreClosedError`."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


def outcomes(
    entries: Sequence[Entry], place: Callable[[Entry], bool], beaten: Collection[str] = ()
) -> list[bool]:
    """Place entries one by one; `place` says whether an entry won. Returns an outcome for each.

    Once an entry of a run has lost, the run's later entries lose without being tried; those of the
    runs in `beaten` (see `runs_beaten`) lose from the start.
    """
    lost = set(beaten)
    found = []
    for entry in entries:
        won = entry.run not in lost and place(entry)
        if not won:
            lost.add(entry.run)
        found.append(won)
    return found


def runs_beaten(behind: Behind, digest_of: Callable[[str], bytes]) -> set[str]:
    """The runs whose head has another digest than `Store.append` was told; empty if it has none."""
    return {run for run, digest in behind.items() if digest_of(run) != digest}


def trimmed(entry: Entry, body: bytes | None) -> Entry:
    """The entry as `trim` leaves it: with another body, or as a stub if that is None."""
    return stub(entry) if body is None else entry._replace(body=body)


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
    """A store whose users may keep their own tables in its database.

    It is not `inline`, and it passes `holdfast.testing.contract.TransactionalContract` as well.
    """

    def append_with(
        self, entries: Sequence[Entry], work: Work, behind: Behind = ANY_HEAD
    ) -> list[bool]:
        """Append the entries and call `work`, all or nothing; return when both are durable.

        One transaction: if an entry loses, everything is rolled back, every outcome is False,
        and `work` may not have been called. The cursor refuses statements that would begin or end
        a transaction or change the store's own tables, and all statements after the call.

        Raises `WorkFailedError` with what `work` raised, or `StoreError`, when nothing was
        written; `OutcomeUnknownError` when all of it may have been.
        """


class WorkFailedError(HoldfastError):
    """Carries what the user's `work` raised out of the store; users never see it."""

    error: BaseException
