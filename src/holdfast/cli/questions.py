"""`holdfast questions`: what runs wait for people to answer."""

from typing import Final

import click

from holdfast.cli import _show
from holdfast.cli._options import at_most, option
from holdfast.cli._runs import find_run, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.engine.people import inbox
from holdfast.views import cancelling, threads, voided, words
from holdfast.views.commands import answer_form
from holdfast.views.questions import document

_LISTED: Final = 100


@as_command(
    "holdfast questions",
    "holdfast questions nightly-31",
    "holdfast questions --assignee ann --overdue",
)
@run_argument(required=False)
@option("--assignee NAME", "Only questions that this person may answer.")
@option("--overdue", "Only those whose deadline has passed.")
@at_most(_LISTED)
def command(
    session: Session, run: str | None, assignee: str | None, overdue: bool, limit: int | None
) -> None:
    """List open questions: of all runs, the most urgent first, or of RUN, in the order asked.

    Of RUN, those that are void because it was rolled back behind them are named, too. A run that
    was asked to cancel asks no more. With --json, all open ones, one object per line, with the
    schema of the answer.
    """
    with session.opened() as cp:
        info = None if run is None else find_run(cp, run)
        if info is not None:
            threads.refuse(info)
        most = session.most(limit, _LISTED)
        if run is None and most is not None and assignee is None and not overdue:
            over = cancelling.asking(cp.core)
            found, count = inbox.most_urgent(cp.core, most + sum(over.values()))
            found = [one for one in found if one.run_id not in over][:most]
            count -= sum(over.values())
        else:
            run_id = None if info is None else info.run_id
            every = inbox.open_questions(cp.core, run_id, assignee=assignee, overdue=overdue)
            every = cancelling.without(cp.core, every)
            found, count = every[:most], len(every)
        void = [] if info is None or session.json else voided.keys(cp, info.run_id)
        to_cancel = info is not None and cancelling.is_to_cancel(cp.core, info.run_id)
    if session.json:
        for question in found:
            click.echo(_show.to_json(document(question)))
    elif not found:
        _show.say("no open questions")
    else:
        _show.table(
            ("RUN", "QUESTION", "PROMPT", "ANSWER", "FOR", "DUE", "ASKED"),
            [
                (
                    q.run_id,
                    q.key,
                    q.prompt,
                    answer_form(q),
                    ", ".join(q.assignees),
                    words.moment(q.deadline),
                    words.ago(q.asked_at),
                )
                for q in found
            ],
        )
        order = "the most urgent first" if run is None else "in the order asked"
        _show.say_if_cut(len(found), count, order)
    if to_cancel and not session.json:
        _show.say(f"what it asked is void: {cancelling.WHY}", "dim")
    if void and not session.json:
        which = "it" if len(void) == 1 else "them"
        _show.say(f"void: {words.some(void)}; the run was rolled back behind {which}", "dim")
