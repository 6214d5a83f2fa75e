"""The data keys of a store: one for each owner, and one for all runs without an owner.

A data key is random and never leaves the process but wrapped by the program's keyring. It is kept
in one row of a hidden journal, which is replaced, never grown: so it can be wrapped anew, and
destroyed. What it encrypted is not touched by either.
"""

from __future__ import annotations

import base64
import binascii
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from holdfast.codec import envelope
from holdfast.codec.meta import Meta, dump_meta
from holdfast.errors import (
    CheckpointCorruptedError,
    KeyDestroyedError,
    KeyMissingError,
    OutcomeUnknownError,
    WrongKeyError,
)
from holdfast.keys.keyring import KEY_BYTES, Keyring
from holdfast.model import KEYS, Entry, Kind, Status, key_journal
from holdfast.seams import Clock, Entropy, fault, on_fork
from holdfast.store import PAGE, RunFilter, Store

ID_BYTES: Final = 4
_CACHED: Final = 10_000  # owners whose keys are kept in memory
_ATTEMPTS: Final = 100


class DataKey(NamedTuple):
    """A key that encrypts the runs of one owner."""

    id: bytes
    secret: bytes


class KeyRow(NamedTuple):
    """The data keys of an owner as they are stored."""

    owner: str | None
    head: Entry | None  # None: there is no row yet
    wrapped: tuple[tuple[str, str, str], ...] = ()  # id, key of the ring, wrapped key; newest last
    destroyed: tuple[str, ...] = ()  # the ids of keys that nobody has any more


