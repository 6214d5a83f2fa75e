"""A bar for work that takes long, where somebody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from holdfast.cli._show import console

T = TypeVar("T")


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Call what this gives after each piece of work. On a terminal only, and gone at the end."""
    if not sys.stderr.isatty() or total < 2:
        yield lambda: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=console(sys.stderr), transient=True
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def side_by_side(
    what: str, call: Callable[[str], T], runs: Iterable[str], *, workers: int
) -> list[T]:
    """Call something for each run, several at a time, with a bar; results in the runs' order.

    A run that was deleted meanwhile has none.
    """
    from concurrent.futures import ThreadPoolExecutor

    from holdfast.errors import CheckpointNotFoundError

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
