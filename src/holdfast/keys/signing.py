"""Keys that sign, and the keys whose signatures are trusted.

A signature says which key made it by the key's id. The kind of key, HMAC or Ed25519, is never
taken from what was signed: it is that of the key which is trusted under this id.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, Self

from holdfast.errors import InvalidSignatureError, KeyFileError, UntrustedKeyError
from holdfast.extras import missing_extra
from holdfast.keys.key_files import (
    LONGEST_KEY,
    SHORTEST_KEY,
    StrPath,
    check_key_id,
    parse_keys,
    read_private,
    read_public,
)

_BEGIN: Final = b"-----BEGIN "
_ID: Final = b"id:"
_PUBLIC_BYTES: Final = 32


class Verifying(Protocol):
    """A key whose signatures can be checked."""

    @property
    def fingerprint(self) -> str:
        """Tells this key from others, and tells nothing of a secret."""

    def matches(self, data: bytes, signature: bytes) -> bool:
        """Whether this key made that signature of these bytes."""


class SigningKey:
    """A key that signs, with an id by which others know it.

    `SigningKey.ed25519` for signatures that anyone can check with the public key.
    `SigningKey.hmac` for programs that share a secret: whoever can check can also sign.

    The key itself is never shown, and can't be pickled.
    """

    __slots__ = ("_method", "key_id")

    key_id: str

    def __init__(self, key_id: str, method: _Hmac | _Ed25519) -> None:
        self.key_id = check_key_id(key_id)
        self._method = method

    @classmethod
    def hmac(cls, key_id: str, secret: bytes) -> Self:
        """A key that signs with HMAC-SHA-256. The secret has 32 random bytes or more."""
        return cls(key_id, _Hmac(secret))

    @classmethod
    def ed25519(cls, key_id: str, private: bytes | StrPath) -> Self:
        """A private Ed25519 key: its 32 bytes, its text in PEM (PKCS#8), or the path of a file.

        Raises `KeyFileError` for a file that others can read, and for anything else.
        """
        return cls(key_id, _Ed25519(_private(private)))

    @classmethod
    def from_file(cls, path: StrPath, key_id: str | None = None) -> Self:
        """The key in a private file: PEM is Ed25519, and lines of keys are HMAC.

        The id of a PEM file is on a line before it, such as `id: ann`, unless `key_id` is given. Of
        several lines of keys, the last one signs, or that with this `key_id`.
        """
        content, where = read_private(path), os.fspath(path)
        if _BEGIN in content:
            return cls(
                key_id or _id_before_pem(content, where), _Ed25519(_from_pem(content, where))
            )
        keys = parse_keys(content, where)
        chosen = key_id or list(keys)[-1]
        if chosen not in keys:
            raise KeyFileError(where, f"has no key {chosen!r}; it has {', '.join(keys)}")
        return cls.hmac(chosen, keys[chosen])

    @property
    def algorithm(self) -> str:
        """`"ed25519"` or `"hmac-sha256"`."""
        return self._method.name

    @property
    def public(self) -> bytes | None:
        """The public key, 32 bytes; HMAC has none."""
        return self._method.public

    def sign(self, data: bytes) -> bytes:
        """The signature of these bytes.

        They must begin with what they are: a signature of one thing must not fit another.
        """
        return self._method.sign(data)

    @property
    def fingerprint(self) -> str:
        """Tells this key from others of the same id, and tells nothing of a secret."""
        return self._method.fingerprint

    def matches(self, data: bytes, signature: bytes) -> bool:
        """Whether this key made that signature of these bytes."""
        return self._method.matches(data, signature)

    def trusted(self) -> TrustedKeys:
        """Trust this key only."""
        return TrustedKeys({self.key_id: self})

    def __repr__(self) -> str:
        return f"<SigningKey {self.key_id!r} ({self.algorithm})>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SigningKey can't be pickled: it would be in the clear; read its file")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: Any) -> Self:
        return self


class TrustedKeys:
    """The keys whose signatures count, by id.

    A value is a public Ed25519 key (32 bytes, PEM, or the path of a file), or a `SigningKey`, which
    trusts itself: so an HMAC secret is never mistaken for a public key, nor the other way round.
    """

    __slots__ = ("_keys",)

    def __init__(self, keys: Mapping[str, bytes | StrPath | SigningKey]) -> None:
        self._keys: dict[str, Verifying] = {
            check_key_id(key_id): _trusted(key_id, key) for key_id, key in keys.items()
        }

    @classmethod
    def from_files(cls, *paths: StrPath) -> Self:
        """The public keys in these files, in PEM after a line such as `id: ann`, or a key a line."""
        found: dict[str, bytes] = {}
        for path in paths:
            for key_id, key in read_public_keys(path).items():
                if found.setdefault(key_id, key) != key:
                    raise KeyFileError(os.fspath(path), f"has another key {key_id!r} than before")
        return cls(found)

    def verify(self, key_id: str, data: bytes, signature: bytes, *, what: str = "this") -> None:
        """Return if the key of this id signed these bytes.

        Raises `UntrustedKeyError` if no key of this id is trusted, and `InvalidSignatureError` if it did
        not sign them. Messages call them `what`.
        """
        key = self._keys.get(key_id)
        if key is None:
            raise UntrustedKeyError(what, key_id)
        if not key.matches(data, signature):
            raise InvalidSignatureError(what, key_id)

    def __contains__(self, key_id: object) -> bool:
        return key_id in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __or__(self, other: TrustedKeys) -> TrustedKeys:
        for key_id in self._keys.keys() & other._keys.keys():
            if self._keys[key_id].fingerprint != other._keys[key_id].fingerprint:
                raise ValueError(f"two different keys are called {key_id!r}")
        both = TrustedKeys({})
        both._keys = self._keys | other._keys
        return both

    def __repr__(self) -> str:
        return f"<TrustedKeys {', '.join(map(repr, self._keys))}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("TrustedKeys can't be pickled: HMAC keys would be in the clear")


def read_public_keys(path: StrPath) -> dict[str, bytes]:
    """The public keys of a file by id: 32 bytes each. Others may read it, but not change it."""
    content, where = read_public(path), os.fspath(path)
    if _BEGIN in content:
        return {_id_before_pem(content, where): _public_from_pem(content, where)}
    keys = parse_keys(content, where)
    if any(len(key) != _PUBLIC_BYTES for key in keys.values()):
        raise KeyFileError(where, f"a public key has {_PUBLIC_BYTES} bytes")
    return keys


def new_ed25519(key_id: str) -> tuple[bytes, bytes]:
    """A new key pair, as the contents of a private and of a public file."""
    serialization, ed25519 = _cryptography()
    private = ed25519.Ed25519PrivateKey.generate()
    first = b"%s %s\n" % (_ID, check_key_id(key_id).encode())
    secret = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return first + secret, first + public


class _Hmac:
    name = "hmac-sha256"

    def __init__(self, secret: bytes) -> None:
        if not SHORTEST_KEY <= len(secret) <= LONGEST_KEY:
            raise ValueError(f"the secret must be {SHORTEST_KEY} to {LONGEST_KEY} random bytes")
        self._secret = bytes(secret)

    @property
    def public(self) -> None:
        return None

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self.sign(b"holdfast fingerprint"))

    def sign(self, data: bytes) -> bytes:
        return hmac.digest(self._secret, data, hashlib.sha256)

    def matches(self, data: bytes, signature: bytes) -> bool:
        return hmac.compare_digest(self.sign(data), signature)


class _PublicKey:
    def __init__(self, public: bytes) -> None:
        self.public = public
        self._key = _cryptography()[1].Ed25519PublicKey.from_public_bytes(public)

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self.public)

    def matches(self, data: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, data)
        except InvalidSignature:
            return False
        return True


class _Ed25519(_PublicKey):
    name = "ed25519"

    def __init__(self, private: Any) -> None:
        super().__init__(private.public_key().public_bytes_raw())
        self._private = private

    def sign(self, data: bytes) -> bytes:
        signature: bytes = self._private.sign(data)
        return signature


def _fingerprint(public: bytes) -> str:
    digest = hashlib.sha256(public).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


@lru_cache(1)
def _cryptography() -> tuple[Any, Any]:
    """The modules `serialization` and `ed25519`."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise missing_extra("crypto", error, "an Ed25519 key") from error
    return serialization, ed25519


def _trusted(key_id: str, key: bytes | StrPath | SigningKey) -> Verifying:
    if isinstance(key, SigningKey):
        if key.key_id != key_id:
            raise ValueError(f"the key {key.key_id!r} is trusted under another id: {key_id!r}")
        return key
    content, where = _content(key, "the public key")
    if content is None:
        content = read_public(where)
    if _BEGIN in content:
        content = _public_from_pem(content, where)
    elif isinstance(key, str | os.PathLike):
        content = read_public_keys(where).get(key_id, b"")
    if len(content) != _PUBLIC_BYTES:
        raise KeyFileError(where, f"is no public key: 32 bytes, or PEM (for {key_id!r})")
    return _PublicKey(content)


def _private(private: bytes | StrPath) -> Any:
    content, where = _content(private, "the private key")
    if content is None:
        content = read_private(where)
    if _BEGIN in content:
        return _from_pem(content, where)
    if len(content) != _PUBLIC_BYTES or not isinstance(private, bytes):
        raise KeyFileError(where, "is no private Ed25519 key: 32 bytes, or PEM (PKCS#8)")
    return _cryptography()[1].Ed25519PrivateKey.from_private_bytes(content)


def _content(key: bytes | StrPath, what: str) -> tuple[bytes | None, str]:
    """What was given itself, or None and the path to read it from."""
    if isinstance(key, bytes):
        return key, what
    if isinstance(key, str) and _BEGIN.decode() in key:
        return key.encode(), what
    if isinstance(key, str | Path | os.PathLike):
        return None, os.fspath(key)
    raise TypeError(f"{what} must be bytes, PEM or a path, not {type(key).__name__}")


def _id_before_pem(content: bytes, where: str) -> str:
    lines = content.partition(_BEGIN)[0].splitlines()
    ids = [line.removeprefix(_ID).strip() for line in lines if line.startswith(_ID)]
    if len(ids) != 1:
        raise KeyFileError(where, "says no id: begin it with a line such as `id: ann`")
    return check_key_id(ids[0].decode(errors="replace"))


def _from_pem(content: bytes, where: str) -> Any:
    serialization, ed25519 = _cryptography()
    problem = "is no private Ed25519 key in PEM (PKCS#8)"
    try:
        private = serialization.load_pem_private_key(content, password=None)
    except TypeError:
        problem = "has a passphrase; keep it without one, in a file that only you can read"
        raise KeyFileError(where, problem) from None
    except Exception:  # noqa: BLE001 - of several kinds, and none may quote the key
        raise KeyFileError(where, problem) from None
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise KeyFileError(where, problem)
    return private


def _public_from_pem(content: bytes, where: str) -> bytes:
    serialization, ed25519 = _cryptography()
    problem = "is no public Ed25519 key in PEM"
    try:
        public = serialization.load_pem_public_key(content)
    except Exception:  # noqa: BLE001 - of several kinds
        raise KeyFileError(where, problem) from None
    if not isinstance(public, ed25519.Ed25519PublicKey):
        raise KeyFileError(where, problem)
    return bytes(public.public_bytes_raw())
