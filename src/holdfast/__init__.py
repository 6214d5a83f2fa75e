"""Checkpoints you can trust.

An engine executes the flows of `holdfast.workflow`, `holdfast.graph` and `holdfast.pipeline`, and
records their steps:

    import holdfast as hf

    engine = hf.Engine("sqlite:///runs.db")
    text = engine.run_sync(report("Brest"), run_id="brest-1", resume=True)

A program with a loop of its own saves and loads checkpoints itself; `SyncCheckpointer` is the
blocking twin:

    cp = hf.Checkpointer("sqlite:///runs.db")
    await cp.save("run-1", {"n": 1}, step="fetch")
    checkpoint = await cp.load("run-1")

Names are imported when they are first used, so that a program pays only for what it needs.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import *  # noqa: F403 - the error tree, which has an __all__
from holdfast.errors import __all__ as _errors

if TYPE_CHECKING:
    from holdfast.changes import Change
    from holdfast.checkpoint import Checkpoint, CheckpointInfo, RunInfo, Stats
    from holdfast.checkpointer import Checkpointer, SyncCheckpointer
    from holdfast.codec.fields import NOT_SAVED
    from holdfast.codec.registry import register_codec
    from holdfast.codec.secrets import Secret, environment_secrets
    from holdfast.engine.context import StepInfo, current_step, now, random, state_of, uuid
    from holdfast.engine.effects import Call
    from holdfast.engine.engine import Engine
    from holdfast.engine.handle import RunHandle
    from holdfast.engine.options import NewRun, Resume, RunNames, RunOptions
    from holdfast.engine.working.listing import WorkerInfo
    from holdfast.engine.working.worker import WorkerEvent
    from holdfast.evidence import (
        Evidence,
        EvidencePack,
        EvidenceType,
        EvidenceVerifier,
        VerificationStatus,
    )
    from holdfast.keys.keyring import Keyring
    from holdfast.keys.signing import SigningKey, TrustedKeys
    from holdfast.manager import CheckpointManager
    from holdfast.migrations import Migrations
    from holdfast.model import CheckpointType, Status
    from holdfast.operations.anchor_files import Anchor
    from holdfast.operations.attesting import check_attestation
    from holdfast.operations.diff import Diff
    from holdfast.operations.dry_run import DryRun
    from holdfast.operations.verifying import Integrity
    from holdfast.retention import Retention
    from holdfast.seams import new_id
    from holdfast.store import Store
    from holdfast.urls import open_store, register_store
    from holdfast.workflow.combinators import sleep
    from holdfast.workflow.durable import durable

__version__ = "0.1.0"

__all__ = [
    "NOT_SAVED",
    "Anchor",
    "Call",
    "Change",
    "Checkpoint",
    "CheckpointInfo",
    "CheckpointManager",
    "CheckpointType",
    "Checkpointer",
    "Diff",
    "DryRun",
    "Engine",
    "Evidence",
    "EvidencePack",
    "EvidenceType",
    "EvidenceVerifier",
    "Integrity",
    "Keyring",
    "Migrations",
    "NewRun",
    "Resume",
    "Retention",
    "RunHandle",
    "RunInfo",
    "RunNames",
    "RunOptions",
    "Secret",
    "SigningKey",
    "Stats",
    "Status",
    "StepInfo",
    "Store",
    "SyncCheckpointer",
    "TrustedKeys",
    "VerificationStatus",
    "WorkerEvent",
    "WorkerInfo",
    "check_attestation",
    "current_step",
    "durable",
    "environment_secrets",
    "new_id",
    "now",
    "open_store",
    "random",
    "register_codec",
    "register_store",
    "sleep",
    "state_of",
    "uuid",
    *_errors,
]

_WHERE: Final = {
    "changes": ("Change",),
    "checkpoint": ("Checkpoint", "CheckpointInfo", "RunInfo", "Stats"),
    "checkpointer": ("Checkpointer", "SyncCheckpointer"),
    "codec.fields": ("NOT_SAVED",),
    "codec.registry": ("register_codec",),
    "codec.secrets": ("Secret", "environment_secrets"),
    "engine.effects": ("Call",),
    "engine.engine": ("Engine",),
    "engine.handle": ("RunHandle",),
    "engine.options": ("NewRun", "Resume", "RunNames", "RunOptions"),
    "engine.working.listing": ("WorkerInfo",),
    "engine.working.worker": ("WorkerEvent",),
    "engine.context": ("StepInfo", "current_step", "now", "random", "state_of", "uuid"),
    "evidence": (
        "Evidence",
        "EvidencePack",
        "EvidenceType",
        "EvidenceVerifier",
        "VerificationStatus",
    ),
    "keys.keyring": ("Keyring",),
    "keys.signing": ("SigningKey", "TrustedKeys"),
    "manager": ("CheckpointManager",),
    "migrations": ("Migrations",),
    "model": ("CheckpointType", "Status"),
    "operations.anchor_files": ("Anchor",),
    "operations.attesting": ("check_attestation",),
    "operations.diff": ("Diff",),
    "operations.dry_run": ("DryRun",),
    "operations.verifying": ("Integrity",),
    "retention": ("Retention",),
    "seams": ("new_id",),
    "store": ("Store",),
    "urls": ("open_store", "register_store"),
    "workflow.combinators": ("sleep",),
    "workflow.durable": ("durable",),
}
_MODULES: Final = {name: module for module, names in _WHERE.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
