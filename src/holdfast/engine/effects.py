"""What a flow asks the engine for: a step, a child run, an answer. Values, not actions.

An effect does nothing until a flow yields or awaits it. One that is made and dropped would be a
step that is silently skipped: so each is followed, through its copies, until it is used.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from holdfast.engine.context import CURRENT_STEP, DECIDING
from holdfast.errors import StepNotAwaitedError

if TYPE_CHECKING:
    from holdfast.engine.flow import Flow

R_co = TypeVar("R_co", covariant=True)


CALL: Final = "call of"
"""The kind of a flow's call."""


class Origin(NamedTuple):
    """What was made, and by which line of code."""

    kind: str
    name: str
    code: CodeType
    line: int

    def __str__(self) -> str:
        file = Path(self.code.co_filename).name
        return f"{self.kind} {self.name!r} ({file}, line {self.line})"


class Pending:
    """The effects that one flow, or one step, has made and not used yet."""

    __slots__ = ("_dropped", "_made", "of_flow")

    def __init__(self, *, of_flow: bool = False) -> None:
        self.of_flow = of_flow
        self._made: dict[int, tuple[Any, ...]] = {}  # by mark: its origin
        self._dropped: list[tuple[Any, ...]] = []

    def add(self, mark: Mark) -> None:
        """An effect was made."""
        self._made[id(mark)] = mark.made_by

    def use(self, mark: Mark) -> None:
        """It was used."""
        self._made.pop(id(mark), None)

    def drop(self, mark: Mark) -> None:
        """No copy of it is left: it can't be used any more."""
        origin = self._made.pop(id(mark), None)
        if origin is not None:
            self._dropped.append(origin)

    def excuse(self) -> None:
        """An error is thrown into the code that made them: it may never come to use them."""
        self._made.clear()

    def check(self, *, at_end: bool) -> None:
        """Raise `StepNotAwaitedError` for what was dropped; at the end, for what was not used."""
        if not self._dropped and not (at_end and self._made):
            return
        lost = [*self._dropped, *(self._made.values() if at_end else ())]
        origins = [Origin(*one) for one in lost]
        error = StepNotAwaitedError(tuple(map(str, origins)))
        error.made_at = tuple((one.code.co_filename, one.line, one.code.co_name) for one in origins)
        raise error from None


class Mark:
    """Follows one effect through its copies, to where one of them is used or the last is gone."""

    __slots__ = ("_pending", "_used", "made_by")

    def __init__(self, made_by: tuple[Any, ...], pending: Pending | None) -> None:
        self.made_by = made_by  # an `Origin` to be: hardly any is ever shown
        self._pending = pending
        self._used = False
        if pending is not None:
            pending.add(self)

    def use(self) -> None:
        """One of the copies was handed to the engine."""
        self._used = True
        if self._pending is not None:
            self._pending.use(self)

    @property
    def origin(self) -> Origin:
        """What was made, and by which line of code."""
        return Origin(*self.made_by)

    def __deepcopy__(self, _: object) -> Mark:
        return self  # a copy of the effect is the same effect

    @property
    def of_flow(self) -> bool:
        """Whether a flow's own code made the effect, rather than a step or a script."""
        return self._pending is not None and self._pending.of_flow

    def __del__(self) -> None:
        if self._used:
            return
        if self._pending is not None:
            self._pending.drop(self)
        elif not sys.is_finalizing():
            done = "run" if self.origin.kind == CALL else "awaited"
            warnings.warn(f"{self.origin} was never {done}", RuntimeWarning, stacklevel=2)


def mark(kind: str, name: str) -> Mark:
    """A mark for an effect that the calling code makes now."""
    here = DECIDING.get() or CURRENT_STEP.get()
    # Behind the function that makes it. There is no other way that costs next to nothing.
    frame = sys._getframe(2)  # noqa: SLF001
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("holdfast."):
        frame = frame.f_back
    made_by = (kind, name, frame.f_code, frame.f_lineno)
    return Mark(made_by, None if here is None else here.pending)


_AWAITED: Final = "`await` it first (`yield` in a generator, `.result()` in a plain def)"


class Effect(Generic[R_co]):
    """Something the engine does for a workflow.

    `await` it in an `async def`, `yield` it in a generator, call `.result()` in a plain `def`.
    """

    __slots__ = ()

    mark: Mark | None

    def __await__(self) -> Generator[Any, Any, R_co]:
        flow = DECIDING.get()
        if flow is None:
            self.use()
            value: R_co = yield from self._alone().__await__()
            return value
        future = flow.future_of(self)
        if future is not None:
            self.use()
            value = yield from future
            return value
        if flow.task is not asyncio.current_task():
            self.use()
            raise RuntimeError(
                "a step was awaited in a task of its own; await parallel(...) or for_each(...) "
                "instead of asyncio.gather or create_task, or do it all in a coroutine that you "
                "give to hf.durable(...)"
            )
        value = yield self
        return value

    def result(self) -> R_co:
        """Wait for it, blocking: in a plain `def` workflow, in a step, a script or a test."""
        flow = DECIDING.get()
        value: R_co = self._result_alone() if flow is None else flow.wait_for(self)
        return value

    def use(self) -> None:
        """It is handed to the engine, as a part of something else if need be."""
        if self.mark is not None:
            self.mark.use()

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {getattr(self, 'name', '')!r}>"

    if not TYPE_CHECKING:  # or type checkers would accept them

        def _not_awaited(self, *_: object) -> Any:
            if DECIDING.get() is None:
                self.use()  # one error says enough: it need not warn as well
            raise TypeError(f"{self!r} is not its result: {self._how()}")

        __bool__ = __str__ = __format__ = __iter__ = __len__ = __getitem__ = _not_awaited
        __contains__ = __add__ = __radd__ = __sub__ = __mul__ = __lt__ = __gt__ = _not_awaited

    def _how(self) -> str:
        """How to get its result."""
        return _AWAITED

    async def _alone(self) -> Any:
        """What it gives outside of a workflow."""
        raise RuntimeError(f"{type(self).__name__} was awaited outside a workflow")

    def _result_alone(self) -> Any:
        self.use()
        raise RuntimeError(f"{type(self).__name__} was asked for its result outside a workflow")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Effect[R_co]):
    """What to run: a flow and its inputs. `engine.run(call)` runs it.

    Awaited in a workflow, it is a child run.
    """

    flow: Flow[R_co]
    inputs: Any  # as they are recorded
    mark: Mark | None = None
    source: str | None = None  # MODULE:NAME, only to be shown

    def __repr__(self) -> str:
        return f"<call of {self.flow!r}>"

    def _how(self) -> str:
        if DECIDING.get() is not None:
            return _AWAITED
        return self._by_engine("run_sync")

    def _by_engine(self, method: str) -> str:
        name = self.flow.name
        return f"{name}(...) says what to run: engine.{method}({name}(...)) runs it"

    async def _alone(self) -> Any:
        raise RuntimeError(self._by_engine("run"))

    def _result_alone(self) -> Any:
        self.use()
        raise RuntimeError(self._by_engine("run_sync"))
