"""`holdfast answer`: answer what a run asks."""

from typing import Any, Final

import click

from holdfast.checkpointer import SyncCheckpointer
from holdfast.cli import _flows, _options, _show
from holdfast.cli._form import BOOLEANS, fill_in
from holdfast.cli._options import option
from holdfast.cli._outcome import say_then
from holdfast.cli._runs import find_run, is_signed, run_argument
from holdfast.cli._session import Session, as_command
from holdfast.codec import readable
from holdfast.engine.people import inbox, requests
from holdfast.engine.people.questions import Question
from holdfast.errors import InvalidAnswerError, QuestionError
from holdfast.views import cancelling, continuing, threads, voided, words
from holdfast.views.asking import asked_by_child
from holdfast.views.commands import ANY_FORM, Commands, answer_form
from holdfast.views.next_steps import next_for
from holdfast.views.rescue import Advice
from holdfast.views.runs import ANSWERED, doing, of_id
from holdfast.views.values import plain

_SCHEMA: Final = "`holdfast questions --json` shows its schema"


@as_command(
    "holdfast answer nightly-31",
    "holdfast answer nightly-31 --with '{\"approved\": true}' --by ann",
    "holdfast answer nightly-31 --question review --with @answer.json",
    "holdfast answer nightly-31 --with true --sign-key ann.key",
)
@run_argument()
@option("--question KEY", "Which question, if the run asks several.")
@option(
    "--with JSON", "The answer, JSON or plain text; @FILE, or - for standard input.", to="document"
)
@_options.by
def command(
    session: Session, run: str, question: str | None, document: str | None, by: str | None
) -> None:
    """Answer an open question of RUN. Then continue it with: holdfast resume RUN.

    On a terminal a form asks for each field; in scripts, give the answer with --with. Text need not
    be quoted as JSON, and yes or no is true or false. An answer is checked against the question; a
    second one is refused.

    With --sign-key, the answer is signed with your own key, and is by the id of that key. Where
    keys are trusted, a run takes no other answer.
    """
    key = session.keys.signing_key()
    with session.opened(signing=is_signed(session, run)) as cp:
        by = by or (None if key is None else key.key_id)
        info = find_run(cp, run)
        threads.refuse(info)
        run_id = info.run_id
        cancelling.refuse(cp, run_id)
        waiting = inbox.questions(cp.core, run_id)
        asked = _picked(waiting, question) or _refused(session, cp, waiting, run_id, question)
        if document is None and not session.interactive:
            form = answer_form(asked)
            raise click.UsageError(
                f"there is no terminal to ask on; give the answer: --with {form}"
            )
        if asked.assignees and by is None:
            names = ", ".join(map(repr, asked.assignees))
            raise QuestionError(run_id, asked.key, f"is for {names}; say who answers: --by NAME")
        if document is None:
            question, value = asked.key, _form(asked)
        else:
            rest = [one for one in waiting if one is not asked]
            value = _given(document, asked, session.commands.answer(run_id, [asked, *rest]))
        commands = session.commands.of_others()  # whoever answers need not be who executes it
        try:
            cp.core.drive(requests.answer(cp.core, run_id, value, question, by=by, sign=key))
        except QuestionError as error:
            if then := _as_answered(commands, cp, run_id):
                error.add_note(str(then))
            raise
        then = continuing.after_an_answer(commands, cp, info)
    session.show(
        {"run_id": run_id, "question": question, "answered": True},
        lambda: _draw(then),
    )


def _refused(
    session: Session, cp: SyncCheckpointer, waiting: list[Question], run_id: str, key: str | None
) -> Question:
    """Raise the error that says why there is no such question: perhaps somebody was faster."""
    if waiting and key is None:
        names = ", ".join(repr(one.key) for one in waiting)
        raise QuestionError(run_id, key, f"name one of its questions with --question: {names}")
    try:
        return requests.open_question(cp.core, run_id, key)
    except QuestionError as error:
        if void := voided.keys(cp, run_id):
            error.add_note(f"{words.some(void)}: {voided.VOID}")
        if below := asked_by_child(cp.core, run_id):
            child = below[0].run_id
            instead = session.commands.answer(child, below)
            error.add_note(f"it waits for its child run {child!r}; answer that: {instead}")
        raise


def _as_answered(commands: Commands, cp: SyncCheckpointer, run_id: str) -> Advice | None:
    """How to continue a run that has its answer already: somebody's, or that of its deadline."""
    now = of_id(cp, run_id)
    word, facts = doing(cp, now)
    return next_for(commands, cp, now, facts) if word == ANSWERED else None


def _draw(then: Advice | None) -> None:
    if then is None:
        _show.say("answered; a worker continues it")
    else:
        say_then("answered", then)


def _given(document: str, asked: Question, way: str) -> Any:
    """The answer in a document, or plain text where the question asks for text.

    `way` is a command that gives an answer, to show it to those whose answer does not fit.
    """
    is_text = document != "-" and document[:1] not in ("@", '"')
    try:
        value = readable.data_from_json(_flows.parse_json(document, "--with"))
    except ValueError as error:
        raise click.UsageError(f"--with: {error}") from None
    except click.UsageError as error:
        kind = asked.schema.get("type")
        if not is_text or (document[:1] in ("{", "[") and kind != "string"):
            raise
        if kind == "boolean" and document.lower() in BOOLEANS:
            return BOOLEANS[document.lower()]
        wrong = asked.problems_with(document)
        if not wrong:
            return document
        form = answer_form(asked)
        if form == ANY_FORM:
            raise click.UsageError(f"{error.message}, and as text {wrong}; {_SCHEMA}") from None
        such = f"; for example: {way}" if form[0] == "{" else ""
        raise click.UsageError(f"--with takes {form}, not {document!r}{such}") from None
    wrong = asked.problems_with(value)
    if not wrong:
        return value
    if is_text and not asked.problems_with(document):  # as 7 is, where text is asked for
        return document
    advice = _SCHEMA if answer_form(asked) == ANY_FORM else f"for example: {way}"
    raise InvalidAnswerError(asked.run_id, asked.key, f"{wrong}; {advice}")


def _picked(waiting: list[Question], key: str | None) -> Question | None:
    """The question to answer, if it is unambiguous."""
    meant = [q for q in waiting if key is None or q.key == key or q.key.endswith(f"/{key}")]
    return meant[0] if len(meant) == 1 else None


def _form(asked: Question) -> Any:
    """Ask until the answer fits."""
    _show.say(asked.prompt, "bold")
    if asked.shown is not None:
        _show.print_pretty(plain(asked.shown))
    while True:
        value = fill_in(asked.schema)
        wrong = asked.problems_with(value)
        if not wrong:
            return value
        _show.say(wrong, "red")
