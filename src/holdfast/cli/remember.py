"""`holdfast remember`: compare the store with the heads that are remembered, and accept changes."""

import click

from holdfast.cli import _show
from holdfast.cli._exits import Exit
from holdfast.cli._options import option
from holdfast.cli._session import Session, as_command
from holdfast.errors import HistoryRewoundError
from holdfast.urls import default_heads_file
from holdfast.views import words


@as_command(
    "holdfast remember",
    "holdfast remember --file ~/.heads.db",
    "holdfast remember --accept nightly-31",
    "holdfast remember --accept-all",
)
@option(
    "--file FILE",
    "The file that a checkpointer was given as remember=, or the project's own.",
    type=click.Path(dir_okay=False),
)
@option("--accept RUN", "Take this run as it is now for right.", multiple=True)
@option("--accept-all", "Take the store, and all runs as they are now, for right.", to="every")
def command(session: Session, file: str | None, accept: tuple[str, ...], every: bool) -> None:
    """Compare the store with the heads that are remembered outside of it.

    A program that opens its store with remember=FILE, or a project with remember under
    [tool.holdfast], remembers the newest entry of every run. It refuses to load, save or resume a
    run that was cut off, replaced or removed without a tombstone since. After restoring what is
    missing, nothing is to be done here. If the change is meant, as after a backup was restored,
    accept it. Exits with 1 if something is not what is remembered.
    """
    if accept and every:
        raise click.UsageError("give --accept or --accept-all, not both")
    found = file or default_heads_file()
    if found is None:
        raise click.UsageError(
            "say where heads are remembered: --file, or remember under [tool.holdfast]"
        )
    with session.opened(remember=found) as cp:
        accepted = cp.accept_history(None if every else accept) if accept or every else None
        try:
            problems = cp.check_remembered()
        except HistoryRewoundError as error:
            problems = [error]
    document = {
        "ok": not problems,
        "file": str(found),
        "accepted": accepted,
        "problems": [{"run_id": one.run_id, "reason": one.reason} for one in problems],
    }
    session.show(document, lambda: _draw(accepted, problems))
    if problems:
        raise SystemExit(Exit.FAILED)


def _draw(accepted: int | None, problems: list[HistoryRewoundError]) -> None:
    if accepted is not None:
        _show.say(f"{words.plural(accepted, 'run')} accepted as they are now")
    for problem in problems:
        _show.show(_show.cell("✗ ", _show.style_of("error")).add(_show.clean(str(problem))))
    if not problems:
        _show.say("every run has what is remembered of it")
