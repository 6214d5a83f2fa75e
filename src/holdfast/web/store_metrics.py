"""Numbers of a store for Prometheus: what there is, and what happened since the UI was started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from holdfast.checkpoint import to_micros
from holdfast.checkpointer import SyncCheckpointer
from holdfast.heads import HOUR
from holdfast.store import PAGE
from holdfast.telemetry.measures import Measure
from holdfast.telemetry.metrics import OTHER, RUNS, Samples, exposition, runs_by_status
from holdfast.views.present import present, recent_flows

_MOST_FLOWS: Final = 50
_ENDED: Final = ("completed", "failed", "cancelled")

_FLOW_RUNS: Final = Measure(
    "holdfast.store.runs", "gauge", "Runs in the store, by flow and status.", ("flow", "status")
)
_STARTED: Final = Measure(
    "holdfast.store.starts",
    "counter",
    "Runs that were started since the hour in which the web UI was.",
    ("flow",),
)
_ENDS: Final = Measure(
    "holdfast.store.ends",
    "counter",
    "Runs that ended since the hour in which the web UI was started.",
    ("flow", "status"),
)
_SAVES: Final = Measure(
    "holdfast.store.saves",
    "counter",
    "Entries that were saved since the hour in which the web UI was started.",
    ("flow",),
)
_ORPHANS: Final = Measure("holdfast.store.orphans", "gauge", "Runs whose process died.")
_ASKING: Final = Measure(
    "holdfast.store.asking", "gauge", "Runs with open questions; at most 500 are counted."
)
_DUE: Final = Measure(
    "holdfast.store.due",
    "gauge",
    "Runs that a worker should execute by now; at most 500 are counted.",
)
_WORKERS: Final = Measure(
    "holdfast.store.workers", "gauge", "Processes that execute runs, by state.", ("state",)
)


class Totals:
    """What happened in a store since the hour of a time. Hours that are over are read once."""

    def __init__(self, since: datetime) -> None:
        self.flows: list[str] = []  # once a flow has a label, it keeps it
        self._begin = to_micros(since) // HOUR
        self._from: dict[str | None, int] = {}  # by flow: the hour from which on to read
        self._before: dict[str | None, Counter[str]] = {}

    def know(self, flow: str) -> None:
        """Count a flow by itself, unless there are too many."""
        if flow not in self.flows and len(self.flows) < _MOST_FLOWS:
            self.flows.append(flow)

    def told(self, cp: SyncCheckpointer, flow: str | None) -> Counter[str]:
        """What happened, by what it was, of one flow or of all."""
        first = self._from.get(flow, self._begin)
        now = cp.core.journals.clock.now()
        open_from = max(first, now // HOUR - 1)  # clocks of others may be late
        before = self._before.setdefault(flow, Counter())
        still = Counter[str]()
        for each in cp.store.tally(first * HOUR, now + HOUR, flow=flow):
            (still if each.hour >= open_from else before)[each.what] += each.n
        self._from[flow] = open_from
        return before + still


def store_metrics(cp: SyncCheckpointer, totals: Totals) -> Iterator[str]:
    """Lines of Prometheus' text format. Blocks."""
    for flow in recent_flows(cp, _MOST_FLOWS):
        totals.know(flow)
    counted = cp.count_runs()
    yield from exposition(RUNS, runs_by_status(counted))
    by_flow = {flow: Counter(cp.count_runs(flow=flow)) for flow in totals.flows}
    yield from exposition(_FLOW_RUNS, _with_rest(by_flow, Counter(counted)))
    told = {flow: totals.told(cp, flow) for flow in totals.flows}
    every = totals.told(cp, None)
    yield from exposition(_STARTED, _of(told, every, "started"))
    ends = {flow: _only(found, _ENDED) for flow, found in told.items()}
    yield from exposition(_ENDS, _with_rest(ends, _only(every, _ENDED)))
    yield from exposition(_SAVES, _of(told, every, "saves"))
    now = present(cp)
    due = cp.store.due(cp.core.journals.clock.now(), limit=PAGE)
    for measure, number in (
        (_ORPHANS, now.orphaned.n),
        (_ASKING, now.asking.n),
        (_DUE, len(due)),
    ):
        yield from exposition(measure, [((), number)])
    states = Counter[str](worker.state for worker in now.workers)
    yield from exposition(_WORKERS, [((state,), states[state]) for state in sorted(states)])


def _only(found: Counter[str], names: Iterable[str]) -> Counter[str]:
    return Counter({name: found[name] for name in names if found[name]})


def _of(told: dict[str, Counter[str]], every: Counter[str], name: str) -> Samples:
    one = {flow: _only(found, (name,)) for flow, found in told.items()}
    return [((flow,), number) for (flow, _), number in _with_rest(one, _only(every, (name,)))]


def _with_rest(
    by_flow: dict[str, Counter[str]], every: Counter[str]
) -> list[tuple[tuple[str, str], float]]:
    """The numbers of each flow, and what is left of all: other flows, and runs without one."""
    samples: list[tuple[tuple[str, str], float]] = [
        ((flow, name), number)
        for flow, found in by_flow.items()
        for name, number in sorted(found.items())
    ]
    rest = every - sum(by_flow.values(), Counter())
    known: dict[tuple[str, str], Any] = dict(samples)
    for name, number in sorted(rest.items()):
        known[OTHER, name] = known.get((OTHER, name), 0) + number
    return list(known.items())
