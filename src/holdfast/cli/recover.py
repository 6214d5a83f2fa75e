"""`holdfast recover`: resume runs whose process died."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from holdfast.cli import _flows, _options, _show
from holdfast.cli._execution import plain
from holdfast.cli._exits import Exit
from holdfast.cli._options import option
from holdfast.cli._progress import progress
from holdfast.cli._session import Session, as_command
from holdfast.engine.engine import Engine
from holdfast.engine.flow import Flow
from holdfast.engine.resume.recovery import orphans
from holdfast.errors import RunCancelledError, RunPausedError

_WAITING: Final = ("orphaned", "answered")
_LEFT: Final = "not resumed: name its flow with --flow, or in flows under [tool.holdfast]"


@as_command(
    "holdfast recover --dry-run",
    "holdfast recover --flow jobs.nightly:etl",
    "holdfast recover --silent 60 --at-once 4",
)
@_options.flows
@option(
    "--silent SECONDS",
    "How long a process on another machine may record nothing before it counts as dead.",
    default=900.0,
    type=click.FloatRange(0),
)
@option(
    "--at-once",
    "How many runs are executed at a time.",
    default=10,
    type=click.IntRange(1, 1000),
)
@option("--dry-run", "Only list the runs.")
def command(
    session: Session, flows: tuple[str, ...], silent: float, at_once: int, dry_run: bool
) -> None:
    """Resume every orphaned run: one that is running, but whose process is dead.

    Questions whose deadline has passed get their default answer first, and runs that were
    answered are resumed, too. Only runs of the given flows are resumed, or of those in
    pyproject.toml; others are listed. With --dry-run all are only listed. Exits with 1 if a run
    fails, or if one could not be resumed because its flow is unknown.
    """
    known = [] if dry_run else [named.flow for named in _flows.load_all(flows)]
    with session.opened() as cp:  # after the import, which may itself resume a run
        found = orphans(cp.core, silent=silent)
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
    flows: Sequence[Flow[Any]],
    silent: float,
    at_once: int,
    advance: Callable[[], None],
) -> dict[str, Any]:
    async with Engine(session.url, flows=flows) as engine:
        return await engine.recover(silent=silent, at_once=at_once, progress=lambda _: advance())


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
