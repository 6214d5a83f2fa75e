"""PERFORMANCE.md and its pictures, written from what was measured, never by hand.

python -m bench.page [--from bench/results]

Results are condensed into bench/summary.json, which is in git; the page is made of that alone.
Without `--from`, the page is made anew of the summary as it is.
"""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from bench.line import FLOORS, is_peer
from bench.plots import PLOTS, drawn, series
from bench.report import Measured, is_durable, show

HOME: Final = Path(__file__).parents[1]
SUMMARY: Final = Path(__file__).parent / "summary.json"
PAGE: Final = "PERFORMANCE.md"
IMAGES: Final = "docs/images/bench"
fill: Final = partial(textwrap.fill, width=100, break_long_words=False, break_on_hyphens=False)
_PROFILED: Final = 8  # functions of a profile that are shown,
_LEAST_SHARE: Final = 0.01  # if they take so much of it
_ADDRESS: Final = re.compile(r" of type object at 0x[0-9a-f]+")

Summary = dict[str, Any]


def main() -> None:
    """Condense the results if there are new ones, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--from", type=Path, dest="results", help="where the results are")
    options = parser.parse_args()
    if options.results:
        made = condensed(
            {file.stem: json.loads(file.read_text()) for file in options.results.glob("*.json")}
        )
        SUMMARY.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    for name, text in files(json.loads(SUMMARY.read_text())).items():
        (HOME / name).parent.mkdir(parents=True, exist_ok=True)
        (HOME / name).write_text(text)
        print(f"written: {name}")


def condensed(results: Mapping[str, Any]) -> Summary:
    """What the page needs: the lines, and the medians that are drawn."""
    goals = results["goals"]
    measured = {name: Measured(found) for name, found in goals["workloads"].items()}
    return {
        "environment": goals["environment"],
        "sizes": goals["sizes"],
        "minutes": round(goals["seconds"] / 60),
        "left_out": goals["left_out"],
        "durability": goals["durability"],
        "lines": [_short(line) for line in goals["lines"]],
        "plots": {plot.file: series(plot, measured) for plot in PLOTS},
        "others": {
            name: [_rounded(goal) for goal in found["goals"] if goal["measured"] is not None]
            for name, found in sorted(results.items())
            if name != "goals" and "goals" in found
        },
    }


def files(summary: Summary) -> dict[str, str]:
    """The page and its pictures, by name; the same for the same summary."""
    pictures = {
        f"{IMAGES}/{plot.file}.svg": drawn(plot, summary["plots"][plot.file])
        for plot in PLOTS
        if summary["plots"].get(plot.file)
    }
    return {PAGE: "\n".join(_page(summary)) + "\n", **pictures}


def _page(summary: Summary) -> Iterator[str]:
    lines = summary["lines"]
    yield "# Performance"
    yield ""
    yield "<!-- Written by `python -m bench.page`. Do not edit. -->"
    yield from _about(summary)
    for section, own in groupby(lines, key=lambda line: line["section"]):
        yield from (
            "",
            f"## {section}",
            "",
            "| what | holdfast | others | goal | result |",
            "|---|---|---|---|---|",
        )
        yield from map(_row, own)
    yield from _pictures(summary)
    yield from _missed(lines)
    yield from _others(summary["others"])


def _about(summary: Summary) -> Iterator[str]:
    found, lines = summary["environment"], summary["lines"]
    packages = ", ".join(f"{name} {version}" for name, version in found["packages"].items())
    load = found["load_average"][0]
    measured = [line for line in lines if line["met"] is not None]
    met = sum(line["met"] for line in measured)
    peers = [each["times"] for line in lines for each in _peers(line).values()]
    ahead = sum(times >= 1 for times in peers)
    yield ""
    yield fill(
        f"**{met} of {len(measured)} goals met; ahead in {ahead} of {len(peers)} comparisons with "
        "other systems.** All systems do the same work on the same disk in one run, and take turns. "
        "[bench/README.md](bench/README.md) says what is compared, and how."
    )
    yield ""
    yield from map(
        _item,
        (
            "Figures are medians. In parentheses: how many times better holdfast is, **bold** where "
            "it is worse. These ratios differ less from machine to machine than the times do.",
            "CPU is processor time, of all threads; other times are on the clock.",
            "Cold: nothing of the run is in memory yet.",
            f"Floors ({', '.join(FLOORS)}) are not other systems but lower bounds: the least "
            "that the work can take, such as SQLite or Python alone.",
            *(_fsyncs(what, syncs) for what, syncs in summary["durability"].items()),
        ),
    )
    yield ""
    yield fill(
        f"Measured on {found['at'][:10]}, commit {found['commit']}, by "
        f"`make bench{_QUICK[summary['sizes']]}` in {summary['minutes']} minutes: {found['cpus']} "
        f"cores, load average {load:.1f} before, {found['system']}, Python {found['python']}, SQLite "
        f"{found['sqlite']}; {packages}."
    )
    for reason in summary["left_out"]:
        yield from ("", fill(f"Not compared: {reason}"))


def _item(text: str) -> str:
    return fill(f"* {text}", subsequent_indent="  ")


def _fsyncs(what: str, syncs: Mapping[str, float | None]) -> str:
    """Who called fsync each time; it is not known where there is no strace."""
    counted = {name: seen for name, seen in syncs.items() if seen is not None}
    if not counted:
        return f"Whether there was an fsync for each {what} was not looked at: strace is missing."
    durable = [name for name, seen in counted.items() if is_durable(seen)]
    unsafe = [name for name in counted if name not in durable]
    said = f"These call fsync for each {what}, as counted by strace: {'; '.join(durable)}."
    return f"{said} **Fewer: {'; '.join(unsafe)}.**" if unsafe else said


def _row(line: dict[str, Any]) -> str:
    ours = "" if line["holdfast"] is None else _value(line["holdfast"], line["unit"])
    others = "; ".join(
        f"{name} {_value(each['value'], line['unit'])}{_times(name, each['times'])}"
        for name, each in line["others"].items()
    )
    return f"| {line['name']} | {ours} | {others} | {line['goal']} | {_result(line)} |"


def _times(name: str, times: float | None) -> str:
    if times is None or not is_peer(name):
        return ""
    return f" ({show(times)} ×)" if times >= 1 else f" (**{show(times)} ×**)"


def _result(line: dict[str, Any]) -> str:
    if line["met"] is None:
        return "not measured"
    judged, limit = line["judged"], line["limit"]
    unit = line["unit"] if line["how"] == "beyond" else "×"
    value = "" if line["how"] == "itself" else f"{show(judged)} {unit}: "
    if line["met"]:
        return f"{value}met"
    if line["how"] == "beyond" or min(judged, limit) <= 0:
        by = f"by {show(abs(judged - limit))} {line['unit']}"
    else:
        by = f"by {show(max(judged / limit, limit / judged))} ×"
    return f"{value}**missed** {by}"


def _peers(line: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {
        name: each
        for name, each in line["others"].items()
        if is_peer(name) and each["times"] is not None
    }


def _pictures(summary: Summary) -> Iterator[str]:
    yield from ("", "## How it grows", "")
    yield fill(
        "Both axes are logarithmic, and the upright one spans a factor of ten at least. A flat line "
        "says that the size makes no difference."
    )
    for plot in PLOTS:
        if summary["plots"].get(plot.file):
            yield from ("", f"![{plot.title}]({IMAGES}/{plot.file}.svg)")


def _missed(lines: list[dict[str, Any]]) -> Iterator[str]:
    missed = [line for line in lines if line["met"] is False]
    if missed:
        yield from ("", "## Missed goals", "")
        yield "Where the time goes: the functions that take the largest shares of it."
    shown: list[Any] = []
    for line in missed:
        yield from ("", f"### {line['name']}", "")
        yield f"{_value(line['holdfast'], line['unit'])}, goal {line['goal']}: {_result(line)}."
        if line["takes"]:
            yield fill(line["takes"])
        profile = None if line["unit"] == "MB" else line.get("profile")
        if profile and profile in shown:
            yield "The profile is the one above."
        elif profile:
            shown.append(profile)
            yield from ("", "| share | calls | function |", "|---|---|---|")
            for each in profile:
                if each["share"] >= _LEAST_SHARE:
                    function = _ADDRESS.sub("", each["function"])
                    yield f"| {each['share']:.0%} | {each['calls']:,} | `{function}` |"


def _others(others: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    yield from ("", "## Measured elsewhere", "")
    yield fill(
        "`make test` (8 minutes from a fresh clone) and `make quick` (60 seconds) are no benchmarks: "
        "pytest prints what they take, and CI runs the first (`.ci/run`)."
    )
    for name, goals in others.items():
        yield from (
            "",
            f"`python -m bench.{name}`",
            "",
            "| what | goal | measured | result |",
            "|---|---|---|---|",
        )
        for goal in goals:
            sign = "≥" if goal["at_least"] else "≤"
            unit, value = goal["unit"], goal["measured"]
            shown = "" if value is None else _value(value, unit)
            word = {True: "met", False: "**missed**", None: "not measured"}[goal["met"]]
            yield f"| {goal['work']} | {sign} {goal['limit']:g} {unit} | {shown} | {word} |"


def _short(line: dict[str, Any]) -> dict[str, Any]:
    short: dict[str, Any] = _rounded(line)
    if "profile" in short:
        short["profile"] = short["profile"][:_PROFILED]
    return short


def _rounded(value: Any) -> Any:
    """With four digits: more is noise."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def _value(value: float, unit: str) -> str:
    return f"{show(value)}{'' if unit == '/s' else ' '}{unit}".strip()


_QUICK: Final = {"quick": "-quick", "full": ""}

if __name__ == "__main__":
    main()
