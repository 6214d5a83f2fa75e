"""What `_documents` keeps: the document of a run, and entries on their own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import ormsgpack

from holdfast.stores._shared.schema import refuse_newer

FORMAT: Final = 1
"""Of documents. A later holdfast brings a run's to its own when it first saves to the run."""

_BLOB: Final = re.compile(r"(?:[0-9a-f]{32}-[0-9]{1,12})?")


class Item(NamedTuple):
    """An entry on its own: `body` is there, or under a name of its own, or not asked for."""

    seq: int
    trims: int  # how many the run had been through when this was written
    fields: bytes  # packed: all but run, seq and body, and how long the body is
    body: bytes = b""
    blob: str = ""


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
    erased: int = 0  # below this, items are still to be deleted
    copied: int = -1  # no item is above this, but copies of the newest
    doomed: tuple[str, ...] = ()  # large bodies still to be removed

    @property
    def weight(self) -> int:
        """The bytes of its entries."""
        return sum(len(item.fields) + len(item.body) for item in self.newest)

    @property
    def settled(self) -> bool:
        """Whether nothing is left to be done but copying out."""
        return not (self.drop or self.rewrite or self.erased or self.doomed)

    def pack(self) -> bytes:
        """As it is stored; of what is dropped the gaps in between, as a byte holds most of these."""
        drop = sorted(self.drop)
        gaps = [seq - before for before, seq in pairwise([0, *drop])]
        rewrite = [[seq, *new] for seq, new in self.rewrite.items()]
        return ormsgpack.packb([
            FORMAT, self.version, self.head, self.floor, self.trims, list(map(list, self.newest)),
            gaps, rewrite, self.erased, self.copied,
            list(self.doomed),
        ])  # fmt: skip

    @classmethod
    def unpack(cls, packed: bytes, url: str) -> Document:
        """Raises `SchemaError` for a later format, `ValueError` or `TypeError` for anything else."""
        made_as, *fields = ormsgpack.unpackb(packed)
        _check(int, made_as)
        refuse_newer(url, made_as, FORMAT)
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
        for blob in (
            *doomed,
            *(item.blob for item in items),
            *(blob for _, blob in changes.values()),
        ):
            check_blob(blob)
        return cls(
            version, head, floor, trims, items, frozenset(accumulate(gaps)), changes, erased, copied,
            tuple(doomed),
        )  # fmt: skip


def blob_size(name: str) -> int:
    """How long the body of that name is."""
    return int(name.rpartition("-")[2])


def check_blob(name: object) -> None:
    """Raise `ValueError` if it is no name of a large body, nor empty."""
    if not isinstance(name, str) or not _BLOB.fullmatch(name):
        raise ValueError(f"no name of a body: {name!r:.99}")


def _check(kind: type, *values: object) -> None:
    for value in values:
        if type(value) is not kind:
            raise TypeError(f"{value!r:.99} is no {kind.__name__}")
