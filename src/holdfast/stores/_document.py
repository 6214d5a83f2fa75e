"""What `_documents` keeps: the document of a run, and entries on their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import ormsgpack


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

    @property
    def weight(self) -> int:
        """The bytes of its entries."""
        return sum(len(item.fields) + len(item.body) for item in self.newest)

    @property
    def settled(self) -> bool:
        """Whether nothing is left to be done but copying out."""
        return not (self.drop or self.rewrite or self.erased)

    def pack(self) -> bytes:
        """As it is stored."""
        rewrite = [[seq, *new] for seq, new in self.rewrite.items()]
        return ormsgpack.packb([
            self.version, self.head, self.floor, self.trims, list(map(list, self.newest)),
            sorted(self.drop), rewrite, self.erased, self.copied,
        ])  # fmt: skip

    @classmethod
    def unpack(cls, packed: bytes) -> Document:
        """Raises `ValueError` or `TypeError` for anything else."""
        version, head, floor, trims, newest, drop, rewrite, *rest = ormsgpack.unpackb(packed)
        items = tuple(Item(*item) for item in newest)
        changes = {seq: (body, blob) for seq, body, blob in rewrite}
        return cls(version, head, floor, trims, items, frozenset(drop), changes, *rest)
