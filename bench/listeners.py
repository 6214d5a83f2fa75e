"""What events cost: microseconds of CPU for a step in memory, with nobody listening and with some.

python -m bench.listeners [--json FILE] [--steps 2000] [--rounds 7]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import holdfast as hf
from holdfast.workflow import step, workflow


@step
async def nothing(number: int) -> int:
    return number


@workflow
async def counting(steps: int) -> int:
    total = 0
    for number in range(steps):
        total += await nothing(number)
    return total


def cost(make: Callable[[], hf.Engine], steps: int) -> float:
    """Microseconds of CPU for each step of a run, what it tells others included."""

    async def measured() -> float:
        async with make() as engine:
            await engine.run(counting(steps // 10))
            gc.collect()
            start = process_time()
            await engine.run(counting(steps))
        return 1e6 * (process_time() - start) / steps

    return asyncio.run(measured())


def kinds() -> dict[str, Callable[[], hf.Engine]]:
    """The engines to compare: also without listeners at all, for versions that have none."""
    made: dict[str, Callable[[], hf.Engine]] = {"nobody": lambda: hf.Engine("memory://")}
    try:
        from holdfast.telemetry import Metrics
    except ImportError:
        return made

    def seen(_: Any) -> None: ...

    made["a function"] = lambda: hf.Engine("memory://", listeners=[seen])
    made["Metrics"] = lambda: hf.Engine("memory://", listeners=[Metrics()])
    try:
        from holdfast.integrations.otel import Tracing
    except ImportError:
        return made
    made["Tracing, no SDK"] = lambda: hf.Engine("memory://", listeners=[Tracing()])
    try:
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError:
        return made
    provider = TracerProvider()
    made["Tracing"] = lambda: hf.Engine("memory://", listeners=[Tracing(provider)])
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the microseconds here, too")
    given = parser.parse_args()
    engines = kinds()
    found: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(given.rounds):
        for name, make in engines.items():
            found[name].append(cost(make, given.steps))
    for name, all_of_them in found.items():
        print(f"{name:<16} {min(all_of_them):7.1f} µs (median {median(all_of_them):.1f})")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
