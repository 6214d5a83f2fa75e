"""`holdfast bench`: how fast saving is here."""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

import click

import holdfast as hf
from holdfast.cli import _show
from holdfast.cli._options import option
from holdfast.cli._session import Session, as_command
from holdfast.urls import local_path
from holdfast.views import words

_LIMIT: Final = 2000  # saves of one run: memory and disk stay small however fast they are
_RUNS: Final = 100


class Figure(NamedTuple):
    """What was measured of one kind of work."""

    what: str
    times: int
    per_second: float
    median_ms: float | None
    p99_ms: float | None


@as_command("holdfast bench", "holdfast bench --dir /mnt/data --seconds 5 --json")
@option(
    "--dir",
    "Where to write; by default where the store is.",
    to="directory",
    type=click.Path(exists=True, file_okay=False),
)
@option("--seconds", "How long each part takes.", default=1.0, type=click.FloatRange(0.1, 60))
@option(
    "--size BYTES", "About how large a state is.", default=2000, type=click.IntRange(10, 1_000_000)
)
def command(session: Session, directory: str | None, seconds: float, size: int) -> None:
    """Measure durable saves on your own disk, in a new SQLite store that is removed again.

    The first line is the floor: how often this disk makes 4 KB durable.
    """
    where = Path(directory) if directory else _near_the_store(session.url)
    with tempfile.TemporaryDirectory(prefix=".holdfast-bench-", dir=where) as scratch:
        figures, survives = _measure(Path(scratch), seconds, size)
    document = {
        "directory": str(where.absolute()),
        "survives": survives,
        "state_bytes": size,
        "figures": [figure._asdict() for figure in figures],
    }

    def draw() -> None:
        _show.say(f"{where.absolute()}, states of {words.size(size)}; a save survives {survives}")
        _show.table(
            ("WHAT", "PER SECOND", "MEDIAN", "99 %"),
            [
                (one.what, f"{one.per_second:,.0f}", _ms(one.median_ms), _ms(one.p99_ms))
                for one in figures
            ],
            right=("PER SECOND", "MEDIAN", "99 %"),
        )

    session.show(document, draw)


def _near_the_store(url: str) -> Path:
    path = local_path(url)
    near = Path.cwd() if path is None else path.absolute().parent
    return near if near.is_dir() else Path.cwd()


def _measure(scratch: Path, seconds: float, size: int) -> tuple[list[Figure], str]:
    with (scratch / "floor").open("wb") as file:

        def floor(_: int) -> None:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())

        figures = [_timed("fsync of 4 KB", floor, seconds)]
    with hf.SyncCheckpointer(scratch / "runs.db") as cp:
        state = _state(size)

        def save(n: int) -> None:
            state["n"] = n
            cp.save("bench", state, step="bench")

        figures.append(_timed("save, one run", save, seconds))
        figures.append(_timed("load the newest", lambda _: cp.load("bench"), seconds))
        survives = cp.store.survives()
    figures.append(asyncio.run(_together(scratch / "many.db", seconds, size)))
    return figures, survives


async def _together(path: Path, seconds: float, size: int) -> Figure:
    async with hf.Checkpointer(path) as cp:
        until = time.perf_counter() + seconds

        async def work(number: int) -> int:
            state, count = _state(size), 0
            while not count or (time.perf_counter() < until and count < _LIMIT):
                state["n"] = count
                await cp.save(f"bench-{number}", state, step="bench")
                count += 1
            return count

        began = time.perf_counter()
        count = sum(await asyncio.gather(*map(work, range(_RUNS))))
        spent = time.perf_counter() - began
    return Figure(f"save, {_RUNS} runs at once", count, count / spent, None, None)


def _timed(what: str, call: Callable[[int], object], seconds: float) -> Figure:
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < 2 or (time.perf_counter() < until and len(times) < _LIMIT):
        began = time.perf_counter()
        call(len(times))
        times.append(time.perf_counter() - began)
    slowest = quantiles(times, n=100)[-1]
    return Figure(what, len(times), len(times) / sum(times), 1000 * median(times), 1000 * slowest)


def _state(size: int) -> dict[str, Any]:
    """Text that shrinks about as much as people's does, rather than one letter."""
    words = [f"{(n * 2654435761) % 99991:x}" for n in range(size // 6)]
    return {"n": 0, "text": " ".join(words)[:size]}


def _ms(value: float | None) -> str:
    return "" if value is None else words.span(value / 1000)
