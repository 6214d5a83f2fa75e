"""The few primitives that everything here is made of, from the package `cryptography`."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from holdfast.extras import missing_extra
from holdfast.seams import SystemEntropy

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE: Final = 12
"""Bytes of a nonce."""

nonces = SystemEntropy(NONCE)
"""Random nonces, one for each sealing."""


def aes_gcm(key: bytes) -> AESGCM:
    """AES-256-GCM with this key."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise missing_extra("crypto", error, "encryption") from error
    return AESGCM(key)


def opens(aead: AESGCM, nonce: bytes, sealed: bytes, about: bytes) -> bytes | None:
    """What was encrypted with this nonce about this; None if it was something else."""
    from cryptography.exceptions import InvalidTag

    try:
        return aead.decrypt(nonce, sealed, about)
    except (InvalidTag, ValueError):  # which the latter is for less than a tag
        return None


def expand(secret: bytes, info: bytes) -> bytes:
    """32 bytes for one purpose: HKDF-Expand (RFC 5869) with SHA-256, its first block."""
    return hmac.digest(secret, info + b"\x01", "sha256")


def tagger(key: bytes, size: int) -> hashlib.blake2b:
    """A keyed BLAKE2b (RFC 7693), to be copied for each tag of this size."""
    return hashlib.blake2b(key=key, digest_size=size)
