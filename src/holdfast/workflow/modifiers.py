"""A step's modifiers (`when`, `validate`, `on_error` ...) as a small flow: each part is recorded."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any, NamedTuple

from holdfast.engine.context import DECIDING
from holdfast.engine.effects import Effect
from holdfast.engine.policy import StepPolicy
from holdfast.errors import StepFailedError
from holdfast.workflow.combinators import Branch
from holdfast.workflow.step import Step


class Bare(NamedTuple):
    """A step's own call, under the key that the step was given."""

    key: str
    step: Step[Any]


class Skip(NamedTuple):
    """The step is skipped."""

    key: str
    name: str
    reason: str
    because: str  # the key of what was recorded: a condition, or a failure


def expand(step: Step[Any], key: str) -> Generator[Any, Any, Any]:
    """The step with all its modifiers."""
    if step.condition is not None:
        wanted = yield Branch(((step.condition, True),), "when")
        if not wanted:
            yield Skip(key, step.name, "its condition is not true", f"{key}/when")
            return None
    try:
        value = yield from _checked(step, key)
    except StepFailedError as error:
        if isinstance(step.handler, Effect):
            return (yield step.handler)
        if step.handler is not None:
            return (yield Step("on_error", step.handler, (error,)))
        if not step.skips:
            raise
        yield Skip(key, step.name, str(error), error.step)
        return step.default
    return value


def _checked(step: Step[Any], key: str) -> Generator[Any, Any, Any]:
    has_body = step.fn is not None or step.call is not None
    value = (yield Bare(key, step)) if has_body else None
    if not step.checks:
        return value
    for left in range(step.rounds, -1, -1):
        given = (value,) if has_body else ()
        problems = yield Step("check", _run_checks, (step.checks, given))
        if not problems:
            return value
        if not left:
            flow = DECIDING.get()
            run_id = "" if flow is None else flow.run_id
            raise StepFailedError(key, "CheckFailed", "; ".join(problems), run_id=run_id)
        if step.fix is not None:
            claims = step.policy.claims  # it may have written them again
            if claims is not None:
                claims = replace(claims, call=(step.args, step.kwargs))
            policy = StepPolicy(claims=claims)
            fixed = yield Step(
                "fix", step.fix, (*given, problems), policy=policy, result_type=step.result_hint
            )
            value = fixed if has_body else None
        elif has_body:
            value = yield replace(
                step, name="again", condition=None, handler=None, skips=False, checks={}
            )
    return value


async def _run_checks(checks: dict[str, Any], given: tuple[Any, ...]) -> list[str]:
    """Messages of the checks that failed."""
    problems = []
    for name, check in checks.items():
        try:
            verdict = check(*given)
            if hasattr(verdict, "__await__"):
                verdict = await verdict
        except Exception as error:  # noqa: BLE001 - a check says no by raising whatever it likes
            problems.append(f"{name}: {type(error).__name__}: {error}")
            continue
        if verdict is False:
            problems.append(f"{name} said no")
        elif isinstance(verdict, str) and verdict:
            problems.append(f"{name}: {verdict}")
    return problems
