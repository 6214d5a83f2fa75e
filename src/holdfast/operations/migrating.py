"""States of older versions, as the caller's migrations make them, and a dry run. All of it blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.codec.meta import Meta
from holdfast.codec.revive import revive
from holdfast.errors import ReviveError
from holdfast.kernel.core import Core
from holdfast.migrations import FIRST, Migrations, Place, misfit
from holdfast.model import Entry, Kind, checkpoint_id

Decode = Callable[[bytes], Any]

_ADVICE: Final = "correct the type, or load without one and convert"


def state_version(entry: Entry) -> int | str:
    """The version of the state at an entry: its own, or that of the flow which saved it."""
    meta = Meta(entry)
    if meta.schema_version is not None:
        return meta.schema_version
    return FIRST if meta.flow_version is None else meta.flow_version


def decoding(
    core: Core, entry: Entry, decode: Decode, as_type: Any, migrate: Migrations | None
) -> Decode:
    """What makes the caller's state of the bytes at an entry: data, migrated, of a type."""
    if migrate is None:
        if as_type is None:
            return decode
        return lambda data: revive(decode(data), as_type, advice=_ADVICE)
    if not isinstance(migrate, Migrations):
        raise TypeError(f"migrate takes hf.Migrations(version=...), not {migrate!r}")
    return lambda data: migrated(core, entry, decode(data), as_type, migrate)


def migrated(core: Core, entry: Entry, state: Any, as_type: Any, migrate: Migrations) -> Any:
    """The state that is recorded at an entry, as the caller's version has it.

    Raises `MigrationError`, also if it does not fit the type.
    """
    place = Place(entry.run, checkpoint_id(entry.run, entry.seq))
    version = state_version(entry)
    if entry.kind == Kind.RESULT and not Meta(entry).in_branch:
        reason = "it is of a workflow, whose results may be of several versions"
        advice = "Give the migrations to the workflow, and resume it."
        raise migrate.error(version, reason, advice, place)
    made = migrate.migrated(state, version, place, core.journals.stored_form)
    try:
        return made if as_type is None else revive(made, as_type)
    except ReviveError as error:
        reason = f"what it became does not have its type: {misfit(error)}"
        raise migrate.error(version, reason, "Correct the migration.", place) from error
