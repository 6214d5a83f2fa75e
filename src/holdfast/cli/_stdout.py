"""Standard output for what a command says alone, while code of others runs."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import IO


@contextmanager
def own_stdout() -> Iterator[IO[str]]:
    """Standard output for the caller alone; whatever else is printed goes to standard error.

    That is what Python code prints, in any thread, and what the processes print that are started
    meanwhile. Where `sys.stdout` is no file descriptor, as in tests, only the former. What is
    written to the stream that this gives must be flushed: it is closed at the end.
    """
    out, others = sys.stdout, sys.stderr
    if (_descriptor(out), _descriptor(others)) != (1, 2):
        with redirect_stdout(others):
            yield out
        return
    out.flush()
    own = os.fdopen(os.dup(1), "w", encoding=out.encoding, errors=out.errors)
    try:
        os.dup2(2, 1)
        with redirect_stdout(others):
            yield own
    finally:
        with suppress(OSError):  # nobody reads it any more: whoever wrote has been told
            out.flush()  # of others, who kept hold of it
        os.dup2(own.fileno(), 1)
        with suppress(OSError):
            own.close()


def _descriptor(stream: IO[str] | None) -> int | None:
    """The number of its file; None if it has none, or is closed."""
    try:
        return None if stream is None else stream.fileno()
    except (OSError, ValueError):
        return None
