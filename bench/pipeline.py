"""What checkpoints cost a pipeline of ten steps of half a second, beside the same steps by hand.

python -m bench.pipeline [--quick] [--seconds S] [--json FILE] [--dir DIRECTORY]
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

import holdfast as hf
from bench.inputs import KB, fresh_steps
from bench.report import (
    Goal,
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
from holdfast.pipeline import Pipeline

STEPS: Final = 10
BY_HAND, WITHOUT, SQLITE = "plain calls", "holdfast, no checkpointer", "holdfast, SQLite"


def main() -> None:
    """Measure, print the table, write the JSON."""
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--seconds", type=float, default=0.5, help="what each step takes")
    options = parser.parse_args()
    with scratch(options.dir) as directory:
        trials = _trials(options.seconds)
        measured = interleave(directory, 3 if options.quick else 7, trials)
    share = measured.paired(SQLITE, BY_HAND, "seconds", over)
    beyond = None if share is None else (share - 1) * 100
    goals = [Goal("overhead of a durable pipeline of 10 x 500 ms", "%", 1, beyond)]
    print_measured(f"{STEPS} steps of {options.seconds:g} s, each returning 2 KB", measured)
    print()
    print_goals(goals)
    write(
        options.json,
        {
            "environment": environment(),
            "seconds": options.seconds,
            "results": measured,
            "goals": as_json(goals),
        },
    )


def _trials(seconds: float) -> dict[str, Trial]:
    outputs = [made.state for made in fresh_steps(2 * KB, STEPS)]

    async def work(number: int) -> Any:
        await asyncio.sleep(seconds)
        return outputs[number]

    def step(number: int) -> dict[str, Any]:
        async def run(data: Any) -> Any:
            return await work(number)

        return {"id": f"s{number}", "function": run}

    names = [f"s{number}" for number in range(STEPS)]
    paths = [{"from": a, "to": b} for a, b in zip(names, [*names[1:], "end"], strict=True)]
    steps, flow = [step(number) for number in range(STEPS)], {"start_at": "s0", "paths": paths}

    async def by_hand(_: Path) -> dict[str, float]:
        with clocked() as spent:
            for number in range(STEPS):
                await work(number)
        return spent

    async def without(_: Path) -> dict[str, float]:
        pipeline = Pipeline(steps, flow)
        with clocked() as spent:
            await pipeline.run({})
        return spent

    async def durable(path: Path) -> dict[str, float]:
        async with hf.Checkpointer(path) as cp:
            await cp.runs()  # opening a database is not a step
            pipeline = Pipeline(steps, flow, checkpointer=cp)
            with clocked() as spent:
                await pipeline.run({}, thread_id="bench")
            return spent

    def timed(run: Callable[[Path], Coroutine[Any, Any, dict[str, float]]]) -> Trial:
        return lambda path: asyncio.run(run(path))

    return {BY_HAND: timed(by_hand), WITHOUT: timed(without), SQLITE: timed(durable)}


@contextmanager
def clocked() -> Iterator[dict[str, float]]:
    """What a block takes: on the clock, and of the processor alone."""
    spent: dict[str, float] = {}
    began, used = perf_counter(), process_time()
    yield spent
    spent["seconds"] = perf_counter() - began
    spent["cpu_ms"] = (process_time() - used) * 1000


if __name__ == "__main__":
    main()
