"""Something is wrong with a checkpoint or a run."""

from shlex import quote
from typing import Any

from holdfast.errors.base import HoldfastError, attribute, shortened


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
    """There is no such run, or no such checkpoint in it."""

    run_id: str
    checkpoint_id: str | None = None

    def __str__(self) -> str:
        if self.checkpoint_id is None:
            return f"run {self.run_id!r} has no checkpoint; list the runs to see what there is"
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
                f"back, or, if that is meant, accept it: holdfast remember {file} --accept-all"
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
    """Stored data does not fit the type the caller asked for. `path` says where."""

    path: str
    reason: str


class UnknownCodecError(ReviveError):
    """A value was stored by a codec that this process has not registered, or can't have."""

    codec: str
    _text = "{path}: {reason}"


class SecretMissingError(CheckpointError, LookupError):
    """The value of a secret is asked for, and nobody provides it. The store never has it."""

    name: str
    reason: str = "no provider was given"
    _text = (
        "the secret {name!r} is not stored, and its value can't be had: {reason}; give the "
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
                "wait for it, or resume it with take_over=True: that process then stops, and its "
                "step runs again"
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
    _text = "run {run_id!r} already exists; resume it, or choose another id"


class RunDeletedError(RunExistsError):
    """The run was deleted in this store, and stays deleted; nothing was imported."""

    _text = "run {run_id!r} was deleted in this store, and stays deleted; import it into another one"


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

    It does not tell to whom.
    """

    run_id: str
    owner: str
    _text = "run {run_id!r} does not belong to {owner!r}; resume it as its owner, or without owner="


class RunTakenError(CheckpointError):
    """The id is in use by someone whose runs are not to be seen here; nothing was written.

    It does not tell by whom, or for what.
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


class RunIdRequiredError(CheckpointError, ValueError):
    """A store was given, but no run id; nothing was run."""

    _text = "a run that is kept in a store needs an id: pass run_id="


class StoreRequiredError(CheckpointError, ValueError):
    """The run asks people, and no store keeps it until they answer. `step` is the question."""

    step: str
    _text = (
        "{step!r} asks people, but no store keeps the run until they answer: "
        "pass store= and run_id="
    )


class RunFinishedError(CheckpointError):
    """The run has ended; there is nothing to resume."""

    run_id: str
    status: str

    def __str__(self) -> str:
        if "rolled back" in self.status:
            return f"run {self.run_id!r} is {self.status}: its steps were undone; start a new run"
        return (
            f"run {self.run_id!r} is {self.status}; "
            "fork it or roll it back to continue from an earlier point, or start a new run"
        )


class InputMismatchError(CheckpointError, ValueError):
    """The run began with other inputs; nothing was run.

    `differences` says which: the input's name, the field of a graph's state or the path in a
    pipeline's data, with short forms of the recorded and the given value.
    """

    expected_hash: str
    actual_hash: str
    run_id: str = ""
    differences: tuple[str, ...] = ()

    def __str__(self) -> str:
        run = f"run {self.run_id!r}" if self.run_id else "the run"
        what = "; ".join(self.differences)
        what = what or f"the hash is {self.actual_hash}, and was {self.expected_hash}"
        return (
            f"{run} began with other inputs ({what}); call resume, which uses the recorded ones, "
            "or start a new run"
        )


class FlowChangedError(CheckpointError):
    """The flow is not the one that the run began with; nothing more was run."""

    run_id: str
    changes: tuple[str, ...]
    advice: str

    def __str__(self) -> str:
        return f"run {self.run_id!r} can't continue: {'; '.join(self.changes)}. {self.advice}"


class MigrationError(FlowChangedError):
    """A recorded state can't become one of the version that the code has; nothing was changed.

    A migration is missing, raised an error or returned what can't be used, or the state is of a
    newer version than the code. `checkpoint_id` says where it is recorded, `from_version` the
    version it had at that point, and `to_version` the version of the code.
    """

    checkpoint_id: str = ""
    from_version: str = ""
    to_version: int = 0

    def __str__(self) -> str:
        what = f"run {self.run_id!r}" if self.run_id else "the state"
        what = f"checkpoint {self.checkpoint_id}" if self.checkpoint_id else what
        versions = f"from version {self.from_version} to {self.to_version}"
        reasons = "; ".join(self.changes)
        return f"{what} can't be migrated {versions}: {reasons}. {self.advice}"


class StepNotFoundError(CheckpointError, LookupError):
    """No such step was begun, or it was deleted with its checkpoint; nothing was saved."""

    step_id: str

    def __str__(self) -> str:
        return (
            f"no step {shortened(self.step_id)} was begun; "
            "pass what begin_step returned, or look at steps_in_flight()"
        )


class StepConflictError(CheckpointError):
    """The step can no longer be committed or abandoned like this; the journal is unchanged."""

    step_id: str
    reason: str
    _text = "step {step_id} is unchanged: {reason}"


class VerificationError(CheckpointError):
    """The claims of a checkpoint are false now, or could not be checked; nothing was changed.

    `evidence` has the claims that were not verified, each with its verdict; `reason` says why
    no claim could be checked.
    """

    checkpoint_id: str
    evidence: tuple[Any, ...]
    reason: str | None = None
    of_task: bool = attribute(False)  # rather than of a flow, which can be told what to trust

    def __str__(self) -> str:
        unchecked = f"checkpoint {self.checkpoint_id} can't be verified"
        if self.reason is not None:
            return f"{unchecked}: {self.reason}"
        if not self.evidence:
            return f"checkpoint {self.checkpoint_id} is unverified: it claims nothing"
        found = {getattr(claim, "verification_status", "failed") for claim in self.evidence}
        message, advice = unchecked, ""
        if "failed" in found:
            message = f"checkpoint {self.checkpoint_id} does not verify"
            advice = ". Put right what is missing, or go back to an older checkpoint"
        if found != {"failed"} and self.of_task:
            advice += (
                ". Try again when it can be checked, or name an older checkpoint to "
                "rollback_to_checkpoint"
            )
        elif found != {"failed"}:
            advice += (
                '. Try again when it can be checked, or resume the flow with trust="stored" to '
                'use the last verdict, or trust="skip" to check nothing'
            )
        more = f"; and {len(self.evidence) - 5} more" if len(self.evidence) > 5 else ""
        return f"{message}: {'; '.join(map(str, self.evidence[:5]))}{more}{advice}"
