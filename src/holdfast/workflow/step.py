"""Steps: what a workflow yields or awaits. Values, not actions."""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    Never,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    overload,
)

from holdfast.engine.blocking import block_on, check_options
from holdfast.engine.claims import Claiming, PathLike, Paths
from holdfast.engine.command import Argv, Command
from holdfast.engine.effects import Call, Effect, Mark, mark
from holdfast.engine.functions import hints_of
from holdfast.engine.program import PLAIN, StepOptions, StepPolicy, policy_of
from holdfast.engine.retry import Retry
from holdfast.errors import StepFailedError
from holdfast.model import check_id

if TYPE_CHECKING:
    from holdfast.evidence import CommandResult
    from holdfast.workflow.flow import Workflow

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
D = TypeVar("D")
D_co = TypeVar("D_co", covariant=True)

Checks = Callable[..., Any] | Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]]

_UNSET: Any = object()


class Validation(NamedTuple):
    """The arguments of `Step.validate`, for `@step(validate=...)`."""

    stages: Checks
    retry: int = 0
    on_failure: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Step(Effect[R_co]):
    """One unit of work. Every method returns a new step with one more property."""

    name: str
    fn: Callable[..., Any] | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    call: Call[Any] | None = None  # a child run instead of a function
    policy: StepPolicy = PLAIN
    result_type: Any = _UNSET
    condition: Any = None
    handler: Callable[..., Any] | Effect[Any] | None = None
    skips: bool = False
    default: Any = None
    undo: Callable[..., Any] | None = None
    checks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    rounds: int = 0
    fix: Callable[..., Any] | None = None
    mark: Mark | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_id("step", self.name)

    if not TYPE_CHECKING:  # or type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            if name == "name" or name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(
                f"a step has no {name!r}: step {self.name!r} was not awaited; write "
                f"`(await ...).{name}`, or `.result().{name}` in a plain def"
            )

    @overload
    def python(
        self,
        fn: Callable[..., Awaitable[T]],
        args: Sequence[Any] = ...,
        kwargs: Mapping[str, Any] | None = ...,
        *,
        commit: Callable[[Any, Any], object] | None = ...,
        outputs: Paths = ...,
    ) -> Step[T]: ...
    @overload
    def python(
        self,
        fn: Callable[..., T],
        args: Sequence[Any] = ...,
        kwargs: Mapping[str, Any] | None = ...,
        *,
        commit: Callable[[Any, Any], object] | None = ...,
        outputs: Paths = ...,
    ) -> Step[T]: ...
    def python(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        commit: Callable[[Any, Any], object] | None = None,
        outputs: Paths = (),
    ) -> Step[Any]:
        """Call a function, sync or async. A sync one runs in a thread and never blocks the loop.

        With `commit`, `commit(cursor, result)` writes to tables in the store's own database, in
        one transaction with the step's result: exactly once. Keep it short. `outputs` are the
        files that it writes, see `outputs()`.
        """
        if not callable(fn):
            raise TypeError(f"step {self.name!r}: python() needs a function, not {fn!r}")
        if isinstance(args, str | bytes) or not isinstance(args, Sequence):
            raise TypeError(f"step {self.name!r}: args must be a tuple such as ({args!r},)")
        policy = self.policy if commit is None else replace(self.policy, commit=commit)
        made: Step[Any] = replace(
            self, fn=fn, args=tuple(args), kwargs=dict(kwargs or {}), policy=policy
        )
        return made if outputs == () else made.outputs(outputs)

    def subworkflow(self, flow: Workflow[..., T] | Call[T], **inputs: Any) -> Step[T]:
        """Run a flow as a child run that this step waits for: `report`, or `app(state)`."""
        call: Call[Any] = flow if isinstance(flow, Call) else flow(**inputs)
        if isinstance(flow, Call) and inputs:
            raise TypeError(f"step {self.name!r}: {flow.flow.name}(...) has its inputs already")
        call.use()
        made: Step[Any] = replace(self, call=call)
        return made

    def returns(self, kind: type[T]) -> Step[T]:
        """Say what type the result has; by default the function's return annotation says it."""
        made: Step[Any] = replace(self, result_type=kind)
        return made

    def retry(
        self,
        attempts: int = 3,
        backoff: float = 1.0,
        *,
        longest: float = 60.0,
        jitter: float = 0.1,
        on: type[BaseException] | tuple[type[BaseException], ...] = Exception,
        crashes: int = 20,
    ) -> Self:
        """Try up to so many times in all, with a pause that doubles from `backoff` seconds on.

        Failures before a crash count, too. The crash itself does not: a resume tries again, until
        the process has died in this step more than `crashes` times in a row.
        """
        kinds = on if isinstance(on, tuple) else (on,)
        policy = Retry(attempts, backoff, longest, jitter, kinds, crashes)
        return replace(self, policy=replace(self.policy, retry=policy))

    def timeout(self, seconds: float) -> Self:
        """Fail with `StepTimeoutError` after so many seconds. A thread can't be stopped: it runs on."""
        return replace(self, policy=replace(self.policy, timeout=seconds))

    def run_on(self, executor: Executor) -> Self:
        """Run a sync function on this executor: of threads, processes or machines."""
        return replace(self, policy=replace(self.policy, executor=executor))

    def inline(self) -> Self:
        """Call a sync function right on the event loop, because it is quick."""
        return replace(self, policy=replace(self.policy, inline=True))

    def outputs(self, *paths: Paths) -> Self:
        """Claim that the files the step wrote stay as they are when it is finished.

        A path, several, or a function that gives them: of the result, `lambda result: ...`, or of
        the result and the step's arguments, `lambda result, name: f"{name}.out"`. Of a directory,
        every file in it. A resume runs the step again if one of them is gone or changed, unless a
        later step claims it. A file that is not there when the step is finished fails the step.
        """
        return self._claiming(outputs=paths)

    def reads(self, *paths: Paths) -> Self:
        """Claim that the files the step reads stay as they are when it begins: like `outputs`, but
        a function is given the step's arguments alone.
        """
        return self._claiming(reads=paths)

    def removes(self, *paths: Paths) -> Self:
        """Claim that there is nothing at these paths any more: what earlier steps claimed of them,
        and of what is in them, is not asked about again. Given as for `outputs`. Something that is
        still there when the step is finished fails the step.
        """
        return self._claiming(removes=paths)

    def evidence(self, *claims: Any) -> Self:
        """Claim more about the world: `Evidence`, an `EvidencePack`, or a function of the result
        that gives them. What is not verified when the step is finished fails the step; a resume
        runs the step again when it is not so any more.
        """
        return self._claiming(evidence=claims)

    def _claiming(self, **more: Sequence[Any]) -> Self:
        claims = self.policy.claims or Claiming()
        for part, said in more.items():
            for one in said:
                claims = claims.and_also(**{part: one})
        return replace(self, policy=replace(self.policy, claims=claims.or_none()))

    def checkpoint(self) -> Self:
        """Save here also where only marked steps are saved."""
        return replace(self, policy=replace(self.policy, marked=True))

    def when(self, condition: bool | Callable[[], bool]) -> Step[R_co | None]:
        """Skip the step (result `None`) unless the condition is true.

        A callable is called once, and its answer recorded.
        """
        return replace(self, condition=condition)

    def on_error(self, handler: Effect[D] | Callable[[StepFailedError], D]) -> Step[R_co | D]:
        """When the step has failed after its last attempt, use another result: that of a step, or
        of a function that is called with the `StepFailedError` as a step of its own."""
        if isinstance(handler, Effect):
            handler.use()
        return replace(self, handler=handler)

    @overload
    def skip_on_error(self) -> Step[R_co | None]: ...
    @overload
    def skip_on_error(self, default: D) -> Step[R_co | D]: ...
    def skip_on_error(self, default: Any = None) -> Step[Any]:
        """When the step has failed after its last attempt, continue with this value."""
        return replace(self, skips=True, default=default)

    def with_rollback(self, undo: Callable[..., Any]) -> Self:
        """What undoes the step if the run fails or is cancelled later; called with its result."""
        return replace(self, undo=undo)

    def validate(
        self,
        stages: Checks,
        retry: int = 0,
        on_failure: Callable[..., Any] | None = None,
    ) -> Self:
        """Check the result, or the world if the step has no function of its own.

        A stage fails by raising, or by returning False or a str that says what is wrong. Then
        `on_failure(result, problems)` makes a better result (`on_failure(problems)` where there
        is none) and all stages are asked again, up to `retry` times. Without `on_failure` the
        step itself is done again.
        """
        if callable(stages):
            stages = [stages]
        if not isinstance(stages, Mapping):
            stages = {name_of(stage): stage for stage in stages}
        return replace(self, checks=dict(stages), rounds=retry, fix=on_failure)

    @property
    def result_hint(self) -> Any:
        """The type of the result; None where nothing says it."""
        if self.result_type is not _UNSET:
            return self.result_type
        return None if self.fn is None else hints_of(self.fn).get("return")

    @property
    def is_plain(self) -> bool:
        """Whether it is nothing but a call."""
        return (
            self.condition is None and self.handler is None and not self.skips and not self.checks
        )

    async def _alone(self) -> Any:
        value = self._call()
        return await value if inspect.isawaitable(value) else value

    def _result_alone(self) -> Any:
        value = self._call()
        return block_on(lambda: _awaited(value), "") if inspect.isawaitable(value) else value

    def _call(self) -> Any:
        """What its function gives, without the engine."""
        self.use()
        if self.fn is None:
            raise RuntimeError(f"step {self.name!r} has no function to call outside a workflow")
        return self.fn(*self.args, **self.kwargs)


