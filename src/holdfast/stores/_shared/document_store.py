"""A store over a database with one atomic operation: replace a document if it is unchanged.

Each run has a document that holds all that must change together: the head, the newest entries, where
the journal begins after an erasure, and what a trim still has to do. Replacing it, if its version is
still the one that was read, is the commit. Older entries are items of their own.

* **Appending** puts entries into the document. When it gets heavy, its older entries are first copied
  to items; the next commit removes them from the document. A body too large for the document
  is stored as a blob before the commit that names it.
* **Erasing** raises the floor to the tombstone: nothing below it counts. Then that is deleted.
* **Trimming** notes the changes in the document, and readers apply them to what they read. Then the
  items are changed, and the note is removed.

What a crash leaves undone is done by the next writer. Each item has the number of trims that it has
been through: a late copy never replaces a newer item, and a reader that meets an item from
a later trim reads again. So no transaction over several documents is needed, and no clock. A crash
can leave the blob of a save that never happened, which only takes up space. A document of a later
format is refused, also by a writer that knows the previous one: its version is different.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from holdfast.errors import CheckpointCorruptedError
from holdfast.model import HIDDEN, MAX_ID_BYTES, Entry, follows
from holdfast.store import ANY_HEAD, PAGE, Behind, RunFilter, StoreStats
from holdfast.stores._shared.document import Document, Item, blob_size, check_blob
from holdfast.stores._shared.documents import TRIES, Documents, blobs_of
from holdfast.stores._shared.fields import unpack
from holdfast.stores._shared.journals import append_in_parts, totals
from holdfast.stores._shared.outcomes import outcomes_by_heads

_LONGEST: Final = MAX_ID_BYTES + 60  # bytes of a name, with those beside the runs
_DIGITS: Final = 20  # no seq has so many


class DocumentStore(Documents):
    """Journals in documents."""

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        self._check_open()
        return append_in_parts(entries, behind, self._parts(entries), self._append)

    def _append(self, entries: Sequence[Entry], behind: Behind) -> list[bool]:
        """Append entries of one run, all in one commit."""
        run = entries[0].run
        items = [Item.of(entry) for entry in entries]
        known = self._known.get(run)
        document = known or self._document(run)
        for _ in range(TRIES):
            outcomes = outcomes_by_heads(entries, {run: document.head_of(run)}, behind)
            won = sum(outcomes)  # the first ones
            if not won and document is known:  # others may have appended since
                document = self._document(run)
                continue
            if not won:
                self._delete_blobs(run, blobs_of(items))
                return outcomes
            items[:won] = [self._placed(run, item) for item in items[:won]]
            if self._commit(
                run, document, self._lightened(run, document), items[:won], entries[:won]
            ):
                return outcomes
            document = self._overtaken(run, document)
        raise self._crowded_out(run)

    def _parts(self, entries: Sequence[Entry]) -> Iterator[list[int]]:
        """The places of each run's entries, as many at a time as a document takes."""
        places: dict[str, list[int]] = {}
        for place, entry in enumerate(entries):
            places.setdefault(entry.run, []).append(place)
        for its in places.values():
            part: list[int] = []
            weight = 0
            for place in its:
                entry = entries[place]
                part.append(place)
                inline = len(entry.body) <= self.inline_bytes
                weight += len(entry.meta) + (len(entry.body) if inline else 0)
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
        for _ in range(TRIES):
            document = self._document(run)
            low, high = document.floor, document.head
            if after is not None and newest_first:
                high = min(high, after - 1)
            elif after is not None:
                low = max(low, after + 1)
            if limit <= 0 or low > high:
                return []
            newest = {item.seq: item for item in document.newest if low <= item.seq <= high}
            old: list[Item] = []
            if low <= document.copied and not (newest_first and len(newest) >= limit):
                top = min(high, document.copied)
                old = self._items(run, low, top, limit, newest_first=newest_first, bodies=bodies)
            if any(item.trims > document.trims for item in old):
                continue  # from a trim that came after the document
            found = {item.seq: document.trimmed(run, item) for item in old}
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
        for run, top in self._all(where.prefix, after) if limit > 0 else ():
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

        def noted(document: Document) -> Document:
            trimmed = replace(document, trims=document.trims + 1, drop=dropped, rewrite=bodies)
            newest = [
                trimmed.trimmed(run, item)._replace(trims=trimmed.trims) for item in document.newest
            ]
            doomed = blobs_of(item for item in document.newest if item.seq in before)
            return replace(trimmed, newest=tuple(newest), doomed=doomed)

        return self._end_with(marker, noted, [blob for _, blob in bodies.values()])

    def erase(self, tombstone: Entry) -> bool:
        def noted(document: Document) -> Document:
            seq, doomed = tombstone.seq, blobs_of(document.newest)
            return replace(document, floor=seq, erased=seq, newest=(), doomed=doomed)

        return self._end_with(tombstone, noted)

    def _end_with(
        self, marker: Entry, noted: Callable[[Document], Document], blobs: Iterable[str] = ()
    ) -> bool:
        """Append a marker to the run, together with the change that `noted` makes."""
        run = marker.run
        item = self._placed(run, Item.of(marker))
        for _ in range(TRIES):
            document = self._settled(run, self._document(run))
            if not follows(marker, document.head):
                self._delete_blobs(run, (*blobs_of([item]), *filter(None, blobs)))
                return False
            if self._commit(run, document, noted(document), [item], [marker]):
                self._tidy(run)
                return True
        raise self._crowded_out(run)

    def stats(self, run: str | None = None) -> StoreStats:
        self._check_open()
        names = [run] if run is not None else (name for name, _ in self._all("", ""))
        return totals(self._sizes(name) for name in names)

    def close(self) -> None:
        self._closed = True

    def _all(self, prefix: str, after: str) -> Iterator[tuple[str, bytes]]:
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
        for item in self._each(run, document.floor, document.copied):
            if item.seq not in newest:
                yield document.trimmed(run, item).entry(run)
        for item in document.newest:
            yield item.entry(run)

    def _head(self, run: str, top: bytes) -> Entry:
        seq, _, fields = top.partition(b" ")
        if not (seq.isdigit() and len(seq) < _DIGITS):
            raise CheckpointCorruptedError(run, None, f"{self.url}: its head has no number")
        return unpack(run, int(seq), fields)[0]

    def _entry(self, run: str, item: Item, bodies: bool) -> Entry | None:
        """The entry; None if its blob, or a part of it, was deleted in the meantime."""
        try:
            check_blob(item.blob)
        except ValueError as error:
            raise CheckpointCorruptedError(run, item.seq, f"{self.url}: {error}") from error
        entry, _ = item.entry(run)
        if not bodies:
            return entry
        if not item.blob:
            return entry._replace(body=item.body)
        body = self._get_blob(run, item.blob)
        if body is None or len(body) != blob_size(item.blob):
            return None
        return entry._replace(body=body)
