"""`python -m tests.simulation`: carry out schedules on all cores, and show what they violate."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Final

from tests.simulation.schedule import Outcome, failures_in, simulate

_SLICE: Final = 500  # schedules that a process carries out before it reports
_SHOWN: Final = 10  # failures, at most


def main() -> int:
    """Carry out one schedule, or as many as wanted from there on."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seed", type=int, nargs="?", help="of the first schedule; or else any")
    parser.add_argument("--count", type=int, default=1, help="how many schedules")
    parser.add_argument("--trace", action="store_true", help="show all that happens")
    given = parser.parse_args()
    seed = random.randrange(10**12) if given.seed is None else given.seed
    if given.trace:
        outcome = simulate(seed, trace=True)
        print(*outcome.trace, outcome if outcome.violations else "nothing was violated", sep="\n")
        return bool(outcome.violations)
    began, failed = time.monotonic(), 0
    for failure in _all_failures(range(seed, seed + given.count)):
        failed += 1
        if failed <= _SHOWN:
            print(f"seed {failure.seed}:\n{failure}", flush=True)
    spent = time.monotonic() - began
    print(f"{given.count:,} schedules from seed {seed} in {spent:,.0f} s: {failed:,} violations")
    return bool(failed)


def _all_failures(seeds: range) -> Iterator[Outcome]:
    slices = [seeds[at : at + _SLICE] for at in range(0, len(seeds), _SLICE)]
    done, next_report = 0, len(seeds) // 10
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(slices))) as pool:
        for future in as_completed([pool.submit(failures_in, each) for each in slices]):
            yield from future.result()
            done += _SLICE
            if done >= next_report and done < len(seeds):
                next_report += len(seeds) // 10
                print(f"{done:,} of {len(seeds):,} schedules", flush=True)


if __name__ == "__main__":
    sys.exit(main())
