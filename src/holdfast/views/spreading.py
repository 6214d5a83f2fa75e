"""Work on many runs, several at a time."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final, TypeVar

from holdfast.checkpointer import SyncCheckpointer
from holdfast.errors import CheckpointNotFoundError
from holdfast.kernel.reader import all_runs
from holdfast.operations.spreading import can_be_scanned
from holdfast.operations.verifying import Checked, verify_runs

S = TypeVar("S")
T = TypeVar("T")

Progress = Callable[[str, int], AbstractContextManager[Callable[[], None]]]
"""Shows what is done, and how many pieces it has; gives what is called after each of them."""

_AHEAD: Final = 16  # pieces for each worker that are begun before the first of them is done


@contextmanager
def unseen(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Progress that nobody looks at."""
    yield lambda: None


def side_by_side(
    call: Callable[[S], T],
    pieces: Iterable[S],
    *,
    workers: int,
    waits: Callable[[S], bool] = lambda _: True,
) -> Iterator[T]:
    """Call something for each piece, several at a time; results in the pieces' order.

    For a run that was deleted meanwhile there is none. Where it `waits` for nothing, another thread
    would be no help.
    """
    with ThreadPoolExecutor(workers) as pool:
        begun: deque[Callable[[], T]] = deque()

        def results(most: int) -> Iterator[T]:
            while len(begun) > most:
                try:
                    yield begun.popleft()()
                except CheckpointNotFoundError:
                    continue

        try:
            for piece in pieces:
                own = pool.submit(call, piece).result if waits(piece) else partial(call, piece)
                begun.append(own)
                yield from results(_AHEAD * workers)
            yield from results(0)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def check_all(cp: SyncCheckpointer, *, workers: int) -> Iterator[Checked]:
    """Check every byte of all runs, ordered by id: by so many processes, or threads where these are
    no help."""
    if can_be_scanned(cp.core.journals.store):
        return (one for page in verify_runs(cp.core, processes=workers) for one in page)
    names = (head.run for head in all_runs(cp.store))
    return side_by_side(lambda name: Checked(cp.verify(name)), names, workers=workers)


def number_of_runs(cp: SyncCheckpointer) -> int:
    """How many runs there are, at once in stores with an index."""
    return sum(cp.count_runs().values())
