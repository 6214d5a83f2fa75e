"""`@step` on a function, and `step("name")`."""

from __future__ import annotations

import functools
import types
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Generic, Never, ParamSpec, Protocol, TypeVar, Unpack, overload

from holdfast.engine.blocking import check_options
from holdfast.engine.effects import mark
from holdfast.engine.policy import StepOptions, policy_of
from holdfast.engine.signatures import shows
from holdfast.errors import StepFailedError
from holdfast.workflow.step import Checks, Step, Validation, name_of

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D")
D_co = TypeVar("D_co", covariant=True)


class StepFunction(Generic[P, R]):
    """A function whose calls are steps. For type checkers it is a `Callable[P, Step[R]]`."""

    def __init__(self, fn: Callable[..., Any], made: Step[Any]) -> None:
        self._step: Step[R] = replace(made, fn=fn)
        functools.update_wrapper(self, fn)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Step[R]:
        """The step that calls the function with these arguments."""
        made = self._step
        return made.called(args, kwargs, mark("step", made.name))

    def __get__(self, instance: object, owner: type | None = None) -> StepFunction[..., R]:
        if instance is None or self._step.fn is None:
            return self
        return StepFunction(types.MethodType(self._step.fn, instance), self._step)

    def __repr__(self) -> str:
        return f"<step {self._step.name!r}>"


class DecoratorOptions(StepOptions, total=False):
    """What `@step(...)` takes: the methods of `Step` by their names. `name` is the step's own."""

    name: str
    checkpoint: bool
    commit: Callable[[Any, Any], object] | None
    with_rollback: Callable[..., object] | None
    validate: Checks | Validation | None


class StepDecorator(Protocol[D_co]):
    """Makes steps of functions; `D_co` is the type of what stands in for a failed one's result."""

    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> Callable[P, Step[R | D_co]]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Callable[P, Step[R | D_co]]: ...


@overload
def step(target: str, /) -> Step[None]: ...
@overload
def step(target: Callable[P, Awaitable[R]], /) -> Callable[P, Step[R]]: ...
@overload
def step(target: Callable[P, R], /) -> Callable[P, Step[R]]: ...
@overload
def step(*, skip_on_error: D, **options: Unpack[DecoratorOptions]) -> StepDecorator[D]: ...
@overload
def step(
    *, on_error: Callable[[StepFailedError], D], **options: Unpack[DecoratorOptions]
) -> StepDecorator[D]: ...
@overload
def step(**options: Unpack[DecoratorOptions]) -> StepDecorator[Never]: ...
@shows(DecoratorOptions)
def step(target: Any = None, /, **options: Any) -> Any:
    """A step by name, `step("fetch").python(fetch, args=(url,))`, or `@step` on a function.

    The decorator takes the methods of `Step` as options, `@step(retry=3, timeout=60)`, except
    `when` and `returns`, which belong to a call. `validate` takes the checks, or a `Validation`.
    """
    if isinstance(target, str):
        return Step.named(target, mark("step", target))
    if target is not None and not callable(target):
        raise TypeError(f"step needs a name or a function, not {target!r}")
    decorate = _decorator(options)
    return decorate if target is None else decorate(target)


def _decorator(options: dict[str, Any]) -> Callable[[Callable[..., Any]], StepFunction[..., Any]]:
    known = (*DecoratorOptions.__annotations__, "skip_on_error", "on_error")
    check_options("step", options, known)
    own = {key: value for key, value in options.items() if key in StepOptions.__annotations__}
    policy = policy_of(
        "step",
        own,  # type: ignore[arg-type]
        commit=options.get("commit"),
        marked=options.get("checkpoint", False),
    )
    made: Step[Any] = Step("step", policy=policy, undo=options.get("with_rollback"))
    if "on_error" in options:
        made = made.on_error(options["on_error"])
    if "skip_on_error" in options:
        made = made.skip_on_error(options["skip_on_error"])
    checks = options.get("validate")
    if checks is not None:
        made = made.validate(*checks) if isinstance(checks, Validation) else made.validate(checks)

    def decorate(fn: Callable[..., Any]) -> StepFunction[..., Any]:
        return StepFunction(fn, replace(made, name=options.get("name") or name_of(fn)))

    return decorate
