"""What a key costs: the same saves plain, encrypted, signed and both, in turn.

python -m bench.keys [--quick] [--only WORD] [--json FILE] [--dir DIRECTORY]
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final

import holdfast as hf
from bench.inputs import KB, State, chat, fresh_steps
from bench.report import (
    Goal,
    Measured,
    Trial,
    arguments,
    as_json,
    environment,
    interleave,
    over,
    print_goals,
    print_measured,
    scratch,
    write,
)

LIMIT: Final = 1.15
PLAIN, ENCRYPTED = "plain", "encrypted"
MS: Final = 1000


def main() -> None:
    """Measure, print the tables, write the JSON."""
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--only", default="", help="only workloads whose name holds this")
    options = parser.parse_args()
    results: dict[str, Measured] = {}
    with scratch(options.dir) as directory:
        for name, (repetitions, trials) in _workloads(options.quick).items():
            if options.only in name:
                results[name] = interleave(directory, repetitions, trials)
                print_measured(name, results[name])
    goals = [
        Goal(f"{ENCRYPTED}: {name}, {quantity}", "times plain", LIMIT, _ratio(found, quantity))
        for name, found in results.items()
        for quantity in ("save_ms", "cpu_ms")
    ]
    print()
    print_goals(goals)
    write(options.json, {"environment": environment(), "results": results, "goals": as_json(goals)})


def _ratio(found: Measured, quantity: str) -> float | None:
    return found.paired(ENCRYPTED, PLAIN, quantity, over)


def _workloads(quick: bool) -> dict[str, tuple[int, dict[str, Trial]]]:
    few, many = (7, 15) if quick else (21, 41)
    small, large = fresh_steps(KB), fresh_steps(100 * KB)
    talk = [step.state for step in chat(400)]
    found = {}
    for store in ("SQLite", "memory"):
        found[f"1 KB, {store}"] = many, _trials(store, [step.state for step in small], 300)
        found[f"chat of 400 turns, {store}"] = few, _trials(store, talk, len(talk))
        found[f"100 KB, {store}"] = few, _trials(store, [step.state for step in large], 60)
    return found


def _trials(store: str, states: Iterable[State], saves: int) -> dict[str, Trial]:
    ring = hf.Keyring({"bench": os.urandom(32)})
    keys: dict[str, dict[str, Any]] = {
        PLAIN: {},
        ENCRYPTED: {"key": ring},
        "signed, HMAC": {"sign": hf.SigningKey.hmac("bench", os.urandom(32))},
        "signed, Ed25519": {"sign": hf.SigningKey.ed25519("bench", os.urandom(32))},
    }

    def trial(given: dict[str, Any]) -> Trial:
        def measure(path: Path) -> dict[str, float]:
            url = "memory://" if store == "memory" else f"sqlite:///{path}"
            with hf.SyncCheckpointer(url, **given) as cp:
                cp.save("run", {"warm": True})
                taken = []
                cpu = process_time()
                for state in islice(cycle(states), saves):
                    began = perf_counter()
                    cp.save("run", state)
                    taken.append(perf_counter() - began)
                cpu = process_time() - cpu
            return {"save_ms": median(taken) * MS, "cpu_ms": cpu / saves * MS}

        return measure

    return {name: trial(given) for name, given in keys.items()}


if __name__ == "__main__":
    main()