async def _awaited(value: Awaitable[T]) -> T:
    return await value


class StepFunction(Generic[P, R]):
    """A function whose calls are steps. For type checkers it is a `Callable[P, Step[R]]`."""

    def __init__(self, fn: Callable[..., Any], made: Step[Any]) -> None:
        self._step: Step[R] = replace(made, fn=fn)
        functools.update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Step[R]:
        """The step that calls the function with these arguments."""
        made = self._step
        return replace(made, args=args, kwargs=kwargs, mark=mark("step", made.name))

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
def step(target: Any = None, /, **options: Any) -> Any:
    """A step by name, `step("fetch").python(fetch, args=(url,))`, or `@step` on a function.

    The decorator takes the methods of `Step` as options, `@step(retry=3, timeout=60)`, except
    `when` and `returns`, which belong to a call. `validate` takes the checks, or a `Validation`.
    """
    if isinstance(target, str):
        return Step(target, mark=mark("step", target))
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


def command(
    argv: Argv,
    *,
    name: str | None = None,
    outputs: Paths = (),
    reads: Paths = (),
    removes: Paths = (),
    cwd: PathLike | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    exit_codes: Collection[int] = (0,),
    tail: int = 65_536,
) -> Step[CommandResult]:
    """A step that runs a command, `command(["make", "report"], outputs=["report.md"])`.

    Returns a `CommandResult`: exit code, duration, and the last `tail` bytes of each output, in
    whole lines; `truncated` says whether there was more. The exit code is recorded as evidence;
    one that is not in `exit_codes` fails the step. No shell is used. The paths claimed are relative
    to the program, as everywhere, and not to the command's `cwd`.
    """
    from holdfast.evidence import CommandResult

    named = Command(argv, cwd, env, timeout, exit_codes, tail).name
    words = tuple(os.fspath(word) for word in argv)
    runs = Command(lambda *words: words, cwd, env, timeout, exit_codes, tail)
    made = step(name or named).python(runs.run, args=words, outputs=outputs)
    return made.reads(reads).removes(removes).returns(CommandResult)


def name_of(fn: Any) -> str:
    """What a function is called, also a partial one."""
    name = getattr(fn, "__name__", None) or getattr(getattr(fn, "func", None), "__name__", None)
    return name or type(fn).__name__
