"""Every error holdfast raises on purpose.

HoldfastError
├── CheckpointError
│   ├── CheckpointSaveError           the save did not happen (also an OSError)
│   │   └── OutcomeUnknownError       it may have happened; read the position, look for your own entry id
│   │       └── SyncFailedError       it can be read, but the disk did not promise to keep it
│   ├── CheckpointLoadError           the store could not be read (also an OSError)
│   ├── CheckpointNotFoundError       no such run or checkpoint (also a LookupError)
│   │   └── ThreadNotFoundError       no such thread, or nothing of this flow in it
│   ├── CheckpointCorruptedError      stored bytes are not what was written (also a ValueError)
│   ├── SerializeError                a value can't be stored; names the path to it (also a TypeError)
│   ├── ReviveError                   stored data does not fit the type asked for (also a TypeError)
│   ├── StateTooLargeError            larger than `max_state_bytes` (also a ValueError)
│   ├── RunActiveError                the run is live or waiting; nothing was done to it
│   ├── RunExistsError                the id given for a new run is taken
│   │   └── CopyRefusedError          runs by these ids are in the target and may not be the copied ones
│   ├── RunMismatchError              the run belongs to another flow, thread or owner (also a ValueError)
│   ├── RunIdRequiredError            a store was given, but no id to keep the run under (also a ValueError)
│   ├── StoreRequiredError            the run would wait for people, and is kept nowhere (also a ValueError)
│   ├── RunFinishedError              the run is over and can't be resumed
│   ├── InputMismatchError            resumed with other inputs than it began with (also a ValueError)
│   ├── FlowChangedError              the flow is not the one the run began with
│   ├── StepNotFoundError             no such step was begun (also a LookupError)
│   ├── StepConflictError             the step was committed otherwise, or its task went back before it
│   └── VerificationError             what was claimed of a checkpoint does not hold now, or can't be told
├── EvidenceError                     a claim or a pack of them that is of no use
│   ├── InvalidEvidenceError          malformed, empty, contradictory or unsatisfiable (also a ValueError)
│   ├── EvidencePolicyError           the program's own policy can never allow it to be checked
│   └── ClaimFailedError              a step is finished, and what it claims is not so, or can't be told
├── RunError                          a run did not come to its end
│   ├── StepFailedError               a step failed, and with it the run unless the flow caught it
│   ├── StepTimeoutError              a step took too long (also a TimeoutError)
│   ├── CommandFailedError            a command that a step ran did not end as it should
│   ├── RunTimeoutError               the run took too long; it can be resumed (also a TimeoutError)
│   ├── LoopLimitError                the run made more steps than it may
│   ├── UnansweredError               nobody answered before the deadline (also a TimeoutError)
│   ├── NoPathError                   no path leads on from a step
│   ├── UnresolvedError               a template or condition speaks of what is not there (also a LookupError)
│   ├── EndedWithFailureError         the run came to an end that stands for failure
│   ├── RunPausedError                the run waits for an answer or was paused; resume it later
│   ├── RunCancelledError             the run was cancelled
│   └── LeaseLostError                another worker took the run over; this one wrote nothing more
├── InvalidFlowError                  a flow that can't run as it is put together (also a ValueError)
├── QuestionError                     there is no such open question, or not for this person
│   └── InvalidAnswerError            the answer is not what was asked for (also a ValueError)
├── ConflictError                     another writer already took this position
│   └── EntriesLostError              the store lost what it had acknowledged (also a StoreError)
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

from typing import Any

__all__ = [
    "CheckpointCorruptedError",
    "CheckpointError",
    "CheckpointLoadError",
    "CheckpointNotFoundError",
    "CheckpointSaveError",
    "ClaimFailedError",
    "CommandFailedError",
    "ConflictError",
    "CopyRefusedError",
    "DurabilityError",
    "EndedWithFailureError",
    "EntriesLostError",
    "EvidenceError",
    "EvidencePolicyError",
    "FlowChangedError",
    "HoldfastError",
    "InputMismatchError",
    "InvalidAnswerError",
    "InvalidEvidenceError",
    "InvalidFlowError",
    "InvalidIdError",
    "LeaseLostError",
    "LoopLimitError",
    "NoPathError",
    "OutcomeUnknownError",
    "QuestionError",
    "ReviveError",
    "RunActiveError",
    "RunCancelledError",
    "RunError",
    "RunExistsError",
    "RunFinishedError",
    "RunIdRequiredError",
    "RunMismatchError",
    "RunPausedError",
    "RunTimeoutError",
    "SchemaError",
    "SerializeError",
    "StateTooLargeError",
    "StepConflictError",
    "StepFailedError",
    "StepNotFoundError",
    "StepTimeoutError",
    "StoreClosedError",
    "StoreError",
    "StoreRequiredError",
    "StoreURLError",
    "StoreUnavailableError",
    "SyncFailedError",
    "ThreadNotFoundError",
    "UnansweredError",
    "UnresolvedError",
    "VerificationError",
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
    """The store could not be read. This never means that there is nothing to read.

    `run_id` is empty where no one run was asked for.
    """

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(run_id, reason)
        self.run_id = run_id
        self.reason = reason

    def __str__(self) -> str:
        what = f"run {self.run_id!r}" if self.run_id else "the store"
        return f"{what} could not be read: {self.reason}"


class CheckpointNotFoundError(CheckpointError, LookupError):
    """There is no such run, or no such checkpoint in it."""

    def __init__(self, run_id: str, checkpoint_id: str | None = None) -> None:
        super().__init__(run_id, checkpoint_id)
        self.run_id = run_id
        self.checkpoint_id = checkpoint_id

    def __str__(self) -> str:
        if self.checkpoint_id is None:
            return f"run {self.run_id!r} has no checkpoint; list the runs to see what is there"
        if not self.run_id:
            return f"there is no checkpoint {self.checkpoint_id!r}"
        return (
            f"run {self.run_id!r} has no checkpoint {self.checkpoint_id}; "
            "list its checkpoints to see what is there"
        )


class ThreadNotFoundError(CheckpointNotFoundError):
    """No run of this flow belongs to such a thread. `of_run` is the thread of the run so named."""

    def __init__(self, thread_id: str, of_run: str | None = None) -> None:
        super().__init__(thread_id)
        self._fields = (thread_id, of_run)
        self.thread_id = thread_id
        self.of_run = of_run

    def __str__(self) -> str:
        if self.of_run is None:
            return f"there is no run of this flow in thread {self.thread_id!r}"
        thread = f"; it belongs to thread {self.of_run!r}" if self.of_run else ""
        return f"{self.thread_id!r} is a run's id, not a thread's: pass it as run_id={thread}"


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
    """The run is live or waiting for an answer; nothing was done to it.

    `worker` is the process that carries it out ("host:pid"), where that is another one.
    """

    def __init__(self, run_id: str, status: str, worker: str = "") -> None:
        super().__init__(run_id, status, worker)
        self.run_id = run_id
        self.status = status
        self.worker = worker

    def __str__(self) -> str:
        if self.worker:
            return (
                f"run {self.run_id!r} is carried out by {self.worker}, which is alive; wait for it, "
                "or pass take_over=True: it then stops, and what it is doing is done again"
            )
        return (
            f"run {self.run_id!r} is {self.status}; wait for it, cancel it or close the stream of "
            "its events first, or pass force=True to delete it anyway"
        )


class RunExistsError(CheckpointError):
    """The id given for a new run is taken; the run that holds it is unchanged."""

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id

    def __str__(self) -> str:
        return f"run {self.run_id!r} exists already; resume it, or choose another id"


class CopyRefusedError(RunExistsError):
    """The target holds other runs by these ids, or went on with them; they are unchanged.

    All other runs that were to be copied are. `run_id` is the first of `run_ids`.
    """

    def __init__(self, run_ids: tuple[str, ...], target: str) -> None:
        super().__init__(run_ids[0])
        self._fields = (run_ids, target)
        self.run_ids = run_ids
        self.target = target

    def __str__(self) -> str:
        shown = ", ".join(map(repr, self.run_ids[:5]))
        more = f" and {len(self.run_ids) - 5:,} more" if len(self.run_ids) > 5 else ""
        return (
            f"{self.target} may hold other runs by these ids, or have gone on with them, and they were "
            f"left alone: {shown}{more}; copy them to another store, or, if nothing there went on with "
            "them, delete them there and copy again"
        )


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


class RunIdRequiredError(CheckpointError, ValueError):
    """A store was given, but no id to keep the run under; nothing was run."""

    def __str__(self) -> str:
        return "a run that is kept in a store needs an id to find it by: pass run_id="


class StoreRequiredError(CheckpointError, ValueError):
    """The run asks people, and is kept in no store where it could wait for their answer."""

    def __init__(self, step: str) -> None:
        super().__init__(step)
        self.step = step  # the question

    def __str__(self) -> str:
        return (
            f"{self.step!r} asks people, and the run is kept nowhere to wait for the answer: "
            "pass store= and run_id="
        )


class RunFinishedError(CheckpointError):
    """The run is over; there is nothing to resume."""

    def __init__(self, run_id: str, status: str) -> None:
        super().__init__(run_id, status)
        self.run_id = run_id
        self.status = status

    def __str__(self) -> str:
        undone = "rolled back" in self.status
        way_on = (
            "what it did was undone, so start another"
            if undone
            else ("fork it or roll it back to go on from an earlier point, or start another")
        )
        return f"run {self.run_id!r} is {self.status}; {way_on}"


class InputMismatchError(CheckpointError, ValueError):
    """The run began with other inputs; nothing was run."""

    def __init__(self, expected_hash: str, actual_hash: str) -> None:
        super().__init__(expected_hash, actual_hash)
        self.expected_hash = expected_hash
        self.actual_hash = actual_hash

    def __str__(self) -> str:
        return (
            f"the run began with inputs of hash {self.expected_hash}, and these have "
            f"{self.actual_hash}; leave the inputs out to use the recorded ones, or start another run"
        )


class FlowChangedError(CheckpointError):
    """The flow is not the one that the run began with; nothing more was run."""

    def __init__(self, run_id: str, changes: tuple[str, ...], advice: str) -> None:
        super().__init__(run_id, changes, advice)
        self.run_id = run_id
        self.changes = changes
        self.advice = advice

    def __str__(self) -> str:
        return f"run {self.run_id!r} can't go on: {'; '.join(self.changes)}. {self.advice}"


class StepNotFoundError(CheckpointError, LookupError):
    """No such step was begun, or it was deleted with its checkpoint; nothing was saved."""

    def __init__(self, step_id: str) -> None:
        super().__init__(step_id)
        self.step_id = step_id

    def __str__(self) -> str:
        shown = repr(self.step_id)
        return (
            f"no step was begun as {shown if len(shown) <= 80 else shown[:77] + '...'}; "
            "pass what begin_step returned, or look at steps_in_flight()"
        )


class StepConflictError(CheckpointError):
    """The step can't be committed, or abandoned, like this any more; the journal is unchanged."""

    def __init__(self, step_id: str, reason: str) -> None:
        super().__init__(step_id, reason)
        self.step_id = step_id
        self.reason = reason

    def __str__(self) -> str:
        return f"step {self.step_id} stays as it is: {self.reason}"


