"""`holdfast fork`: begin a new run from a checkpoint of another."""

import json
import shlex
from typing import Any, Final

import click

from holdfast.checkpoint import Checkpoint
from holdfast.cli import _flows, _options, _show
from holdfast.cli._exits import FailedError
from holdfast.cli._options import option, parse_pair
from holdfast.cli._outcome import say_then
from holdfast.cli._runs import find_place, run_argument, run_or_checkpoint
from holdfast.cli._session import Session, as_command
from holdfast.codec import readable
from holdfast.errors import HoldfastError
from holdfast.errors.base import meant
from holdfast.views import continuing, threads

_JSON: Final = ("[", "{", '"')  # what text rarely begins with


@as_command(
    "holdfast fork nightly-31 --at 4",
    "holdfast fork nightly-31 --at transform --set fetch.rows=100 --run-id nightly-31b",
    "holdfast fork nightly-31 --edit",
)
@run_argument()
@click.argument("place", required=False, metavar="[WHERE]")
@option("--at WHERE", "A seq, RUN@SEQ or a step; by default the current checkpoint.", to="where")
@option("--run-id ID", "The new run's id; by default a new one.")
@option(
    "--set PATH=VALUE",
    "Change the state at a path such as a.b.0; JSON if it is JSON, else text. What begins with "
    '[, { or " must be JSON.',
    to="pairs",
    multiple=True,
)
@option("--edit", "Edit the state, as JSON, in $EDITOR.")
@_options.by
def command(
    session: Session,
    run: str,
    place: str | None,
    where: str | None,
    run_id: str | None,
    pairs: tuple[str, ...],
    edit: bool,
    by: str | None,
) -> None:
    """Begin a new run from a checkpoint of RUN, with its state or an edited one.

    WHERE, --at WHERE or RUN@SEQ names the checkpoint. RUN itself does not change. The new run
    keeps its flow, thread and owner; resume it to continue.
    The state of a workflow has the results of its steps, by step: remove a step and all after it
    to run them again. A thread of LangGraph's is copied up to the checkpoint, as a new thread that
    its graph continues.
    """
    if edit and not session.interactive:
        raise click.UsageError("there is no terminal to edit on; change the state with --set")
    with session.opened() as cp:
        info, seq = run_or_checkpoint(cp, run)
        given = [one for one in (seq, place, where) if one is not None]
        if len(given) > 1:
            raise click.UsageError("name one checkpoint: RUN WHERE, RUN --at WHERE or RUN@SEQ")
        origin = info.run_id
        place = find_place(cp, origin, given[0]) if given else None
        changed: dict[str, Any] = {}
        added: list[str] = []
        is_thread = info.flow == threads.FLOW
        if is_thread and (pairs or edit):
            raise click.UsageError(
                "the state of a LangGraph thread is changed by its graph: fork it, and then call "
                "update_state on the new thread"
            )
        if pairs or edit:
            source = cp.load(checkpoint_id=place) if place else cp.load(origin)
            if source is not None:
                state = readable.to_json(source.state)
                for pair in pairs:
                    state = _set(state, *parse_pair(pair, "--set"), added)
                changed = {"state": _edited(state) if edit else state}
        try:
            changed = {name: readable.data_from_json(value) for name, value in changed.items()}
            forked: Checkpoint | threads.Forked
            if is_thread:
                forked = threads.fork(cp, origin, place, run_id)
            else:
                forked = cp.fork(origin, checkpoint_id=place, run_id=run_id, by=by, **changed)
        except HoldfastError:
            raise
        except (TypeError, ValueError) as error:
            raise click.UsageError(_show.clean(str(error))) from error
        for told in added:
            _show.warn(told)
        then = continuing.then(session.commands, cp, info, forked.run_id)
    session.show(
        {"run_id": forked.run_id, "checkpoint_id": forked.checkpoint_id, "origin": forked.origin},
        lambda: say_then(f"{forked.run_id}, forked from {forked.origin or origin}", then),
    )


def _set(state: Any, path: str, text: str, added: list[str]) -> Any:
    """The state, changed in place, with another value at a path. Tells of one that was `added`."""
    *above, last = path.split(".")
    value = _value(path, text)
    at = state
    try:
        for part in above:
            at = at[_key(at, part)]
        if isinstance(at, dict) and last not in at:
            added.append(f"--set: the state had no {path!r}; it was added{meant(last, at)}")
        at[_key(at, last)] = value
    except (LookupError, TypeError):
        raise click.UsageError(f"--set: the state has no {path!r}") from None
    return state


def _value(path: str, text: str) -> Any:
    """JSON, or text that does not look like it."""
    value = _flows.parse_value(text)
    if value == text and text[:1] in _JSON:
        as_text = shlex.quote(f"{path}={json.dumps(text, ensure_ascii=False)}")
        raise click.UsageError(
            f"--set: {text!r} looks like JSON, but is not valid; correct it, or if it is text, "
            f"quote it: --set {as_text}"
        )
    return value


def _key(at: Any, part: str) -> int | str:
    return int(part) if isinstance(at, list) and part.isdecimal() else part


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
