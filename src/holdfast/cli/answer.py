"""`holdfast answer`: answer what a run asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import _flows, _show
from holdfast.cli._form import fill_in
from holdfast.cli._session import Session, as_command, find_run, run_argument

if TYPE_CHECKING:
    from holdfast.engine.questions import Question


@as_command(
    examples=(
        "holdfast answer nightly-31",
        "holdfast answer nightly-31 --with '{\"approved\": true}' --by ann",
        "holdfast answer nightly-31 --question review --with @answer.json",
    )
)
@run_argument()
@click.option("--question", "key", metavar="KEY", help="Which question, if the run asks several.")
@click.option(
    "--with", "document", metavar="JSON", help="The answer; @FILE or - for standard input."
)
@click.option("--by", metavar="NAME", help="Who answers.")
def command(
    session: Session, run: str, key: str | None, document: str | None, by: str | None
) -> None:
    """Answer an open question of RUN. Then go on with it: holdfast resume RUN.

    On a terminal a form asks for what the question wants; elsewhere, and in scripts, give the
    answer with --with. An answer is checked and recorded once: of two, the second is refused.
    """
    from holdfast.codec import readable
    from holdfast.engine import requests

    if document is None and not session.interactive:
        raise click.UsageError("there is no terminal to ask on; give the answer: --with JSON")
    with session.opened() as cp:
        run_id = find_run(cp, run).run_id
        value: Any
        if document is None:
            asked = _pick(requests.questions(cp.core, run_id), key, run_id)
            key, value = asked.key, _form(asked)
        else:
            try:
                value = readable.from_json(_flows.parse_json(document, "--with"))
            except ValueError as error:
                raise click.UsageError(f"--with: {error}") from None
        cp.core.drive(requests.answer(cp.core, run_id, value, key, by=by))
    session.show(
        {"run_id": run_id, "question": key, "answered": True},
        lambda: _show.say(f"answered; go on with: holdfast resume {_show.clean(run_id)}"),
    )


def _pick(waiting: list[Question], key: str | None, run_id: str) -> Question:
    from holdfast.errors import QuestionError

    for found in waiting:
        if found.key == key or (key is None and len(waiting) == 1):
            return found
    if not waiting:
        raise QuestionError(run_id, key, "nothing is asked")
    names = ", ".join(repr(found.key) for found in waiting)
    raise QuestionError(run_id, key, f"name one of its questions with --question: {names}")


def _form(asked: Question) -> Any:
    """Ask until the answer fits."""
    from holdfast.cli._following import plain

    _show.say(_show.clean(asked.prompt), "bold")
    if asked.shown is not None:
        _show.print_pretty(plain(asked.shown))
    while True:
        value = fill_in(asked.schema)
        wrong = asked.problems_with(value)
        if not wrong:
            return value
        _show.say(_show.clean(wrong), "red")
