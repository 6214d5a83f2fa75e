"""What a store or a run holds."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from holdfast.checkpoint import RunInfo
from holdfast.checkpointer import SyncCheckpointer


def totals(cp: SyncCheckpointer, info: RunInfo | None = None) -> dict[str, Any]:
    """Runs, checkpoints and bytes as `holdfast stats --json` has them, of a store or of one run."""
    found = cp.stats(None if info is None else info.run_id)
    statuses = Counter({info.status: 1} if info else cp.count_runs())
    document = {
        "runs": statuses.total(),
        **found._asdict(),
        "store": cp.store.url,
        "statuses": dict(statuses),
    }
    return document if info is None else document | {"run_id": info.run_id}


def hours(
    cp: SyncCheckpointer,
    since: datetime,
    until: datetime | None = None,
    flow: str | None = None,
    *,
    together: int = 1,
) -> list[dict[str, Any]]:
    """What runs did in each hour, or so many together, oldest first; durations are in seconds."""
    return [
        {
            name: value.total_seconds() if isinstance(value, timedelta) else value
            for name, value in hour._asdict().items()
        }
        for hour in cp.tally(since, until, flow=flow, hours=together)
    ]
