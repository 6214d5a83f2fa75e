"""Checkpoints you can trust.

    import holdfast as hf

    cp = hf.Checkpointer("sqlite:///runs.db")
    await cp.save("run-1", {"n": 1}, step="fetch")
    checkpoint = await cp.load("run-1")

`SyncCheckpointer` is the blocking twin.
"""

from holdfast.checkpoint import Checkpoint, CheckpointInfo, RunInfo, Stats
from holdfast.checkpointer import Checkpointer, SyncCheckpointer
from holdfast.diff import Diff
from holdfast.errors import *  # noqa: F403 - the error tree, which has an __all__
from holdfast.errors import __all__ as _errors
from holdfast.integrity import Integrity
from holdfast.model import CheckpointType, Status
from holdfast.retention import Retention
from holdfast.seams import new_id
from holdfast.store import Store
from holdfast.urls import open_store, register_store

__version__ = "0.1.0"

__all__ = [
    "Checkpoint",
    "CheckpointInfo",
    "CheckpointType",
    "Checkpointer",
    "Diff",
    "Integrity",
    "Retention",
    "RunInfo",
    "Stats",
    "Status",
    "Store",
    "SyncCheckpointer",
    "new_id",
    "open_store",
    "register_store",
    *_errors,
]
