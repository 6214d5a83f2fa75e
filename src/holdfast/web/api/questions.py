"""What runs ask of people."""

from __future__ import annotations

from typing import Any, Final

from holdfast.checkpoint import RunInfo
from holdfast.codec.redaction import AsIs
from holdfast.engine.people import inbox
from holdfast.engine.people.questions import Question
from holdfast.views import cancelling, threads
from holdfast.views.questions import document
from holdfast.web.api.declaring import Call, flag, get, identity, limit
from holdfast.web.api.schemas import COUNT, many, named, record

_ANSWER: Final = record(questions=many(named("Question")), count=COUNT)
_ASSIGNEE: Final = identity("assignee", "Only questions that this person may answer.")
_OVERDUE: Final = flag("overdue", "Only those whose deadline has passed.")
_LIMIT: Final = limit(100, 1000)


@get("/questions", _ANSWER, _ASSIGNEE, _OVERDUE, _LIMIT)
def list_questions(
    call: Call,
    assignee: str | None,
    overdue: bool,
    limit: int,
) -> dict[str, Any]:
    """List the open questions of all runs, the most urgent first.

    As `holdfast questions --json` prints them; `count` is how many there are. A run that was asked
    to cancel asks no more.
    """
    return _listed(call, None, assignee, overdue, limit)


@get("/runs/{run_id}/questions", _ANSWER, _ASSIGNEE, _OVERDUE, _LIMIT)
def run_questions(
    call: Call,
    run: RunInfo,
    assignee: str | None,
    overdue: bool,
    limit: int,
) -> dict[str, Any]:
    """List the open questions of a run, in the order asked."""
    threads.refuse(run)
    return _listed(call, run.run_id, assignee, overdue, limit)


def _listed(
    call: Call, run_id: str | None, assignee: str | None, overdue: bool, most: int
) -> dict[str, Any]:
    core = call.site.cp.core
    every = inbox.open_questions(core, run_id, assignee=assignee, overdue=overdue)
    found = cancelling.without(core, every)
    return {"questions": list(map(_shown, found[:most])), "count": len(found)}


def _shown(question: Question) -> dict[str, Any]:
    found = document(question)
    schema = found["schema"]
    return found | {"schema": AsIs(schema) if isinstance(schema, dict) else schema}


ENDPOINTS: Final = (list_questions, run_questions)
