"""A run did not complete, can't be run, or does not accept an answer."""

from datetime import datetime

from holdfast.errors.base import HoldfastError, attribute


class RunError(HoldfastError):
    """A run did not complete. `state` is its last state, if that is known."""

    state: object = attribute(None)


class StepFailedError(RunError):
    """A step failed, after its retries. In that process, `__cause__` is what it raised.

    In a resumed run this error is the same, without a cause. `step` is the key of one visit to
    the step, `name` is how the flow calls it. `run_id` is the run that the step belongs to; of a
    step that is a child run, the cause names the child.
    """

    step: str
    error_type: str
    message: str
    attempts: int = 1
    trace: str = ""
    run_id: str = ""
    name: str = attribute("")
    others: "tuple[StepFailedError, ...]" = attribute(())  # of the same parallel or for_each

    def is_a(self, kind: type[BaseException]) -> bool:
        """Whether the step raised exactly this type; also known in a resumed run."""
        return self.error_type == f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")

    def __str__(self) -> str:
        tries = f" after {self.attempts} attempts" if self.attempts > 1 else ""
        name = self.name or self.step
        return f"step {name!r} failed{tries}: {self.error_type}: {self.message}"


class StepNotAwaitedError(RunError):
    """A flow made steps or child runs and did not await them. Nothing after them was begun.

    The run failed and nothing was undone: resume it with the corrected flow.
    """

    steps: tuple[str, ...]
    made_at: tuple[tuple[str, int, str], ...] = attribute(())  # file, line and function of each

    def __str__(self) -> str:
        return (
            f"{', '.join(self.steps)} was never awaited: write `await` before it (`yield` in a "
            "generator, `.result()` in a plain def), then resume the run"
        )


class ExecutorBrokenError(RunError):
    """The executor that a step runs on broke, usually because one of its processes died."""

    reason: str
    _text = "its executor broke: {reason}"


class FlowMissingError(RunError, LookupError):
    """A flow's code is not where it is to be executed. Nothing was started or changed there."""

    flow: str
    source: str  # MODULE:NAME
    where: str
    reason: str
    _text = (
        "{where} can't execute flow {flow!r}, because {source} can't be imported there: {reason}; "
        "install the same code on all machines, then submit the run again"
    )


class StepTimeoutError(RunError, TimeoutError):
    """A step took longer than its timeout. It is not known how far it got."""

    step: str
    seconds: float
    _text = "step {step!r} took longer than {seconds:g} s"


class CommandFailedError(RunError):
    """A command that a step ran ended with an unexpected exit code, or took too long.

    `exit_code` is None if it was killed for taking too long.
    """

    argv: tuple[str, ...]
    exit_code: int | None
    stderr: str = ""

    def __str__(self) -> str:
        ended = f"exited with {self.exit_code}"
        if self.exit_code is None:
            ended = "was killed for taking too long"
        output = self.stderr.strip()[-500:]
        return f"{' '.join(self.argv)} {ended}" + (f": {output}" if output else "")


class RunTimeoutError(RunError, TimeoutError):
    """The run took longer than its timeout. The steps it finished are saved: resume it."""

    run_id: str
    seconds: float
    _text = "run {run_id!r} took longer than {seconds:g} s; resume it to continue"


class RunStoppedError(RunError):
    """The run stopped before its end, because its engine was closed or its process died.

    The steps it finished are saved.
    """

    run_id: str
    _text = "run {run_id!r} stopped before its end, and nobody executes it; resume it to continue"


class UnknownFlowError(RunError, LookupError):
    """The engine does not know the flow of a run, or not in a version that can continue it."""

    run_id: str
    flow: str
    version: str
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        known = ", ".join(self.known) or "none"
        return (
            f"run {self.run_id!r} is of flow {self.flow!r} version {self.version}, and this engine "
            f"knows {known}; pass flow=, or list it in Engine(..., flows=[...])"
        )


