"""Reading journals: entries, heads, branches, and states put together from their deltas. Blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeVar

from holdfast.codec import delta, envelope
from holdfast.codec.chain import SMALL_STATE, Chain, Landmark
from holdfast.codec.envelope import Content
from holdfast.errors import CheckpointCorruptedError
from holdfast.heads import RunHead
from holdfast.model import CARRY_STATE, Entry, Kind, Status
from holdfast.store import PAGE, RunFilter, Store

T = TypeVar("T")

FEW: Final = 8  # entries to read at first where their bodies may be large
_PAGE_BYTES: Final = 16 << 20  # of bodies to read at once, about
_FARTHEST: Final = 800  # entries that any delta there is may lie behind its base


class Reader:
    """Reads the journals of a store. What decides which state comes back is checked first."""

    def __init__(self, store: Store, largest_state: int) -> None:
        self.store = store
        self._largest_state = largest_state

    def entry(self, run: str, seq: int) -> Entry | None:
        """The entry at one position, checked; None where there is none, or only a stub."""
        found = self.store.read(run, after=seq - 1, limit=1)
        if not found or found[0].seq != seq or is_stub(found[0]):
            return None
        return envelope.check(found[0])

    def head(self, run: str) -> Entry | None:
        """The run's newest entry, without its body and unchecked: to list it or to delete it."""
        found = self.store.read(run, newest_first=True, limit=1, bodies=False)
        return found[0] if found else None

    def head_seq(self, run: str) -> int | None:
        """The seq of the run's newest entry, also where that can't be read."""
        try:
            head = self.head(run)
        except CheckpointCorruptedError as error:
            return error.seq
        return None if head is None else head.seq

    def undisturbed(self, run: str, read: Callable[[], T]) -> T:
        """What `read` returns; called again where others deleted what it was reading."""
        known: int | None = -1
        while True:
            try:
                return read()
            except CheckpointCorruptedError:
                before, known = known, self.head_seq(run)
                if known == before:
                    raise

    def checked_head(self, run: str) -> Entry | None:
        """The run's newest entry, checked: its kind and parent say which state is current."""
        head = self.store.last(run)
        return None if head is None else envelope.check(head)

    def entries(
        self,
        run: str,
        *,
        bodies: bool = False,
        newest_first: bool = False,
        after: int | None = None,
        page: int = PAGE,
    ) -> Iterator[Entry]:
        """Every entry of a run, stubs included, a page at a time: with bodies, as many as fit.

        Raises `CheckpointCorruptedError` at an entry that the store finds damaged, after those
        before it.
        """
        largest = PAGE
        while True:
            try:
                found = self.store.read(
                    run, after=after, limit=page, newest_first=newest_first, bodies=bodies
                )
            except CheckpointCorruptedError:
                if page == 1:
                    raise
                page = largest = 1  # up to the damaged entry, one by one
                continue
            yield from found
            if len(found) < page:
                return
            after = found[-1].seq  # the first page was short, for those who want few
            weight = sum(len(entry.body) for entry in found) // len(found) + 1
            page = max(1, min(largest, _PAGE_BYTES // weight))

    def branch(self, run: str) -> Iterator[Entry]:
        """The live checkpoints from the current one back to the first, without abandoned ones."""
        head = self.checked_head(run)
        yield from () if head is None else self.branch_of(head)

    def branch_of(self, entry: Entry) -> Iterator[Entry]:
        """The live checkpoints from the one that is current at this entry back to the first."""
        wanted = state_seq(entry)
        if wanted is None:
            return
        for found in self.entries(
            entry.run, newest_first=True, bodies=True, after=wanted + 1, page=FEW
        ):
            if found.seq == wanted:
                wanted = found.parent
                if not is_stub(found):
                    yield envelope.check(found)
                if wanted is None:
                    return

    def opening(self, run: str) -> Entry | None:
        """The entry that opened the run; None where it is gone or damaged."""
        try:
            found = self.store.read(run, limit=2)  # erasing leaves a tombstone before it
            return next(
                (envelope.check(e) for e in found if e.kind == Kind.OPEN and not is_stub(e)), None
            )
        except CheckpointCorruptedError:
            return None

    def trail(
        self, run: str, end: int | None = None, *, start: int = 0, bodies: bool = True
    ) -> list[Entry]:
        """Every live entry that led to the head, or to the seq `end`, oldest first, checked.

        From the seq `start` on. What a rollback left behind is not among them; the rollback
        itself is. Without `bodies` nothing is checked.
        """
        found = []
        for entry in self.entries(run, bodies=bodies, after=start - 1):
            if end is not None and entry.seq > end:
                break
            gone = entry.status == Status.DELETED and entry.kind != Kind.TOMBSTONE
            if not (is_stub(entry) if bodies else gone) and entry.kind != Kind.TRIM:
                found.append(envelope.check(entry) if bodies else entry)
        # From the end back, because a rollback may lead to what an earlier one left behind.
        trail: list[Entry] = []
        back_to: int | None = None
        for entry in reversed(found):
            opens = entry.kind == Kind.OPEN
            if back_to is not None and entry.seq > back_to and not opens:
                continue
            trail.append(entry)
            if opens:
                break
            if entry.kind in (Kind.ROLLBACK, Kind.TOMBSTONE):
                if entry.kind == Kind.TOMBSTONE and entry.status == Status.DELETED:
                    break
                back_to = -1 if entry.parent is None else entry.parent
        return trail[::-1]

    def chain(self, run: str, seq: int, last: Entry | None = None) -> Chain:
        """Put the state at `seq` together from its keyframe and deltas.

        Raises `CheckpointCorruptedError`, also where a link is missing.
        """
        entry = last if last is not None and last.seq == seq else self.entry(run, seq)
        if entry is None:
            raise CheckpointCorruptedError(run, seq, "the state it builds on is gone")
        kind = entry.kind
        deltas: list[tuple[Entry, Content]] = []
        found: dict[int, Entry] = {}
        content = envelope.unseal(self.bounded(entry))
        while content.is_delta:
            deltas.append((entry, content))
            if content.base not in found:
                found = self._range(run, min(content.landmark, content.base), content.base)
            base = found.get(content.base)
            if base is None:
                if self._is_rewritten(entry):
                    return self.chain(run, seq)
                raise CheckpointCorruptedError(
                    run, seq, f"the state it builds on, {run}@{content.base}, is gone"
                )
            entry, content = base, envelope.unseal(self.bounded(base))
        whole = self.applied(entry, content)
        landmark = Landmark(entry.seq, whole, len(entry.body))
        if not deltas:
            return Chain(whole, kind, landmark)
        last_landmark = deltas[0][1].landmark
        links = link_bytes = 0
        encoding = bytearray(whole)
        for entry, content in reversed(deltas):
            encoding = self._patched(entry, content, encoding)
            if content.landmark == entry.seq:
                held = bytes(encoding) if entry.seq == last_landmark else b""
                landmark = landmark.span(entry.seq, held, len(entry.body))
                links = link_bytes = 0
            else:
                links += 1
                link_bytes += len(entry.body)
        state = bytes(encoding) if links else landmark.encoding
        return Chain(state, kind, landmark, links, link_bytes)

    def applied(self, entry: Entry, content: Content, base: bytes = b"") -> bytes:
        """The state that an entry's content is, or makes of the one that it is a change to."""
        if content.is_delta:
            return bytes(self._patched(entry, content, bytearray(base)))
        return bytes(self._checked(entry, content.payload))

    def _patched(self, entry: Entry, content: Content, encoding: bytearray) -> bytearray:
        try:
            patched = delta.apply(encoding, content.payload, entry.size)
        except ValueError as error:
            raise CheckpointCorruptedError(entry.run, entry.seq, str(error)) from None
        self._checked(entry, patched)
        return patched

    def _is_rewritten(self, entry: Entry) -> bool:
        """Whether it has another body by now, as what it built on was deleted."""
        found = self.store.read(entry.run, after=entry.seq - 1, limit=1)
        return bool(found) and found[0].seq == entry.seq and found[0].body != entry.body

    def _range(self, run: str, first: int, last: int) -> dict[int, Entry]:
        """The live entries that carry state from `first` to `last`."""
        found: dict[int, Entry] = {}
        after = first - 1
        while after < last:
            page = self.store.read(run, after=after, limit=min(PAGE, last - after))
            if not page:
                break
            found.update((e.seq, e) for e in page if e.size)
            after = page[-1].seq
        return found

    def bounded(self, entry: Entry) -> Entry:
        """The entry. Raises if its state is larger than any save allows."""
        if entry.size > self._largest_state:
            reason = f"it claims {entry.size:,} bytes of state; raise max_state_bytes to load it"
            raise CheckpointCorruptedError(entry.run, entry.seq, reason)
        return entry

    def _checked(self, entry: Entry, encoding: bytes | bytearray) -> bytes | bytearray:
        if len(encoding) != entry.size:
            raise CheckpointCorruptedError(
                entry.run, entry.seq, "its state does not have its recorded size"
            )
        return encoding


def all_runs(
    store: Store, where: RunFilter = RunFilter(), *, after: str = "", limit: int | None = None
) -> Iterator[Entry]:
    """The heads of the runs that match, ordered by id, all or `limit`, read a page at a time."""
    while limit is None or limit > 0:
        wanted = PAGE if limit is None else min(limit, PAGE)
        page = store.runs(where, after=after, limit=wanted)
        yield from page
        if len(page) < wanted:
            return
        after = page[-1].run
        limit = None if limit is None else limit - wanted


def all_listed(
    store: Store, where: RunFilter, *, limit: int | None = None
) -> Iterator[tuple[RunHead, Entry]]:
    """The matching runs of the index with their heads, newest first, read a page at a time."""
    before = None
    while limit is None or limit > 0:
        wanted = PAGE if limit is None else min(limit, PAGE)
        page = store.listed(where, before=before, limit=wanted)
        yield from page
        if len(page) < wanted:
            return
        before = page[-1][0].position
        limit = None if limit is None else limit - wanted


def is_stub(entry: Entry) -> bool:
    """Whether this is what a deleted entry left, read with its body."""
    return entry.status == Status.DELETED and not entry.body


def state_seq(entry: Entry) -> int | None:
    """The seq of the state that is current once this entry is the head."""
    return (
        entry.seq if entry.kind in CARRY_STATE and entry.status != Status.DELETED else entry.parent
    )


def is_live(entry: Entry) -> bool:
    """Whether this is a checkpoint that was not deleted."""
    return entry.kind in CARRY_STATE and entry.status != Status.DELETED


def rewrites(reader: Reader, entries: list[Entry], gone: Collection[int]) -> dict[int, bytes]:
    """New bodies for those of a run's entries that stay, but build on one that goes."""
    if reader.store.form == "readable" or not gone:
        return {}
    nearest, farthest = min(gone), max(gone) + _FARTHEST
    stay = {
        entry.seq
        for entry in entries
        if is_live(entry) and entry.seq not in gone and entry.size > SMALL_STATE
        if nearest < entry.seq < farthest
    }
    found: dict[int, bytes] = {}
    if not stay:
        return found
    for entry in reader.entries(entries[0].run, bodies=True, after=min(stay) - 1):
        if entry.seq > max(stay):
            break
        if entry.seq in stay and _base(entry) in gone:
            encoding = reader.chain(entry.run, entry.seq, entry).encoding
            found[entry.seq] = envelope.reseal(entry, *envelope.keyframe(encoding))
    return found


def _base(entry: Entry) -> int | None:
    """The seq of the state that the entry is stored as a change to; None if that is unknown."""
    try:
        return envelope.base(entry)
    except CheckpointCorruptedError:
        return None
