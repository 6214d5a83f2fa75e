"""Ways to put steps together, and questions to people: what else a workflow yields or awaits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict, TypeVar, Unpack, overload

from holdfast.engine.blocking import check_options
from holdfast.engine.claims import Paths
from holdfast.engine.context import state_of
from holdfast.engine.effects import Effect, Mark, mark
from holdfast.engine.executors import RunOn
from holdfast.engine.flow import Flow
from holdfast.engine.functions import is_async
from holdfast.engine.people.questions import (
    FAIL,
    Approval,
    Inquiry,
    QuestionOptions,
    inquiry_of,
)
from holdfast.engine.policy import PLAIN, StepPolicy, policy_of
from holdfast.engine.retry import Retry
from holdfast.engine.signatures import shows
from holdfast.engine.timers import Duration, Sleep
from holdfast.model import check_id
from holdfast.workflow.decorator import step
from holdfast.workflow.step import Step, name_of

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
G = TypeVar("G")
H = TypeVar("H")

Part = Effect[R] | Coroutine[Any, Any, R] | Generator[Any, Any, R]
"""What `parallel` does at once: a step or another effect, or the call of a generator or an
`async def` that has steps of its own."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Branch(Effect[R_co]):
    """One of several cases."""

    cases: tuple[tuple[Any, Any], ...]
    name: str = "branch"
    mark: Mark | None = None


@overload
def branch(
    *cases: tuple[bool | Callable[[], bool], Effect[R]], name: str = "branch"
) -> Branch[R | None]: ...
@overload
def branch(*cases: tuple[bool | Callable[[], bool], Any], name: str = "branch") -> Branch[Any]: ...
def branch(*cases: tuple[bool | Callable[[], bool], Any], name: str = "branch") -> Branch[Any]:
    """Take the first case whose condition is true: `branch((n > 3, step(...)), (True, step(...)))`.

    The choice is recorded, and never made again. The result is that of the case; None if no
    condition is true.
    """
    _use(then for _, then in cases)
    return Branch(tuple(cases), name, mark("branch", name))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Parallel(Effect[R_co]):
    """Several things at once."""

    parts: tuple[Any, ...]
    names: tuple[str, ...] | None
    name: str = "parallel"
    concurrency: int | None = None
    mark: Mark | None = None


class ParallelOptions(TypedDict, total=False):
    """Options of `parallel`."""

    name: str
    concurrency: int | None


@overload
def parallel(a: Part[A], /, **options: Unpack[ParallelOptions]) -> Parallel[tuple[A]]: ...
@overload
def parallel(
    a: Part[A], b: Part[B], /, **options: Unpack[ParallelOptions]
) -> Parallel[tuple[A, B]]: ...
@overload
def parallel(
    a: Part[A], b: Part[B], c: Part[C], /, **options: Unpack[ParallelOptions]
) -> Parallel[tuple[A, B, C]]: ...
@overload
def parallel(
    a: Part[A], b: Part[B], c: Part[C], d: Part[D], /, **options: Unpack[ParallelOptions]
) -> Parallel[tuple[A, B, C, D]]: ...
@overload
def parallel(
    a: Part[A],
    b: Part[B],
    c: Part[C],
    d: Part[D],
    e: Part[E],
    /,
    **options: Unpack[ParallelOptions],
) -> Parallel[tuple[A, B, C, D, E]]: ...
@overload
def parallel(
    a: Part[A],
    b: Part[B],
    c: Part[C],
    d: Part[D],
    e: Part[E],
    f: Part[F],
    /,
    **options: Unpack[ParallelOptions],
) -> Parallel[tuple[A, B, C, D, E, F]]: ...
@overload
def parallel(
    *parts: Part[R], name: str = "parallel", concurrency: int | None = None
) -> Parallel[tuple[R, ...]]: ...
@overload
def parallel(
    *, name: str = "parallel", concurrency: int | None = None, **named: Part[R]
) -> Parallel[dict[str, R]]: ...
@overload
def parallel(
    *parts: Any, name: str = "parallel", concurrency: int | None = None, **named: Any
) -> Parallel[Any]: ...
def parallel(
    *parts: Any, name: str = "parallel", concurrency: int | None = None, **named: Any
) -> Parallel[Any]:
    """Do several things at once: steps, other effects, child runs, or generators that yield them.

    Returns a tuple of their results; a dict where the parts are named. Each result is recorded at
    once. If one part fails the others are finished first, and then the failure is raised.
    """
    every = (*parts, *named.values())
    _use(every)
    if parts and named:
        raise TypeError("parallel takes its parts by position or by name, not both")
    _check_concurrency(concurrency)
    made = mark("parallel", name)
    return Parallel(every, tuple(named) or None, name, concurrency, made)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ForEach(Effect[R_co]):
    """The same for every item."""

    items: tuple[Any, ...]
    body: Callable[[Any], Any]
    name: str
    concurrency: int | None = None
    policy: StepPolicy = PLAIN
    mark: Mark | None = None


class ForEachOptions(TypedDict, total=False):
    """Options of `for_each`.

    - `name`: its name in the run's record; by default that of `do`.
    - `concurrency`: how many items are worked on at once; None: all.
    - `retry`, `timeout`, `run_on`: of the work on one item, as for a `@step`.
    - `outputs`: the files that the work on one item writes, as a function of its result.
    """

    name: str | None
    concurrency: int | None
    retry: int | Retry | None
    timeout: float | None
    run_on: RunOn | None
    outputs: Paths


