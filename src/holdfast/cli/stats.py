"""`holdfast stats`: what a store or a run holds."""

from typing import Final

import click

from holdfast.cli import _show
from holdfast.cli._options import age, option
from holdfast.cli._runs import find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.views import words
from holdfast.views.statistics import Window, over_time, window_of
from holdfast.views.totals import totals


def _window(text: str) -> Window:
    return window_of(text, age(text))


@as_command(
    "holdfast stats",
    "holdfast stats nightly --json",
    "holdfast stats --since 7d --flow digest",
    "holdfast stats --prometheus",
)
@run_argument(required=False)
@option("--since AGE", "What runs did in the last 24h, 7d or 30d, part by part.", type=_window)
@option("--flow NAME", "With --since: only runs of this flow.")
@click.option(
    "--prometheus", is_flag=True, help="Runs by status, as text for Prometheus; reads the index."
)
def command(
    session: Session, run: str | None, since: Window | None, flow: str | None, prometheus: bool
) -> None:
    """Count runs, checkpoints and bytes, of the whole store or of RUN.

    Child runs count as runs, and so do runs without a checkpoint. With --since, count what runs
    did over time: in each hour of up to two days, in six hours each of up to two weeks, else by
    day, in UTC. A run that is continued after its end, as by `holdfast retry`, counts again when it
    ends again. Half of the runs took at most MEDIAN, and more than half of that.
    """
    if flow is not None and since is None:
        raise click.UsageError("--flow needs --since")
    if since is not None:
        if run is not None or prometheus:
            raise click.UsageError("--since is about a whole store, and has its own table")
        _show_over_time(session, since, flow)
        return
    if prometheus:
        if run is not None or session.json:
            raise click.UsageError("--prometheus is about a whole store, and has its own format")
        from holdfast.telemetry.metrics import RUNS, exposition, runs_by_status

        with session.opened() as cp:
            click.echo("\n".join(exposition(RUNS, runs_by_status(cp.count_runs()))))
        return
    with session.opened() as cp:
        info = None if run is None else find_run(cp, run)
        found = totals(cp, info)

    def draw() -> None:
        saved = found["state_bytes"] - found["stored_bytes"]
        rows = [
            ("store", found["store"]),
            *([("run", info.run_id)] if info else []),
            ("runs", f"{found['runs']:,}"),
            *((f"  {status}", f"{count:,}") for status, count in sorted(found["statuses"].items())),
            ("checkpoints", f"{found['checkpoints']:,}"),
            ("states, each in full", words.size(found["state_bytes"])),
            ("states, as stored", words.size(found["stored_bytes"])),
            *(
                [("deltas and compression save", f"{100 * saved / found['state_bytes']:.1f} %")]
                if saved > 0
                else []
            ),
            ("oldest", words.moment(found["oldest"])),
            ("newest", words.moment(found["newest"])),
        ]
        _show.table(("WHAT", "VALUE"), rows)

    session.show(found, draw)


def _show_over_time(session: Session, window: Window, flow: str | None) -> None:
    with session.opened() as cp:
        found = over_time(cp, window, flow)

    def draw() -> None:
        counted = ("started", "completed", "failed", "cancelled", "paused", "saves")
        rows = [
            (
                words.moment(period["start"]),
                *(f"{period[name]:,}" for name in counted),
                *("" if period[name] is None else words.span(period[name]) for name in _TIMES),
            )
            for period in found["periods"]
        ]
        _show.table(("FROM", *map(str.upper, counted), "MEDIAN", "95 %"), rows)

    session.show(found, draw)


_TIMES: Final = ("median", "p95")
