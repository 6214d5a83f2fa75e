"""Something is wrong with a checkpoint or a run."""

from shlex import quote
from typing import Any

from holdfast.errors.base import HoldfastError, attribute


class CheckpointError(HoldfastError):
    """Something is wrong with a checkpoint or a run, rather than with the store."""


class CheckpointSaveError(CheckpointError, OSError):
    """The save did not happen: nothing of it is in the store."""

    run_id: str
    reason: str
    _text = "run {run_id!r} was not saved: {reason}"


class OutcomeUnknownError(CheckpointSaveError):
    """The store failed while committing: either all of the entries are there, or none."""

    _text = (
        "it is unknown whether run {run_id!r} was saved: {reason}; "
        "load it and compare before you save again"
    )


class SyncFailedError(OutcomeUnknownError):
    """The disk failed to sync: the entries can be read now, and may be gone after a power cut.

    Reading them proves nothing, and neither would another sync.
    """

    _text = (
        "run {run_id!r} may not survive a power cut: {reason}; "
        "check the disk, then load the run and compare before you save again"
    )


class CheckpointLoadError(CheckpointError, OSError):
    """The store could not be read. This never means that there is nothing to read.

    `run_id` is empty if the request was not about a single run.
    """

    run_id: str
    reason: str

    def __str__(self) -> str:
        what = f"run {self.run_id!r}" if self.run_id else "the store"
        return f"{what} could not be read: {self.reason}"


class CheckpointNotFoundError(CheckpointError, LookupError):
    """There is no such run, or, with a `checkpoint_id`, no such checkpoint in it.

    Where no checkpoint was named, that says which was looked for: "yet", "of step 'load'".
    """

    run_id: str
    checkpoint_id: str | None = None

    def __str__(self) -> str:
        if self.checkpoint_id is None:
            return f"there is no run {self.run_id!r}; list the runs to see what there is"
        if not self.run_id:
            return f"there is no checkpoint {self.checkpoint_id!r}"
        return (
            f"run {self.run_id!r} has no checkpoint {self.checkpoint_id}; "
            "list its checkpoints to see what there is"
        )


class ThreadNotFoundError(CheckpointNotFoundError):
    """No run of this flow is in that thread.

    If the id given is a run's, `of_run` is the thread of that run, or "" if it has none.
    """

    def __init__(self, thread_id: str, of_run: str | None = None) -> None:
        super().__init__(thread_id)
        self.args = (thread_id, of_run)
        self.thread_id = thread_id
        self.of_run = of_run

    def __str__(self) -> str:
        if self.of_run is None:
            return f"there is no run of this flow in thread {self.thread_id!r}"
        thread = f" in thread {self.of_run!r}" if self.of_run else ", which has no thread"
        return f"{self.thread_id!r} is not a thread but a run{thread}; resume it with run_id="


class CheckpointCorruptedError(CheckpointError, ValueError):
    """The stored bytes are not the ones that were written; no state was made from them."""

    run_id: str
    seq: int | None
    reason: str
    digest: bytes = attribute(b"")  # of the entry, as far as it can still be read
    entry: Any = attribute(None)  # as it is stored, if it can be read, and not proved
    lost: tuple[str, ...] = attribute(())  # all that an export or copy was completed without

    def __str__(self) -> str:
        if self.seq is None:
            return f"{self.run_id} is damaged: {self.reason}; restore it from a backup"
        damaged = f"{self.run_id}@{self.seq} is damaged: {self.reason}"
        if not self.run_id.isprintable():  # one of our own journals, which no command takes
            return damaged
        if self.seq == 0:  # there is nothing before it
            return f"{damaged}; restore the run from a backup, or start a new one"
        run = ("-- " if self.run_id.startswith("-") else "") + quote(self.run_id)
        return (
            f"{damaged}; `holdfast show {run}` marks what is damaged, and "
            f"`holdfast rollback {run} SEQ` goes back to what is not"
        )


class HistoryRewoundError(CheckpointError):
    """A run ends before what is remembered of it, has another history, or is gone.

    Or the store itself is another one than before: then `run_id` is empty. `remembered_in` is the
    file that was given as `remember=`.
    """

    run_id: str
    reason: str
    remembered_in: str

    def __str__(self) -> str:
        file = f"--file {quote(self.remembered_in)}"
        if not self.run_id:
            return (
                f"this is not the store that was here before: {self.reason}; put the right one "
                f"back, or, if the change is intended, accept it: holdfast remember {file} "
                "--accept-all"
            )
        own = not self.run_id.isprintable()  # one of our own journals, which no command takes
        accept = "--accept-all" if own else f"--accept={quote(self.run_id)}"
        return (
            f"{self.run_id!r} is not what is remembered of it: {self.reason}; restore the store, or "
            f"what is missing (holdfast import), or accept it as it is: holdfast remember {file} "
            f"{accept}"
        )


