"""`holdfast diff`: how one checkpoint differs from another."""

import click

from holdfast.cli import _show
from holdfast.cli._options import option
from holdfast.cli._runs import find_place, run_argument, run_or_checkpoint
from holdfast.cli._session import Session, as_command
from holdfast.views.comparing import compare

_COLOURS = {"add": "green", "remove": "red", "replace": "yellow"}


@as_command(
    "holdfast diff nightly 3 7",
    "holdfast diff nightly@3 nightly-fork@4",
    "holdfast diff nightly 3 7 --patch",
)
@run_argument()
@click.argument("a", required=False, metavar="A")
@click.argument("b", required=False, metavar="[B]")
@option("--patch", "A JSON Patch (RFC 6902) that turns A into B.")
def command(session: Session, run: str, a: str | None, b: str | None, patch: bool) -> None:
    """Show how the state at B differs from the state at A.

    Each is a seq of RUN, a checkpoint of any run as RUN@SEQ, or a step: its newest checkpoint.
    RUN@SEQ instead of RUN and A is enough.
    Of a thread of LangGraph's, the values of its channels are compared, message by message.
    """
    with session.opened() as cp:
        info, seq = run_or_checkpoint(cp, run)
        given = [one for one in (seq, a, b) if one is not None]
        if len(given) != 2:
            raise click.UsageError("name two checkpoints: RUN A B, RUN@SEQ B or RUN@SEQ RUN@SEQ")
        places = [find_place(cp, info.run_id, where) for where in given]
        found = compare(cp, info, *places)
    if patch:
        _show.print_json(found.diff.patch)
        return

    def draw() -> None:
        _show.say(f"{found.diff.old_id} → {found.diff.new_id}", "bold")
        for op, line in found.lines():
            _show.say(line, _COLOURS[op])
        if not found.diff:
            _show.say("no difference")

    session.show(found.document(), draw)
