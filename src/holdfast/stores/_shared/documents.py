"""The documents of a `DocumentStore`: how they are read, replaced and kept small."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar, Final, NamedTuple

from holdfast import scanning
from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.heads import RunHead, Tally, applied, change_of, differences, fold
from holdfast.model import Entry
from holdfast.seams import on_fork
from holdfast.store import PAGE, Store
from holdfast.stores._shared.document import Document, Item

TRIES: Final = 100
_MAX_KNOWN: Final = 10_000


class Swap(NamedTuple):
    """A document as it is stored."""

    version: int
    packed: bytes
    top: bytes  # the head's seq and fields
    row: RunHead | None  # of the heads index
    changed: bool  # whether the row is another than before


class Documents(Store):
    """The documents of runs. A store says how its database gets, replaces and lists them."""

    inline_bytes: ClassVar[int] = 32 << 10
    """A larger body becomes a blob."""
    heavy_bytes: ClassVar[int] = 64 << 10
    """A heavier document loses its older entries: it is written whole at each save."""
    crowded: ClassVar[int] = 32
    """A document with more entries loses its older ones, too."""
    document_bytes: ClassVar[int] = 15 << 20
    """The most that the database takes."""

    def __init__(self) -> None:
        self._closed = False
        self._known: dict[str, Document] = {}  # as this process left them; may be outdated
        on_fork(self._forget)

    # what a store does; errors are translated

    @abstractmethod
    def _get(self, run: str) -> bytes | None:
        """The run's document, as it is now."""

    @abstractmethod
    def _swap(self, run: str, old: int, new: Swap) -> bool:
        """Replace the document if its version is `old`, or make it if that is 0.

        Durable when it returns. Raises `OutcomeUnknownError` when it may have happened.
        """

    @abstractmethod
    def _add(self, hour: int, flow: str, numbers: Mapping[str, int]) -> None:
        """Add to the numbers of an hour; they need not be durable."""

    @abstractmethod
    def _tops(self, low: str, above: str, high: str, limit: int) -> list[tuple[str, bytes]]:
        """Run and `top` of the documents with low <= run < high and run > above, in order."""

    @abstractmethod
    def _put(self, run: str, item: Item) -> None:
        """Write the item, unless the stored one has been through as many trims or more."""

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
        """Store a body under a name that nobody else uses."""

    @abstractmethod
    def _get_blob(self, run: str, name: str) -> bytes | None:
        """The body of that name."""

    @abstractmethod
    def _delete_blob(self, run: str, name: str) -> None:
        """Remove it."""

    def _commit(
        self,
        run: str,
        old: Document,
        new: Document,
        items: Sequence[Item],
        entries: Sequence[Entry],
    ) -> bool:
        """Replace the document by a new one with these entries at its end, unless it has changed."""
        items = [item._replace(trims=new.trims) for item in items]
        change = change_of(entries)
        before = old.row if old.indexed or change is None else self._folded(run)
        new = replace(new, version=new_version(), head=items[-1].seq, newest=(*new.newest, *items))
        if change is not None:
            new = replace(new, row=applied(before, change), indexed=True)
        if not self._replace(run, old, new):
            return False
        if change is not None:
            self._count(differences(before, change))
        return True

    def _replace(self, run: str, old: Document, new: Document) -> bool:
        """Make it the run's document, unless another has replaced the old one."""
        self._known.pop(run, None)
        if not new.indexed:  # as an older holdfast left it
            new = replace(new, row=self._folded(run), indexed=True)
        top = new.newest[-1]
        swap = Swap(
            new.version,
            new.pack(),
            b"%d " % top.seq + top.fields,
            new.row,
            new.row != old.row or new.indexed != old.indexed,
        )
        if len(swap.packed) + len(swap.top) > self.document_bytes:
            raise StoreError(
                f"{self.url}: run {run!r} would need a document of "
                f"{len(swap.packed) + len(swap.top):,} bytes, and {self.document_bytes:,} are "
                "allowed; save less metadata, or prune fewer checkpoints at a time"
            )
        if not self._swap(run, old.version, swap):
            return False
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        self._known[run] = new
        return True

    def _folded(self, run: str) -> RunHead | None:
        """The row of a run, from its journal; none if that is damaged."""
        with suppress(CheckpointCorruptedError):
            return fold(scanning.journal(self, run))
        return None

    def _count(self, found: Iterable[Tally]) -> None:
        """Add to the statistics. A save does not fail if they can't be kept."""
        hours: dict[tuple[int, str], dict[str, int]] = {}
        for each in found:
            if each.hour >= 0:
                numbers = hours.setdefault((each.hour, each.flow), {})
                numbers[f"n_{each.what}_{each.bucket}"] = each.n
                if each.total:
                    numbers[f"t_{each.what}_{each.bucket}"] = each.total
        with suppress(HoldfastError):
            for (hour, flow), numbers in hours.items():
                self._add(hour, flow, numbers)

    def _lightened(self, run: str, document: Document) -> Document:
        """The document without the entries that now are items of their own."""
        document = self._done(run, document)
        if document.weight < self.heavy_bytes and len(document.newest) < self.crowded:
            return document
        for item in document.newest:
            self._put(run, item._replace(trims=document.trims))
        return replace(document, newest=(), copied=document.head)

    def _settled(self, run: str, document: Document) -> Document:
        """The document once the last trim or erasure is complete, which takes one commit."""
        for _ in range(TRIES):
            if document.settled:
                return document
            done = replace(self._done(run, document), version=new_version())
            document = (
                done if self._replace(run, document, done) else self._overtaken(run, document)
            )
        raise self._crowded_out(run)

    def _overtaken(self, run: str, document: Document) -> Document:
        """The document as others have replaced it.

        What was copied from ours may have come after they erased or trimmed it: delete the copies,
        or bring them up to date.
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
        """Delete the items below the floor."""
        for item in self._each(run, 0, floor - 1):
            self._delete_blobs(run, blobs_of([item]))
            self._delete(run, [item.seq])

    def _done(self, run: str, document: Document) -> Document:
        """Finish a trim or an erasure. Doing it twice changes nothing."""
        if document.settled:
            return document
        self._delete_blobs(run, document.doomed)
        self._bury(run, document.erased)
        for old in self._concerned(run, document):
            if old.trims < document.trims and old.seq >= document.floor:
                # The blob first: its name is lost once the item has changed.
                self._delete_blobs(run, blobs_of([old]))
                self._put(run, document.trimmed(run, old))
        return replace(document, drop=frozenset(), rewrite={}, erased=0, doomed=())

    def _concerned(self, run: str, document: Document) -> Iterator[Item]:
        """The items that a trim has to change, and copies of the newest entries."""
        changes = {*document.drop, *document.rewrite}
        for seq in sorted(seq for seq in changes if seq <= document.copied):
            yield from self._items(run, seq, seq, 1, newest_first=False, bodies=False)
        for item in self._each(run, document.copied + 1, document.head) if changes else ():
            if item.seq in changes:
                yield item

    def _tidy(self, run: str) -> None:
        """Finish what was noted. If that fails, the next writer does it."""
        with suppress(HoldfastError):
            self._settled(run, self._document(run))

    def _document(self, run: str) -> Document:
        self._check_open()
        packed = self._get(run)
        if packed is None:
            return Document()
        try:
            return Document.unpack(packed, self.url, run)
        except (ValueError, TypeError) as error:
            raise CheckpointCorruptedError(run, None, f"{self.url}: {error}") from error

    def _each(self, run: str, low: int, high: int) -> Iterator[Item]:
        while low <= high:
            page = self._items(run, low, high, PAGE, newest_first=False, bodies=False)
            yield from page
            low = page[-1].seq + 1 if page else high + 1

    def _placed(self, run: str, item: Item) -> Item:
        """The item, with a large body stored as a blob."""
        body, blob = self._placed_body(run, item.body)
        return item._replace(body=body, blob=blob) if blob else item

    def _placed_body(self, run: str, body: bytes, most: int | None = None) -> tuple[bytes, str]:
        if len(body) <= min(self.inline_bytes if most is None else most, self.inline_bytes):
            return body, ""
        name = f"{secrets.token_hex(16)}-{len(body)}"
        self._put_blob(run, name, body)
        return b"", name

    def _delete_blobs(self, run: str, names: Iterable[str]) -> None:
        for name in names:
            self._delete_blob(run, name)

    def _crowded_out(self, run: str) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self.url}: other writers kept getting ahead on run {run!r}")

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(self.url)

    def _forget(self) -> None:
        self._known = {}


def blobs_of(items: Iterable[Item]) -> tuple[str, ...]:
    """The blobs that the items have."""
    return tuple(item.blob for item in items if item.blob)


def new_version() -> int:
    """A version of a document, a random one: a database restored from a backup must not reach the same version again."""
    return secrets.randbits(62) + 1
