"""`holdfast submit`: record a run for a worker to execute."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import click

from holdfast.checkpoint import RunInfo
from holdfast.cli import _flows, _options, _show
from holdfast.cli._options import option
from holdfast.cli._session import Session, as_command
from holdfast.engine.effects import Call
from holdfast.engine.engine import Engine
from holdfast.engine.handle import RunHandle
from holdfast.engine.options import RunNames
from holdfast.engine.resume.activity import activity_of
from holdfast.errors import CheckpointNotFoundError, HoldfastError
from holdfast.model import check_id
from holdfast.operations import listing
from holdfast.seams import new_id
from holdfast.views import continuing, words
from holdfast.views.runs import doing


@as_command(
    "holdfast submit jobs:digest --input user=ann",
    "holdfast submit jobs:digest --run-id digest-$(date +%F)",
    "holdfast submit jobs:remind --input-json @inputs.json --delay 10m",
    "holdfast submit jobs:remind --at 2026-11-19T10:00 --label team=ops",
)
@click.argument("flow", metavar="MODULE:FLOW")
@_options.inputs
@_options.belongs_to
@option("--delay TIME", "Execute it so much later: 90s, 10m, 12h, 3d.", type=_options.duration)
@option(
    "--at TIME",
    "Execute it then, such as 2026-11-19T10:00; local time unless it has an offset.",
    type=_options.point_in_time,
)
def command(
    session: Session,
    flow: str,
    pairs: tuple[str, ...],
    document: str | None,
    run_id: str | None,
    thread: str | None,
    owner: str | None,
    labels: tuple[str, ...],
    delay: timedelta | None,
    at: datetime | None,
) -> None:
    """Record a run of a flow for a worker to execute; does not wait for it.

    Inputs are given as to `holdfast run`, and `holdfast worker` executes the run. Submitting a
    flow with the same inputs under the same --run-id again changes nothing, says so, and exits
    with 0: a job of cron or a timer is executed once, however often it is started. Exits with 6 if
    the id belongs to a run of another flow or with other inputs.
    """
    wanted = _flows.load(flow)
    session.adopt(wanted.store)
    session.require_shared()
    session.warn_if_new()
    call = _flows.call_from(wanted, flow, pairs, document)
    if delay is not None and at is not None:
        raise click.UsageError("give --delay or --at, not both")
    name = new_id() if run_id is None else check_id("run_id", run_id)
    if thread is None and wanted.threaded:
        thread = name
    options = RunNames(
        run_id=name, thread_id=thread, owner=owner, labels=_options.parse_labels(labels)
    )
    handle, info, due = asyncio.run(_submit(session, call, options, delay, at))
    told = {
        "run_id": handle.id,
        "flow": handle.flow,
        "status": info.status,
        "new": handle.new,
        "due": due,
    }

    def draw() -> None:
        if not handle.new:
            with session.opened() as cp:
                word = doing(cp, info)[0]
            _show.say(f"{handle.id} exists already ({word}); nothing was changed")
            return
        later = delay is not None or at is not None
        when = f", to be executed from {words.moment(due)} on" if later else ""
        _show.say(f"{handle.id} submitted{when}")
        if later:
            return
        with session.opened() as cp:
            if not continuing.has_worker(cp, handle.id):
                worker = continuing.worker_command(session.commands, flow)
                _show.warn(f"no worker is alive; start one: {worker}")

    session.show(told, draw)


async def _submit(
    session: Session,
    call: Call[Any],
    options: RunNames,
    delay: timedelta | None,
    at: datetime | None,
) -> tuple[RunHandle[Any], RunInfo, datetime | None]:
    """The run's handle, how it stands, and from when on it is to be executed."""
    async with Engine(session.place, owner=session.owner, **session.guards()) as engine:
        try:
            handle = await engine.submit(call, delay=delay, at=at, **options)
        except (TypeError, ValueError) as error:
            if isinstance(error, HoldfastError):
                raise
            raise click.UsageError(_show.clean(str(error))) from error
        core = engine.checkpointer.core
        info = listing.run(core, handle.id)
        if info is None:
            raise CheckpointNotFoundError(handle.id)
        return handle, info, activity_of(core, info).due
