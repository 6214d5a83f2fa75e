"""`holdfast rollback`: make an earlier checkpoint the current one."""

from typing import Any

import click

from holdfast.cli import _options, _show
from holdfast.cli._options import option
from holdfast.cli._outcome import say_then
from holdfast.cli._runs import find_place, named_checkpoint, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.engine.people.going_back import rollback_unheld
from holdfast.views import continuing, threads


@as_command("holdfast rollback nightly-31 4", "holdfast rollback nightly-31 transform --json")
@run_argument()
@click.argument("where", required=False, metavar="[WHERE]")
@option("--at WHERE", "The same as WHERE.")
@_options.by
def command(session: Session, run: str, where: str | None, at: str | None, by: str | None) -> None:
    """Make an earlier checkpoint of RUN the current one; resume the run to continue from there.

    WHERE is a seq, RUN@SEQ, or a step: its newest checkpoint. RUN@SEQ alone is enough. Later
    checkpoints stay in the history, and you can roll back to them. The effects of steps are not
    undone. A run that a living process executes is refused: pause it first.

    Subgraphs of a LangGraph thread are runs of their own. Those that stay at what they saved later
    are listed, each with the command that puts it back.
    """
    with session.opened() as cp:
        info, where = named_checkpoint(cp, run, where, at)
        run_id = info.run_id
        place = find_place(cp, run_id, where)
        found, _ = cp.core.drive(rollback_unheld(cp.core, run_id, place, by=by))
        then = continuing.then(session.commands, cp, info, run_id)
        ahead = threads.ahead(cp, found.checkpoint_id) if info.flow == threads.FLOW else []
    document: dict[str, Any] = {
        "run_id": run_id,
        "checkpoint_id": found.checkpoint_id,
        "step": found.step,
    }
    if ahead:
        document["ahead"] = [one._asdict() for one in ahead]

    def draw() -> None:
        step = found.step or "its beginning"
        say_then(f"{run_id} is at {found.checkpoint_id}, after {step}", then)
        if ahead:
            _show.say(
                "These subgraphs are still at what they saved later. Put them back:", "yellow"
            )
        for one in ahead:
            _show.say(f"  {one.command}", "yellow")

    session.show(document, draw)
