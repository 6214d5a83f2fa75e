"""What a `DocumentStore` keeps: a document for each run, and older entries as items."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import ormsgpack

from holdfast.errors import CheckpointCorruptedError
from holdfast.heads import RunHead
from holdfast.model import Entry, stub
from holdfast.store import NO_HEAD, UNREADABLE, Head
from holdfast.stores._shared.fields import pack, unpack
from holdfast.stores._shared.schema import refuse_newer

FORMAT: Final = 2
"""The version of documents. A newer holdfast upgrades a run's when it first saves to the run."""

_WITHOUT_ROW: Final = 1

_BLOB: Final = re.compile(r"(?:[0-9a-f]{32}-[0-9]{1,12})?")


class Item(NamedTuple):
    """An entry as it is stored. A large body is stored as a blob, under a name of its own."""

    seq: int
    trims: int  # the trims of the run when this was written
    fields: bytes  # as `fields.pack` makes them
    body: bytes = b""
    blob: str = ""

    @classmethod
    def of(cls, entry: Entry) -> Item:
        """The item of an entry, with its body."""
        return cls(entry.seq, 0, pack(entry, len(entry.body)), entry.body)

    def entry(self, run: str) -> tuple[Entry, int]:
        """The entry without its body, and the body's length."""
        return unpack(run, self.seq, self.fields)


@dataclass(frozen=True)
class Document:
    """What is known about a run, and changes as a whole."""

    version: int = 0
    head: int = -1
    floor: int = 0
    trims: int = 0
    newest: tuple[Item, ...] = ()  # the head is the last of them
    drop: frozenset[int] = frozenset()
    rewrite: Mapping[int, tuple[bytes, str]] = field(default_factory=dict)
    erased: int = 0  # items below this are still to be deleted
    copied: int = -1  # items above this are only copies of the newest
    doomed: tuple[str, ...] = ()  # blobs still to be deleted
    row: RunHead | None = None  # of the heads index
    indexed: bool = True  # False if the row is not known, as an older holdfast wrote it

    def head_of(self, run: str) -> Head:
        """The head of the run that it belongs to."""
        if not self.newest:
            return NO_HEAD
        try:
            return self.head, self.newest[-1].entry(run)[0].digest
        except CheckpointCorruptedError:
            return self.head, UNREADABLE

    def trimmed(self, run: str, item: Item) -> Item:
        """The item as the last trim leaves it, if that still has to be applied to it."""
        if item.trims >= self.trims or not (item.seq in self.drop or item.seq in self.rewrite):
            return item
        entry, _ = item.entry(run)
        if item.seq in self.drop:
            return Item(item.seq, self.trims, pack(stub(entry), 0))
        body, blob = self.rewrite[item.seq]
        fields = pack(entry, blob_size(blob) if blob else len(body))
        return Item(item.seq, self.trims, fields, body, blob)

    @property
    def weight(self) -> int:
        """The bytes of its entries."""
        return sum(len(item.fields) + len(item.body) for item in self.newest)

    @property
    def settled(self) -> bool:
        """Whether the last trim or erasure is complete."""
        return not (self.drop or self.rewrite or self.erased or self.doomed)

    def pack(self) -> bytes:
        """The document as bytes; `drop` as the gaps between its seqs, most of which fit in a byte."""
        drop = sorted(self.drop)
        gaps = [seq - before for before, seq in pairwise([0, *drop])]
        rewrite = [[seq, *new] for seq, new in self.rewrite.items()]
        return ormsgpack.packb([
            FORMAT, self.version, self.head, self.floor, self.trims, list(map(list, self.newest)),
            gaps, rewrite, self.erased, self.copied,
            list(self.doomed), None if self.row is None else pack_row(self.row),
        ])  # fmt: skip

    @classmethod
    def unpack(cls, packed: bytes, url: str, run: str) -> Document:
        """The document of a run from bytes.

        Raises `SchemaError` for a later format, `ValueError` or `TypeError` for anything else.
        """
        made_as, *fields = ormsgpack.unpackb(packed)
        _check(int, made_as)
        refuse_newer(url, made_as, FORMAT)
        row, indexed = None, False
        if made_as > _WITHOUT_ROW:
            with suppress(ValueError, TypeError):
                row, indexed = unpack_row(run, fields.pop()), True
        version, head, floor, trims, newest, gaps, rewrite, erased, copied, doomed = fields
        _check(int, version, head, floor, trims, erased, copied, *gaps)
        items = tuple(Item(*item) for item in newest)
        for item in items:
            _check(int, item.seq, item.trims)
            _check(bytes, item.fields, item.body)
        if not items or items[-1].seq != head:
            raise ValueError("it has no head")
        changes = {seq: (body, blob) for seq, body, blob in rewrite}
        _check(int, *changes)
        _check(bytes, *(body for body, _ in changes.values()))
        blobs = (*(item.blob for item in items), *(blob for _, blob in changes.values()))
        for blob in (*doomed, *blobs):
            check_blob(blob)
        return cls(
            version, head, floor, trims, items, frozenset(accumulate(gaps)), changes, erased, copied,
            tuple(doomed), row, indexed,
        )  # fmt: skip


def pack_row(row: RunHead) -> list[object]:
    """A row of the heads index, without the run, as msgpack and databases have lists."""
    *fields, labels, seq = row[1:]
    return [*fields, list(labels), seq]


def unpack_row(run: str, packed: object) -> RunHead | None:
    """The row; None if there is none. Raises `ValueError` or `TypeError` for anything else."""
    if packed is None:
        return None
    if not isinstance(packed, list):
        raise TypeError(f"{packed!r:.99} is not a row")
    *fields, labels, seq = packed
    row: RunHead = RunHead._make([run, *fields, tuple(labels), seq])
    _check(int, row.opened, row.changed, row.questions, row.seq)
    _check(int, *(() if row.due is None else (row.due,)))
    texts = (row.flow, row.thread, row.owner, row.parent, row.holder)
    _check(str, row.status, *row.labels, *(text for text in texts if text is not None))
    return row


def blob_size(name: str) -> int:
    """The length of the body that a blob's name gives."""
    return int(name.rpartition("-")[2])


def check_blob(name: object) -> None:
    """Raise `ValueError` unless it is the name of a blob, or empty."""
    if not isinstance(name, str) or not _BLOB.fullmatch(name):
        raise ValueError(f"not the name of a body: {name!r:.99}")


def _check(kind: type, *values: object) -> None:
    for value in values:
        if type(value) is not kind:
            raise TypeError(f"{value!r:.99} is not of type {kind.__name__}")
