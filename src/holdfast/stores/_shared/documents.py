"""A store over a database that can do one thing atomically: replace one document if it is unchanged.

Each run has a document that says all that must change together: the head, the newest entries, where
the journal begins after it was erased, and what a trim still has to do. Replacing it, if its
version is still the one that was read, is the commit. Older entries are items of their own.

* **Appending** puts entries into the document. When it gets heavy, its older entries are copied out
  to items first; they leave the document with the next commit. A body too large for it is
  written under a name of its own before the commit that makes it known.
* **Erasing** moves the floor up to the tombstone: what lies below does not count. Then it is deleted.
* **Trimming** notes what is to be thinned out. Readers see items as if that were done already. Then
  it is done, and the note goes.

Whatever a crash leaves half done is done by the next writer. Items carry the number of trims that
they have been through: a copy that comes late never replaces a newer one, and a reader who finds
one from the future reads again. So no transaction over several documents is needed, and no clock.
A crash can leave the body of a save that never happened, which costs its room.
A document of a later format is refused, also by whoever knew the one before: its version is another.
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    OutcomeUnknownError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.model import HIDDEN, MAX_ID_BYTES, Entry, follows, stub
from holdfast.seams import on_fork
from holdfast.store import PAGE, RunFilter, Store, StoreStats, outcomes_by_heads
from holdfast.stores._shared.document import Document, Item, blob_size, check_blob
from holdfast.stores._shared.fields import pack, unpack
from holdfast.stores._shared.totals import totals

_LONGEST: Final = MAX_ID_BYTES + 60  # bytes of a name, with those beside the runs
_MAX_KNOWN: Final = 10_000
_TRIES: Final = 100
_DIGITS: Final = 20  # no seq has so many


class DocumentStore(Store):
    """Journals in documents. A driver says how to get, replace and list them."""

    inline_bytes: ClassVar[int] = 32 << 10  # bytes; a larger body gets a place of its own
    heavy_bytes: ClassVar[int] = (
        64 << 10
    )  # bytes of a document, which is written whole at each save
    crowded: ClassVar[int] = 32  # entries in one
    document_bytes: ClassVar[int] = 15 << 20  # the most that one can be

    def __init__(self) -> None:
        self._closed = False
        self._known: dict[str, Document] = {}  # as this process left them; may be outdated
        on_fork(self._forget)

    # --- what a driver does; errors come translated

    @abstractmethod
    def _get(self, run: str) -> bytes | None:
        """The run's document, as it is now."""

    @abstractmethod
    def _swap(self, run: str, old: int, new: int, packed: bytes, top: bytes) -> bool:
        """Replace the document if its version is `old`, or make it if that is 0.

        Durable when it returns. Raises `OutcomeUnknownError` when it may have happened.
        """

    @abstractmethod
    def _tops(self, low: str, above: str, high: str, limit: int) -> list[tuple[str, bytes]]:
        """Run and `top` of the documents with low <= run < high and run > above, in order."""

    @abstractmethod
    def _put(self, run: str, item: Item) -> None:
        """Write the item, unless there is one that has been through as many trims or more."""

    @abstractmethod
    def _items(
        self, run: str, low: int, high: int, limit: int, *, newest_first: bool, bodies: bool
    ) -> list[Item]:
        """The items with low <= seq <= high, as they are now."""

    @abstractmethod
    def _delete(self, run: str, seqs: Collection[int]) -> None:
        """Remove items."""

    @abstractmethod
    def _put_blob(self, run: str, name: str, body: bytes) -> None:
        """Keep a body under a name nobody else uses."""

    @abstractmethod
    def _get_blob(self, run: str, name: str) -> bytes | None:
        """The body of that name."""

    @abstractmethod
    def _delete_blob(self, run: str, name: str) -> None:
        """Remove it."""

    # --- the store

    def append(self, entries: Sequence[Entry]) -> list[bool]:
        self._check_open()
        places: dict[str, list[int]] = {}
        for place, entry in enumerate(entries):
            places.setdefault(entry.run, []).append(place)
        outcomes = [False] * len(entries)
        written = False
        for run, its in places.items():
            for part in self._parts(its, entries):
                try:
                    won = self._append(run, [entries[place] for place in part])
                except HoldfastError as error:
                    if written:
                        raise OutcomeUnknownError(run, str(error)) from error
                    raise
                written = written or won > 0
                for place in part[:won]:
                    outcomes[place] = True
                if won < len(part):
                    break
        return outcomes

    def _append(self, run: str, entries: Sequence[Entry]) -> int:
        """How many of them won: the first ones, as each but the first follows one that did."""
        items = [self._item(entry) for entry in entries]
        known = self._known.get(run)
        document = known or self._document(run)
        for _ in range(_TRIES):
            won = sum(outcomes_by_heads(entries, {run: document.head}))
            if not won and document is known:  # others may have gone on
                document = self._document(run)
                continue
            if not won:
                for item in items:
                    self._forget_blob(run, item.blob)
                return 0
            items[:won] = [self._placed(run, item) for item in items[:won]]
            if self._commit(run, document, self._lightened(run, document), items[:won]):
                return won
            document = self._overtaken(run, document)
        raise self._crowded_out(run)

    def _parts(self, places: Sequence[int], entries: Sequence[Entry]) -> Iterator[list[int]]:
        """As many at a time as a document can take."""
        part: list[int] = []
        weight = 0
        for place in places:
            heavy = len(entries[place].body) > self.inline_bytes
            part.append(place)
            weight += len(entries[place].meta)
            weight += 0 if heavy else len(entries[place].body)
            if weight >= self.heavy_bytes or len(part) >= 4 * self.crowded:
                yield part
                part, weight = [], 0
        if part:
            yield part

    def read(
        self,
        run: str,
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> list[Entry]:
        for _ in range(_TRIES):
            document = self._document(run)
            low, high = document.floor, document.head
            if after is not None:
                low, high = (
                    (low, min(high, after - 1)) if newest_first else (max(low, after + 1), high)
                )
            if limit <= 0 or low > high:
                return []
            newest = {item.seq: item for item in document.newest if low <= item.seq <= high}
            old: list[Item] = []
            if low <= document.copied and not (newest_first and len(newest) >= limit):
                top = min(high, document.copied)
                old = self._items(run, low, top, limit, newest_first=newest_first, bodies=bodies)
            if any(item.trims > document.trims for item in old):
                continue  # from a trim that came after the document
            found = {item.seq: self._as_trimmed(document, run, item) for item in old}
            found |= newest
            page = [found[seq] for seq in sorted(found, reverse=newest_first)[:limit]]
            entries = [self._entry(run, item, bodies) for item in page]
            if None not in entries:
                return [entry for entry in entries if entry is not None]
        raise CheckpointCorruptedError(run, None, f"{self.url}: a body is missing")

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        self._check_open()
        found: list[Entry] = []
        for run, top in self._listed(where.prefix, after) if limit > 0 else ():
            head = self._head(run, top)
            if where.matches(head):
                found.append(head)
                if len(found) == limit:
                    break
        return found

    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        run = marker.run
        before = {seq: body for seq, body in changes.items() if seq < marker.seq}
        dropped = frozenset(seq for seq, body in before.items() if body is None)
        inline = self.heavy_bytes // max(1, len(before) - len(dropped))
        bodies = {
            seq: self._placed_body(run, body, inline)
            for seq, body in before.items()
            if body is not None
        }
        item = self._placed(run, self._item(marker))
        for _ in range(_TRIES):
            document = self._settled(run, self._document(run))
            if not follows(marker, document.head):
                for name in (item.blob, *(blob for _, blob in bodies.values())):
                    self._forget_blob(run, name)
                return False
            trimmed = replace(document, trims=document.trims + 1, drop=dropped, rewrite=bodies)
            newest = [
                self._as_trimmed(trimmed, run, old)._replace(trims=trimmed.trims)
                for old in document.newest
            ]
            changed = (old for old in document.newest if old.seq in dropped or old.seq in bodies)
            noted = replace(trimmed, newest=tuple(newest), doomed=_blobs(changed))
            if self._commit(run, document, noted, [item]):
                self._tidy(run)
                return True
        raise self._crowded_out(run)

    def erase(self, tombstone: Entry) -> bool:
        run = tombstone.run
        item = self._placed(run, self._item(tombstone))
        for _ in range(_TRIES):
            document = self._settled(run, self._document(run))
            if tombstone.seq <= document.head:
                self._forget_blob(run, item.blob)
                return False
            seq, doomed = tombstone.seq, _blobs(document.newest)
            grave = replace(document, floor=seq, erased=seq, newest=(), doomed=doomed)
            if self._commit(run, document, grave, [item]):
                self._tidy(run)
                return True
        raise self._crowded_out(run)

    def stats(self, run: str | None = None) -> StoreStats:
        self._check_open()
        names = [run] if run is not None else (name for name, _ in self._listed("", ""))
        return totals(self._sizes(name) for name in names)

    def close(self) -> None:
        self._closed = True

    # --- committing

    def _commit(self, run: str, old: Document, new: Document, items: Sequence[Item]) -> bool:
        """Replace a document by a new one with these items at its end, unless it was changed."""
        items = [item._replace(trims=new.trims) for item in items]
        new = replace(new, version=_new_version(), head=items[-1].seq, newest=(*new.newest, *items))
        return self._replace(run, old, new)

    def _replace(self, run: str, old: Document, new: Document) -> bool:
        """Make it the run's document, unless that is not the old one any more."""
        self._known.pop(run, None)
        top = new.newest[-1]
        packed, packed_top = new.pack(), b"%d " % top.seq + top.fields
        if len(packed) + len(packed_top) > self.document_bytes:
            raise StoreError(
                f"{self.url}: {len(packed) + len(packed_top):,} bytes are to change at once in run "
                f"{run!r}, and {self.document_bytes:,} can; give entries less metadata, or trim fewer"
            )
        if not self._swap(run, old.version, new.version, packed, packed_top):
            return False
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        self._known[run] = new
        return True

    def _lightened(self, run: str, document: Document) -> Document:
        """The document without what is now in items of its own."""
        document = self._done(run, document)
        if document.weight < self.heavy_bytes and len(document.newest) < self.crowded:
            return document
        for item in document.newest:
            self._put(run, item._replace(trims=document.trims))
        return replace(document, newest=(), copied=document.head)

    def _settled(self, run: str, document: Document) -> Document:
        """The document as it is once nothing is left to be done, as one commit."""
        for _ in range(_TRIES):
            if document.settled:
                return document
            done = replace(self._done(run, document), version=_new_version())
            document = (
                done if self._replace(run, document, done) else self._overtaken(run, document)
            )
        raise self._crowded_out(run)

    def _overtaken(self, run: str, document: Document) -> Document:
        """The document as others have made it.

        What was copied out for the older one may have come after they erased it, or thinned it
        out: it is taken away again, or brought up to date.
        """
        newer = self._document(run)
        if newer.floor > document.floor:
            self._bury(run, newer.floor)
        if newer.trims == document.trims:
            return newer
        for item in newer.newest:
            if item.seq <= document.head:
                self._put(run, item._replace(trims=newer.trims))
        return self._overtaken(run, newer)

    def _bury(self, run: str, floor: int) -> None:
        """Delete what stands below the floor."""
        for item in self._each(run, 0, floor - 1):
            self._forget_blob(run, item.blob)
            self._delete(run, [item.seq])

    def _done(self, run: str, document: Document) -> Document:
        """Do what a trim or an erasure still has to. Doing it twice changes nothing."""
        if document.settled:
            return document
        for name in document.doomed:
            self._forget_blob(run, name)
        self._bury(run, document.erased)
        for old in self._concerned(run, document):
            if old.trims < document.trims and old.seq >= document.floor:
                # In this order: nobody would know the body's name once the item has changed.
                self._forget_blob(run, old.blob)
                self._put(run, self._as_trimmed(document, run, old))
        return replace(document, drop=frozenset(), rewrite={}, erased=0, doomed=())

    def _concerned(self, run: str, document: Document) -> Iterator[Item]:
        """The items that a trim has to change, and copies of the newest that count for nothing yet."""
        changes = {*document.drop, *document.rewrite}
        for seq in sorted(seq for seq in changes if seq <= document.copied):
            yield from self._items(run, seq, seq, 1, newest_first=False, bodies=False)
        for item in self._each(run, document.copied + 1, document.head) if changes else ():
            if item.seq in changes:
                yield item

    def _tidy(self, run: str) -> None:
        """What was asked for has happened. If this fails, the next writer goes on with it."""
        try:
            self._settled(run, self._document(run))
        except HoldfastError:
            return

    def _as_trimmed(self, document: Document, run: str, item: Item) -> Item:
        if item.seq in document.drop and item.trims < document.trims:
            entry = stub(self._unpacked(run, item.seq, item.fields)[0])
            return Item(item.seq, document.trims, self._fields(entry))
        if item.seq in document.rewrite and item.trims < document.trims:
            body, blob = document.rewrite[item.seq]
            size = blob_size(blob) if blob else len(body)
            fields = self._fields(self._unpacked(run, item.seq, item.fields)[0], size)
            return Item(item.seq, document.trims, fields, body, blob)
        return item

    # --- reading

    def _document(self, run: str) -> Document:
        self._check_open()
        packed = self._get(run)
        if packed is None:
            return Document()
        try:
            return Document.unpack(packed, self.url)
        except (ValueError, TypeError) as error:
            raise CheckpointCorruptedError(run, None, f"{self.url}: {error}") from error

    def _each(self, run: str, low: int, high: int) -> Iterator[Item]:
        while low <= high:
            page = self._items(run, low, high, PAGE, newest_first=False, bodies=False)
            yield from page
            low = page[-1].seq + 1 if page else high + 1

    def _listed(self, prefix: str, after: str) -> Iterator[tuple[str, bytes]]:
        low = prefix if prefix.startswith(HIDDEN) else max(prefix, " ")
        high = prefix + chr(0x10FFFF) * max(1, (_LONGEST - len(prefix.encode())) // 4)
        while True:
            page = self._tops(low, after, high, PAGE)
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1][0]

    def _sizes(self, run: str) -> Iterator[tuple[Entry, int]]:
        document = self._document(run)
        newest = {item.seq for item in document.newest}
        items = [
            self._as_trimmed(document, run, item)
            for item in self._each(run, document.floor, document.copied)
            if item.seq not in newest
        ]
        for item in (*items, *document.newest):
            yield self._unpacked(run, item.seq, item.fields)

    # --- entries and bytes

    def _item(self, entry: Entry) -> Item:
        return Item(entry.seq, 0, self._fields(entry, len(entry.body)), entry.body)

    def _placed(self, run: str, item: Item) -> Item:
        """With its body somewhere else, if it is large."""
        body, blob = self._placed_body(run, item.body)
        return item._replace(body=body, blob=blob) if blob else item

    def _placed_body(self, run: str, body: bytes, most: int | None = None) -> tuple[bytes, str]:
        if len(body) <= min(self.inline_bytes if most is None else most, self.inline_bytes):
            return body, ""
        name = f"{secrets.token_hex(16)}-{len(body)}"
        self._put_blob(run, name, body)
        return b"", name

    def _forget_blob(self, run: str, name: str) -> None:
        if name:
            self._delete_blob(run, name)

    def _fields(self, entry: Entry, size: int = 0) -> bytes:
        return pack(entry, size, self.url)

    def _unpacked(self, run: str, seq: int, fields: bytes) -> tuple[Entry, int]:
        """The entry without its body, and how long that is."""
        return unpack(run, seq, fields, self.url)

    def _head(self, run: str, top: bytes) -> Entry:
        seq, _, fields = top.partition(b" ")
        if not (seq.isdigit() and len(seq) < _DIGITS):
            raise CheckpointCorruptedError(run, None, f"{self.url}: its head has no number")
        return self._unpacked(run, int(seq), fields)[0]

    def _entry(self, run: str, item: Item, bodies: bool) -> Entry | None:
        """The entry; None if its body, or a part of it, was removed meanwhile."""
        try:
            check_blob(item.blob)
        except ValueError as error:
            raise CheckpointCorruptedError(run, item.seq, f"{self.url}: {error}") from error
        entry = self._unpacked(run, item.seq, item.fields)[0]
        if not bodies:
            return entry
        if not item.blob:
            return entry._replace(body=item.body)
        body = self._get_blob(run, item.blob)
        if body is None or len(body) != blob_size(item.blob):
            return None
        return entry._replace(body=body)

    def _crowded_out(self, run: str) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self.url}: others write to run {run!r} all the time")

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(self.url)

    def _forget(self) -> None:
        self._known = {}


def _blobs(items: Iterable[Item]) -> tuple[str, ...]:
    return tuple(item.blob for item in items if item.blob)


def _new_version() -> int:
    """One that no document ever had: a server that went back in time must not come to it again."""
    return secrets.randbits(62) + 1
