"""`holdfast stats`: what a store or a run holds."""

import click

from holdfast.cli import _show
from holdfast.cli._runs import find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.views import words
from holdfast.views.totals import totals


@as_command("holdfast stats", "holdfast stats nightly --json", "holdfast stats --prometheus")
@run_argument(required=False)
@click.option(
    "--prometheus", is_flag=True, help="Runs by status, as text for Prometheus; reads the index."
)
def command(session: Session, run: str | None, prometheus: bool) -> None:
    """Count runs, checkpoints and bytes, of the whole store or of RUN.

    Child runs count as runs, and so do runs without a checkpoint.
    """
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
            ("states, whole", words.size(found["state_bytes"])),
            ("as stored", words.size(found["stored_bytes"])),
            *([("saved", f"{100 * saved / found['state_bytes']:.1f} %")] if saved > 0 else []),
            ("oldest", words.moment(found["oldest"])),
            ("newest", words.moment(found["newest"])),
        ]
        _show.table(("WHAT", "VALUE"), rows)

    session.show(found, draw)
