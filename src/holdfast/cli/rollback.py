"""`holdfast rollback`: make an earlier checkpoint the current one."""

import click

from holdfast.cli import _show
from holdfast.cli._runs import find_place, find_run, run_argument
from holdfast.cli._session import Session, as_command


@as_command("holdfast rollback nightly-31 4", "holdfast rollback nightly-31 transform --json")
@run_argument()
@click.argument("where")
def command(session: Session, run: str, where: str) -> None:
    """Make an earlier checkpoint of RUN the current one; resume the run to continue from there.

    WHERE is a seq, RUN@SEQ, or a step: its newest checkpoint. Later checkpoints stay in the
    history, and you can roll back to them. The effects of steps are not undone.
    """
    with session.opened() as cp:
        run_id = find_run(cp, run).run_id
        found = cp.rollback(run_id, checkpoint_id=find_place(cp, run_id, where))
    text = f"{run_id} is at {found.checkpoint_id}, after {found.step or 'its beginning'}"
    session.show(
        {"run_id": run_id, "checkpoint_id": found.checkpoint_id, "step": found.step},
        lambda: _show.say(text),
    )
