"""`python -m tests.simulation`: carry out schedules on all cores, and show what they violate.

Ctrl-C ends it early: it says how many were carried out.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
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
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & has it ignored
    seed = random.randrange(10**12) if given.seed is None else given.seed
    if given.trace:
        outcome = simulate(seed, trace=True)
        print(*outcome.trace, outcome if outcome.violations else "nothing was violated", sep="\n")
        return bool(outcome.violations)
    began, done, failed = time.monotonic(), 0, 0
    next_report = given.count // 10
    for count, failures in _carried_out(range(seed, seed + given.count)):
        for failure in failures[: max(0, _SHOWN - failed)]:
            print(f"seed {failure.seed}:\n{failure}", flush=True)
        failed += len(failures)
        done += count
        if next_report <= done < given.count:
            next_report += given.count // 10
            print(f"{done:,} of {given.count:,} schedules", flush=True)
    spent = time.monotonic() - began
    print(f"{done:,} schedules from seed {seed} in {spent:,.0f} s: {failed:,} violations")
    return bool(failed)


def _carried_out(seeds: range) -> Iterator[tuple[int, list[Outcome]]]:
    """How many were carried out, and those that violate something, slice by slice."""
    slices = [seeds[at : at + _SLICE] for at in range(0, len(seeds), _SLICE)]
    processes, fork = min(os.cpu_count() or 1, len(slices)), get_context("fork")
    with ProcessPoolExecutor(processes, fork, initializer=_deaf) as pool:
        sizes = {pool.submit(failures_in, each): len(each) for each in slices}
        under_way = set(sizes)
        try:
            for future in as_completed(sizes):
                under_way.remove(future)
                yield sizes[future], future.result()
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            for future in under_way:
                if not future.cancelled():
                    yield sizes[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)  # also if Ctrl-C came while a slice was reported


def _deaf() -> None:
    """Ctrl-C is for the process that asked for the schedules; it waits for slices under way."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
