"""A bar for work that takes long, where somebody looks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from holdfast.cli._drawing import LiveLine, bar

T = TypeVar("T")


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Call what this gives after each piece of work. On a terminal only, and gone at the end."""
    line, done = LiveLine(), 0

    def advance() -> None:
        nonlocal done
        done += 1
        line.draw(bar(what, done, total), now=done in (1, total))

    try:
        yield advance
    finally:
        line.clear()
