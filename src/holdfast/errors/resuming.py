"""A run can't be started or resumed as it was asked to be."""

from typing import Any

from holdfast.errors.base import attribute, shortened
from holdfast.errors.checkpoints import CheckpointError


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
        resume = f"engine.resume({self.run_id!r})" if self.run_id else "resume"
        return (
            f"{run} began with other inputs ({what}); call {resume}, which uses the recorded "
            "inputs, or start a new run"
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
            advice = ". Restore what is missing, or go back to an older checkpoint"
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
