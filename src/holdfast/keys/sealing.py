"""How entries are encrypted and signed, and opened again.

Every run has keys of its own, made from the data key of its owner and the run's id: so what was
encrypted for one run opens in no other. What is encrypted is bound to its entry (run, seq, kind and
random id), and the entry's digest, which covers all its fields and the entry before it, has a tag
that only a holder of the key can make. docs/reference/format.md documents every byte.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
import threading
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from ormsgpack import packb

from holdfast.codec.envelope import Front, Stored
from holdfast.codec.meta import CLEAR, SEALED_KEY, SealedText, dump_meta
from holdfast.codec.secrets import Encrypted
from holdfast.codec.wrapping import KNOWN, SEALED, SIGNED, TAG
from holdfast.errors import CheckpointCorruptedError, HoldfastError, KeyMissingError, SignatureError
from holdfast.keys.crypto import NONCE, aes_gcm, expand, nonces, opens, tagger
from holdfast.keys.data_keys import ID_BYTES, DataKey, DataKeys
from holdfast.model import Entry
from holdfast.seams import Clock, Entropy, on_fork
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.keys.keyring import Keyring
    from holdfast.keys.signing import SigningKey, TrustedKeys

_CACHED: Final = 4096  # runs whose keys are kept in memory
_SAYS_CLEAR: Final = re.compile(f'"(?:{"|".join(CLEAR)})":').search
_SEALED_META: Final = f'{{"{SEALED_KEY}":"'
_BODIES: Final = [b"body" + bytes([flags]) for flags in range(KNOWN + 1)]
_META: Final = b"meta"
_FIELD: Final = b"field"
SIGNED_AS: Final = b"holdfast entry\0"
"""What a signature of a digest begins with: it fits nothing else."""


class Signs(Protocol):
    """A key that signs."""

    key_id: str

    def sign(self, data: bytes) -> bytes:
        """The signature of these bytes."""


class Trusts(Protocol):
    """The keys whose signatures count."""

    def verify(self, key_id: str, data: bytes, signature: bytes) -> object:
        """Raise a `HoldfastError` unless the key with this id signed these bytes."""


class RunKey:
    """Encrypts and opens what belongs to one run."""

    __slots__ = ("_aead", "_tagger", "data_key")

    def __init__(self, data_key: DataKey, run: str) -> None:
        name = run.encode()
        self.data_key = data_key.id
        self._aead = aes_gcm(expand(data_key.secret, b"holdfast seal\0" + name))
        self._tagger = tagger(expand(data_key.secret, b"holdfast tag\0" + name), TAG)

    def seal(self, plain: bytes, about: bytes) -> bytes:
        """The id of the data key, a nonce, and what was encrypted, bound to what it is about."""
        nonce = nonces(NONCE)
        return self.data_key + nonce + self._aead.encrypt(nonce, plain, about)

    def open(self, sealed: bytes, about: bytes) -> bytes | None:
        """What `seal` was given; None if this is something else."""
        at = ID_BYTES + NONCE
        return opens(self._aead, sealed[ID_BYTES:at], sealed[at:], about)

    def tag(self, digest: bytes) -> bytes:
        """What only a holder of the key can make of a digest."""
        tagged = self._tagger.copy()
        tagged.update(digest)
        return tagged.digest()


class EntryGuard:
    """Closes one entry: encrypts its content, signs its digest, or both."""

    __slots__ = ("_about", "_key", "_signer", "flags")

    def __init__(self, about: bytes, key: RunKey | None, signer: Signs | None) -> None:
        self._about = about
        self._key = key
        self._signer = signer
        self.flags = (SEALED if key else 0) | (SIGNED if signer else 0)

    def close(self, flags: int, beside: bytes, plain: bytes) -> bytes:
        """The content to store. What is `beside` it stays clear, and can't be exchanged."""
        if self._key is None:
            return plain
        return self._key.seal(plain, _BODIES[flags] + beside + self._about)

    def trailer(self, digest: bytes) -> bytes:
        """What stands behind the content, and proves who made this digest."""
        tag = b"" if self._key is None else self._key.tag(digest)
        if self._signer is None:
            return tag
        name = self._signer.key_id.encode()
        block = bytes([len(name)]) + name + self._signer.sign(SIGNED_AS + digest)
        return tag + block + bytes([len(block)])

    def meta(self, text: str) -> str:
        """The metadata to store."""
        if self._key is None or not text:
            return text
        sealed = self._key.seal(text.encode(), _META + self._about)
        stored = f'{_SEALED_META}{binascii.b2a_base64(sealed, newline=False).decode()}"}}'
        if _SAYS_CLEAR(text):
            facts = json.loads(text)
            clear = dump_meta({name: facts[name] for name in CLEAR if name in facts})
            if clear:
                stored = f"{stored[:-1]},{clear[1:]}"
        return SealedText(stored, lambda: text)