class LoopLimitError(RunError):
    """The run made as many steps as it may: an endless loop, or a limit that is too low."""

    run_id: str
    step: str
    limit: float
    setting: str = "max_steps"

    def __str__(self) -> str:
        done = {
            "max_iterations": f"it ran this step {self.limit:,} times",
            "max_loop_time_seconds": f"its loop took {self.limit:,} s",
        }.get(self.setting, f"it made {self.limit:,} steps")
        return (
            f"run {self.run_id!r} stopped before {self.step!r}: {done}; "
            f"if its loop does end, raise {self.setting} and resume it"
        )


class NoPathError(RunError):
    """The step is done and saved, but no path that leaves it has a true condition."""

    run_id: str
    step: str
    tried: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"run {self.run_id!r} has no path from {self.step!r}: none of these conditions is "
            f"true: {'; '.join(self.tried)}. Add a last path without a condition, and resume it"
        )


class UnresolvedError(RunError, LookupError):
    """A template or a condition refers to something that does not exist or can't be compared."""

    where: str
    reason: str


class EndedWithFailureError(RunError):
    """The run reached `end_with_failure`: its flow is done, and calls that a failure."""

    run_id: str
    step: str = ""
    _text = "run {run_id!r} ended with failure after {step!r}, as its flow says"


class RunPausedError(RunError):
    """The run waits for an answer, or was asked to pause; the steps it finished are saved.

    `until` is when a worker continues it by itself: it sleeps, or a question has a deadline.
    `child` is the child run that asks, if it waits for one.
    """

    run_id: str
    questions: tuple[str, ...] = ()
    until: datetime | None = None
    child: str | None = attribute(None)

    def __str__(self) -> str:
        if self.child is not None:
            return (
                f"run {self.run_id!r} waits for an answer in its child run {self.child!r}; "
                f"answer that run, then resume {self.run_id!r}"
            )
        if not self.questions and self.until is not None:
            when = self.until.isoformat(sep=" ", timespec="seconds")
            return f"run {self.run_id!r} sleeps until {when}; a worker continues it then"
        if not self.questions:
            return f"run {self.run_id!r} is paused; resume it to continue"
        waiting = ", ".join(map(repr, self.questions))
        return f"run {self.run_id!r} waits for an answer to {waiting}; answer it, then resume"


class UnansweredError(RunError, TimeoutError):
    """Nobody answered a question before its deadline, and it has no default.

    `step` is the question.
    """

    run_id: str
    step: str
    _text = (
        "run {run_id!r}: nobody answered {step!r} before its deadline; resume the run to ask again"
    )


class RunCancelledError(RunError):
    """The run was cancelled; the steps that can be undone were undone."""

    run_id: str
    _text = "run {run_id!r} was cancelled"


class LeaseLostError(RunError):
    """The run was taken over, or its history was changed; this process wrote nothing more."""

    run_id: str
    reason: str
    _text = "this process lost run {run_id!r}: {reason}; what it did since was not saved"


class UnsavedWarning(RunError, RuntimeWarning):  # noqa: N818 - it is a warning
    """The run completed, but its end could not be saved (`on_save_failure="warn"`).

    It is not raised: Python shows it as a warning. The result is good, but only the caller has it:
    after a crash, the steps that were not saved run again.
    """

    run_id: str
    reason: str
    _text = (
        "run {run_id!r} completed, but its last steps could not be saved: {reason}; "
        "keep its result, or resume it when the store is back"
    )


class InvalidFlowError(HoldfastError, ValueError):
    """A flow can't run as it is defined. `problems` lists everything that is wrong."""

    flow: str
    problems: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.flow} can't run: {'; '.join(self.problems)}"


class QuestionError(HoldfastError):
    """There is no such open question: it was never asked, or is answered already.

    If it was answered, `answered_at` is when, and `answered_by` who did, if they said so.
    """

    run_id: str
    question: str | None
    reason: str
    answered_by: str | None = attribute(None)
    answered_at: datetime | None = attribute(None)

    def __str__(self) -> str:
        which = "" if self.question is None else f", question {self.question!r}"
        return f"run {self.run_id!r}{which}: {self.reason}"


class InvalidAnswerError(QuestionError, ValueError):
    """The answer does not fit the question; the question stays open."""
