"""What an attacker without keys can make of stored entries: every check that needs no key is right.

`rechained` computes proofs, digests and checksums anew up to the head. So what refuses a forged
entry is the encryption, the tag or the signature, and never an unkeyed check.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import holdfast as hf
from holdfast.codec import envelope, wrapping
from holdfast.codec.envelope import Packed
from holdfast.keys.keyring import Keyring
from holdfast.model import Entry
from holdfast.store import Store

OLD, NEW = os.urandom(32), os.urandom(32)
RING = Keyring({"2025": OLD})


class Parts(NamedTuple):
    """An entry, and what its envelope holds."""

    entry: Entry
    flags: int
    content: bytes
    trailer: bytes
    proof: bytes  # of a rewritten one: of what was first stored
    marker: int

    @classmethod
    def of(cls, entry: Entry) -> Parts:
        flags, content, proof, marker, trailer = envelope.glance(entry)
        return cls(entry, flags, content, trailer, proof, marker)

    def having(self, **fields: Any) -> Parts:
        """With other fields of the entry."""
        return self._replace(entry=self.entry._replace(**fields))


class _Trailer:
    """Puts something behind a content that nobody made for it."""

    def __init__(self, trailer: bytes) -> None:
        self.flags = 0
        self._trailer = trailer

    def close(self, flags: int, beside: bytes, plain: bytes) -> bytes:
        return plain

    def trailer(self, digest: bytes) -> bytes:
        return self._trailer


def rechained(journal: list[Parts], before: bytes = b"") -> list[Entry]:
    """The journal as entries, with all that can be computed without a key."""
    found: list[Entry] = []
    proofs: dict[int, bytes] = {}
    for parts in journal:
        entry, flags, content, trailer, proof, marker = parts
        if not entry.body:  # a stub keeps its digest
            found.append(entry)
            before = entry.digest
            continue
        if not flags & wrapping.REWRITTEN:
            base = b""
            if flags & wrapping.DELTA:
                stored = envelope.Stored(flags, content, proof, marker, trailer)
                with suppress(hf.CheckpointCorruptedError):  # it makes no sense as a change
                    base = proofs.get(envelope.base(entry, stored), b"")
            proof = envelope.prove(flags, content, base)
        proofs[entry.seq] = proof
        packed = Packed(flags & ~wrapping.REWRITTEN, content, proof)
        made = envelope.seal(entry[:6], entry[7:18], before, packed, _Trailer(trailer))
        if flags & wrapping.REWRITTEN:
            beside = wrapping.beside_of(proof, marker)
            checksum = envelope._checksum(
                made.digest, envelope._clear(made), flags, beside, content, trailer
            )
            made = made._replace(body=wrapping.wrap(flags, checksum, beside, content, trailer))
        found.append(made)
        before = made.digest
    return found


def journal_of(store: Store, run: str) -> list[Parts]:
    """The entries of a run as they are stored, taken apart."""
    return [
        Parts.of(entry) if entry.body else Parts(entry, 0, b"", b"", b"", 0)
        for entry in store.read(run)
    ]


@contextmanager
def keyed(
    store: Store | str, key: Keyring | None = RING, **options: Any
) -> Iterator[hf.SyncCheckpointer]:
    """A checkpointer with a key."""
    with hf.SyncCheckpointer(store, key=key, **options) as cp:
        yield cp


def large(n: int) -> dict[str, Any]:
    """A state that is saved as a change to the one before."""
    return {"n": n, "log": [f"line {i} of {n if i == n else 0}" for i in range(400)]}
