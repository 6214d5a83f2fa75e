"""`holdfast fork`: begin a new run from a checkpoint of another."""

import json
from typing import Any

import click

from holdfast.cli import _flows, _show
from holdfast.cli._exits import FailedError
from holdfast.cli._options import option
from holdfast.cli._runs import find_place, find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.codec import readable
from holdfast.errors import HoldfastError


@as_command(
    "holdfast fork nightly-31 --at 4",
    "holdfast fork nightly-31 --at transform --set fetch.rows=100 --run-id nightly-31b",
    "holdfast fork nightly-31 --edit",
)
@run_argument()
@option("--at WHERE", "A seq, RUN@SEQ or a step; by default the current checkpoint.", to="where")
@option("--run-id ID", "The new run's id; by default a new one.")
@option(
    "--set PATH=VALUE",
    "Change the state at a path such as a.b.0; JSON if it is JSON, else text.",
    to="pairs",
    multiple=True,
)
@option("--edit", "Edit the state, as JSON, in $EDITOR.")
def command(
    session: Session,
    run: str,
    where: str | None,
    run_id: str | None,
    pairs: tuple[str, ...],
    edit: bool,
) -> None:
    """Begin a new run from a checkpoint of RUN, with its state or an edited one.

    RUN itself is not touched. The new run keeps its flow, thread and owner; resume it to go on.
    The state of a workflow is what its steps returned, by step: leave steps out, from some step
    on, to have them done anew.
    """
    if edit and not session.interactive:
        raise click.UsageError("there is no terminal to edit on; change the state with --set")
    with session.opened() as cp:
        origin = find_run(cp, run).run_id
        place = None if where is None else find_place(cp, origin, where)
        changed: dict[str, Any] = {}
        if pairs or edit:
            source = cp.load(checkpoint_id=place) if place else cp.load(origin)
            if source is not None:
                state = readable.to_json(source.state)
                for pair in pairs:
                    state = _set(state, *_flows.parse_pair(pair, "--set"))
                changed = {"state": _decoded(_edited(state) if edit else state)}
        try:
            forked = cp.fork(origin, checkpoint_id=place, run_id=run_id, **changed)
        except HoldfastError:
            raise
        except (TypeError, ValueError) as error:
            raise click.UsageError(_show.clean(str(error))) from error
    session.show(
        {"run_id": forked.run_id, "checkpoint_id": forked.checkpoint_id, "origin": forked.origin},
        lambda: _show.say(
            f"{_show.clean(forked.run_id)}, forked from {_show.clean(forked.origin or origin)}"
        ),
    )


def _set(state: Any, path: str, text: str) -> Any:
    """The state, changed in place, with another value at a path."""
    *above, last = path.split(".")
    at = state
    for part in above:
        at = _within(at, part, path)
    if isinstance(at, dict):
        at[last] = _flows.parse_value(text)
    elif isinstance(at, list) and last.isdecimal() and int(last) < len(at):
        at[int(last)] = _flows.parse_value(text)
    else:
        raise click.UsageError(f"--set: the state has no {path!r}")
    return state


def _within(value: Any, part: str, path: str) -> Any:
    if isinstance(value, dict) and part in value:
        return value[part]
    if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
        return value[int(part)]
    raise click.UsageError(f"--set: the state has no {path!r}")


def _edited(state: Any) -> Any:
    before = json.dumps(state, indent=2, ensure_ascii=False)
    while True:
        after = click.edit(before, extension=".json")
        if after is None or not after.strip():
            raise FailedError("nothing was saved in the editor, so nothing was forked")
        try:
            return json.loads(after)
        except (ValueError, RecursionError) as error:
            if not click.confirm(f"that is not JSON: {error}; edit it again?", default=True):
                raise FailedError("nothing was forked") from None
            before = after


def _decoded(state: Any) -> Any:
    try:
        return readable.from_json(state)
    except ValueError as error:
        raise click.UsageError(f"the edited state: {_show.clean(str(error))}") from None
