"""What a running workflow consists of: fibers, each a stack of generators, and groups of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import StepFailedError
from holdfast.workflow.keys import Scope

if TYPE_CHECKING:
    from holdfast.workflow.durable_body import Request
    from holdfast.workflow.own_task import OwnTask


class Outcome(NamedTuple):
    """A value, or an error."""

    value: Any = None
    error: Exception | None = None


class Frame(NamedTuple):
    """A generator or coroutine, and the scope it names things in."""

    code: Any
    scope: Scope


class Fiber:
    """A sequence of things to do: the workflow itself, or a part of a group."""

    __slots__ = ("frames", "group", "index", "outcome", "request", "task")

    def __init__(
        self,
        frame: Frame,
        group: Group | None = None,
        index: int = 0,
        request: Request | None = None,
    ) -> None:
        self.frames = [frame]
        self.group = group
        self.index = index
        self.outcome = Outcome()  # of what it waited for
        self.task: OwnTask | None = None  # that its code sees as the current one
        if group is not None and group.parent is not None:
            request = group.parent.request
        self.request: Request | None = request  # of a task in `durable`, which it belongs to

    @property
    def abandoned(self) -> bool:
        """Whether the task that it works for was cancelled."""
        return self.request is not None and not self.request.wanted()


class Group:
    """Parts that are done at once, so many at a time.

    After a failure no other part is started, except the first `begun`: they began before the run
    was resumed, and may have to be undone.
    """

    def __init__(
        self,
        starts: Sequence[Callable[[], Any]],
        names: tuple[str, ...] | None,
        concurrency: int | None,
        begun: int = 0,
        *,
        fixed: bool = False,
    ) -> None:
        self.parent: Fiber | None = None
        self.body: Callable[..., Any] | None = None  # an `async def` for each item
        self.scope: Scope | None = None  # of parts that may ask for nothing
        self._begun = begun
        self._kind = tuple if fixed else list  # of the results: each part is its own, or all alike
        self._starts = starts
        self._names = names
        self._limit = concurrency or len(starts)
        self._next = 0
        self._active = 0
        self._values: dict[int, Any] = {}
        self._errors: dict[int, Exception] = {}

    @property
    def wants_more(self) -> bool:
        """Whether another part may start."""
        return self._has_more and self._active < self._limit

    @property
    def _has_more(self) -> bool:
        return self._next < (self._begun if self._errors else len(self._starts))

    def take(self) -> tuple[int, Callable[[], Any]]:
        """The next part."""
        index = self._next
        self._next += 1
        self._active += 1
        return index, self._starts[index]

    def finish(self, index: int, outcome: Outcome) -> None:
        """A part has ended."""
        self._active -= 1
        if outcome.error is not None:
            self._errors[index] = outcome.error
        else:
            self._values[index] = outcome.value

    def outcome(self) -> Outcome | None:
        """The outcome of all parts; None while some are under way."""
        if self._active or self._has_more:
            return None
        if self._errors:
            return Outcome(error=together([self._errors[i] for i in sorted(self._errors)]))
        values = (self._values[index] for index in range(len(self._starts)))
        if self._names is None:
            return Outcome(self._kind(values))
        return Outcome(dict(zip(self._names, values, strict=True)))


def together(errors: list[Exception]) -> Exception:
    """The first of several failures, which names the others: a resume tries all of them again."""
    first, *others = errors
    if isinstance(first, StepFailedError):
        for other in others:
            if isinstance(other, StepFailedError):
                first.others += (other, *other.others)
    return first
