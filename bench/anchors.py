"""What it takes to anchor a store with many runs, to compare it, and to remember heads.

python -m bench.anchors [--runs N] [--json FILE] [--dir DIRECTORY]
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from bench.report import arguments, environment, print_table, quantile, scratch, show, write
from holdfast.checkpointer import SyncCheckpointer

_REPETITIONS = 5
_SAVES = 2000


def main() -> None:
    """Fill, measure, print, write the JSON."""
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="how many runs there are")
    options = parser.parse_args()
    before = environment()
    with scratch(options.dir) as directory:
        found = _anchored(directory, options.runs) | _remembered(directory)
    print(f"\nSQLite, {options.runs:,} runs with two entries each")
    print_table(["", "p50 ms"], [[name, show(value)] for name, value in found.items()])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  at most {peak:.0f} MB of memory")
    write(
        options.json,
        {"environment": before, "runs": options.runs, "p50_ms": found, "peak_mb": peak},
    )


def _anchored(directory: Path, runs: int) -> dict[str, float]:
    anchors = directory / "anchors.jsonl"
    with SyncCheckpointer(directory / "runs.db") as cp:
        for first in range(0, runs, 1000):
            numbers = range(first, min(first + 1000, runs))
            cp.save_many([{"run_id": f"run {n:07}", "state": {"n": n}} for n in numbers])
        cp.anchor(anchors)
        return {
            "anchor": _timed(lambda: cp.anchor(anchors)),
            "verify --anchor": _timed(lambda: cp.verify_anchor(anchors)),
            "verify --chain": _timed(cp.verify_chain),
        }


def _remembered(directory: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, remember in (("", None), (", remembered", directory / "heads.db")):
        with SyncCheckpointer(directory / f"plain{name}.db", remember=remember) as cp:
            cp.save("run", {"n": 0})
            saves, loads = [], []
            for n in range(_SAVES):
                started = perf_counter()
                cp.save("run", {"n": n})
                saved = perf_counter()
                cp.load("run")
                loads.append((perf_counter() - saved) * 1000)
                saves.append((saved - started) * 1000)
        found |= {f"save{name}": quantile(saves, 0.5), f"load{name}": quantile(loads, 0.5)}
    return found


def _timed(call: Callable[[], object]) -> float:
    times = []
    for _ in range(_REPETITIONS):
        started = perf_counter()
        call()
        times.append((perf_counter() - started) * 1000)
    return quantile(times, 0.5)


if __name__ == "__main__":
    main()