class VerificationError(CheckpointError):
    """What was claimed of a checkpoint does not hold now, or could not be told; nothing was changed.

    `evidence` are the claims that were not verified, each with its verdict; `reason` says why
    where none can be asked.
    """

    def __init__(
        self, checkpoint_id: str, evidence: tuple[Any, ...], reason: str | None = None
    ) -> None:
        super().__init__(checkpoint_id, evidence, reason)
        self.checkpoint_id = checkpoint_id
        self.evidence = evidence
        self.reason = reason

    def __str__(self) -> str:
        if self.reason is not None:
            return f"whether checkpoint {self.checkpoint_id} holds can't be told: {self.reason}"
        if not self.evidence:
            return f"checkpoint {self.checkpoint_id} is unverified: nothing was claimed of it"
        shown = "; ".join(map(str, self.evidence[:5]))
        more = f"; and {len(self.evidence) - 5} more" if len(self.evidence) > 5 else ""
        found = {getattr(claim, "verification_status", "failed") for claim in self.evidence}
        told = f"checkpoint {self.checkpoint_id} does not hold: {shown}{more}"
        advice = ". Put right what is missing, or go back to an older checkpoint"
        if "failed" not in found:
            told = f"whether checkpoint {self.checkpoint_id} holds can't be told: {shown}{more}"
            advice = ""
        if found != {"failed"}:
            advice += (
                ". Try again when it can be told; a flow can be resumed with "
                'trust="stored", as it was found last, or trust="skip", unchecked'
            )
        return told + advice


