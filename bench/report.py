"""How trials are run in turn, timed, compared, judged against goals and written down."""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import os
import platform
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

RESULTS: Final = Path(__file__).parent / "results"
_PACKAGES: Final = (
    "holdfast",
    "ormsgpack",
    "backports.zstd",
    "langgraph",
    "langgraph-checkpoint-postgres",
    "langgraph-checkpoint-sqlite",
    "psycopg",
    "PyMySQL",
    "redis",
    "duckdb",
    "aiosqlite",
    "dbos",
)

Trial = Callable[[Path], dict[str, float]]
"""Measures one system once, on a path of its own; gives its quantities by name."""


class Measured(dict[str, dict[str, list[float]]]):
    """By system and quantity, one value for each repetition; the same index is the same moment."""

    def median(self, system: str, quantity: str) -> float | None:
        """The middle of all repetitions; None if the system was not measured."""
        values = self.get(system, {}).get(quantity)
        return median(values) if values else None

    def paired(
        self, system: str, other: str, quantity: str, how: Callable[[float, float], float]
    ) -> float | None:
        """The middle of what `how` makes of both systems' values, repetition by repetition."""
        ours, theirs = self.get(system, {}).get(quantity), self.get(other, {}).get(quantity)
        return median(map(how, ours, theirs)) if ours and theirs else None


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the table at the end."""

    work: str
    unit: str
    limit: float
    measured: float | None
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None if it was not measured."""
        if self.measured is None:
            return None
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


def interleave(
    directory: Path, rounds: int, trials: Mapping[str, Trial], seconds: float = float("inf")
) -> Measured:
    """Run the trials in turn, A B C A B C, so that what slows the machine down slows all of them.

    At most so many rounds; none is begun that would end, by the last one's length, after so many
    seconds.
    """
    measured = Measured((name, {}) for name in trials)
    began = before = perf_counter()
    for _ in range(rounds):
        for name, trial in trials.items():
            gc.collect()
            with tempfile.TemporaryDirectory(dir=directory) as fresh:
                for quantity, value in trial(Path(fresh) / "store.db").items():
                    measured[name].setdefault(quantity, []).append(value)
        now = perf_counter()
        if now + (now - before) > began + seconds:
            break
        before = now
    return measured


def minus(a: float, b: float) -> float:
    """For `Measured.paired`."""
    return a - b


def over(a: float, b: float) -> float:
    """For `Measured.paired`."""
    return a / b


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here, too")
    parser.add_argument(
        "--dir", type=Path, default=RESULTS, help="where the stores are put: the disk to measure"
    )
    return parser


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A directory on the disk to measure, removed afterwards."""
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix="bench-") as made:
        yield Path(made).absolute()


def environment() -> dict[str, object]:
    """What the figures depend on."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system() + " " + platform.release(),
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg(),
        "sqlite": sqlite3.sqlite_version,
        "packages": {
            name: importlib.metadata.version(name) for name in _PACKAGES if _installed(name)
        },
    }


def write(file: Path | None, results: Mapping[str, Any]) -> None:
    """Write the results as JSON, if a file was asked for."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(results, indent=1) + "\n")
        print(f"written to {file}")


def as_json(goals: Sequence[Goal]) -> list[dict[str, object]]:
    """The goals with their outcome."""
    return [asdict(goal) | {"met": goal.met} for goal in goals]


def print_goals(goals: Sequence[Goal]) -> None:
    """The table of goals and what was measured."""
    words = {True: "met", False: "MISSED", None: "not measured"}
    print_table(
        ["goal", "at", "limit", "measured", ""],
        [
            [
                goal.work,
                "least" if goal.at_least else "most",
                f"{goal.limit:g} {goal.unit}",
                "-" if goal.measured is None else f"{show(goal.measured)} {goal.unit}",
                words[goal.met],
            ]
            for goal in goals
        ],
    )


def print_measured(title: str, measured: Measured) -> None:
    """The medians of one workload: a line for each system, a column for each quantity."""
    print(f"\n{title}")
    quantities = list(dict.fromkeys(name for values in measured.values() for name in values))
    rows = []
    for system in measured:
        medians = [measured.median(system, quantity) for quantity in quantities]
        rows.append([system, *("" if value is None else show(value) for value in medians)])
    print_table(["", *quantities], rows)


def is_durable(syncs: float | None) -> bool:
    """Whether there was an fsync for each; what runs in the background varies by one or two."""
    return syncs is None or syncs >= 0.9


def print_syncs(what: str, syncs: Mapping[str, float | None]) -> None:
    """Durable means that the fsync was seen: at least one for each save or step."""
    rows = [
        [name, "no strace" if seen is None else show(seen), "" if is_durable(seen) else "NOT DURABLE"]
        for name, seen in syncs.items()
    ]  # fmt: skip
    print_table(["", f"fsyncs per {what}", ""], rows)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they need to be."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, ["-" * width for width in widths], *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  " + "  ".join(cells).rstrip())


def show(value: float) -> str:
    """A number with about three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _commit() -> str:
    """The commit measured, with a mark if files were changed since; empty outside git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        found = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()


def _installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
