"""A bar for work that takes long, where somebody looks."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from holdfast.cli._drawing import LiveLine, bar
from holdfast.errors import CheckpointNotFoundError

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


def side_by_side(
    what: str, call: Callable[[str], T], runs: Iterable[str], *, workers: int
) -> list[T]:
    """Call something for each run, several at a time, with a bar; results in the runs' order.

    A run that was deleted meanwhile has none.
    """

    def results(run: str) -> list[T]:
        try:
            return [call(run)]
        except CheckpointNotFoundError:
            return []

    names = list(runs)
    with progress(what, len(names)) as advance, ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(results, name) for name in names]
        try:
            for future in futures:
                future.result()
                advance()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        return [result for future in futures for result in future.result()]
