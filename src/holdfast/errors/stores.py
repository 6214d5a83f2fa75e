"""The store refused, failed, or keeps something else at this position."""

from holdfast.errors.base import HoldfastError, shortened


class ConflictError(HoldfastError):
    """Another writer already took this position; nothing was written."""

    run_id: str
    seq: int
    _text = "run {run_id!r} already has an entry at {seq}; load it again and retry"


class SecondWriterError(ConflictError):
    """Another process writes to the same LangGraph thread; nothing was written.

    Raised by a saver with `exclusive=True`.
    """

    _text = (
        "another process saved to {run_id!r} (its newest entry is {seq}) since this one read it; "
        "invoke the graph again to continue from there"
    )


class InvalidIdError(HoldfastError, ValueError):
    """An id that is empty, too long or contains characters that stores can't keep apart."""

    what: str
    value: object
    reason: str

    def __str__(self) -> str:
        return f"{self.what} {shortened(self.value)} {self.reason}"


class StoreError(HoldfastError):
    """The store refused or failed; nothing was written."""


class EntriesLostError(ConflictError, StoreError):
    """The store lost entries that it had acknowledged; nothing was written after the gap.

    `seq` was saved, but the run now ends at seq `head`, which is -1 if nothing is left of it. If
    `head` is not before `seq`, another entry is at `seq`: that of an old replica or backup.
    """

    head: int

    def __str__(self) -> str:
        left = f"it ends at seq {self.head}" if self.head >= 0 else "nothing is left of it"
        found = f"{left}, but seq {self.seq} was saved"
        if self.head >= self.seq:
            found = f"there is another entry at seq {self.seq} now"
        return (
            f"the store lost entries of run {self.run_id!r} that it had acknowledged: {found}; "
            "restore the store from a backup, or load or resume the run and repeat what was lost"
        )


class AnchorError(HoldfastError, ValueError):
    """Something given as an anchor is not one, or was changed since it was written."""

    where: str
    reason: str
    _text = "{where} can't be used as an anchor: {reason}"


class HeadsFileError(StoreError):
    """The file in which heads are remembered can't be used; nothing was read or written."""

    path: str
    reason: str
    _text = "{path}, in which heads are remembered, can't be used: {reason}"


class StoreUnavailableError(StoreError):
    """The store is unreachable, locked or full; nothing was written and retrying may help."""


class StoreClosedError(StoreError):
    """The store was used after close()."""

    store: str
    _text = "{store} is closed; open it again to continue"


class StoreURLError(StoreError, ValueError):
    """A URL or path that names no store holdfast can open."""

    url: str
    reason: str


class SchemaError(StoreError):
    """The store was written by a newer holdfast, or is not a holdfast store."""

    store: str
    reason: str


class DurabilityError(StoreError):
    """The store survives less than the caller requires."""

    store: str
    required: str
    actual: str
    reason: str
    _text = "{store} survives {actual}, but {required} was required: {reason}"
