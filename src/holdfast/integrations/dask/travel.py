"""On the worker: where this is, and what goes back from here."""

from __future__ import annotations

import copyreg
import socket
from contextvars import ContextVar

import tblib.pickling_support
from distributed import get_worker
from distributed.protocol import pickle

from holdfast.engine.run.failures import type_name
from holdfast.errors import HoldfastError


def restore_pickling() -> None:
    """Have our errors pickled by their own rule again, which Dask replaces when it is imported.

    Its rule includes causes, and fails for an error whose cause can't be pickled.
    """
    kinds: list[type[HoldfastError]] = [HoldfastError]
    while kinds:
        kind = kinds.pop()
        copyreg.dispatch_table.pop(kind, None)
        kinds += kind.__subclasses__()


ON_WORKER: ContextVar[bool] = ContextVar("holdfast_on_worker", default=False)
"""Set while a Dask worker executes a run."""


def this_worker() -> str:
    """This worker as people know it: its address and its machine."""
    host = socket.gethostname()
    try:
        return f"Dask worker {get_worker().address} on {host}"
    except ValueError:  # there is none
        return f"the process on {host}"


def portable_error(error: Exception) -> Exception:
    """The error, as much of it as survives the way to the client: at least its message."""
    if not isinstance(error, HoldfastError) and _survives(error):
        return error
    # Ours say in words what the cause was, whose type the client may be unable to import.
    if not isinstance(error.__cause__, HoldfastError):
        error.__cause__ = None
    error.__context__ = None
    if _survives(error):
        return error
    return RuntimeError(f"{type_name(error)}: {error}")


def _survives(error: Exception) -> bool:
    tblib.pickling_support.install(error)  # as Dask does: with causes and tracebacks
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - users' errors may raise anything
        return False
    return type(again) is type(error) and str(again) == str(error)
