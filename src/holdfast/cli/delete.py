"""`holdfast delete`: take one checkpoint away."""

import click

from holdfast.cli import _show
from holdfast.cli._options import option
from holdfast.cli._runs import find_place, named_checkpoint, run_argument, run_or_checkpoint
from holdfast.cli._session import Session, as_command
from holdfast.model import split_checkpoint_id


@as_command("holdfast delete nightly-31 4", "holdfast delete nightly-31 4 --yes --json")
@run_argument()
@click.argument("where", required=False, metavar="[WHERE]")
@option("--force", "Also if the run is live or paused, or needs the checkpoint to be resumed.")
@option("--yes", "Do not ask for confirmation.")
def command(session: Session, run: str, where: str | None, force: bool, yes: bool) -> None:
    """Delete one checkpoint of RUN, intact or damaged. The others can still be loaded.

    WHERE is a seq, RUN@SEQ, or a step: its newest checkpoint. RUN@SEQ alone is enough. To delete
    many, use `holdfast prune`; for a whole run, `holdfast forget`. An entry that is missing can't
    be deleted.
    """
    with session.opened() as cp:
        info, seq = run_or_checkpoint(cp, run)
        if where is None and seq is None:
            forget = session.commands.line("forget", info.run_id)
            raise click.UsageError(
                f"name the checkpoint: its seq, or a step. To delete the whole run: {forget}"
            )
        info, where = named_checkpoint(cp, run, where)
        place = find_place(cp, info.run_id, where)
        if not yes:
            session.confirm(f"Delete {_show.clean(place)} permanently?")
        run_id = split_checkpoint_id(place)[0]
        cp.delete(run_id, place, force=force)
    session.show({"deleted": place}, lambda: _show.say(f"{place} deleted"))
