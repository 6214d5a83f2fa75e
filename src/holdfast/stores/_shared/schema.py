"""What the schemas of all stores share: each has a version, and migrations lead from one to the next.

A migration does one of two things to programs that still run an older holdfast. It leaves all their
statements right, as a new column that may be empty does; or it makes them fail, by renaming what they
name. Then the store looks at the version (`refuse_newer`) and says what to do. What it must never do
is to let them go on and be wrong.
"""

from __future__ import annotations

from typing import Final

from holdfast.errors import SchemaError, StoreUnavailableError

MIGRATION_SECONDS: Final = 3600.0
"""How long one may take, however soon other answers are expected."""

LOCK_SECONDS: Final = 30
"""How long to wait for another's before giving up, likewise."""


def refuse_newer(url: str, version: int, known: int) -> None:
    """Raise `SchemaError` if a store has a version that this holdfast does not know."""
    if version > known:
        raise SchemaError(
            url, f"it has schema {version}, newer than this holdfast knows ({known}); upgrade"
        )


def too_long(url: str) -> StoreUnavailableError:
    """What to say when another's migration is not over in `LOCK_SECONDS`."""
    return StoreUnavailableError(f"{url}: others have been making its tables for too long")
