"""What a run tells its observers, and what they may put around its steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

from holdfast.kernel.observing import Observer

if TYPE_CHECKING:
    from holdfast.engine.context import StepInfo
    from holdfast.kernel.core import Core


class RunObserver(Observer):
    """An observer that also has a part in how runs are executed. What it raises is logged."""

    def opening(
        self, flow: str, *, submitted: bool, parent: tuple[str, str] | None = None
    ) -> str | None:
        """A run is about to be opened here. What to record with it: a W3C traceparent, or None.

        `parent` is the run and the step that a child run is a part of.
        """
        return None

    def around_step(self, step: StepInfo) -> AbstractContextManager[object]:
        """A step is about to be called here: what is entered before, and left after it.

        Context variables that it sets are seen by the step, in whichever thread that runs.
        """
        return nullcontext()


def run_observers(core: Core) -> tuple[RunObserver, ...]:
    """Those of a checkpointer's observers that have a part in runs."""
    return tuple(one for one in core.observers if isinstance(one, RunObserver))


def trace_of_opening(
    core: Core, flow: str, *, submitted: bool = False, parent: tuple[str, str] | None = None
) -> str | None:
    """What the observers want recorded with a run that is about to be opened."""
    found = None
    for one in run_observers(core):
        try:
            found = one.opening(flow, submitted=submitted, parent=parent) or found
        except Exception as error:
            one.log_failure(error)
    return found


@contextmanager
def within(observers: tuple[RunObserver, ...], step: StepInfo) -> Iterator[None]:
    """Call a step in the block, with what observers put around it."""
    with ExitStack() as stack:
        for one in observers:
            try:
                manager = one.around_step(step)
                manager.__enter__()
            except Exception as error:
                one.log_failure(error)
            else:
                stack.push(_Leaving(one, manager))
        yield


class _Leaving:
    """Leaves what an observer put around a step, whatever that raises."""

    def __init__(self, observer: RunObserver, manager: AbstractContextManager[object]) -> None:
        self._observer = observer
        self._manager = manager

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None:
        try:
            self._manager.__exit__(*error)  # type: ignore[arg-type]  # as ExitStack was given it
        except Exception as problem:
            self._observer.log_failure(problem)