class UnknownFormatError(CheckpointCorruptedError):
    """Stored bytes have a format that this version of holdfast can't read or continue."""

    def __str__(self) -> str:
        return (
            f"{self.run_id}@{self.seq}: {self.reason}; upgrade holdfast, or, if no newer version "
            "wrote it, treat it as damaged and delete it"
        )


class SerializeError(CheckpointError, TypeError):
    """A value can't be stored. `path` leads to it from the top of the state."""

    path: str
    reason: str


class ReviveError(CheckpointError, TypeError):
    """Data does not fit the type the caller asked for. `path` says where."""

    path: str
    reason: str
    advice: str = attribute("")  # what to do about it

    def __str__(self) -> str:
        advice = f"; {self.advice}" if self.advice else ""
        return f"{self.path}: {self.reason}{advice}"


class UnknownCodecError(ReviveError):
    """A value was stored by a codec that this process has not registered, or can't have."""

    codec: str


class SecretMissingError(CheckpointError, LookupError):
    """The value of a secret is asked for, and nobody provides it. The store never has it."""

    name: str
    reason: str = "no provider was given"
    _text = (
        "the secret {name!r} is not stored, and its value is missing: {reason}; give the "
        "checkpointer or engine secrets_from=, a dict or a function that returns it by this name"
    )


class StateTooLargeError(CheckpointError, ValueError):
    """The state is larger than the limit; nothing was saved."""

    run_id: str
    size: int
    limit: int
    _text = (
        "the state of run {run_id!r} takes {size:,} bytes, more than the limit of {limit:,}; "
        "keep large data in files, or raise max_state_bytes"
    )


class RunActiveError(CheckpointError):
    """The run is live, waiting for an answer, or failed and to be resumed; nothing was done to it.

    `holder` is the process that executes it ("host:pid") if that is another one; `advice` says
    what to do.
    """

    run_id: str
    status: str
    holder: str = ""
    advice: str = ""

    def __str__(self) -> str:
        if self.holder:
            host, _, pid = self.holder.rpartition(":")
            advice = self.advice or (
                "wait for it, or resume it with take_over=True: that process then records nothing "
                "more, and its step runs again"
            )
            return f"run {self.run_id!r} is being executed by process {pid} on {host}; {advice}"
        if self.status == "failed":
            return (
                f"run {self.run_id!r} failed, and its results are needed to resume it; resume it "
                "to its end or cancel it first, or pass force=True to delete them anyway"
            )
        advice = self.advice or "wait for it, cancel it or close the stream of its events"
        return f"run {self.run_id!r} is {self.status}; {advice}"


class RunExistsError(CheckpointError):
    """The id given for a new run is taken; the run that has it is unchanged."""

    run_id: str
    advice: str = "resume it, or choose another id"
    _text = "run {run_id!r} already exists; {advice}"


class RunDeletedError(RunExistsError):
    """The run was deleted in this store, and stays deleted; nothing was imported."""

    _text = (
        "run {run_id!r} was deleted in this store, and stays deleted; import it into another one"
    )


class CopyRefusedError(RunExistsError):
    """The target has other runs with these ids, or continued them; they are unchanged.

    All other runs were copied. `run_id` is the first of `run_ids`.
    """

    def __init__(self, run_ids: tuple[str, ...], target: str) -> None:
        super().__init__(run_ids[0])
        self.args = (run_ids, target)
        self.run_ids = run_ids
        self.target = target

    def __str__(self) -> str:
        shown = ", ".join(map(repr, self.run_ids[:5]))
        more = f" and {len(self.run_ids) - 5:,} more" if len(self.run_ids) > 5 else ""
        return (
            f"{self.target} has runs with these ids that may be other runs, or continued since: "
            f"{shown}{more}; they are unchanged. Copy them to another store, or, if nothing there "
            "continued them, delete them there and copy again"
        )


class RunMismatchError(CheckpointError, ValueError):
    """A run keeps its flow, thread and owner; nothing was saved."""

    run_id: str
    field: str
    expected: str | None
    actual: str
    _text = (
        "run {run_id!r} was opened with {field} {expected!r}, not {actual!r}; "
        "leave its {field} unchanged, or use another run id"
    )


class NotOwnerError(CheckpointError):
    """The run belongs to somebody else, or to nobody; nothing was done to it.

    The error does not say to whom.
    """

    run_id: str
    owner: str
    _text = "run {run_id!r} does not belong to {owner!r}; resume it as its owner, or without owner="


class RunTakenError(CheckpointError):
    """The id is in use by someone whose runs are not to be seen here; nothing was written.

    The error does not say by whom, or for what.
    """

    run_id: str
    _text = "the id {run_id!r} is taken in this store; choose another one"


class BoundOwnerError(CheckpointError, ValueError):
    """A checkpointer that is bound to an owner can do nothing for another; nothing was written."""

    owner: str
    given: str | None  # None: runs without an owner; "*": all runs

    def __str__(self) -> str:
        whose = {None: "runs without an owner", "*": "all owners"}
        return (
            f"this is bound to owner {self.owner!r} and can do nothing for "
            f"{whose.get(self.given) or repr(self.given)}; open the store for them, or without owner="
        )
