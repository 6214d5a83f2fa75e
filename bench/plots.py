"""What is drawn: quantities measured at several sizes, with a line for each system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bench.line import FLOORS, OURS
from bench.report import Measured
from bench.svg import FLOOR, chart


class Plot(NamedTuple):
    """One picture. `quantity` is measured as "quantity@size"."""

    file: str
    title: str
    workload: str
    quantity: str
    across: str
    up: str


LESS, MORE = "less is better", "more is better"
PLOTS: Final = (
    Plot("chat-time", "Saving a chat", "chat", "save_ms", "turns of the chat", f"ms a save; {LESS}"),
    Plot("chat-bytes", "Bytes of a chat", "chat", "disk_mb", "turns of the chat", f"MB; {LESS}"),
    Plot("saves-at-once", "Saving to many runs at once, 2 KB each", "saves at once", "saves_per_s",
         "runs at the same time", f"saves a second; {MORE}"),
    Plot("processes", "Processes that save to one SQLite file", "processes", "saves_per_s",
         "processes", f"saves a second; {MORE}"),
    Plot("step-size", "Durable step, by the size of its result", "step size", "step_ms",
         "bytes, all new", f"ms a step; {LESS}"),
    Plot("graph-state", "Graph step in memory, by unchanged state", "graph state", "cpu_us",
         "bytes of state", f"µs of CPU a step; {LESS}"),
    Plot("step-history", "Durable step, by the steps before it", "step history", "step_ms",
         "steps so far", f"ms a step; {LESS}"),
    Plot("resume", "Resuming a killed run", "resume", "resume_s", "steps so far", f"seconds; {LESS}"),
    Plot("fork", "Forking a run", "fork", "cpu_ms", "checkpoints of the run", f"ms of CPU; {LESS}"),
    Plot("pipeline", "Step of a pipeline in memory", "pipeline", "cpu_us", "steps of the pipeline",
         f"µs of CPU a step; {LESS}"),
    Plot("lists", "The 50 newest runs", "lists", "cpu_newest_ms", "runs in the store", f"ms of CPU; {LESS}"),
    Plot("agents", "Turn of a LangGraph agent, by its saver", "agents SQLite", "turn_ms",
         "turns so far", f"ms a turn; {LESS}"),
)  # fmt: skip

Series = dict[str, list[list[float]]]


def series(plot: Plot, results: Mapping[str, Measured]) -> Series:
    """The medians of each system at each size."""
    found: Series = {}
    measured = results.get(plot.workload, Measured())
    for system in sorted(measured, key=lambda name: not name.startswith("holdfast")):
        points = []
        for name in measured[system]:
            quantity, _, size = name.partition("@")
            value = measured.median(system, name)
            if quantity == plot.quantity and size and value is not None and value > 0:
                points.append([float(size), float(f"{value:.4g}")])
        if points:
            found[system] = points
    return found


def drawn(plot: Plot, found: Series) -> str:
    """The picture, as SVG."""
    styled = {name: (_style(name), [(x, y) for x, y in each]) for name, each in found.items()}
    return chart(plot.title, plot.across, plot.up, styled)


def _style(name: str) -> int:
    """A system has the same colour in all pictures."""
    if name in FLOORS:
        return FLOOR
    return 0 if name.startswith(OURS) else 2 if name.startswith("DBOS") else 1
