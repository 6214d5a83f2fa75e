"""Ways to put steps together, and questions to people: what else a workflow yields or awaits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Unpack

from holdfast.engine.claims import Paths
from holdfast.engine.context import state_of
from holdfast.engine.people.questions import Approval, Inquiry, QuestionOptions, inquiry_of
from holdfast.engine.program import PLAIN, StepPolicy, policy_of
from holdfast.engine.retry import Retry
from holdfast.model import check_id
from holdfast.workflow.step import Effect, name_of, step


@dataclass(frozen=True, slots=True, eq=False)
class Branch(Effect):
    """One of several cases."""

    cases: tuple[tuple[Any, Any], ...]
    name: str = "branch"


def branch(*cases: tuple[bool | Callable[[], bool], Any], name: str = "branch") -> Branch:
    """Take the first case whose condition is true: `branch((n > 3, step(...)), (True, step(...)))`.

    The choice is recorded, and never made again. The result is that of the case; None if no
    condition is true.
    """
    return Branch(tuple(cases), name)


@dataclass(frozen=True, slots=True, eq=False)
class Parallel(Effect):
    """Several things at once."""

    parts: tuple[Any, ...]
    names: tuple[str, ...] | None
    name: str = "parallel"
    concurrency: int | None = None


def parallel(
    *parts: Any, name: str = "parallel", concurrency: int | None = None, **named: Any
) -> Parallel:
    """Do several things at once: steps, other effects, or generators that yield them.

    Returns a list of their results; a dict where the parts are named. Each result is recorded at
    once. If one part fails the others are finished first, and then the failure is raised.
    """
    if parts and named:
        raise TypeError("parallel takes its parts by position or by name, not both")
    _check_concurrency(concurrency)
    return Parallel(parts or tuple(named.values()), tuple(named) or None, name, concurrency)


@dataclass(frozen=True, slots=True, eq=False)
class ForEach(Effect):
    """The same for every item."""

    items: tuple[Any, ...]
    body: Callable[[Any], Any]
    name: str
    concurrency: int | None = None
    policy: StepPolicy = PLAIN


def for_each(
    items: Iterable[Any],
    do: Callable[[Any], Any],
    *,
    name: str | None = None,
    concurrency: int | None = 10,
    retry: int | Retry | None = None,
    timeout: float | None = None,
    outputs: Paths = (),
) -> ForEach:
    """Do the same for every item, up to `concurrency` at once; returns the list of results.

    `do` is a function that does the work, a `@step`, a function that returns a step or another
    effect, or a generator function that yields them. A resumed run does only the unfinished items.
    `outputs` are the files that the work on one item writes, as a function of its result.
    """
    if not callable(do):
        raise TypeError(f"for_each needs a function to call with each item, not {do!r}")
    _check_concurrency(concurrency)
    policy = policy_of("for_each", {"retry": retry, "timeout": timeout, "outputs": outputs})
    if policy.claims is not None and inspect.isgeneratorfunction(do):
        raise TypeError("for_each: say .outputs(...) on the steps that the generator yields")
    return ForEach(tuple(items), do, name or name_of(do), concurrency, policy)


@dataclass(frozen=True, slots=True, eq=False)
class Ask(Effect):
    """A question to people."""

    inquiry: Inquiry
    returns: Any
    name: str


def ask(
    prompt: str, *, show: Any = None, name: str = "ask", **options: Unpack[QuestionOptions]
) -> Ask:
    """Ask people, and pause the run until an answer comes, days later if need be.

    The answer must be of the type `returns`, fit the JSON `schema`, or be one of the `choices`.
    Only `assignees` may give it; without them anyone may. When the `deadline` passes (a timedelta
    or seconds from now, or a datetime), `default` is the answer; without one, `UnansweredError` is
    raised here. `show` is a value that people see with the question, and may edit and return as
    the answer.
    """
    inquiry = inquiry_of("ask", prompt, options, show)
    return Ask(inquiry, options.get("returns"), check_id("question", name))


def approve(prompt: str, *, name: str = "approve", **options: Any) -> Ask:
    """Ask whether the run may continue; returns an `Approval`. Takes the options of `ask`."""
    return ask(prompt, returns=Approval, name=name, **options)


read_run = step(name="read_run")(state_of)
"""`hf.state_of` as a step: `yield read_run("other-run")` returns its latest state, and records it."""


def _check_concurrency(concurrency: int | None) -> None:
    if concurrency is not None and concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency}")
