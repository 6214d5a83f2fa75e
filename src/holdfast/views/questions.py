"""What runs ask of people."""

from typing import Any

from holdfast.engine.people.questions import FAIL, Question
from holdfast.views.values import plain


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
