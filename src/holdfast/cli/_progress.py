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
    what: str, call: Callable[[str], T], items: Iterable[str], *, workers: int
) -> list[T]:
    """Call something for each item, several at a time, with a bar; results in the items' order."""
    from concurrent.futures import ThreadPoolExecutor

    names = list(items)
    with progress(what, len(names)) as advance, ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(call, name) for name in names]
        try:
            for future in futures:
                future.result()
                advance()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        return [future.result() for future in futures]
