"""What an error of SQLite's means here."""

from __future__ import annotations

import sqlite3
from typing import Final

from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    StoreError,
    StoreUnavailableError,
)

_FOR_GOOD: Final = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)


def translated(error: sqlite3.Error, url: str) -> HoldfastError:
    """The error to raise instead: for damage, for an outage that may pass, or for good."""
    code = code_of(error)
    undecodable = str(error).startswith("Could not decode")
    if undecodable or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return CheckpointCorruptedError(url, None, f"SQLite says: {error}")
    if isinstance(error, sqlite3.OperationalError) and code not in _FOR_GOOD:
        return StoreUnavailableError(f"{url}: {error}")
    return StoreError(f"{url}: {error}")


def code_of(error: sqlite3.Error) -> int:
    """The primary result code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
