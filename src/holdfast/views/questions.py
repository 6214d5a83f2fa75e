"""What runs ask of people."""

from itertools import islice
from typing import Any, Final

from holdfast.checkpointer import SyncCheckpointer
from holdfast.engine.people.questions import FAIL, Question, asked
from holdfast.kernel.pages import pass_by
from holdfast.model import Kind
from holdfast.views.values import plain

_FURTHEST: Final = 10_000  # entries, back to a question


def document(question: Question) -> dict[str, Any]:
    """A question as `holdfast questions --json` has it."""
    return {
        "run_id": question.run_id,
        "question": question.key,
        "prompt": question.prompt,
        "schema": plain(question.schema),
        "assignees": list(question.assignees),
        "asked_at": question.asked_at,
        "deadline": question.deadline,
        "default": None if question.default is FAIL else plain(question.default),
        "shown": plain(question.shown),
    }


def recorded(cp: SyncCheckpointer, run_id: str, key: str) -> Question | None:
    """A question of a run, be it open or answered; None if it was not asked lately."""
    journals = cp.core.journals
    newest = journals.entries(run_id, newest_first=True, damage=pass_by)
    for entry in islice(newest, _FURTHEST):
        if entry.kind == Kind.QUESTION and entry.step == key:
            return asked(entry, journals.value(run_id, entry.seq))
    return None
