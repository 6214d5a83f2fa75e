"""Steps: what a workflow yields or awaits. Values, not actions."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    NamedTuple,
    ParamSpec,
    Self,
    TypeVar,
    overload,
)

from holdfast.engine.blocking import block_on
from holdfast.engine.claims import Claiming, Paths
from holdfast.engine.effects import Call, Effect, Mark
from holdfast.engine.executors import RunOn, check_executor
from holdfast.engine.functions import hints_of
from holdfast.engine.policy import PLAIN, StepPolicy, altered
from holdfast.engine.retry import Retry
from holdfast.errors import StepFailedError
from holdfast.model import check_id

if TYPE_CHECKING:
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


@dataclass(frozen=True, eq=False, repr=False)
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
    mark: Mark | None = None

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
        if type(args) is not tuple:  # mostly it is one, and an ABC takes its time
            if isinstance(args, str | bytes) or not isinstance(args, Sequence):
                raise TypeError(f"step {self.name!r}: args must be a tuple such as ({args!r},)")
            args = tuple(args)
        policy = self.policy if commit is None else self.policy.but(commit=commit)
        made: Step[Any] = self._but(fn=fn, args=args, kwargs=dict(kwargs or {}), policy=policy)
        return made if outputs == () else made.outputs(outputs)

    def subworkflow(self, flow: Workflow[..., T] | Call[T], **inputs: Any) -> Step[T]:
        """Run a flow as a child run that this step waits for: `report`, or `app(state)`."""
        call: Call[Any] = flow if isinstance(flow, Call) else flow(**inputs)
        call.use()
        if isinstance(flow, Call) and inputs:
            raise TypeError(f"step {self.name!r}: {flow.flow.name}(...) has its inputs already")
        made: Step[Any] = self._but(call=call)
        return made

    def returns(self, kind: type[T]) -> Step[T]:
        """Say what type the result has; by default the function's return annotation says it."""
        made: Step[Any] = self._but(result_type=kind)
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
        return self._but(policy=self.policy.but(retry=policy))

    def timeout(self, seconds: float) -> Self:
        """Fail with `StepTimeoutError` after so many seconds. A thread is not stopped: it runs on."""
        return self._but(policy=self.policy.but(timeout=seconds))

    def run_on(self, executor: RunOn) -> Self:
        """Run a sync function on this executor: of threads, processes or machines.

        Give a function that makes it, `lambda: ProcessPoolExecutor(4)`, if it can break: it is
        made once per engine, and again if one of its processes dies. That is no failure of the
        step, which is tried again.
        """
        executor = check_executor(f"step {self.name!r}", executor) or executor
        return self._but(policy=self.policy.but(executor=executor))

    def inline(self) -> Self:
        """Call a sync function right on the event loop, because it is quick."""
        return self._but(policy=self.policy.but(inline=True))

    def outputs(self, *paths: Paths) -> Self:
        """Claim that the files the step wrote stay as they are when it is finished.

        A path, several, or a function that gives them: of the result, `lambda result: ...`, or of
        the result and the step's arguments, `lambda result, name: f"{name}.out"`. Of a directory,
        every file in it. A resume runs the step again if one of them is gone or changed, unless a
        later step claims it. A file that is not there when the step is finished fails the step.
        """
        return self._claiming(outputs=paths)

    def reads(self, *paths: Paths) -> Self:
        """Claim that the files the step reads stay as they are when it begins.

        Given as for `outputs`, but a function gets the step's arguments alone.
        """
        return self._claiming(reads=paths)

    def removes(self, *paths: Paths) -> Self:
        """Claim that there is nothing at these paths any more. Given as for `outputs`.

        This replaces what earlier steps claimed of them and of what was in them. Something that is
        still there when the step is finished fails the step.
        """
        return self._claiming(removes=paths)

    def evidence(self, *claims: Any) -> Self:
        """Claim more about the world: `Evidence`, an `EvidencePack`, or a function of the result.

        A claim that is not verified when the step is finished fails the step. A resume runs the
        step again if one is no longer true.
        """
        return self._claiming(evidence=claims)

    def _claiming(self, **more: Sequence[Any]) -> Self:
        claims = self.policy.claims or Claiming()
        for part, said in more.items():
            for one in said:
                claims = claims.and_also(**{part: one})
        return self._but(policy=self.policy.but(claims=claims.or_none()))

    def checkpoint(self) -> Self:
        """Save after this step even if only marked steps are saved."""
        plain = self.policy is PLAIN
        return self._but(policy=_MARKED if plain else self.policy.but(marked=True))

    def when(self, condition: bool | Callable[[], bool]) -> Step[R_co | None]:
        """Skip the step (result `None`) unless the condition is true.

        A callable is called once, and its answer recorded.
        """
        return self._but(condition=condition)

    def on_error(self, handler: Effect[D] | Callable[[StepFailedError], D]) -> Step[R_co | D]:
        """When the step has failed after its last attempt, use the result of another step.

        Or of a function, which is called with the `StepFailedError` as a step of its own.
        """
        if isinstance(handler, Effect):
            handler.use()
        return self._but(handler=handler)

    @overload
    def skip_on_error(self) -> Step[R_co | None]: ...
    @overload
    def skip_on_error(self, default: D) -> Step[R_co | D]: ...
    def skip_on_error(self, default: Any = None) -> Step[Any]:
        """When the step has failed after its last attempt, continue with this value."""
        return self._but(skips=True, default=default)

    def with_rollback(self, undo: Callable[..., Any]) -> Self:
        """What undoes the step if the run fails or is cancelled later; called with its result."""
        return self._but(undo=undo)

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
        return self._but(checks=dict(stages), rounds=retry, fix=on_failure)

    def called(self, args: Sequence[Any], kwargs: Mapping[str, Any], mark: Mark) -> Step[R_co]:
        """The step with these arguments."""
        return self._but(args=args, kwargs=kwargs, mark=mark)

    @classmethod
    def named(cls, name: str, mark: Mark) -> Step[None]:
        """A step that does nothing yet."""
        return altered(_NOTHING, {"name": check_id("step", name), "mark": mark})

    def _but(self, **changes: Any) -> Self:
        """The step with other values of these fields."""
        return altered(self, changes)

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
        if not inspect.isawaitable(value):
            return value
        try:
            return block_on(lambda: _awaited(value))
        finally:
            if inspect.iscoroutine(value):
                value.close()  # it was not awaited if an event loop runs here

    def _call(self) -> Any:
        """What its function gives, without the engine."""
        self.use()
        if self.mark is not None and self.mark.of_flow:
            raise RuntimeError(
                f"step {self.name!r} of a workflow was waited for in another thread, where its "
                "result would not be recorded; use parallel(...) or for_each(...)"
            )
        if self.fn is None:
            raise RuntimeError(f"step {self.name!r} has no function to call outside a workflow")
        return self.fn(*self.args, **self.kwargs)


_NOTHING: Final[Step[None]] = Step("nothing")
_MARKED: Final = PLAIN.but(marked=True)


async def _awaited(value: Awaitable[T]) -> T:
    return await value


def name_of(fn: Any) -> str:
    """What a function is called, also a partial one."""
    name = getattr(fn, "__name__", None) or getattr(getattr(fn, "func", None), "__name__", None)
    return name or type(fn).__name__
