"""Metrics in memory, and as the text that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

from holdfast.telemetry.measures import MEASURES, Measure, Measuring

MOST_SERIES: Final = 500  # of one measure; what comes then is counted together, as "other"
OTHER: Final = "other"

RUNS: Final = Measure(
    "holdfast.runs", "gauge", "Runs in the store, child runs included, by status.", ("status",)
)

Samples = Iterable[tuple[tuple[str, ...], float]]


class Metrics(Measuring):
    """Counts and measures what an engine or a checkpointer does: `listeners=[Metrics()]`.

    May be shared by engines, checkpointers and threads. Labels are names of flows, types of
    evidence, statuses and types of errors. There are at most 500 combinations for each measure;
    all others count as "other".
    """

    content_type: ClassVar = "text/plain; version=0.0.4; charset=utf-8"
    """What an HTTP response with `prometheus()` must say."""

    def __init__(self) -> None:
        super().__init__()
        self._sums: dict[Measure, dict[tuple[str, ...], float]] = {one: {} for one in MEASURES}
        self._buckets: dict[tuple[Measure, tuple[str, ...]], list[int]] = {}

    def add(self, measure: Measure, amount: int, *labels: str) -> None:
        """Count."""
        with self._lock:
            sums = self._sums[measure]
            labels = _limited(sums, labels)
            sums[labels] = sums.get(labels, 0) + amount

    def record(self, measure: Measure, value: float, *labels: str) -> None:
        """Add a value to a histogram."""
        with self._lock:
            sums = self._sums[measure]
            labels = _limited(sums, labels)
            sums[labels] = sums.get(labels, 0.0) + value
            counts = self._buckets.get((measure, labels))
            if counts is None:
                counts = self._buckets[measure, labels] = [0] * (len(measure.buckets) + 1)
            counts[bisect_left(measure.buckets, value)] += 1

    def value(self, name: str, **labels: str) -> float:
        """A counter or gauge, or the number of values in a histogram; 0 if there was none.

        `name` is as Prometheus spells it. Without some of its labels, it is the sum over these.
        """
        measure = next((one for one in MEASURES if one.prometheus_name == name), None)
        if measure is None or not set(labels) <= set(measure.labels):
            raise KeyError(name if measure is None else f"{name} has no labels {sorted(labels)}")
        wanted = [(measure.labels.index(label), value) for label, value in labels.items()]
        with self._lock:
            found = [
                sum(self._buckets[measure, given]) if measure.kind == "histogram" else total
                for given, total in self._sums[measure].items()
                if all(given[place] == value for place, value in wanted)
            ]
        return sum(found)

    def prometheus(self, runs: Mapping[str, int] | None = None) -> str:
        """All of it, in Prometheus' text format 0.0.4. Serve it as `content_type`.

        `runs` is what `count_runs()` of a checkpointer returned, to be shown as `holdfast_runs`.
        """
        with self._lock:
            sums = {measure: dict(found) for measure, found in self._sums.items()}
            buckets = {key: list(counts) for key, counts in self._buckets.items()}
        lines: list[str] = []
        for measure, found in sums.items():
            if measure.kind != "histogram":
                lines += exposition(measure, found.items())
                continue
            lines += _header(measure)
            for labels, total in found.items():
                lines += _histogram(measure, labels, total, buckets[measure, labels])
        if runs is not None:
            lines += exposition(RUNS, runs_by_status(runs))
        return "\n".join(lines) + "\n"


def runs_by_status(counted: Mapping[str, int]) -> Samples:
    """The samples of `RUNS`."""
    return [((str(status),), number) for status, number in sorted(counted.items())]


def exposition(measure: Measure, samples: Samples) -> Iterator[str]:
    """A counter or gauge as lines of Prometheus' text format."""
    yield from _header(measure)
    for labels, number in samples:
        yield f"{measure.prometheus_name}{_labels(measure.labels, labels)} {_number(number)}"


def _limited(known: Mapping[tuple[str, ...], float], labels: tuple[str, ...]) -> tuple[str, ...]:
    if labels in known or len(known) < MOST_SERIES:
        return labels
    return (OTHER,) * len(labels)


def _header(measure: Measure) -> list[str]:
    name, text = measure.prometheus_name, measure.help.replace("\\", r"\\").replace("\n", r"\n")
    return [f"# HELP {name} {text}", f"# TYPE {name} {measure.kind}"]


def _histogram(
    measure: Measure, labels: tuple[str, ...], total: float, counts: list[int]
) -> Iterator[str]:
    name, below = measure.prometheus_name, 0
    for bound, count in zip((*measure.buckets, float("inf")), counts, strict=True):
        below += count
        given = _labels((*measure.labels, "le"), (*labels, _number(bound)))
        yield f"{name}_bucket{given} {below}"
    yield f"{name}_sum{_labels(measure.labels, labels)} {_number(total)}"
    yield f"{name}_count{_labels(measure.labels, labels)} {below}"


def _labels(names: Iterable[str], values: Iterable[str]) -> str:
    given = ",".join(
        f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)
    )
    return f"{{{given}}}" if given else ""


def _escaped(value: str) -> str:
    """A label's value as the format has it, and as UTF-8 can have it."""
    text = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return text.encode("utf-8", "backslashreplace").decode()


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
