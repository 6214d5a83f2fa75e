"""The end of a checkpointer, and of all of them at the end of the process."""

from __future__ import annotations

from functools import partial

from holdfast.errors import HoldfastError
from holdfast.kernel import backlog
from holdfast.kernel.core import Core, Op, unsettled
from holdfast.kernel.watching import stop_watching


def close(core: Core, owns_store: bool) -> Op[None]:
    """Make everything durable and release it. A second call does nothing."""
    if not core.closed:
        core.closed = True
        try:
            if core.watcher is not None:
                yield partial(stop_watching, core)
            for call in core.at_close:
                yield partial(call, core)
            yield from backlog.flush(core)
        finally:
            if core.journals.remembered is not None:
                yield core.journals.remembered.close
            if owns_store:
                yield core.journals.writer.close
                yield core.journals.store.close
    core.release()


def flush_all() -> None:
    """Make durable what any checkpointer of this process has not written yet. Blocks."""
    for core in list(unsettled):
        try:
            core.drive(backlog.flush(core))
        except HoldfastError as error:  # the others must be flushed too
            backlog.log.error("not everything was saved at exit: %s", error)
