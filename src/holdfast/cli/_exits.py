"""What a command's exit code means, and how errors become one."""

import re
from enum import IntEnum

import click

from holdfast import errors


class Exit(IntEnum):
    """The exit codes of all commands."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNAVAILABLE = 4
    PAUSED = 5
    REFUSED = 6
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """What it tells, for the docs."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.OK: "done",
    Exit.FAILED: "the run failed or was cancelled, or what was checked is not in order",
    Exit.USAGE: "the command was not understood: an option, an id or a value is wrong",
    Exit.NOT_FOUND: "there is no such run, checkpoint, question, flow or store",
    Exit.UNAVAILABLE: "the store or a file can't be opened, read or written",
    Exit.PAUSED: "the run is paused: it waits for an answer, or to be resumed",
    Exit.REFUSED: "the run is in no state for that: live, finished, taken, or of another flow",
    Exit.INTERRUPTED: "interrupted by Ctrl-C; what was finished is kept",
}

_ARGUMENT = re.compile(r'\b(force|take_over|trust|by|question)=(?:True|"(\w+)")?')

_CODES: tuple[tuple[type[Exception], Exit], ...] = (
    (errors.CheckpointNotFoundError, Exit.NOT_FOUND),
    (errors.InvalidIdError, Exit.USAGE),
    (errors.StoreURLError, Exit.USAGE),
    (errors.InvalidAnswerError, Exit.USAGE),
    (errors.QuestionError, Exit.NOT_FOUND),
    (errors.RunPausedError, Exit.PAUSED),
    (errors.RunActiveError, Exit.REFUSED),
    (errors.RunExistsError, Exit.REFUSED),
    (errors.RunFinishedError, Exit.REFUSED),
    (errors.RunMismatchError, Exit.REFUSED),
    (errors.InputMismatchError, Exit.REFUSED),
    (errors.FlowChangedError, Exit.REFUSED),
    (errors.ConflictError, Exit.REFUSED),
    (errors.LeaseLostError, Exit.REFUSED),
    (errors.StoreError, Exit.UNAVAILABLE),
    (ImportError, Exit.UNAVAILABLE),
    (errors.CheckpointLoadError, Exit.UNAVAILABLE),
    (errors.CheckpointSaveError, Exit.UNAVAILABLE),
    (OSError, Exit.UNAVAILABLE),
)


def code_of(error: Exception) -> Exit:
    """The exit code for an error that ends a command."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.FAILED)


def message(error: Exception) -> str:
    """An error on one line, with the options of commands instead of arguments."""
    text = " ".join(line.strip() for line in str(error).splitlines())
    text = text.replace("cancel it or close the stream of its events", "or cancel it")
    return _ARGUMENT.sub(_option, text)


def _option(argument: re.Match[str]) -> str:
    name, value = argument.groups()
    return f"--{name.replace('_', '-')}" + (f" {value}" if value else "")


class NotFoundError(click.ClickException):
    """What was named is not there."""

    exit_code = Exit.NOT_FOUND


class FailedError(click.ClickException):
    """What was asked for was done, and did not come out well."""

    exit_code = Exit.FAILED
