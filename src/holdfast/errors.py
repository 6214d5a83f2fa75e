"""Every error holdfast raises on purpose.

HoldfastError
├── CheckpointError
│   ├── CheckpointSaveError           the save did not happen (also an OSError)
│   │   └── OutcomeUnknownError       it may have happened; read the position, look for your own entry id
│   │       └── SyncFailedError       it can be read, but the disk did not promise to keep it
│   ├── CheckpointLoadError           the store could not be read (also an OSError)
│   ├── CheckpointNotFoundError       no such run or checkpoint (also a LookupError)
│   ├── CheckpointCorruptedError      stored bytes are not what was written (also a ValueError)
│   ├── SerializeError                a value can't be stored; names the path to it (also a TypeError)
│   ├── ReviveError                   stored data does not fit the type asked for (also a TypeError)
│   ├── StateTooLargeError            larger than `max_state_bytes` (also a ValueError)
│   ├── RunActiveError                the run is live or waiting; nothing was deleted
│   ├── RunExistsError                the id given for a new run is taken
│   └── RunMismatchError              the run belongs to another flow, thread or owner (also a ValueError)
├── ConflictError                     another writer already took this position
├── InvalidIdError                    an id that no store could keep apart from others (also a ValueError)
└── StoreError                        nothing was written
    ├── StoreUnavailableError         unreachable, locked or full; retrying may help
    ├── StoreClosedError              used after close()
    ├── StoreURLError                 a URL or path that names no store (also a ValueError)
    ├── SchemaError                   written by a newer holdfast, or not a holdfast store at all
    └── DurabilityError               the store survives less than was required

Every error keeps its fields as attributes, survives pickling and says what to do next.
"""

from __future__ import annotations

__all__ = [
    "CheckpointCorruptedError",
    "CheckpointError",
    "CheckpointLoadError",
    "CheckpointNotFoundError",
    "CheckpointSaveError",
    "ConflictError",
    "DurabilityError",
    "HoldfastError",
    "InvalidIdError",
    "OutcomeUnknownError",
    "ReviveError",
    "RunActiveError",
    "RunExistsError",
    "RunMismatchError",
    "SchemaError",
    "SerializeError",
    "StateTooLargeError",
    "StoreClosedError",
    "StoreError",
    "StoreURLError",
    "StoreUnavailableError",
    "SyncFailedError",
]


class HoldfastError(Exception):
    """The root of the tree. Its arguments mirror each signature, so that errors survive pickling."""

    def __init__(self, *fields: object) -> None:
        super().__init__(*fields)
        self._fields = fields

    def __reduce__(self) -> tuple[type[HoldfastError], tuple[object, ...]]:
        return type(self), self._fields

    def __str__(self) -> str:
        return ": ".join(str(field) for field in self._fields)


class CheckpointError(HoldfastError):
    """Something is wrong with a checkpoint or a run, rather than with the store."""


class CheckpointSaveError(CheckpointError, OSError):
    """The save did not happen: nothing of it is in the store."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(run_id, reason)
        self.run_id = run_id
        self.reason = reason

    def __str__(self) -> str:
        return f"run {self.run_id!r} was not saved: {self.reason}"


class OutcomeUnknownError(CheckpointSaveError):
    """The store failed while committing: the entries may be there, whole, or not at all."""

    def __str__(self) -> str:
        return (
            f"it is unknown whether run {self.run_id!r} was saved: {self.reason}; "
            "load it and compare before saving again"
        )


class SyncFailedError(OutcomeUnknownError):
    """The disk failed to sync: the entries can be read now, and may be gone after a power cut.

    Looking for them proves nothing, and syncing again would not either.
    """

    def __str__(self) -> str:
        return (
            f"run {self.run_id!r} may not survive a power cut: {self.reason}; "
            "check the disk, then load it and compare before saving again"
        )


class CheckpointLoadError(CheckpointError, OSError):
    """The store could not be read. This never means that there is nothing to read."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(run_id, reason)
        self.run_id = run_id
        self.reason = reason

    def __str__(self) -> str:
        return f"run {self.run_id!r} could not be read: {self.reason}"


class CheckpointNotFoundError(CheckpointError, LookupError):
    """There is no such run, or no such checkpoint in it."""

    def __init__(self, run_id: str, checkpoint_id: str | None = None) -> None:
        super().__init__(run_id, checkpoint_id)
        self.run_id = run_id
        self.checkpoint_id = checkpoint_id

    def __str__(self) -> str:
        if self.checkpoint_id is None:
            return f"run {self.run_id!r} has no checkpoint; list the runs to see what is there"
        return (
            f"run {self.run_id!r} has no checkpoint {self.checkpoint_id}; "
            "list its checkpoints to see what is there"
        )


