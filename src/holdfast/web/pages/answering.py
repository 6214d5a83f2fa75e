"""A question with its form: in the inbox, and in a dialog on the page of its run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.codec.redaction import redacted
from holdfast.engine.people import inbox, requests
from holdfast.engine.people.questions import FAIL, Question
from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    InvalidAnswerError,
    QuestionError,
)
from holdfast.model import OF_CHILD
from holdfast.views import answered, cancelling, continuing, forms
from holdfast.views.forms import Field, FieldError
from holdfast.views.questions import recorded
from holdfast.views.runs import of_id
from holdfast.views.values import plain, short
from holdfast.web import actions
from holdfast.web.pages.offers import Asked, shown, unattended
from holdfast.web.rendering import page, run_path
from holdfast.web.sent import Sent, done, posted
from holdfast.web.site import Site
from holdfast.web.statuses import InvalidFieldError, status_of

_MOST: Final = 20_000  # characters that are shown beside a question


class Filled(NamedTuple):
    """A form as it was filled in, and what is wrong with it."""

    given: Mapping[str, str] = {}
    errors: Mapping[str, str] = {}  # by field
    problem: str = ""  # with no field in particular


class QuestionForm(NamedTuple):
    """All that a template needs to ask a question."""

    asked: Asked
    form: Field
    decision: Field | None  # what two buttons answer
    shown: str  # beside the question: a text
    shown_cut: bool
    default: str | None  # what is answered when the deadline passes; None if it fails then
    then: Mapping[str, Any]  # who continues the run
    source: str | None  # what the record says the run was started as
    again: str  # why it is asked again; "" if it is asked for the first time
    back: str  # "inbox" or "run": where to return to
    choice: str = ""  # "yes" or "no" where one of the two buttons was pressed before
    filled: Filled = Filled()

    def value(self, field: Field) -> str:
        """What a field shows."""
        return self.filled.given.get(field.name, field.value)

    @property
    def yes_no(self) -> tuple[str, str] | None:
        """What the two buttons say."""
        return self.asked.yes_no


def question_form(
    site: Site, asked: Asked, *, back: str, choice: str = "", filled: Filled = Filled()
) -> QuestionForm:
    """The form of an open question."""
    question, form = asked.question, asked.form
    text = "" if question.shown is None else _pretty(question.shown)
    fails = question.default is FAIL
    then = actions.then_of(site, question.run_id)
    if then["by"] == "nobody":
        told, command = unattended(site, question.run_id, then["command"], asks=True)
        then |= {"told": told, "command": command}
    return QuestionForm(
        asked=asked,
        form=form,
        decision=forms.decision(form),
        shown=text[:_MOST],
        shown_cut=len(text) > _MOST,
        default=None if fails else short(question.default),
        then=then,
        source=continuing.source_of(site.cp, question.run_id.partition(OF_CHILD)[0]),
        again=_again(site, question),
        back=back,
        choice=choice,
        filled=filled,
    )


def _again(site: Site, question: Question) -> str:
    before = None
    with suppress(CheckpointCorruptedError):  # the page of the run says what is damaged
        before = answered.why_again(site.cp, question.run_id, question.key)
    if before is None:
        return ""
    why = f"Asked again: {redacted(before.void)}."
    if before.what != "answered":
        return why
    by = f" by {before.by}" if before.by else ""
    return f"{why} The answer before, “{short(before.value)}”{by}, is void."


def answer_page(request: Request) -> Response:
    """The form of one question, as a page or in a dialog."""
    site: Site = request.app.state.site
    with site.noting_outages():
        return _page(request, site, request.query_params.get("question"))


def answer(sent: Sent) -> Response:
    """Record an answer."""
    site, key = sent.site, sent.fields.get("question") or None
    back = "inbox" if sent.field("back") == "inbox" else "run"
    with site.noting_outages():
        try:
            question = requests.open_question(site.cp.core, sent.run_id, key)
        except HoldfastError as error:
            return _resent(sent, key, error, back)
        try:
            who = sent.who()
            value = forms.answer_from(forms.form_of(question.schema), sent.fields)
            told = actions.answer(site, who, sent.run_id, value, key)
        except (FieldError, HoldfastError) as error:
            filled = _wrong(sent, question, error)
            status = 422 if isinstance(error, FieldError) else status_of(error)
            return _page(sent.request, site, key, filled, status)
    return _answered(sent, told, back)


def _resent(sent: Sent, key: str | None, error: HoldfastError, back: str) -> Response:
    """What is not open any more: if the same answer was recorded before, it was sent twice."""
    question = None if key is None else recorded(sent.site.cp, sent.run_id, key)
    told = _explained(sent.site, error, key) if isinstance(error, QuestionError) else error
    if question is None or told is not error:
        raise told
    try:
        value = forms.answer_from(forms.form_of(question.schema), sent.fields)
    except FieldError:
        raise error from None
    document = actions.answer(sent.site, sent.who(), sent.run_id, value, key)
    return _answered(sent, document, back)


def _explained(site: Site, error: QuestionError, key: str | None) -> QuestionError:
    """The error, with the reason if the question is void."""
    if error.answered_at is not None:
        return error
    with suppress(CheckpointCorruptedError):  # then nobody can tell why
        for one in answered.of_run(site.cp, error.run_id):
            if one.question == key and one.void:
                return QuestionError(error.run_id, key, f"is void: {one.void}")
    return error


def _answered(sent: Sent, told: Mapping[str, Any], back: str) -> Response:
    continues = {
        "here": "the run continues here",
        "worker": "a worker continues the run",
        "nobody": "the run waits for a worker",
    }[told["then"]["by"]]
    if back == "inbox":  # where other questions stand
        return done(sent.request, "/inbox", f"Answered {sent.run_id}: {continues}.")
    return done(sent.request, run_path(sent.run_id), f"Answered: {continues}.")


def _page(
    request: Request,
    site: Site,
    key: str | None,
    filled: Filled = Filled(),
    status: int = 200,
) -> Response:
    run_id = of_id(site.cp, request.path_params["run_id"]).run_id
    cancelling.refuse(site.cp, run_id)
    try:
        question = requests.open_question(site.cp.core, run_id, key)
    except QuestionError as error:
        raise _explained(site, error, key) from None
    beside = inbox.questions(site.cp.core, run_id)
    asked = shown(site, question, beside)
    back = filled.given.get("back", "run")
    choice = request.query_params.get("choose", "")
    choice = choice if choice in ("yes", "no") else ""
    ask = question_form(site, asked, back=back, choice=choice, filled=filled)
    return page(request, "dialogs/answer.html", status=status, ask=ask)


def _wrong(sent: Sent, question: Question, error: Exception) -> Filled:
    """What to say beside which field."""
    if isinstance(error, FieldError):
        return Filled(sent.fields, {error.name: error.reason})
    if isinstance(error, InvalidFieldError):
        return Filled(sent.fields, {error.field: error.reason})
    if isinstance(error, InvalidAnswerError):
        form = forms.form_of(question.schema)
        name = forms.at_fault(form, error.reason)
        return Filled(sent.fields, {name: error.reason.removeprefix(f"the {name} ")})
    return Filled(sent.fields, problem=str(error))


def _pretty(value: object) -> str:
    tree = redacted(plain(value))
    return tree if isinstance(tree, str) else json.dumps(tree, indent=2, ensure_ascii=False)


ROUTES: list[BaseRoute] = [
    Route("/runs/{run_id:id}/answer", answer_page, methods=["GET"]),
    Route("/runs/{run_id:id}/answer", posted(answer), methods=["POST"]),
]
