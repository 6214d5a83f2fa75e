"""`holdfast recover`: go on with runs whose worker died."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import click

from holdfast.checkpointer import Checkpointer
from holdfast.cli import _flows, _options, _show
from holdfast.cli._execution import plain
from holdfast.cli._exits import Exit
from holdfast.cli._options import option
from holdfast.cli._progress import progress
from holdfast.cli._session import Session, as_command
from holdfast.engine.options import Options
from holdfast.engine.resume.recovery import orphans, recover
from holdfast.errors import RunCancelledError, RunPausedError

_WAITING: Final = ("orphaned", "answered")
_LEFT: Final = "left alone: name its flow with --flow, or in flows under [tool.holdfast]"


@as_command(
    "holdfast recover --dry-run",
    "holdfast recover --flow jobs.nightly:etl",
    "holdfast recover --silent 60 --at-once 4",
)
@_options.flows
@option(
    "--silent SECONDS",
    "After so long without a record, a worker on another machine is taken to be dead.",
    default=900.0,
    type=click.FloatRange(0),
)
@option(
    "--at-once",
    "How many runs are carried out at a time.",
    default=10,
    type=click.IntRange(1, 1000),
)
@option("--dry-run", "Only list the runs.")
def command(
    session: Session, flows: tuple[str, ...], silent: float, at_once: int, dry_run: bool
) -> None:
    """Go on with every orphaned run: one that is under way, and whose worker is dead.

    Questions that nobody answered in time are answered first, as they say, and runs whose answer
    has come go on, too. Flows are those given, or those in pyproject.toml; runs of others are
    listed and left alone, and so are all with --dry-run. Exits with 1 if a run fails, or is left
    alone without --dry-run.
    """
    with session.opened() as cp:
        found = orphans(cp.core, silent=silent)
    known = {} if dry_run else {flow.name: flow for flow in _flows.load_all(flows)}
    came: dict[str, Any] = {}
    if known:
        with progress("recovering", len(found)) as advance:
            came = asyncio.run(_recover(session, known, silent, at_once, advance))
    rows = [
        orphan._asdict()
        | {
            "status": "answered" if orphan.answered else "orphaned",
            "error": None if dry_run else _LEFT,
        }
        | _outcome(orphan.run_id, came)
        for orphan in found
    ]
    others = came.keys() - {orphan.run_id for orphan in found}  # they waited for an answer
    rows += [{"run_id": run_id} | _outcome(run_id, came) for run_id in sorted(others)]

    def draw() -> None:
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
                    _show.ago(row["since"]) if "since" in row else "",
                    row["error"],
                )
                for row in rows
            ],
        )

    session.show(rows, draw)
    if any(row["status"] in ("failed", *_WAITING) for row in rows) and not dry_run:
        raise SystemExit(Exit.FAILED)


async def _recover(
    session: Session,
    known: dict[str, _flows.Flow],
    silent: float,
    at_once: int,
    advance: Callable[[], None],
) -> dict[str, Any]:
    async with Checkpointer(session.url) as cp:
        came: dict[str, Any] = {}
        for flow in known.values():
            came |= await recover(
                cp.core,
                {flow.name: flow.make},
                Options(verifier=flow.verifier),
                silent=silent,
                at_once=at_once,
                progress=lambda _: advance(),
            )
        return came


def _outcome(run_id: str, came: dict[str, Any]) -> dict[str, Any]:
    if run_id not in came:
        return {}
    result = came[run_id]
    if isinstance(result, RunPausedError):
        return {"status": "paused", "error": str(result)}
    if isinstance(result, RunCancelledError):
        return {"status": "cancelled", "error": None}
    if isinstance(result, BaseException):
        return {"status": "failed", "error": plain(result)}
    return {"status": "completed", "error": None, "result": plain(result)}