class CheckpointCorruptedError(CheckpointError, ValueError):
    """The stored bytes are not the ones that were written; no state was made of them."""

    def __init__(self, run_id: str, seq: int | None, reason: str) -> None:
        super().__init__(run_id, seq, reason)
        self.run_id = run_id
        self.seq = seq
        self.reason = reason

    def __str__(self) -> str:
        if self.seq is None:
            return (
                f"{self.run_id} is damaged: {self.reason}; restore it, or export what still loads"
            )
        return (
            f"{self.run_id}@{self.seq} is corrupted: {self.reason}; "
            "verify the run and load an older checkpoint"
        )


class SerializeError(CheckpointError, TypeError):
    """A value can't be stored. `path` leads to it from the top of the state."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason


class ReviveError(CheckpointError, TypeError):
    """Stored data does not fit the type the caller asked for. `path` leads to the misfit."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason


class StateTooLargeError(CheckpointError, ValueError):
    """The state is larger than the limit; nothing was saved."""

    def __init__(self, run_id: str, size: int, limit: int) -> None:
        super().__init__(run_id, size, limit)
        self.run_id = run_id
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the state of run {self.run_id!r} takes {self.size:,} bytes, more than the limit of "
            f"{self.limit:,}; keep large data in files, or raise max_state_bytes"
        )


class RunActiveError(CheckpointError):
    """The run is live or waiting for an answer; nothing was deleted."""

    def __init__(self, run_id: str, status: str) -> None:
        super().__init__(run_id, status)
        self.run_id = run_id
        self.status = status

    def __str__(self) -> str:
        return f"run {self.run_id!r} is {self.status}; end it first, or pass force=True"


class RunExistsError(CheckpointError):
    """The id given for a new run is taken; the run that holds it is unchanged."""

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id

    def __str__(self) -> str:
        return f"run {self.run_id!r} exists already; choose another run_id, or leave it out"


class RunMismatchError(CheckpointError, ValueError):
    """A run belongs to one flow, thread and owner for good; nothing was saved."""

    def __init__(self, run_id: str, field: str, expected: str | None, actual: str) -> None:
        super().__init__(run_id, field, expected, actual)
        self.run_id = run_id
        self.field = field
        self.expected = expected
        self.actual = actual

    def __str__(self) -> str:
        return (
            f"run {self.run_id!r} was opened with {self.field} {self.expected!r}, not {self.actual!r}; "
            "leave it out, or save to another run"
        )


class ConflictError(HoldfastError):
    """Another writer already took this position; nothing was written."""

    def __init__(self, run_id: str, seq: int) -> None:
        super().__init__(run_id, seq)
        self.run_id = run_id
        self.seq = seq

    def __str__(self) -> str:
        return f"run {self.run_id!r} already has an entry at {self.seq}; reload it and try again"


class InvalidIdError(HoldfastError, ValueError):
    """An id that is empty, too long or holds characters that stores can't keep apart."""

    def __init__(self, what: str, value: object, reason: str) -> None:
        super().__init__(what, value, reason)
        self.what = what
        self.value = value
        self.reason = reason

    def __str__(self) -> str:
        shown = repr(self.value)
        return f"{self.what} {shown if len(shown) <= 80 else shown[:77] + '...'} {self.reason}"


class StoreError(HoldfastError):
    """The store refused or failed; nothing was written."""


class StoreUnavailableError(StoreError):
    """The store is unreachable, locked or full; nothing was written and retrying may help."""


class StoreClosedError(StoreError):
    """The store was used after close()."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self.store = store

    def __str__(self) -> str:
        return f"{self.store} is closed; open it again to go on"


class StoreURLError(StoreError, ValueError):
    """A URL or path that names no store holdfast can open."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason


class SchemaError(StoreError):
    """The store was written by a newer holdfast, or is something else altogether."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(store, reason)
        self.store = store
        self.reason = reason


class DurabilityError(StoreError):
    """The store at hand survives less than was required of it."""

    def __init__(self, store: str, required: str, actual: str, reason: str) -> None:
        super().__init__(store, required, actual, reason)
        self.store = store
        self.required = required
        self.actual = actual
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.store} survives {self.actual}, but {self.required} was required: {self.reason}"
        )
