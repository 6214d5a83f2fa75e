"""Reading journals: entries, heads, branches, and states put together from their deltas. Blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from holdfast.codec import delta, envelope
from holdfast.errors import CheckpointCorruptedError
from holdfast.model import CARRY_STATE, Entry, Kind, Status
from holdfast.store import PAGE, Store

_FEW: Final = 8  # entries to read at first where their bodies may be large
_PAGE_BYTES: Final = 16 << 20  # of bodies to read at once, about


class Chain(NamedTuple):
    """A state put together from its keyframe and deltas, and what that took."""

    encoding: bytes
    kind: str  # of the entry it was asked for: a whole state, or a step's own value
    key_seq: int
    key_bytes: int
    chain_bytes: int
    links: int


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
        """Every entry of a run, stubs included, a page at a time: with bodies, as many as fit."""
        while True:
            found = self.store.read(
                run, after=after, limit=page, newest_first=newest_first, bodies=bodies
            )
            yield from found
            if len(found) < page:
                return
            after = found[-1].seq  # the first page was short, for those who want few
            weight = sum(len(entry.body) for entry in found) // len(found) + 1
            page = max(1, min(PAGE, _PAGE_BYTES // weight))

    def branch(self, run: str) -> Iterator[Entry]:
        """The live checkpoints from the current one back to the first, passing over abandoned ones."""
        head = self.checked_head(run)
        yield from () if head is None else self.branch_of(head)

    def branch_of(self, entry: Entry) -> Iterator[Entry]:
        """The live checkpoints from the one that is current at this entry back to the first."""
        wanted = state_seq(entry)
        if wanted is None:
            return
        for found in self.entries(
            entry.run, newest_first=True, bodies=True, after=wanted + 1, page=_FEW
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
        content = envelope.unseal(self._bounded(entry))
        if not content.is_delta:
            encoding = self._checked(entry, content.payload)
            return Chain(encoding, kind, seq, len(entry.body), 0, 0)
        links: list[tuple[Entry, bytes]] = []
        found = self._range(run, content.key, seq)
        chain_bytes = 0
        while content.is_delta:
            links.append((entry, content.payload))
            chain_bytes += len(entry.body)
            base = found.get(content.base)
            if base is None or len(links) > len(found):
                raise CheckpointCorruptedError(
                    run, seq, f"the state it builds on, {run}@{content.base}, is gone"
                )
            entry, content = base, envelope.unseal(self._bounded(base))
        encoding = bytearray(self._checked(entry, content.payload))
        key_seq, key_bytes = entry.seq, len(entry.body)
        for entry, change in reversed(links):
            try:
                delta.apply(encoding, change, entry.size)
            except ValueError as error:
                raise CheckpointCorruptedError(run, entry.seq, str(error)) from None
            self._checked(entry, encoding)
        return Chain(bytes(encoding), kind, key_seq, key_bytes, chain_bytes, len(links))

    def _range(self, run: str, first: int, end: int) -> dict[int, Entry]:
        """The live entries that carry state from `first` up to, not including, `end`."""
        found: dict[int, Entry] = {}
        after = first - 1
        while after < end - 1:
            page = self.store.read(run, after=after, limit=min(PAGE, end - 1 - after))
            if not page:
                break
            found.update((e.seq, e) for e in page if e.size)
            after = page[-1].seq
        return found

    def _bounded(self, entry: Entry) -> Entry:
        """The entry, unless it claims a state that nobody would have been allowed to save."""
        if entry.size > self._largest_state:
            reason = f"it claims {entry.size:,} bytes of state; raise max_state_bytes to load it"
            raise CheckpointCorruptedError(entry.run, entry.seq, reason)
        return entry

    def _checked(self, entry: Entry, encoding: bytes | bytearray) -> Any:
        if len(encoding) != entry.size:
            raise CheckpointCorruptedError(
                entry.run, entry.seq, "its state does not have its recorded size"
            )
        return encoding


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
    """New bodies for the checkpoints that stay but are stored as changes to one that goes."""
    found = {}
    at = {entry.seq: entry for entry in entries}
    for entry in entries:
        if not is_live(entry) or entry.seq in gone:
            continue
        base = entry.parent
        while base in at and at[base].kind == Kind.RESULT:
            base = at[base].parent
        if base not in gone:
            continue
        chain = reader.chain(entry.run, entry.seq)
        if chain.links:
            found[entry.seq] = envelope.reseal(entry, *envelope.keyframe(chain.encoding))
    return found
