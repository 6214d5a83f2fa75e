"""`holdfast retry`: continue runs that failed."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import click

from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _bulk, _flows, _options, _show
from holdfast.cli._claims import Allowed, allowing
from holdfast.cli._execution import follow
from holdfast.cli._exits import Exit
from holdfast.cli._options import age, option
from holdfast.cli._progress import progress
from holdfast.cli._runs import find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.cli._stdout import own_stdout
from holdfast.engine.flow import Flow
from holdfast.engine.people.resuming import submit_resume
from holdfast.errors import HoldfastError
from holdfast.views import continuing, threads, words
from holdfast.views.commands import led_by, meaning
from holdfast.views.errors import RefusedError
from holdfast.views.failed import FailedRun, failed_runs, failure_of, grouped
from holdfast.views.runs import doing

_LISTED: Final = 20
_UNKNOWN: Final = f"not continued: {_flows.NAME_IT}"


@as_command(
    "holdfast retry nightly-31",
    "holdfast retry --dry-run",
    "holdfast retry --since 2h --error TimeoutError --flow jobs.nightly:etl",
    "holdfast retry --of etl --submit --yes",
)
@run_argument("runs", required=False, nargs=-1)
@_options.flows
@option("--of NAME", "Only runs of the flow of this name.", to="of", multiple=True)
@option("--since AGE", "Only runs started in the last 90s, 12h, 30d or 8w.", type=age)
@option("--error TYPE", "Only runs that failed with this type of error, such as ValueError.")
@allowing
@option("--at-once", "How many are executed at a time.", default=10, type=click.IntRange(1, 1000))
@option("--submit", "Have workers continue them, and don't wait.")
@option("--dry-run", "Only list the runs.")
@option("--yes", "Do not ask for confirmation.")
def command(
    session: Session,
    runs: tuple[str, ...],
    flows: tuple[str, ...],
    of: tuple[str, ...],
    since: timedelta | None,
    error: str | None,
    allowed: Allowed,
    at_once: int,
    submit: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Continue runs that failed where they failed: those that are named, or all.

    Finished steps are not executed again; the step that failed is. Of runs that are not named, a
    list is shown first, and you are asked. Only runs of flows that are given with --flow or in
    pyproject.toml are continued; others are listed. With --submit, workers continue them, and no
    flow is needed. Claims are checked as by `holdfast resume`. Exits with 1 if one fails again, or
    if its flow is unknown.
    """
    if runs and (of or since or error):
        raise click.UsageError("--of, --since and --error choose among all runs: name none")
    with session.opened() as cp:
        found = _named(session, cp, runs, flows) if runs else _all(cp, of, since, error)
        source = continuing.source_of(cp, found[0].info.run_id) if len(runs) == 1 else None
    if dry_run or not found:
        _preview(session, found)
        return
    if len(runs) == 1 and not submit:
        follow(session, found[0].info, source, flows, allowed)
        return
    known = [] if submit else [named.flow for named in _flows.load_all(flows)]
    names = {flow.name for flow in known}
    wanted = [one.info.run_id for one in found if submit or one.info.flow in names]
    if wanted and not runs and not yes:
        if not session.json:
            _preview(session, found)
        session.confirm(f"Continue {_counted(len(wanted), len(found))}?")
    if submit:
        came = _submit(session, wanted)
    else:
        came = asyncio.run(_execute(session, wanted, known, allowed, at_once)) if wanted else {}
    rows = [
        one.document() | {"error": _UNKNOWN} | _bulk.outcome(one.info.run_id, came)
        if not submit
        else one.document() | came[one.info.run_id]
        for one in found
    ]
    session.show(rows, lambda: _draw(rows))
    if any(row["error"] for row in rows):
        raise SystemExit(Exit.FAILED)


def _named(
    session: Session, cp: SyncCheckpointer, runs: Sequence[str], flows: Sequence[str]
) -> list[FailedRun]:
    found = []
    for text in runs:
        info = find_run(cp, text)
        threads.refuse(info)
        if info.status != "failed":
            source = continuing.source_of(cp, info.run_id)
            again = partial(session.commands.resume, info.run_id, flows, source)
            way = continuing.way_on(session.commands, cp, info, again)
            said = f"run {info.run_id!r} is {doing(cp, info)[0]}, and did not fail"
            raise RefusedError(f"{said}; {way}")
        found.append(FailedRun(info, failure_of(cp, info)))
    return found


def _all(
    cp: SyncCheckpointer, of: tuple[str, ...], since: timedelta | None, error: str | None
) -> list[FailedRun]:
    start = None if since is None else datetime.now(UTC) - since
    return list(failed_runs(cp, flows=of or None, since=start, error=error))


def _preview(session: Session, found: Sequence[FailedRun]) -> None:
    """The runs that would be continued; of many, how many failed with what."""

    def draw() -> None:
        if not found:
            _show.say("no failed runs")
            return
        if len(found) > _LISTED:
            rows: Sequence[Sequence[Any]] = grouped(found)
            _show.table(("RUNS", "FLOW", "STEP", "ERROR"), rows, right=("RUNS",))
        else:
            _show.table(
                ("RUN", "FLOW", "STEP", "ERROR", "FAILED"),
                [
                    (
                        one.info.run_id,
                        one.info.flow,
                        one.step,
                        one.told,
                        words.ago(one.info.updated_at),
                    )
                    for one in found
                ],
                cut=("ERROR",),
            )
        _show.say(words.plural(len(found), "failed run"), "dim")

    session.show([one.document() for one in found], draw)


async def _execute(
    session: Session,
    runs: Sequence[str],
    flows: Sequence[Flow[Any]],
    allowed: Allowed,
    at_once: int,
) -> dict[str, Any]:
    with progress("continuing", len(runs)) as advance, own_stdout():
        async with _bulk.open_engine(session, flows, allowed) as engine:
            return await _bulk.resume_all(engine, runs, at_once, advance)


def _submit(session: Session, runs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Ask workers to continue these runs; what came of that, by id."""
    session.require_shared()
    came: dict[str, dict[str, Any]] = {}
    with session.opened() as cp:
        for run_id in runs:
            try:
                cp.core.drive(submit_resume(cp.core, run_id))
                came[run_id] = {"status": "submitted", "error": None}
            except HoldfastError as error:
                came[run_id] = {"error": str(error)}
        if runs and not continuing.has_worker(cp, runs[0]):
            flow = cp.run(runs[0])
            worker = continuing.worker_command(session.commands)
            note = meaning(worker, None if flow is None else flow.flow)
            _show.warn(led_by("no worker is alive; start one:", worker, note))
    return came


def _counted(wanted: int, found: int) -> str:
    if wanted == found:
        return words.plural(wanted, "run")
    return f"{wanted:,} of {words.plural(found, 'run')}, those whose flows are known"


def _draw(rows: Sequence[dict[str, Any]]) -> None:
    shown = sorted(rows, key=lambda row: not row["error"])  # problems first
    _show.table(
        ("RUN", "FLOW", "STATUS", "NOTE"),
        [
            (
                row["run_id"],
                row["flow"],
                _show.word(row["status"]),
                _bulk.note_of(row, [_UNKNOWN]),
            )
            for row in shown[:_LISTED]
        ],
    )
    _show.say_if_cut(min(len(rows), _LISTED), len(rows), "problems first", option="--json")
    _bulk.draw_advice(rows, [_UNKNOWN])