class DataKeys:
    """Reads, makes, wraps anew and destroys the data keys of one store. Blocks, thread-safe."""

    def __init__(self, store: Store, ring: Keyring | None, clock: Clock, entropy: Entropy) -> None:
        """Without a ring, wrapped keys can be read and copied."""
        self._store = store if ring is None else ring.data_keys or store
        self._apart = self._store is not store
        self._given = ring
        self._clock = clock
        self._entropy = entropy
        self._reset()
        on_fork(self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[DataKey, ...]] = OrderedDict()

    def elsewhere(self, store: Store) -> DataKeys:
        """The data keys of another store, under the same ring."""
        return DataKeys(store, self._given, self._clock, self._entropy)

    @property
    def _ring(self) -> Keyring:
        if self._given is None:
            raise KeyMissingError("")
        return self._given

    def known(self, owner: str | None) -> DataKey | None:
        """The key that encrypts for this owner, if it was read before. Does not block."""
        keys = self._known.get(owner or "")
        return keys[-1] if keys else None

    def newest(self, owner: str | None) -> DataKey:
        """The key that encrypts for this owner, read again; made if there is none."""
        for _ in range(_ATTEMPTS):
            row = self.row(owner)
            if row.wrapped:
                return self._learn(row, row.wrapped[-1][0])[-1]
            made = DataKey(os.urandom(ID_BYTES), os.urandom(KEY_BYTES))
            name, wrapped = self._ring.wrap(made.secret, _about(owner, made.id))
            self._replace(row, (*row.wrapped, (made.id.hex(), name, _text(wrapped))))
        raise CheckpointCorruptedError(key_journal(owner), None, "others keep replacing it")

    def find(self, entry: Entry, key_id: bytes) -> DataKey:
        """The key of this id that an entry was encrypted with.

        Raises `KeyMissingError`, `KeyDestroyedError`, `WrongKeyError`.
        """
        return self.named(entry.run, entry.owner, key_id, entry.seq)

    def named(self, run: str, owner: str | None, key_id: bytes, seq: int | None = None) -> DataKey:
        """The key of this id that something of a run of this owner was encrypted with.

        Raises as `find` does.
        """
        for key in self._known.get(owner or "", ()):
            if key.id == key_id:
                return key
        row = self.row(owner)
        if key_id.hex() in row.destroyed:
            raise KeyDestroyedError(run, seq, "its owner was forgotten, and the key destroyed")
        for key in self._learn(row, key_id.hex()):
            if key.id == key_id:
                return key
        reason = f"the data key {key_id.hex()} that it was encrypted with is not in this store"
        if not self._apart:
            reason += " (if data keys are kept in one of their own, give that: --key-store)"
        raise CheckpointCorruptedError(run, seq, reason)

    def is_current(self, owner: str | None, key_id: bytes) -> bool:
        """Whether the key with this id was not destroyed by now."""
        return any(name == key_id.hex() for name, _, _ in self.row(owner).wrapped)

    def row(self, owner: str | None) -> KeyRow:
        """The data keys of an owner as they are stored. Raises `CheckpointCorruptedError`."""
        name = key_journal(owner)
        found = self._store.read(name, newest_first=True, limit=1)
        if not found:
            return KeyRow(owner, None)
        head = found[0]
        envelope.check(head)
        meta = Meta(head)
        wrapped = tuple(tuple(one) for one in meta.data_keys if isinstance(one, list))
        if any([type(part) for part in one] != [str] * 3 for one in wrapped):
            meta.refuse("it holds no data keys")
        return KeyRow(owner, head, wrapped, tuple(str(one) for one in meta.destroyed))

    def rows(self) -> Iterator[KeyRow]:
        """The data keys of all owners."""
        after = ""
        where = RunFilter(status=Status.DELETED.value, prefix=KEYS)
        while page := self._store.runs(where, after=after, limit=PAGE):
            for head in page:
                yield self.row(head.run.removeprefix(KEYS) or None)
            after = page[-1].run

    def rewrap(self, row: KeyRow) -> bool:
        """Wrap the keys of a row with the newest key of the ring; False if they are already.

        Raises `KeyMissingError`, `WrongKeyError` if the ring can't open them.
        """
        while any(name != self._ring.newest for _, name, _ in row.wrapped):
            again = []
            for key, secret in zip(row.wrapped, self._unwrapped(row), strict=True):
                name, wrapped = self._ring.wrap(secret.secret, _about(row.owner, secret.id))
                again.append((key[0], name, _text(wrapped)))
            if self._replace(row, tuple(again)):
                return True
            row = self.row(row.owner)
        for _ in self._unwrapped(row):  # else the key of this id is another one
            pass
        return False

    def add(self, row: KeyRow) -> None:
        """Make a new key for an owner: it encrypts what is saved from now on."""
        made = DataKey(os.urandom(ID_BYTES), os.urandom(KEY_BYTES))
        name, wrapped = self._ring.wrap(made.secret, _about(row.owner, made.id))
        while not self._replace(row, (*row.wrapped, (made.id.hex(), name, _text(wrapped)))):
            row = self.row(row.owner)
        self.forget(row.owner)

    def take_over(self, other: KeyRow) -> None:
        """Keep the keys of another store, with which copies of its runs are encrypted.

        Raises `KeyMissingError`, `WrongKeyError` if the ring can't open them: the copies could not
        be read. Without a ring, only keys that were made
        here before, or all of an owner's, are taken.
        """
        if self._given is not None:
            for _ in self._unwrapped(other):
                pass
        while True:
            row = self.row(other.owner)
            own = {key[0] for key in row.wrapped}
            new = tuple(key for key in other.wrapped if key[0] not in own | set(row.destroyed))
            if new and own and self._given is None:
                raise KeyMissingError("")
            if not new or self._replace(row, (*new, *row.wrapped)):
                return

    def destroy(self, owner: str) -> tuple[str, ...]:
        """Destroy the keys of an owner; returns their ids. What they encrypted is lost for ever."""
        while True:
            row = self.row(owner)
            gone = tuple(key[0] for key in row.wrapped)
            if not gone or self._replace(row, (), (*row.destroyed, *gone)):
                self.forget(owner)
                if gone and self._apart:
                    self._store.scrub()
                return (*row.destroyed, *gone)

    def forget(self, owner: str | None) -> None:
        """Drop the keys of an owner from memory."""
        with self._lock:
            self._known.pop(owner or "", None)

    def _learn(self, row: KeyRow, wanted: str) -> tuple[DataKey, ...]:
        """The keys of a row that the ring opens. Raises if it can't open the wanted one.

        Also if that is not there at all, and another one can't be opened.
        """
        keys: tuple[DataKey, ...] = ()
        is_there = any(one[0] == wanted for one in row.wrapped)
        for one in row.wrapped:
            try:
                keys = (*keys, *self._unwrapped(row._replace(wrapped=(one,))))
            except (KeyMissingError, WrongKeyError):
                if one[0] == wanted or not is_there:
                    raise
        if not keys or keys[-1].id.hex() != row.wrapped[-1][0]:
            return keys  # not to be kept: the last one would encrypt
        with self._lock:
            self._known[row.owner or ""] = keys
            self._known.move_to_end(row.owner or "")
            while len(self._known) > _CACHED:
                self._known.popitem(last=False)
        return keys

    def _unwrapped(self, row: KeyRow) -> Iterator[DataKey]:
        for key_id, name, wrapped in row.wrapped:
            try:
                identity, sealed = bytes.fromhex(key_id), base64.b64decode(wrapped, validate=True)
                if len(identity) != ID_BYTES:  # else it could end in the name of the owner
                    raise ValueError(key_id)
            except (ValueError, binascii.Error):
                raise CheckpointCorruptedError(
                    key_journal(row.owner), None, "it holds no data keys"
                ) from None
            secret = self._ring.unwrap(name, sealed, _about(row.owner, identity))
            yield DataKey(identity, secret)

    def _replace(
        self,
        row: KeyRow,
        wrapped: tuple[tuple[str, str, str], ...],
        destroyed: tuple[str, ...] | None = None,
    ) -> bool:
        """Put other keys into a row; False if it was changed since it was read."""
        seq = 0 if row.head is None else row.head.seq + 1
        before = b"" if row.head is None else row.head.digest
        facts: dict[str, Any] = {"data_keys": wrapped, "after": before.hex()}
        gone = row.destroyed if destroyed is None else destroyed
        if gone:
            facts["destroyed"] = gone
        front = (key_journal(row.owner), seq, Kind.TOMBSTONE.value, self._entropy(10), None, seq)
        back = (
            None, None, None, Status.DELETED.value, self._clock.now(), None, 0, None, None, None,
            dump_meta(facts),
        )  # fmt: skip
        entry = envelope.seal(front, back, before, envelope.nothing(0))
        fault("keys.replace")
        try:
            return self._store.erase(entry)
        except OutcomeUnknownError:
            found = self._store.read(entry.run, newest_first=True, limit=1, bodies=False)
            return bool(found) and found[0].entry_id == entry.entry_id


def _about(owner: str | None, key_id: bytes) -> bytes:
    """What a wrapped data key is bound to."""
    return b"holdfast data key\0" + key_id + (owner or "").encode()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
