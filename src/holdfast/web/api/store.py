"""The store as a whole: who works on it, what it holds, what is wrong with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast.checkpoint import RunInfo
from holdfast.engine.working.listing import list_workers
from holdfast.views import health, totals, verifying
from holdfast.web.api.declaring import Call, flag, get, limit, moment, post, text
from holdfast.web.api.schemas import FLAG, TEXT, many, maybe, named, record

_FINDINGS: Final = record(ok=FLAG, findings=many(named("Finding")))
_REPORT: Final = record(ok=FLAG, verdicts={"type": "object"}, runs=many(named("Report")))


@get("/workers", record(workers=many(named("Worker"))))
def workers(call: Call) -> dict[str, Any]:
    """List the processes that execute runs of the store, or wait for some."""
    return {"workers": [one._asdict() for one in list_workers(call.site.cp.core)]}


@get("/stats", named("Totals"))
def stats(call: Call) -> dict[str, Any]:
    """Count the runs, checkpoints and bytes of the store. Reads all of it."""
    return totals.totals(call.site.cp)


@get("/runs/{run_id}/stats", named("Totals"))
def run_stats(call: Call, run: RunInfo) -> dict[str, Any]:
    """Count the checkpoints and bytes of a run."""
    return totals.totals(call.site.cp, run)


@get(
    "/tally",
    record(hours=many(named("Hour")), next=maybe(TEXT)),
    moment("since", "The first hour: 24h ago, or a time.", required=True),
    moment("until", "Until then; by default now."),
    text("flow", "Only runs of this flow."),
    limit(744, 8784),
)
def tally(
    call: Call, since: datetime, until: datetime | None, flow: str | None, limit: int
) -> dict[str, Any]:
    """Count what runs did in each hour, oldest first.

    Durations are in seconds. `next` is the address of the following hours, or null.
    """
    end = datetime.now(UTC) if until is None else until
    begin = since.replace(minute=0, second=0, microsecond=0)
    most = timedelta(hours=limit)
    last = end if end - begin <= most else begin + most
    following = call.url(since=last.isoformat(), until=end.isoformat()) if last < end else None
    return {"hours": totals.hours(call.site.cp, begin, last, flow), "next": following}


@get("/doctor", _FINDINGS, flag("quick", "Do not read every run.", default=True))
def doctor(call: Call, quick: bool) -> dict[str, Any]:
    """Examine the store: what it survives, what is orphaned or damaged, and what to do about it.

    As `holdfast doctor --json` prints it; unlike there, `quick` is the default.
    """
    how = health.Examination(call.site.commands, quick=quick)
    return health.document(health.examine(call.site.cp, how))


@get("/runs/{run_id}/verify", _REPORT)
def check_run(call: Call, run: RunInfo) -> dict[str, Any]:
    """Check every byte of a run, and its claims about the world as it is now. Records nothing."""
    return _verified(call, run, record_verdicts=False)


@post("/runs/{run_id}/verify", _REPORT)
def verify_run(call: Call, run: RunInfo) -> dict[str, Any]:
    """Check a run, and record the verdicts on its claims beside it.

    As `holdfast verify --json` prints it.
    """
    return _verified(call, run, record_verdicts=True)


def _verified(call: Call, run: RunInfo, *, record_verdicts: bool) -> dict[str, Any]:
    cp = call.site.cp
    verifier = call.site.settings.verifier
    report = verifying.check(cp, run.run_id, verifier=verifier, record=record_verdicts, by=call.who)
    return verifying.document([report])


ENDPOINTS: Final = (
    workers, stats, run_stats, tally, doctor, check_run, verify_run,
)  # fmt: skip