class _GuardAgain(EntryGuard):
    """Closes a new body of an entry, which keeps its digest and what stands for that."""

    __slots__ = ("_trailer",)

    def __init__(self, about: bytes, key: RunKey | None, before: Stored) -> None:
        super().__init__(about, key, None)
        self.flags = before.flags & (SEALED | SIGNED)
        self._trailer = before.trailer

    def trailer(self, digest: bytes) -> bytes:
        """That of the body before."""
        return self._trailer


class Sealer:
    """Closes and opens the entries of one store, with a keyring, a signing key, or both."""

    def __init__(
        self, keys: DataKeys | None, signer: Signs | None = None, trusts: Trusts | None = None
    ) -> None:
        self.keys = keys
        self.signer = signer
        self.trusts = trusts
        self._reset()
        on_fork(self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._runs: OrderedDict[tuple[str, bytes], RunKey] = OrderedDict()

    def elsewhere(self, store: Store) -> Sealer:
        """What closes and opens the entries of another store with the same keys."""
        keys = None if self.keys is None else self.keys.elsewhere(store)
        return Sealer(keys, self.signer, self.trusts)

    def prepare(self, owner: str | None) -> None:
        """Have the data key of an owner ready: read again, or made. Blocks."""
        if self.keys is not None:
            self.keys.newest(owner)

    def is_ready(self, owner: str | None) -> bool:
        """Whether an entry of this owner can be closed without blocking."""
        return self.keys is None or self.keys.known(owner) is not None

    def guard(self, front: Front, owner: str | None) -> EntryGuard:
        """What closes a new entry. Blocks unless it `is_ready`.

        Raises `KeyMissingError` if there are only keys to check signatures with.
        """
        if self.keys is None and self.signer is None:
            raise KeyMissingError(front[0])
        key = None
        if self.keys is not None:
            data_key = self.keys.known(owner) or self.keys.newest(owner)
            key = self._runs.get((front[0], data_key.id)) or self._run_key(front[0], data_key)
        return EntryGuard(_of_entry(front), key, self.signer)

    def guard_again(self, entry: Entry, stored: Stored) -> EntryGuard:
        """What closes a new body of an entry, as it was closed before. Blocks."""
        key = self._key_of(entry, stored.sealed) if stored.is_sealed else None
        return _GuardAgain(_of_entry(entry), key, stored)

    def open(self, entry: Entry, flags: int, beside: bytes, content: bytes) -> bytes:
        """The content of a sealed entry. Blocks.

        Raises `KeyMissingError`, `WrongKeyError`, `KeyDestroyedError`, `CheckpointCorruptedError`.
        """
        about = _BODIES[flags] + beside + _of_entry(entry)
        return self._opened(entry, content, about, "content")

    def readable(self, entry: Entry) -> Entry:
        """The entry, with metadata that opens itself when it is looked into."""
        if not entry.meta.startswith(_SEALED_META):
            return entry
        bare = entry._replace(body=b"")  # who keeps only the metadata must not keep the state
        return entry._replace(meta=SealedText(entry.meta, partial(self._open_meta, bare)))

    def _open_meta(self, entry: Entry) -> str:
        try:
            sealed = json.loads(entry.meta)[SEALED_KEY]
            content = base64.b64decode(sealed, validate=True)
        except (ValueError, KeyError, TypeError, RecursionError, binascii.Error):
            reason = "its metadata is not what was written"
            raise CheckpointCorruptedError(entry.run, entry.seq, reason) from None
        return self._opened(entry, content, _META + _of_entry(entry), "metadata").decode()

    def _opened(self, entry: Entry, content: bytes, about: bytes, what: str) -> bytes:
        plain = self._key_of(entry, content).open(content, about)
        if plain is None:
            reason = f"its {what} was altered, or belongs to another entry"
            raise CheckpointCorruptedError(entry.run, entry.seq, reason)
        return plain

    def authenticate(self, entry: Entry, stored: Stored) -> bool:
        """Whether the entry is sealed and signed as this store demands; False if it is neither.

        Raises `CheckpointCorruptedError` if it is, and by somebody else.
        """
        if self.keys is not None and stored.is_sealed:
            if not hmac.compare_digest(
                self._key_of(entry, stored.sealed).tag(entry.digest), stored.tag
            ):
                reason = "its tag is not that of a holder of the key"
                raise CheckpointCorruptedError(entry.run, entry.seq, reason)
        elif self.keys is not None:
            return False
        if self.trusts is None:
            return True
        try:
            signature = stored.signature
        except ValueError:
            signature = "", b""
        if signature is None:
            return False
        self._verify(entry, *signature)
        return True

    def _verify(self, entry: Entry, key_id: str, signature: bytes) -> None:
        assert self.trusts is not None
        try:
            self.trusts.verify(key_id, SIGNED_AS + entry.digest, signature)
        except HoldfastError as error:
            raise SignatureError(entry.run, entry.seq, str(error)) from None

    def forget(self, owner: str) -> None:
        """Drop the keys of an owner from memory: they were destroyed."""
        assert self.keys is not None
        self.keys.forget(owner)
        with self._lock:
            self._runs.clear()

    def seal_field(self, run: str, owner: str | None, name: str, plain: bytes) -> bytes:
        """A part of a state, encrypted by itself. Blocks unless it `is_ready`."""
        assert self.keys is not None
        key = self._run_key(run, self.keys.known(owner) or self.keys.newest(owner))
        return key.seal(plain, _FIELD + name.encode())

    def is_current(self, field: Encrypted, owner: str | None) -> bool:
        """Whether a field was encrypted with the key that this owner has now, as far as is known."""
        assert self.keys is not None
        key = self.keys.known(owner)
        return key is not None and field.owner == owner and field.data.startswith(key.id)

    def open_field(self, field: Encrypted) -> bytes:
        """What `seal_field` was given. Raises as `open` does. Blocks."""
        assert self.keys is not None
        key_id = field.data[:ID_BYTES]
        key = self._runs.get((field.run, key_id))
        if key is None:
            key = self._run_key(field.run, self.keys.named(field.run, field.owner, key_id))
        plain = key.open(field.data, _FIELD + field.path.encode())
        if plain is None:
            reason = f"its field {field.path} was altered, or belongs elsewhere"
            raise CheckpointCorruptedError(field.run, None, reason)
        return plain

    def _key_of(self, entry: Entry, content: bytes) -> RunKey:
        """The key of the run that this was encrypted with."""
        key_id = content[:ID_BYTES]
        found = self._runs.get((entry.run, key_id))
        if found is not None:
            return found
        if self.keys is None:
            raise KeyMissingError(entry.run, entry.seq)
        return self._run_key(entry.run, self.keys.find(entry, key_id))

    def _run_key(self, run: str, data_key: DataKey) -> RunKey:
        place = run, data_key.id
        found = self._runs.get(place)
        if found is None:
            found = RunKey(data_key, run)
            with self._lock:
                self._runs[place] = found
                while len(self._runs) > _CACHED:
                    self._runs.popitem(last=False)
        return found


def sealers_of(
    store: Store,
    key: Keyring | None,
    sign: SigningKey | None,
    trusted: TrustedKeys | None,
    clock: Clock,
    entropy: Entropy,
    *,
    fields_only: bool = False,
) -> tuple[Sealer | None, Sealer | None]:
    """What closes and opens the entries of a store, and what encrypts only fields, if any does."""
    if sign is not None:
        trusted = sign.trusted() if trusted is None else trusted | sign.trusted()
    keys = None if key is None else DataKeys(store, key, clock, entropy)
    only = key is not None and (key.fields_only or fields_only)
    whole, fields = (None, keys) if only else (keys, None)
    closes = whole is not None or trusted is not None  # which may be empty: then nobody is trusted
    sealer = Sealer(whole, sign, trusted) if closes else None
    return sealer, None if fields is None else Sealer(fields)


def _of_entry(entry: Entry | Front) -> bytes:
    """What is bound to one entry: its run, seq, kind and random id."""
    return packb(entry[:4])
