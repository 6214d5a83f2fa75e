"""`holdfast diff`: how one checkpoint differs from another."""

import click

from holdfast.cli import _show
from holdfast.cli._options import option
from holdfast.cli._runs import find_place, find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.views import threads
from holdfast.views.messages import change_lines

_COLOURS = {"add": "green", "remove": "red", "replace": "yellow"}


@as_command(
    "holdfast diff nightly 3 7",
    "holdfast diff nightly fetch nightly-fork@4",
    "holdfast diff nightly 3 7 --patch",
)
@run_argument()
@click.argument("a")
@click.argument("b")
@option("--patch", "A JSON Patch (RFC 6902) that turns A into B.")
def command(session: Session, run: str, a: str, b: str, patch: bool) -> None:
    """Show how the state at B differs from the state at A.

    Each is a seq of RUN, a checkpoint of any run as RUN@SEQ, or a step: its newest checkpoint.
    Of a thread of LangGraph's, the values of its channels are compared, message by message.
    """
    with session.opened() as cp:
        info = find_run(cp, run)
        places = [find_place(cp, info.run_id, where) for where in (a, b)]
        thread = threads.diff(cp, *places) if info.flow == threads.FLOW else None
        found = cp.diff(info.run_id, *places) if thread is None else thread
    if patch:
        _show.print_json(found.patch)
        return

    def draw() -> None:
        _show.say(_show.clean(f"{found.old_id} → {found.new_id}"), "bold")
        for change in found.changes:
            lines = [str(change)] if thread is None else change_lines(change)
            for line in lines:
                _show.say(line, _COLOURS[change.op])
        if not found:
            _show.say("no difference")

    session.show({"a": found.old_id, "b": found.new_id, "patch": found.patch}, draw)
