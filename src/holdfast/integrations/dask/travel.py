"""What comes back from a worker."""

from __future__ import annotations

import socket

from distributed import get_worker
from distributed.protocol import pickle

from holdfast.engine.run.failures import type_name


def this_worker() -> str:
    """This worker as people know it: its address and its machine."""
    host = socket.gethostname()
    try:
        return f"Dask worker {get_worker().address} on {host}"
    except ValueError:  # there is none
        return f"the process on {host}"


def portable_error(error: Exception) -> Exception:
    """The error, as much of it as survives the way to the client: at least its message."""
    if _survives(error):
        return error
    error.__cause__ = error.__context__ = None
    if _survives(error):
        return error
    return RuntimeError(f"{type_name(error)}: {error}")


def _survives(error: Exception) -> bool:
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - users' errors may raise anything
        return False
    return type(again) is type(error) and str(again) == str(error)
