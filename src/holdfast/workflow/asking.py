"""The questions that a workflow asks, and the answers to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.codec.revive import revive
from holdfast.engine.people.questions import ANSWERED, FAIL
from holdfast.engine.program import Record
from holdfast.errors import UnansweredError
from holdfast.model import Kind
from holdfast.workflow.combinators import Ask
from holdfast.workflow.fibers import Fiber, Outcome
from holdfast.workflow.keys import Scope
from holdfast.workflow.replay import QUESTION

if TYPE_CHECKING:
    from holdfast.workflow.interpreter import Interpreter


class Questions:
    """The questions of one execution."""

    def __init__(self, code: Interpreter) -> None:
        self._code = code
        self._answers: dict[str, Any] = {}
        self._open: dict[str, tuple[Fiber, Ask[Any]]] = {}

    @property
    def open(self) -> list[str]:
        """The keys of those that fibers wait for."""
        return list(self._open)

    def ask(self, fiber: Fiber, scope: Scope, effect: Ask[Any]) -> Outcome | None:
        """The answer; None if it has not come yet."""
        code, key = self._code, scope.key(effect.name)
        scope.expect([key])
        code.known(key, QUESTION)
        if key in self._answers:
            told = code.replay.found.get(_told(key))
            outcome = self._outcome(effect, key)
            if told is not None:
                return code.deliveries.recall(fiber, told.order, outcome)
            return code.deliveries.hear(fiber, outcome, _note(key))
        if key not in code.replay.found:
            code.notes.append(effect.inquiry.record(key, effect.name))
        self._open[key] = (fiber, effect)
        if fiber.request is not None:
            fiber.request.keys.add(key)
        return None

    def answer(self, key: str, value: Any) -> None:
        """Hand an answer to the fiber that waits for it, now or later."""
        self._answers[key] = value
        if key in self._open:
            fiber, effect = self._open.pop(key)
            self._code.deliveries.arrive(fiber, self._outcome(effect, key), _note(key))

    def drop(self, key: str) -> None:
        """Nobody waits for the answer any more."""
        self._open.pop(key, None)

    def _outcome(self, effect: Ask[Any], key: str) -> Outcome:
        value = self._answers[key]
        if value is FAIL:
            return Outcome(error=UnansweredError(self._code.run_id, key))
        try:
            if effect.returns is not None:
                value = revive(value, effect.returns, root=f"answer to {key}", advice=ANSWERED)
        except Exception as error:  # noqa: BLE001 - the flow hears of it
            return Outcome(error=error)
        self._code.results[key] = value
        return Outcome(value)


def _told(key: str) -> str:
    return f"{key}/answered"


def _note(key: str) -> Record:
    """What is recorded when an answer is handed to a task of a `durable`."""
    return Record(Kind.DECISION, _told(key), name="answered")
