"""Work on many runs, several at a time."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from holdfast.errors import CheckpointNotFoundError

T = TypeVar("T")

Progress = Callable[[str, int], AbstractContextManager[Callable[[], None]]]
"""Shows what is done, and how many pieces it has; gives what is called after each of them."""


@contextmanager
def unseen(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Progress that nobody looks at."""
    yield lambda: None


def side_by_side(
    what: str,
    call: Callable[[str], T],
    runs: Iterable[str],
    *,
    workers: int,
    progress: Progress = unseen,
) -> list[T]:
    """Call something for each run, several at a time; results in the runs' order.

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