class EvidenceError(HoldfastError):
    """A claim, or a pack of them, is of no use as evidence."""


class InvalidEvidenceError(EvidenceError, ValueError):
    """A claim that is malformed, or a pack that is empty, contradictory or unsatisfiable."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what = what
        self.reason = reason


class EvidencePolicyError(EvidenceError):
    """The policy of the program that checks can never allow this claim; nothing was touched."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what = what
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.what} can't be checked here: {self.reason}"


class ClaimFailedError(EvidenceError):
    """A step is finished, and what it claims about the world is not so, or can't be told."""

    def __init__(self, step: str, evidence: tuple[Any, ...]) -> None:
        super().__init__(step, evidence)
        self.step = step
        self.evidence = evidence

    def __str__(self) -> str:
        wrong = [one for one in self.evidence if getattr(one, "verification_status", 0) == "failed"]
        untold = [claim for claim in self.evidence if claim not in wrong]
        told = [
            f"{what}: {'; '.join(map(str, claims[:5]))}"
            for what, claims in (("what is not so", wrong), ("what can't be told", untold))
            if claims
        ]
        return f"step {self.step!r} claims {'; and '.join(told)}"


class RunError(HoldfastError):
    """A run did not come to its end. `state` is what it had come to, as far as it is known."""

    def __init__(self, *fields: object) -> None:
        super().__init__(*fields)
        self.state: object = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._fields, {"state": self.state}


