"""The keys that a program gives: they encrypt the data keys of a store, and nothing else."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NoReturn

from holdfast.errors import KeyFileError, KeyMissingError, WrongKeyError
from holdfast.keys.crypto import NONCE, aes_gcm, opens
from holdfast.keys.key_files import check_key_id, read_keys
from holdfast.store import Store

KEY_BYTES: Final = 32
ENVIRONMENT: Final = "HOLDFAST_KEYS"

Fetch = Callable[[str], bytes]
"""Returns the key with this id, from a key management service for example."""


class Keyring:
    """Named keys of 32 bytes. The last one encrypts, and all of them decrypt.

    A key is given as bytes, or as text in base64. `holdfast keygen` makes a file of them. The keys
    that it encrypts, the data keys, are kept beside the runs; with `data_keys`, in another store,
    so that no backup of the runs holds them. Use one such store for each store of runs.
    """

    def __init__(self, keys: Mapping[str, bytes | str], *, data_keys: Store | None = None) -> None:
        if not keys:
            raise ValueError("a keyring needs at least one key; `holdfast keygen` makes one")
        self._known = {check_key_id(name): _key(name, key) for name, key in keys.items()}
        self._fetch: Fetch | None = None
        self.data_keys = data_keys
        self.fields_only = False
        self._newest = list(self._known)[-1]

    @classmethod
    def from_environment(
        cls, variable: str = ENVIRONMENT, *, data_keys: Store | None = None
    ) -> Keyring:
        """The keys in an environment variable: `2025=BASE64,2026=BASE64`, the newest last.

        Raises `KeyFileError`.
        """
        text = os.environ.get(variable, "").strip()
        if not text:
            reason = "is not set; set it to ID=KEY, the key in base64"
            raise KeyFileError(variable, reason)
        keys: dict[str, bytes] = {}
        for number, part in enumerate(text.split(","), start=1):
            name, _, key = (word.strip() for word in part.partition("="))
            try:
                keys[check_key_id(name)] = _key(name, key)
            except ValueError:  # what it says may quote a key that was given without its id
                reason = f"part {number} is not ID=KEY, the key 32 bytes in base64"
                raise KeyFileError(f"{variable}:", reason) from None
        return cls(keys, data_keys=data_keys)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, data_keys: Store | None = None) -> Keyring:
        """The keys in a file that only its owner can read, one `ID: BASE64` a line, newest last."""
        return cls(read_keys(path), data_keys=data_keys)

    @classmethod
    def from_callback(cls, fetch: Fetch, *, newest: str, data_keys: Store | None = None) -> Keyring:
        """Keys that a function returns, given their id; it raises `LookupError` if there is none.

        It is called once for each id that is needed.
        """
        ring = cls({newest: fetch(newest)}, data_keys=data_keys)
        ring._fetch = fetch
        return ring

    def for_fields(self) -> Keyring:
        """The same keys, for a store where only fields are encrypted (`encrypt=`).

        `Checkpointer(store, key=ring.for_fields())` opens these fields, rekeys and forgets, and
        encrypts nothing that is saved: for programs that do not know which fields to encrypt.
        """
        found = Keyring.__new__(Keyring)
        vars(found).update(vars(self), fields_only=True)
        return found

    @property
    def newest(self) -> str:
        """The id of the key that encrypts."""
        return self._newest

    def wrap(self, secret: bytes, about: bytes) -> tuple[str, bytes]:
        """A secret encrypted by the newest key, and the id of that."""
        nonce = os.urandom(NONCE)
        return self._newest, nonce + aes_gcm(self._key(self._newest)).encrypt(nonce, secret, about)

    def unwrap(self, name: str, wrapped: bytes, about: bytes) -> bytes:
        """What `wrap` was given. Raises `KeyMissingError`, `WrongKeyError`."""
        secret = opens(aes_gcm(self._key(name)), wrapped[:NONCE], wrapped[NONCE:], about)
        if secret is None:
            raise WrongKeyError(name)
        return secret

    def _key(self, name: str) -> bytes:
        if name not in self._known and self._fetch is not None:
            with suppress(LookupError):
                self._known[name] = _key(name, self._fetch(name))
        if name not in self._known:
            raise KeyMissingError("", None, name)
        return self._known[name]

    def __repr__(self) -> str:
        return f"Keyring(newest={self._newest!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Keyring can't be pickled: open it again where it is needed")


def _key(name: str, given: object) -> bytes:
    """The 32 bytes of a key. Raises `ValueError`, without the key in its message."""
    if isinstance(given, str):
        try:
            given = base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError(f"the key {name!r} is not valid base64") from None
    if not isinstance(given, bytes) or len(given) != KEY_BYTES:
        length = len(given) if isinstance(given, bytes) else None
        found = f"{length} bytes" if length is not None else f"a {type(given).__name__}"
        raise ValueError(
            f"the key {name!r} must be {KEY_BYTES} random bytes, or their base64, not {found}; "
            "`holdfast keygen` makes one"
        )
    return given
