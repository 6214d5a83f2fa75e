"""Writing to many runs, some at a time: they share a commit where the store can do that."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import Final, TypeVar

from holdfast.store import Store

S = TypeVar("S")
T = TypeVar("T")

_AT_LEAST: Final = 50  # runs of a block,
_AT_MOST: Final = 500  # and as many as are done within
_SECONDS: Final = 0.03  # which others wait; then they have
_BETWEEN: Final = 0.002  # seconds to write


def in_blocks(
    store: Store, items: Iterable[S], work: Callable[[S], T], *, alone: bool = False
) -> Iterator[T]:
    """What `work` returns for each item, called in a block of the store (`Store.together`).

    It is given out when it is durable. What was done before an error or Ctrl-C stays done. With
    `alone`, each is a block of its own: then `work` may wait.
    """
    waiting = iter(items)
    while True:
        done: list[T] = []
        failed: BaseException | None = None
        with nullcontext() if alone else store.together():
            until = time.monotonic() + _SECONDS
            try:
                for item in islice(waiting, 1 if alone else _AT_MOST):
                    done.append(work(item))
                    if len(done) >= _AT_LEAST and time.monotonic() > until:
                        break
            except BaseException as error:  # noqa: BLE001 - Ctrl-C, too, is raised behind the block
                failed = error
        yield from done
        if failed is not None:
            raise failed
        if not done:
            return
        if not alone:
            time.sleep(_BETWEEN)