class StepFailedError(RunError):
    """A step failed, after its retries. What it raised is the cause, in the process it failed in.

    A resumed run is told of it in the same words: the type's name, not the type.
    """

    def __init__(
        self, step: str, error_type: str, message: str, attempts: int = 1, trace: str = ""
    ) -> None:
        super().__init__(step, error_type, message, attempts, trace)
        self.step = step
        self.error_type = error_type
        self.message = message
        self.attempts = attempts
        self.trace = trace
        self.name = ""  # as it is written in the flow, where `step` is the key of one visit to it
        self.others: tuple[StepFailedError, ...] = ()  # of the same parallel or for_each

    def __reduce__(self) -> tuple[Any, ...]:
        told = {"state": self.state, "name": self.name, "others": self.others}
        return type(self), self._fields, told

    def is_a(self, kind: type[BaseException]) -> bool:
        """Whether the step raised exactly this type, also in a run that was resumed since."""
        return self.error_type == f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")

    def __str__(self) -> str:
        tries = f" after {self.attempts} attempts" if self.attempts > 1 else ""
        name = self.name or self.step
        return f"step {name!r} failed{tries}: {self.error_type}: {self.message}"


class StepTimeoutError(RunError, TimeoutError):
    """A step took longer than it may. What it did so far is not known."""

    def __init__(self, step: str, seconds: float) -> None:
        super().__init__(step, seconds)
        self.step = step
        self.seconds = seconds

    def __str__(self) -> str:
        return f"step {self.step!r} took longer than {self.seconds:g} s"


class CommandFailedError(RunError):
    """A command that a step ran ended with another exit code than it should, or took too long."""

    def __init__(self, argv: tuple[str, ...], exit_code: int | None, stderr: str = "") -> None:
        super().__init__(argv, exit_code, stderr)
        self.argv = argv
        self.exit_code = exit_code
        self.stderr = stderr

    def __str__(self) -> str:
        ended = (
            "was killed for taking too long"
            if self.exit_code is None
            else f"exited with {self.exit_code}"
        )
        said = self.stderr.strip()[-500:]
        return f"{' '.join(self.argv)} {ended}" + (f": {said}" if said else "")


class RunTimeoutError(RunError, TimeoutError):
    """The run took longer than it may. What it finished is kept: resume it."""

    def __init__(self, run_id: str, seconds: float) -> None:
        super().__init__(run_id, seconds)
        self.run_id = run_id
        self.seconds = seconds

    def __str__(self) -> str:
        return f"run {self.run_id!r} took longer than {self.seconds:g} s; resume it to go on"


class LoopLimitError(RunError):
    """The run made as many steps as it may: a loop that does not end, or a limit that is too low."""

    def __init__(self, run_id: str, step: str, limit: float, setting: str = "max_steps") -> None:
        super().__init__(run_id, step, limit, setting)
        self.run_id = run_id
        self.step = step
        self.limit = limit
        self.setting = setting

    def __str__(self) -> str:
        done = {
            "max_iterations": f"it came there {self.limit:,} times",
            "max_loop_time_seconds": f"its loop took {self.limit:,} s",
        }.get(self.setting, f"it made {self.limit:,} steps")
        return (
            f"run {self.run_id!r} stopped before {self.step!r}: {done}; "
            f"if its loop does end, raise {self.setting} and resume it"
        )


