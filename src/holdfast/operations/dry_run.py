"""Which runs could continue with the code as it is now. Nothing is written; everything blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from holdfast.checkpoint import RunInfo
from holdfast.codec.meta import Meta
from holdfast.codec.revive import revive
from holdfast.errors import HoldfastError, ReviveError, StoreError
from holdfast.kernel.core import Core, Pages
from holdfast.migrations import Migrations, misfit
from holdfast.model import Status, check_id
from holdfast.operations import listing, migrating, reading
from holdfast.operations.diff import Change, diff_values

UNFINISHED: Final = (
    Status.OPEN,
    Status.SUBMITTED,
    Status.RUNNING,
    Status.PAUSED,
    Status.FAILED,
)
"""The statuses of runs that can be continued."""

_PAGE: Final = 20


class DryRun(NamedTuple):
    """Whether a run could continue with the code as it is now, and how its state would change."""

    run_id: str
    flow: str | None
    status: str
    checkpoint_id: str | None  # where the state is that it would continue from
    from_version: str  # of that state
    to_version: str  # of the code
    changes: tuple[Change, ...] = ()  # of the state; of a workflow, of its inputs and results
    error: str | None = None  # why it could not continue

    @property
    def ok(self) -> bool:
        """Whether it could continue."""
        return self.error is None

    @property
    def keys(self) -> list[str]:
        """Where the state would change, without values: `+ currency`, `~ total`, `- sum`."""
        return [change.where for change in self.changes]


def dry_run(
    core: Core,
    migrations: Migrations,
    *,
    as_type: Any = None,
    run_id: str | None = None,
    flow: str | None = None,
    prefix: str = "",
) -> Pages[DryRun]:
    """Say for each unfinished run what these migrations would make of its current state.

    That is for runs that a program saves by itself, and for tasks of a `CheckpointManager`; of
    those that an engine executes, `Engine.dry_run` tells. Only the run `run_id`, or those with
    this `flow`, or whose id begins with `prefix`. With `as_type`, also whether the new state fits
    that type. Nothing is written.
    """
    if not isinstance(migrations, Migrations):
        raise TypeError(f"dry_run takes hf.Migrations(version=...), not {migrations!r}")
    found = unfinished(core, flow=flow, prefix=prefix)
    if run_id is not None:
        info = listing.run(core, check_id("run_id", run_id))
        found = iter(() if info is None else (info,))
    return _pages(filter(None, (_look(core, info, migrations, as_type) for info in found)))


def unfinished(core: Core, *, flow: str | None = None, prefix: str = "") -> Iterator[RunInfo]:
    """The runs that match and can be continued."""
    pages = listing.iter_runs(core, status=UNFINISHED, flow=flow, prefix=prefix)
    return (info for page in pages for info in page)


def _pages(found: Iterator[DryRun]) -> Pages[DryRun]:
    while page := list(islice(found, _PAGE)):
        yield page


def _look(core: Core, info: RunInfo, migrations: Migrations, as_type: Any) -> DryRun | None:
    """What would become of a run; None if an engine executes it, or it has no state."""
    made = DryRun(info.run_id, info.flow, info.status, None, "", str(migrations.version))
    try:
        opening = core.journals.opening(info.run_id)
        if opening is not None and Meta(opening).inputs_hash is not None:
            return None
        found = reading.load(core, info.run_id)
        if found is None:
            return None
        made = made._replace(
            checkpoint_id=found.checkpoint_id,
            from_version=str(migrating.state_version(found.entry)),
        )
        before = core.journals.stored_form(found.state)  # a function may change what it is given
        after = migrating.migrated(core, found.entry, found.state, None, migrations)
        masked = core.withholding.masked
        made = made._replace(changes=diff_values(masked(before), masked(after)).changes)
        if as_type is not None:
            revive(after, as_type)
    except StoreError:
        raise
    except ReviveError as error:
        return made._replace(error=f"what it became does not have its type: {misfit(error)}")
    except HoldfastError as error:
        return made._replace(error=str(error))
    return made
