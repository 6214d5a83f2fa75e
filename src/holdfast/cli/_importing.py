"""Errors in a user's own file, told with their own lines and without ours."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

import click

from holdfast.cli import _show
from holdfast.cli._exits import FailedError
from holdfast.cli._stdout import own_stdout
from holdfast.engine.holding.here import THIS
from holdfast.errors import HoldfastError
from holdfast.extras import MissingExtraError

_NOT_THEIRS: Final = ("holdfast", "importlib", "_frozen_importlib")


@contextmanager
def importing(where: str) -> Iterator[None]:
    """Import a module that was named `where`. What goes wrong in it is a `FailedError`.

    What it prints goes to standard error. Warns if that executed runs. Raises
    `ModuleNotFoundError` if it is the module itself that is missing.
    """
    begun = THIS.begun
    try:
        with own_stdout():
            yield
    except Exception as error:
        if _explains_itself(error, where) or click.get_current_context().meta.get("holdfast.debug"):
            raise
        *lines, told = traceback.format_exception_only(error)
        if not isinstance(error, SyntaxError):  # which has no line of theirs in its traceback
            lines = traceback.format_list(traceback.extract_tb(_theirs(error.__traceback__)))
        shown = "".join(["", *lines]).rstrip()
        raise FailedError(f"{where} can't be imported: {told}{shown}".rstrip()) from error
    finally:
        if THIS.begun > begun:
            _show.warn(
                f"importing {where} executed runs; put what starts them under "
                'if __name__ == "__main__": so that importing it starts nothing'
            )


def _explains_itself(error: Exception, where: str) -> bool:
    """Whether its message says all; so does one about an extra of ours that is missing.

    So does one about the module itself, but not about something that the module needs.
    """
    if isinstance(error, HoldfastError | click.ClickException):
        return True
    if not isinstance(error, ImportError):
        return False
    missing = isinstance(error, ModuleNotFoundError) and error.name is not None
    return isinstance(error, MissingExtraError) or (
        missing and f"{where}.".startswith(f"{error.name}.")
    )


def _theirs(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first line of the user's own on."""
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if str(module).partition(".")[0] not in _NOT_THEIRS:
            return trace
        trace = trace.tb_next
    return None
