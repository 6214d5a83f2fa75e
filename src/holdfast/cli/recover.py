"""`holdfast recover`: go on with runs whose worker died."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import _flows, _show
from holdfast.cli._exits import Exit
from holdfast.cli._following import plain
from holdfast.cli._session import Session, as_command

if TYPE_CHECKING:
    from holdfast.engine.recovering import Orphan


@as_command(
    examples=(
        "holdfast recover --dry-run",
        "holdfast recover --flow jobs.nightly:etl",
        "holdfast recover --silent 60 --at-once 4",
    )
)
@_flows.flow_option
@click.option(
    "--silent",
    default=900.0,
    show_default=True,
    metavar="SECONDS",
    help="After so long without a record, a worker on another machine is taken to be dead.",
)
@click.option(
    "--at-once",
    default=10,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="How many runs are carried out at a time.",
)
@click.option("--dry-run", is_flag=True, help="Only list the runs.")
def command(
    session: Session, flows: tuple[str, ...], silent: float, at_once: int, dry_run: bool
) -> None:
    """Go on with every orphaned run: one that is under way, and whose worker is dead.

    Flows are those given, or those in pyproject.toml; runs of others are listed and left alone.
    Exits with 1 if a run fails.
    """
    from holdfast.engine.recovering import orphans

    with session.opened() as cp:
        found = orphans(cp.core, silent=silent)
    known = {} if dry_run else {flow.name: flow for flow in _flows.load_all(flows)}
    came: dict[str, Any] = {}
    if any(orphan.flow in known for orphan in found):
        came = asyncio.run(_recover(session, known, silent, at_once))
    rows = [_row(orphan, came) for orphan in found]

    def draw() -> None:
        if not rows:
            _show.say("no orphaned runs")
            return
        shown = [
            (row["run_id"], row["flow"], _show.word(row["status"]), row["since"], row["error"])
            for row in rows
        ]
        _show.table(
            ("RUN", "FLOW", "STATUS", "LAST SIGN OF LIFE", "NOTE"),
            [(*row[:3], _show.ago(row[3]), row[4]) for row in shown],
        )

    session.show(rows, draw)
    if any(row["status"] == "failed" for row in rows):
        raise SystemExit(Exit.FAILED)


async def _recover(
    session: Session, known: dict[str, _flows.Flow], silent: float, at_once: int
) -> dict[str, Any]:
    from holdfast.checkpointer import Checkpointer
    from holdfast.engine.options import Options
    from holdfast.engine.recovering import recover

    async with Checkpointer(session.url) as cp:
        makes = {name: flow.make for name, flow in known.items()}
        return await recover(cp.core, makes, Options(), silent=silent, at_once=at_once)


def _row(orphan: Orphan, came: dict[str, Any]) -> dict[str, Any]:
    from holdfast.errors import RunCancelledError, RunPausedError

    row = orphan._asdict() | {"status": "orphaned", "error": None}
    if orphan.run_id not in came:
        return row
    result = came[orphan.run_id]
    if isinstance(result, RunPausedError):
        return row | {"status": "paused", "error": str(result)}
    if isinstance(result, RunCancelledError):
        return row | {"status": "cancelled"}
    if isinstance(result, BaseException):
        return row | {"status": "failed", "error": plain(result)}
    return row | {"status": "completed", "result": plain(result)}
