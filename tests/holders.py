"""Other processes in tests that start none: they use a core of their own, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.engine.holding.here import THIS, Process, simulate
from holdfast.engine.holding.presence import Presence
from holdfast.engine.holding.process import Identity, this_process
from holdfast.engine.run import left
from holdfast.kernel.core import Core


def as_another_process(core: Core) -> None:
    """Whoever uses this core is a process of its own, which is alive."""
    simulate(core, Process())


@contextmanager
def dying(core: Core) -> Iterator[None]:
    """Whoever uses this core in the block is a process that dies at its end: the runs that it
    leaves look as after a crash. All others know it to be dead while it still works.
    """
    simulate(core, Process(_dead, _no_beats))
    try:
        yield
    finally:
        left._left.clear()  # which steps were under way is known to nobody else
        simulate(core, THIS)


def held_here() -> set[str]:
    """The runs that this process executes, or is about to, in whatever store."""
    return {
        run_id
        for presence in THIS._presences.values()
        for run_id in (
            *presence._runs,
            *presence._claiming.values(),
            *presence._opening.values(),
        )
    }


def _dead() -> Identity:
    """A process whose number another one has now."""
    return this_process()._replace(start="long ago")


def _no_beats(presence: Presence) -> None:
    """The dead release nothing in the background."""
