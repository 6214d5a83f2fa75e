"""`holdfast recover`: resume runs whose process died."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import click

from holdfast.cli import _bulk, _flows, _options, _show
from holdfast.cli._claims import Allowed, allowing
from holdfast.cli._exits import Exit
from holdfast.cli._options import option
from holdfast.cli._progress import progress
from holdfast.cli._session import Session, as_command
from holdfast.cli._stdout import own_stdout
from holdfast.engine.flow import Flow
from holdfast.engine.resume.recovery import Orphan, survey
from holdfast.views import words

_WAITING: Final = ("orphaned", "answered")
_LEFT: Final = f"not resumed: {_flows.NAME_IT}"
_UNDECIDED: Final = "undecided: its process may be alive, which --wait would find out"
_ADVICE: Final = (_LEFT, _UNDECIDED)


@as_command(
    "holdfast recover --dry-run",
    "holdfast recover --flow jobs.nightly:etl",
    "holdfast recover --no-wait --at-once 4",
)
@_options.flows
@allowing
@option(
    "--wait/--no-wait",
    "Wait until it is clear whether processes on other machines are alive.",
    default=True,
)
@option(
    "--at-once",
    "How many runs are executed at a time.",
    default=10,
    type=click.IntRange(1, 1000),
)
@option("--dry-run", "Only list the runs.")
def command(
    session: Session,
    flows: tuple[str, ...],
    allowed: Allowed,
    wait: bool,
    at_once: int,
    dry_run: bool,
) -> None:
    """Resume every orphaned run: one that is running, but whose process is dead or has left it.

    Whether a process of this machine is alive is known at once. One of another machine is dead
    when it gives no sign of life for its `dead_after` (30 seconds, unless its engine says
    otherwise): so long is waited. With --no-wait such runs are listed as `undecided`.

    Questions whose deadline has passed get their default answer first, and runs that were
    answered are resumed, too. Only runs of the given flows are resumed, or of those in
    pyproject.toml; others are listed. Their claims are checked as by `holdfast resume`. With
    --dry-run all are only listed. Exits with 1 if a run
    fails, or if one could not be resumed because its flow is unknown.
    """
    known = [named.flow for named in _flows.load_all(flows)]
    names = {flow.name for flow in known}
    with session.opened() as cp:  # after the import, which may itself resume a run
        found = survey(cp.core)
    if dry_run:
        rows = [_row(orphan, None if orphan.flow in names else _LEFT) for orphan in found]
        session.show(rows, lambda: _draw(rows))
        return
    came: dict[str, Any] = {}
    patience = max((one.patience for one in found if one.flow in names), default=0.0)
    if wait and patience:
        where = (
            f"waiting up to {patience:.0f} s to see whether processes on other machines are alive"
        )
        _show.say(where, err=True)
    if known:
        with progress("recovering", len(found)) as advance, own_stdout():
            came = asyncio.run(_recover(session, known, allowed, wait, at_once, advance))
    unclear = {orphan.run_id for orphan in found if orphan.undecided and orphan.flow in names}
    rows = [
        _row(orphan, _note(orphan, names)) | _bulk.outcome(orphan.run_id, came)
        for orphan in found
        if orphan.run_id in came or not (wait and orphan.run_id in unclear)  # else it is alive
    ]
    others = came.keys() - {orphan.run_id for orphan in found}  # they waited for an answer
    rows += [{"run_id": run_id} | _bulk.outcome(run_id, came) for run_id in sorted(others)]
    session.show(rows, lambda: _draw(rows))
    if any(row["status"] in ("failed", *_WAITING) for row in rows):
        raise SystemExit(Exit.FAILED)


def _row(orphan: Orphan, error: str | None) -> dict[str, Any]:
    return orphan._asdict() | {"status": _status(orphan), "error": error}


def _draw(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        _show.say("no orphaned runs")
        return
    _show.table(
        ("RUN", "FLOW", "STATUS", "LAST SIGN OF LIFE", "NOTE"),
        [
            (
                row["run_id"],
                row.get("flow"),
                _show.word(row["status"]),
                words.ago(row["since"]) if "since" in row else "",
                _bulk.note_of(row, _ADVICE),
            )
            for row in rows
        ],
    )
    _bulk.draw_advice(rows, _ADVICE)


async def _recover(
    session: Session,
    flows: Sequence[Flow[Any]],
    allowed: Allowed,
    wait: bool,
    at_once: int,
    advance: Callable[[], None],
) -> dict[str, Any]:
    async with _bulk.open_engine(session, flows, allowed) as engine:
        return await engine.recover(wait=wait, at_once=at_once, progress=lambda _: advance())


def _status(orphan: Orphan) -> str:
    if orphan.undecided:
        return "undecided"
    return "answered" if orphan.answered else "orphaned"


def _note(orphan: Orphan, known: Collection[str]) -> str:
    return _UNDECIDED if orphan.undecided and orphan.flow in known else _LEFT
