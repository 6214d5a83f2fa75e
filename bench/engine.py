"""Running steps, side by side with LangGraph, DBOS and SQLite's own floors.

python -m bench.engine [--quick] [--only WORD] [--json FILE] [--dir DIRECTORY]
"""

from __future__ import annotations

from pathlib import Path

from bench import flows
from bench.engines import ENGINES, installed, left_out
from bench.once import count_syncs, syncs_per_save
from bench.report import (
    Goal,
    Measured,
    Trial,
    arguments,
    as_json,
    environment,
    interleave,
    minus,
    print_goals,
    print_measured,
    print_syncs,
    scratch,
    write,
)

OURS, AWAITED, FLOOR = "holdfast", "holdfast, awaited", "floor"
MEMORY, WORKFLOW = "graph of 10 nodes, memory", "workflow of 100 steps, SQLite"
CONCURRENT, KILLED = "100 runs at once, SQLite", "kill -9 in step 6 of 10, SQLite"


def main() -> None:
    """Measure, print the tables, write the JSON."""
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--only", default="", help="only workloads whose name holds this")
    options = parser.parse_args()
    for reason in left_out():
        print(reason)
    results: dict[str, Measured] = {}
    with scratch(options.dir) as directory:
        syncs = _syncs_per_step(directory)
        print("\ndurability: every engine's SQLite has synchronous=FULL")
        print_syncs("step", syncs)
        for name, (repetitions, trials) in _workloads(options.quick).items():
            if options.only in name:
                results[name] = interleave(directory, repetitions, trials)
                print_measured(name, results[name])
    goals = _goals(results)
    print()
    print_goals(goals)
    write(
        options.json,
        {
            "environment": environment(),
            "syncs_per_step": syncs,
            "results": results,
            "goals": as_json(goals),
        },
    )


def _workloads(quick: bool) -> dict[str, tuple[int, dict[str, Trial]]]:
    """Every workload by name, with the number of its repetitions."""
    few, many = (3, 7) if quick else (5, 15)
    return {
        MEMORY: (many, flows.graph_in_memory(50)),
        "graph of 10 nodes, SQLite": (few, flows.graph_on_disk(10)),
        WORKFLOW: (few, flows.workflow(100)),
        CONCURRENT: (3, flows.concurrent(100, 10 if quick else 20)),
        KILLED: (few, flows.killed()),
    }


def _goals(results: dict[str, Measured]) -> list[Goal]:
    """The goals of DESIGN, section 10, that these workloads can show."""
    memory, workflow, concurrent, killed = (
        results.get(name, Measured()) for name in (MEMORY, WORKFLOW, CONCURRENT, KILLED)
    )
    return [
        Goal("graph of 10 nodes in memory, a step beyond its own work", "us", 20,
             memory.paired(OURS, "plain calls", "step_us", minus)),
        Goal("durable step, blocking, beyond one commit", "ms", 0.1,
             workflow.paired(OURS, FLOOR, "step_ms", minus)),
        Goal("durable step, awaited, beyond one commit", "ms", 0.2,
             workflow.paired(AWAITED, FLOOR, "step_ms", minus)),
        Goal("100 runs at once, steps a second", "", 10_000,
             concurrent.median(AWAITED, "steps_per_s"), at_least=True),
        Goal("kill -9, finished steps run again, at worst", "", 0,
             max(killed.get(AWAITED, {}).get("finished_steps_run_again", []), default=None)),
        Goal("kill -9, from a fresh process's start to done", "s", 0.4,
             killed.median(AWAITED, "done_s")),
    ]  # fmt: skip


def _syncs_per_step(directory: Path) -> dict[str, float | None]:
    """Durable means that the fsync was seen."""

    def fresh(name: str) -> Path:
        made = directory / name
        made.mkdir()
        return made

    return {
        FLOOR: syncs_per_save(FLOOR, fresh(FLOOR)),
        **{
            name: count_syncs(fresh(name), "bench.engine_once", "steps", name)
            for name, kind in ENGINES.items()
            if installed(kind)
        },
    }


if __name__ == "__main__":
    main()
