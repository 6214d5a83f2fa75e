"""RELIABILITY.md, from what the parts of the programme left in tests/proof/results."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.damage.known import GAPS
from tests.proof.parts import FAULTS, PARTS

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = Path(__file__).parent / "results"
PAGE: Final = ROOT / "RELIABILITY.md"

_HEAD: Final = """\
# Reliability

Faults that were injected, how many of each, and what came of it. `make crash` repeats them and
writes this page; nothing on it is typed by hand. A failure prints the seed that repeats it.

After every fault, all of this must hold:

* A save that was acknowledged can be read afterwards, byte by byte, and its digest fits.
* A save that failed or was cancelled is either absent or complete.
* A finished step is not executed again, unless its evidence was rejected or somebody went back.
* Of the living processes, only one executes a run.
* Altered bytes give an error, never another state; damage to one entry affects nothing that does
  not depend on it.
* What was deleted stays deleted.

[Crash recovery](docs/guides/crash-recovery.md) and [durability](docs/operate/durability.md) say what
that means for a program.

"""


def results() -> dict[str, dict[str, Any]]:
    """What is known of each part that was run."""
    paths = {name: RESULTS / f"{name}.json" for name in PARTS}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def written() -> str:
    """The whole page."""
    parts = results()
    if not parts:
        return f"{_HEAD}**The programme has not been run on this code yet.**\n"
    return _HEAD + _faults(parts) + "\n" + _missing(parts) + _carried_out(parts)


def _survived(parts: dict[str, dict[str, Any]]) -> Counter[str]:
    total = Counter[str]()
    for part in parts.values():
        total.update(part["survived"])
    return total


def _faults(parts: dict[str, dict[str, Any]]) -> str:
    survived = _survived(parts)
    lines = ["## What was done", "", "| what | how often | goal |", "|---|---:|---:|"]
    for name, fault in FAULTS.items():
        goal = f"{fault.goal:,}" if fault.goal else ""
        lines.append(f"| {fault.text} | {survived[name]:,} | {goal} |")
    failed = sum(part["failed"] for part in parts.values())
    end = "All of it was true every time." if parts else "Nothing was done yet."
    if any(part.get("skipped") for part in parts.values()):
        end = (
            "All of it was true every time, except for the known gaps below, "
            "none of which gives an altered state."
        )
    if failed:
        end = f"**{failed:,} tests found a violation.**"
    return "\n".join([*lines, "", end, ""])


def _missing(parts: dict[str, dict[str, Any]]) -> str:
    survived = _survived(parts)
    lines = [
        f"* {fault.text}: {survived[name]:,} of {fault.goal:,}"
        for name, fault in FAULTS.items()
        if survived[name] < fault.goal
    ]
    lines += [f"* part `{name}` was not run" for name in PARTS if name not in parts]
    for name, part in parts.items():
        if part.get("skipped"):
            met = "met one of these gaps, or were left out"
            lines.append(f"* part `{name}`: {part['skipped']:,} tests {met}:")
            lines += [f"    * {gap}" for gap in GAPS]
    return "\n".join(["## What is not reached", "", *lines, "", ""]) if lines else ""


def _carried_out(parts: dict[str, dict[str, Any]]) -> str:
    lines = [
        "## How it was run",
        "",
        "| part | commit | began (UTC) | minutes | tests | failed | seed |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for name, part in parts.items():
        for sitting in [*part.get("earlier", ()), part]:
            commit = sitting["commit"] + (", changed" if sitting["changed"] else "")
            began = sitting["began"].removesuffix("+00:00").replace("T", " ")
            tests = sitting.get("schedules", part["passed"] + part["failed"])
            row = (
                f"`{name}`",
                commit,
                began,
                sitting["minutes"],
                f"{tests:,}",
                sitting.get("failed", 0),
                sitting["seed"],
            )
            lines.append(f"| {' | '.join(map(str, row))} |")
    machines = {json.dumps(part["machine"], sort_keys=True) for part in parts.values()}
    for machine in sorted(machines):
        of = json.loads(machine)
        lines += [
            "",
            f"On {of['cores']} cores, {of['system']}, Python {of['python']}, SQLite {of['sqlite']}.",
        ]
    lines += [
        "",
        "`python -m tests.proof PART` runs one part; `--scale 0.01` a hundredth of it. Ctrl-C ends",
        "`schedules` early; the next time it continues, unless the code that it executes changed.",
    ]
    return "\n".join(lines) + "\n"