@overload
def for_each(
    items: Iterable[T], do: Callable[[T], Part[R]], **options: Unpack[ForEachOptions]
) -> ForEach[list[R]]: ...
@overload
def for_each(
    items: Iterable[T], do: Callable[[T], R], **options: Unpack[ForEachOptions]
) -> ForEach[list[R]]: ...
def for_each(
    items: Iterable[Any],
    do: Callable[[Any], Any],
    *,
    name: str | None = None,
    concurrency: int | None = 10,
    retry: int | Retry | None = None,
    timeout: float | None = None,
    run_on: RunOn | None = None,
    outputs: Paths = (),
) -> ForEach[list[Any]]:
    """Do the same for every item, up to `concurrency` at once; returns the list of results.

    `do` is a `@step`, a flow, a function that returns a step or another effect, an `async def` or
    generator with steps of its own, or a plain function that does the work itself, as one step. A
    resumed run does only the unfinished items. `retry`, `timeout` and `run_on` are those of the
    work on one item, and override a `@step`'s own; `outputs` are the files that it writes, as a
    function of its result.
    """
    if not callable(do):
        raise TypeError(f"for_each needs a function to call with each item, not {do!r}")
    _check_concurrency(concurrency)
    policy = policy_of(
        "for_each", {"retry": retry, "timeout": timeout, "run_on": run_on, "outputs": outputs}
    )
    if policy != PLAIN and (has_steps(do) or isinstance(do, Flow)):
        raise TypeError(
            "for_each: give retry, timeout, run_on and outputs to the steps that the function "
            "awaits or yields"
        )
    called = name or name_of(do)
    return ForEach(tuple(items), do, called, concurrency, policy, mark("for_each", called))


def has_steps(do: Callable[..., Any]) -> bool:
    """Whether it is code with steps of its own, rather than the work itself."""
    return inspect.isgeneratorfunction(do) or is_async(do)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ask(Effect[R_co]):
    """A question to people."""

    inquiry: Inquiry
    returns: Any
    name: str
    mark: Mark | None = None


class AskOptions(TypedDict, total=False):
    """Options of `ask` and `approve`: see `ask`."""

    assignees: Iterable[str] | None
    deadline: timedelta | float | datetime | None
    default: Any
    show: Any
    name: str


@overload
def ask(prompt: str, *, returns: type[T], **options: Unpack[AskOptions]) -> Ask[T]: ...
@overload
def ask(prompt: str, *, choices: Iterable[T], **options: Unpack[AskOptions]) -> Ask[T]: ...
@overload
def ask(
    prompt: str,
    *,
    returns: Any = ...,
    schema: Mapping[str, Any] | None = ...,
    choices: Iterable[Any] | None = ...,
    **options: Unpack[AskOptions],
) -> Ask[Any]: ...
@shows(QuestionOptions, default=FAIL)
def ask(prompt: str, *, show: Any = None, name: str = "ask", **options: Any) -> Ask[Any]:
    """Ask people, and pause the run until an answer comes, days later if need be.

    The answer must be of the type `returns`, fit the JSON `schema`, or be one of the `choices`.
    Only `assignees` may give it; without them anyone may. When the `deadline` passes (a timedelta
    or seconds from now, or a datetime), `default` is the answer; without one, `UnansweredError` is
    raised here. `show` is a value that people see with the question, and may edit and return as
    the answer.
    """
    inquiry = inquiry_of("ask", prompt, options, show)  # type: ignore[arg-type]
    check_id("question", name)
    return Ask(inquiry, options.get("returns"), name, mark("question", name))


@shows(AskOptions, name="approve", default=FAIL)
def approve(prompt: str, **options: Unpack[AskOptions]) -> Ask[Approval]:
    """Ask whether the run may continue; returns an `Approval`. Takes the options of `ask`."""
    options.setdefault("name", "approve")
    return ask(prompt, returns=Approval, **options)


def sleep(
    duration: timedelta | float | None = None,
    *,
    until: datetime | None = None,
    name: str = "sleep",
    **parts: Unpack[Duration],
) -> Step[None]:
    """Wait, even if the process ends meanwhile: `await sleep(days=3)`.

    Takes a timedelta or seconds, `days`, `hours`, `minutes` and `seconds`, or `until` a moment: a
    naive datetime is local time. When to wake up is recorded first, so that a resumed run waits
    only for the rest. A worker leaves the run meanwhile, and continues it when it is due.
    """
    check_options("sleep", parts, Duration.__annotations__)
    return Step(
        name, Sleep(duration, until=until, **parts), result_type=None, mark=mark("step", name)
    )


read_run = step(name="read_run")(state_of)
"""`hf.state_of` as a step: `await read_run("other-run")` returns and records its latest state."""


def _use(parts: Iterable[Any]) -> None:
    """Parts of an effect are used with it."""
    for part in parts:
        if isinstance(part, Effect):
            part.use()


def _check_concurrency(concurrency: int | None) -> None:
    if concurrency is not None and concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency}")
