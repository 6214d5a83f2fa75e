"""Whether an answer may be recorded: who gives it, its size, and the type that is asked for."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from holdfast.engine.people.questions import Question
from holdfast.errors import InvalidAnswerError, QuestionError, ReviveError, UnknownCodecError
from holdfast.kernel import compose
from holdfast.kernel.core import Core

MAX_ANSWER_BYTES: Final = 4 << 20


def checked(core: Core, found: Question, encoding: bytes, by: str | None) -> bytes:
    """The encoded answer as it is recorded, with the types that are asked for.

    Raises `QuestionError` for someone who was not asked, and `InvalidAnswerError`.
    """
    if found.assignees and (by is None or not found.is_for(by)):
        names = ", ".join(map(repr, found.assignees))
        advice = "say who answers with by=" if by is None else f"not for {by!r}"
        raise QuestionError(found.run_id, found.key, f"is for {names}; {advice}")
    given = core.journals.decode_data(encoding)
    if len(encoding) > MAX_ANSWER_BYTES:
        wrong = f"the answer takes {len(encoding):,} bytes, more than {MAX_ANSWER_BYTES:,}"
    else:
        wrong = found.problems_with(given)
    if wrong:
        raise InvalidAnswerError(found.run_id, found.key, wrong)
    fitting = compose.encode(core, found.run_id, found.converted(given), root="answer")
    try:
        with suppress(UnknownCodecError):  # those who know the codec are elsewhere
            core.journals.decode(fitting)
    except ReviveError as error:
        raise InvalidAnswerError(found.run_id, found.key, f"the answer: {error}") from None
    return fitting
