"""Whether runs would resume with the flows as they are now. Writes nothing, executes no step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

from holdfast.checkpoint import RunInfo
from holdfast.engine.flow import Flow
from holdfast.engine.opening import equipped
from holdfast.engine.resume.history import History
from holdfast.engine.resume.takeover import check_resumable, rehearse
from holdfast.errors import (
    CheckpointNotFoundError,
    HoldfastError,
    MigrationError,
    ReviveError,
    RunFinishedError,
    StoreError,
)
from holdfast.kernel.core import Core
from holdfast.model import Status, check_id
from holdfast.operations import listing
from holdfast.operations.diff import diff_values
from holdfast.operations.dry_run import DryRun, unfinished
from holdfast.revealed import scrubbed

Find = Callable[[Core, str], Any]
"""Awaited with a run id, the flow that continues the run."""


async def dry_run(
    core: Core, names: list[str], find: Find, run_id: str | None
) -> AsyncIterator[DryRun]:
    """Say of the unfinished runs of these flows, or of one run, whether each would resume.

    Raises `CheckpointNotFoundError` if there is no such run.
    """
    if run_id is not None:
        info = await core.off_loop(partial(listing.run, core, check_id("run_id", run_id)))
        if info is None:
            raise CheckpointNotFoundError(run_id)
        yield await _look(core, info, find)
        return
    for name in names:
        found = unfinished(core, flow=name)
        while (info := await core.off_loop(partial(_next, found))) is not None:
            try:
                yield await _look(core, info, find)
            except CheckpointNotFoundError:  # deleted since
                continue


async def _look(core: Core, info: RunInfo, find: Find) -> DryRun:
    made = DryRun(info.run_id, info.flow, info.status, None, "", "")
    try:
        flow: Flow[Any] = await find(core, info.run_id)
        made = made._replace(to_version=flow.version)
        program = equipped(core, flow.program)()
        read = partial(History, core, info.run_id, whole=program.flow.replays)
        history = await core.off_loop(read)
        newest = (history.meta(e).flow_version for e in reversed(history.entries))
        made = made._replace(from_version=next(filter(None, newest), flow.version))
        check_resumable(program, history)
        if history.head.status == Status.COMPLETED:
            raise RunFinishedError(info.run_id, Status.COMPLETED)
        raised = rehearse(program, history)
        if isinstance(raised, ReviveError):
            raise raised
        masked = core.withholding.masked
        restored = program.restored_from(history)
        made = made._replace(
            checkpoint_id=restored.checkpoint_id,
            from_version=restored.version,
            changes=diff_values(*map(masked, (restored.before, restored.after))).changes,
        )
    except (CheckpointNotFoundError, StoreError):
        raise
    except MigrationError as error:
        had, now = made.from_version or error.from_version, str(error.to_version)
        return made._replace(from_version=had, to_version=now, error=str(error))
    except HoldfastError as error:
        return made._replace(error=str(error))
    if raised is None:
        return made
    return made._replace(error=scrubbed(f"the flow raises {type(raised).__name__}: {raised}"))


def _next(found: Iterator[RunInfo]) -> RunInfo | None:
    return next(found, None)