class NoPathError(RunError):
    """The step is done and saved, and the condition of no path that leaves it holds."""

    def __init__(self, run_id: str, step: str, tried: tuple[str, ...] = ()) -> None:
        super().__init__(run_id, step, tried)
        self.run_id = run_id
        self.step = step
        self.tried = tried

    def __str__(self) -> str:
        return (
            f"run {self.run_id!r} has no way on from {self.step!r}: no condition holds of "
            f"{'; '.join(self.tried)}. Add a path without a condition as the last one, and resume it"
        )


class UnresolvedError(RunError, LookupError):
    """A template or a condition speaks of something that is not there, or can't be compared."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class EndedWithFailureError(RunError):
    """The run came to `end_with_failure`: its flow has no more to do, and calls that a failure."""

    def __init__(self, run_id: str, step: str = "") -> None:
        super().__init__(run_id, step)
        self.run_id = run_id
        self.step = step

    def __str__(self) -> str:
        return f"run {self.run_id!r} ended with failure after {self.step!r}, as its flow says"


class RunPausedError(RunError):
    """The run waits for an answer, or was asked to pause; what it finished is kept."""

    def __init__(self, run_id: str, questions: tuple[str, ...] = ()) -> None:
        super().__init__(run_id, questions)
        self.run_id = run_id
        self.questions = questions

    def __str__(self) -> str:
        if not self.questions:
            return f"run {self.run_id!r} is paused; resume it to go on"
        waiting = ", ".join(map(repr, self.questions))
        return f"run {self.run_id!r} waits for an answer to {waiting}; answer it, then resume"


class UnansweredError(RunError, TimeoutError):
    """Nobody answered a question before its deadline, and it has no default."""

    def __init__(self, run_id: str, step: str) -> None:
        super().__init__(run_id, step)
        self.run_id = run_id
        self.step = step  # the question

    def __str__(self) -> str:
        return (
            f"run {self.run_id!r}: nobody answered {self.step!r} before its deadline; "
            "resume the run to ask again"
        )


class RunCancelledError(RunError):
    """The run was cancelled; what it had to undo was undone."""

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id

    def __str__(self) -> str:
        return f"run {self.run_id!r} was cancelled"


class LeaseLostError(RunError):
    """Another worker took the run over, or someone changed its history; this one wrote nothing more."""

    def __init__(self, run_id: str, seq: int, kind: str) -> None:
        super().__init__(run_id, seq, kind)
        self.run_id = run_id
        self.seq = seq
        self.kind = kind

    def __str__(self) -> str:
        return (
            f"run {self.run_id!r} belongs to another worker now: at {self.seq} stands a "
            f"{self.kind} that is not ours; what this one did since was not saved"
        )


class InvalidFlowError(HoldfastError, ValueError):
    """A flow can't run as it is put together. `problems` names everything that is wrong."""

    def __init__(self, flow: str, problems: tuple[str, ...]) -> None:
        super().__init__(flow, problems)
        self.flow = flow
        self.problems = problems

    def __str__(self) -> str:
        return f"{self.flow} can't run: {'; '.join(self.problems)}"


class QuestionError(HoldfastError):
    """There is no such open question: it was never asked, or answered already."""

    def __init__(self, run_id: str, question: str | None, reason: str) -> None:
        super().__init__(run_id, question, reason)
        self.run_id = run_id
        self.question = question
        self.reason = reason

    def __str__(self) -> str:
        which = "" if self.question is None else f", question {self.question!r}"
        return f"run {self.run_id!r}{which}: {self.reason}"


class InvalidAnswerError(QuestionError, ValueError):
    """The answer is not what was asked for; the question stays open."""


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


class EntriesLostError(ConflictError, StoreError):
    """The store lost entries that it had acknowledged; nothing was written behind the gap.

    The run ends at the seq `head` now, or at -1 if nothing is left of it; `seq` was saved.
    """

    def __init__(self, run_id: str, seq: int, head: int) -> None:
        HoldfastError.__init__(self, run_id, seq, head)
        self.run_id = run_id
        self.seq = seq
        self.head = head

    def __str__(self) -> str:
        left = f"it ends at seq {self.head}" if self.head >= 0 else "nothing is left of it"
        return (
            f"the store lost entries of run {self.run_id!r} that it had acknowledged: {left}, and "
            f"seq {self.seq} was saved; restore the store from a backup, or load or resume the run "
            "and do again what was lost"
        )


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
