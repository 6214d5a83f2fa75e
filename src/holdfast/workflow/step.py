"""Steps: what a workflow yields or awaits. Values, not actions."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack, overload

from holdfast.engine.claims import Claiming, PathLike, Paths
from holdfast.engine.command import Argv, Command
from holdfast.engine.context import DECIDING
from holdfast.engine.functions import hints_of, is_async
from holdfast.engine.program import PLAIN, StepOptions, StepPolicy, policy_of
from holdfast.engine.retry import Retry
from holdfast.model import check_id

if TYPE_CHECKING:
    from holdfast.workflow.flow import Workflow

P = ParamSpec("P")
R = TypeVar("R")

_UNSET: Any = object()


class Effect:
    """Something the engine does for a workflow: `yield` it, or `await` it in an `async def`."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, Any]:
        flow = DECIDING.get()
        if flow is None:
            return (yield from self._alone().__await__())
        if flow.task is not asyncio.current_task():
            raise RuntimeError(
                "a step was awaited in a task of its own; await parallel(...) or for_each(...) "
                "instead of asyncio.gather or create_task: their results are recorded one by one"
            )
        return (yield self)

    async def _alone(self) -> Any:
        raise RuntimeError(f"{type(self).__name__} was awaited outside a workflow")


@dataclass(frozen=True, slots=True, eq=False)
class Step(Effect):
    """One unit of work. Every method returns a new step with one more property."""

    name: str
    fn: Callable[..., Any] | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    flow: Workflow[Any, Any] | None = None  # a subworkflow instead of a function
    policy: StepPolicy = PLAIN
    result_type: Any = _UNSET
    condition: Any = None
    handler: Callable[..., Any] | Effect | None = None
    skips: bool = False
    default: Any = None
    undo: Callable[..., Any] | None = None
    checks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    rounds: int = 0
    fix: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        check_id("step", self.name)

    def python(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        commit: Callable[[Any, Any], object] | None = None,
        outputs: Paths = (),
    ) -> Self:
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
        made = replace(self, fn=fn, args=tuple(args), kwargs=dict(kwargs or {}), policy=policy)
        return made if outputs == () else made.outputs(outputs)

    def subworkflow(self, flow: Workflow[Any, Any], **inputs: Any) -> Self:
        """Run another workflow as a child run that this step waits for."""
        return replace(self, flow=flow, kwargs=inputs)

    def returns(self, kind: Any) -> Self:
        """Say what type the result has; by default the function's return annotation says it."""
        return replace(self, result_type=kind)

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

    def when(self, condition: bool | Callable[[], bool]) -> Self:
        """Skip the step (result `None`) unless the condition is true.

        A callable is called once, and its answer recorded.
        """
        return replace(self, condition=condition)

    def on_error(self, handler: Callable[..., Any] | Effect) -> Self:
        """When the step has failed after its last attempt, use another result: that of a step, or of a function that
        is called with the `StepFailedError` as a step of its own."""
        return replace(self, handler=handler)

    def skip_on_error(self, default: Any = None) -> Self:
        """When the step has failed after its last attempt, continue with this value."""
        return replace(self, skips=True, default=default)

    def with_rollback(self, undo: Callable[..., Any]) -> Self:
        """What undoes the step if the run fails or is cancelled later; called with its result."""
        return replace(self, undo=undo)

    def validate(
        self,
        stages: Callable[..., Any]
        | Iterable[Callable[..., Any]]
        | Mapping[str, Callable[..., Any]],
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
        if self.fn is None:
            raise RuntimeError(f"step {self.name!r} was awaited outside a workflow")
        value = self.fn(*self.args, **self.kwargs)
        return await value if inspect.isawaitable(value) else value


class StepFunction(Generic[P, R]):
    """A function that is a step when a workflow calls it, and itself otherwise."""

    def __init__(self, fn: Callable[P, R], made: Step) -> None:
        self._step = replace(made, fn=fn)
        self._is_async = is_async(fn)
        functools.update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """A step in a workflow's own code; elsewhere the function's result."""
        if DECIDING.get() is None and not self._is_async:
            return self.__wrapped__(*args, **kwargs)
        return self.step(*args, **kwargs)

    def step(self, *args: P.args, **kwargs: P.kwargs) -> Step:
        """The step that calling it makes, to modify: `fetch.step(url).retry(5)`."""
        return replace(self._step, args=args, kwargs=kwargs)

    __wrapped__: Callable[P, R]


@overload
def step(target: str, /) -> Step: ...
@overload
def step(target: Callable[P, R], /) -> StepFunction[P, R]: ...
@overload
def step(
    *, name: str | None = None, **options: Unpack[StepOptions]
) -> Callable[[Callable[P, R]], StepFunction[P, R]]: ...
def step(target: Any = None, /, *, name: str | None = None, **options: Unpack[StepOptions]) -> Any:
    """A step by name, `step("fetch").python(fetch, args=(url,))`, or `@step` on a function.

    The decorator takes a `name`, `retry`, `timeout`, `inline`, `executor`, `outputs`, `reads`,
    `evidence` and `removes`: see the methods of `Step`.
    """
    if isinstance(target, str):
        return Step(target)
    policy = policy_of("step", options)

    def decorate(fn: Callable[P, R]) -> StepFunction[P, R]:
        return StepFunction(fn, Step(name or name_of(fn), policy=policy))

    if target is None:
        return decorate
    if callable(target):
        return decorate(target)
    raise TypeError(f"step needs a name or a function, not {target!r}")


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
) -> Step:
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
    made = Step(name or named).python(runs.run, args=words, outputs=outputs)
    return made.reads(reads).removes(removes).returns(CommandResult)


def name_of(fn: Any) -> str:
    """What a function is called, also a partial one."""
    name = getattr(fn, "__name__", None) or getattr(getattr(fn, "func", None), "__name__", None)
    return name or type(fn).__name__
