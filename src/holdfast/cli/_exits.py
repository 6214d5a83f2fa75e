"""What a command's exit code means, and how errors become one."""

from enum import IntEnum
from typing import Self

import click

from holdfast import errors
from holdfast.views.errors import NotFoundError, RefusedError


class Exit(IntEnum):
    """The exit codes of all commands, and what they mean."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        """A code that knows its meaning."""
        made = int.__new__(cls, code)
        made._value_ = code
        made.meaning = meaning
        return made

    OK = 0, "done"
    FAILED = 1, "the run failed or was cancelled, or a check found something wrong"
    USAGE = 2, "the command was not understood: an option, an id or a value is wrong"
    NOT_FOUND = 3, "there is no such run, checkpoint, question, flow or store"
    UNAVAILABLE = (
        4,
        "the store or a file can't be opened, read or written; a key is missing or wrong",
    )
    PAUSED = 5, "the run is paused: it waits for an answer, or to be resumed"
    REFUSED = (
        6,
        "the run does not allow that now: it is live, finished, answered or of another flow",
    )
    INTERRUPTED = 130, "interrupted by Ctrl-C; finished steps are saved"
    TERMINATED = 143, "a worker was ended by a second SIGTERM; finished steps are saved"


_CODES = (  # the first that fits
    (Exit.USAGE, (errors.InvalidIdError, errors.StoreURLError, errors.InvalidAnswerError)),
    (Exit.USAGE, (ImportError,)),  # an extra that is not installed
    (Exit.NOT_FOUND, (errors.CheckpointNotFoundError, errors.QuestionError, NotFoundError)),
    (Exit.PAUSED, (errors.RunPausedError,)),
    (Exit.REFUSED, (errors.RunActiveError, errors.RunExistsError, errors.RunFinishedError)),
    (Exit.REFUSED, (errors.RunMismatchError, errors.InputMismatchError, errors.FlowChangedError)),
    (Exit.REFUSED, (errors.ConflictError, errors.LeaseLostError, errors.NotOwnerError)),
    (Exit.REFUSED, (errors.RunTakenError, errors.BoundOwnerError, RefusedError)),
    (Exit.REFUSED, (errors.HistoryRewoundError,)),
    (Exit.UNAVAILABLE, (errors.AnchorError,)),
    (Exit.UNAVAILABLE, (errors.KeyFileError, errors.KeyMissingError, errors.WrongKeyError)),
    (Exit.UNAVAILABLE, (errors.StoreError, OSError)),
)


def code_of(error: Exception) -> Exit:
    """The exit code for an error that ends a command."""
    if isinstance(error, errors.QuestionError) and error.answered_at is not None:
        return Exit.REFUSED  # there is such a question: somebody was faster
    return next((code for code, kinds in _CODES if isinstance(error, kinds)), Exit.FAILED)


class FailedError(click.ClickException):
    """What was asked for was done, and did not come out well."""

    exit_code = Exit.FAILED
