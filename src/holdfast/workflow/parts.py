"""What a workflow asks for, in the form in which a fiber runs it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any, Final

from holdfast.codec.revive import revive
from holdfast.engine.arguments import digest
from holdfast.engine.effects import Call, Effect
from holdfast.engine.functions import hints_of
from holdfast.errors import StepNotAwaitedError
from holdfast.workflow.modifiers import Bare, expand
from holdfast.workflow.step import Step

OPTIONS_OF_NO_WORK: Final = (
    "{!r} returned a step instead of doing the work: say .retry(...), .timeout(...) and "
    ".run_on(...) there, not in for_each"
)
"""What is wrong with options of a for_each whose function makes steps."""

_RETURNED: Final = "correct the type that it says it returns, or what it returns"


def code_of(part: Any, key: str) -> Any:
    """What a fiber runs: the part's own generator or coroutine, or one for a single effect."""
    if inspect.isgenerator(part) or inspect.iscoroutine(part):
        return part
    return _single(part, key)


def _single(effect: Any, key: str) -> Generator[Any, Any, Any]:
    """A part that is a single effect, under a key that was given out already."""
    if isinstance(effect, Effect):
        effect.use()
    if isinstance(effect, Call):
        effect = as_step(effect)
    if isinstance(effect, Step) and effect.is_plain:
        return (yield Bare(key, effect))
    if isinstance(effect, Step):
        return (yield from expand(effect, key))
    return (yield effect)


def arguments_of(step: Step[Any]) -> str:
    """A digest of what a step or child run is called with."""
    return digest(step.args, step.kwargs if step.call is None else {"": step.call.inputs})


def refuse_steps(step: Step[Any]) -> None:
    """Raise `StepNotAwaitedError` if a step is given another one instead of its result."""
    for value in (*step.args, *step.kwargs.values()):
        if isinstance(value, Effect):
            made = repr(value) if value.mark is None else str(value.mark.origin)
            raise StepNotAwaitedError((made,))


def as_step(call: Call[Any]) -> Step[Any]:
    """A child run, as a step of its parent."""
    return Step(call.flow.name, call=call)


def is_flow(value: object) -> bool:
    """Whether it is something to be done, rather than a result."""
    return isinstance(value, Effect) or inspect.isgenerator(value)


def starter(part: Any, key: str) -> Callable[[], Any]:
    """Begins a part of a `parallel`."""
    return lambda: (key, part() if inspect.isgeneratorfunction(part) else part)


def part_name(part: Any, default: str) -> str:
    """What a part of a `parallel` is called."""
    if isinstance(part, Step):
        return part.name
    if isinstance(part, Call):
        return part.flow.name
    return getattr(part, "__name__", default)


def typed(step: Step[Any] | None, key: str, data: Any) -> Any:
    """A recorded result with the type that the step says it has."""
    if step is None:
        return data
    hint = step.result_hint
    if hint is None and step.call is not None:
        return step.call.flow.unpack(data)
    return data if hint is None else revive(data, hint, root=f"result of {key}", advice=_RETURNED)


def item_result(body: Callable[..., Any], key: str, data: Any) -> Any:
    """What an `async def` without steps made of an item, with the type that it declares."""
    hint = hints_of(body).get("return")
    return data if hint is None else revive(data, hint, root=f"result of {key}", advice=_RETURNED)


def given(value: Any) -> Generator[Any, Any, Any]:
    """A part that was done before."""
    return value
    yield
