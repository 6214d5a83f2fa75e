"""Versions of schemas, and the migrations between them.

A migration must either leave all statements of programs with an older holdfast correct, as a new
nullable column does, or make them fail, by renaming what they use. When they fail, the store checks
the version (`refuse_newer`) and says what to do. They must never continue and be wrong.
"""

from __future__ import annotations

from typing import Final

from holdfast.errors import SchemaError, StoreUnavailableError

MIGRATION_SECONDS: Final = 3600.0
"""How long a migration may take; `answer_seconds` does not count."""

LOCK_SECONDS: Final = 30
"""How long to wait for the migration of another process."""


MARK: Final = "holdfast schema "
"""The comment on the table of entries, followed by the version, where there are comments."""


def version_in(comment: str | None, url: str, known: int) -> int | None:
    """The version in a comment, None if it is not ours. Raises `SchemaError` for a newer one."""
    if not comment or not comment.startswith(MARK):
        return None
    version = int(comment.removeprefix(MARK))
    refuse_newer(url, version, known)
    return version


def refuse_newer(url: str, version: int, known: int) -> None:
    """Raise `SchemaError` if a store has a version that this holdfast does not know."""
    if version > known:
        raise SchemaError(
            url,
            f"its schema {version} is newer than this holdfast knows ({known}); upgrade holdfast",
        )


def too_long(url: str) -> StoreUnavailableError:
    """The error when another migration takes longer than `LOCK_SECONDS`."""
    return StoreUnavailableError(f"{url}: another process is migrating its schema; try again later")
